/* SPDX-License-Identifier: Apache-2.0
 * Measures what a pair of CPUs of this host does: line, copies, sums, changes of threads, loopback. Two threads of its own, bound to the two
 * CPUs, for some 30 ms; they are gone when it returns. Knows nothing of caches on disk. */
#ifndef MOTET_MEASUREMENT_H
#define MOTET_MEASUREMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/speeds.h"

/* Round trip of a line, in ns; 0: there is no pair of CPUs, or they were too busy until the deadline. About 0.2 ms. */
double motet_measurement_probe(uint64_t deadline_ns);

/* Where it belongs. */
enum motet_distance motet_measurement_distance(double round_trip_ns);

/* All numbers of *speeds but machine and tuning. False: it could not be measured before the deadline; then nothing counts. */
bool motet_measurement_run(uint64_t deadline_ns, struct motet_speeds *speeds);

#endif
