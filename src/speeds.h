/* SPDX-License-Identifier: Apache-2.0
 * The numbers of this host, for the choice of algorithms: from the cache directory, where one process of the host has put them, or measured
 * now and put there. A virtual machine may be moved between two runs, so a probe of 0.2 ms says which of three sets of numbers counts; it
 * serves all processes that start within some seconds. */
#ifndef MOTET_SPEEDS_H
#define MOTET_SPEEDS_H

#include "base/speeds.h"

/* Fills all of *speeds. is_measured is 0 where MOTET_MEASURE is 0, there is no cache directory, one CPU only, or the host is too busy to be
 * measured in time. Takes 0.1 ms where others have just asked, at most 0.15 s in the worst case, once on a machine. Settings are loaded. */
void motet_speeds_get(struct motet_speeds *speeds);

/* The same, when a measurement may take so many times as long before the host counts as too busy. */
void motet_speeds_get_patiently(struct motet_speeds *speeds, int patience);

#endif
