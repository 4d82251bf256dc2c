/* SPDX-License-Identifier: Apache-2.0
 * What all processes of a communicator said of their machines, made into what the choice of algorithms goes by. All ranks have the same
 * descriptions, so all make the same of them: the slowest machine counts in each number. */
#ifndef MOTET_CENSUS_H
#define MOTET_CENSUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/speeds.h"

/* *speeds: the slowest of all; not measured where one of them is not. machine: identity of the kinds of machines among them. tuning: the
 * digest of the table, 0 where not all have read the same one. of[0..n): by rank; in any order the answer is the same. */
void motet_census(const struct motet_speeds *const of[], int n, struct motet_speeds *speeds);

#endif
