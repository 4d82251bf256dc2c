/* SPDX-License-Identifier: Apache-2.0
 * What a rank of this process counted, for status and dumps: its counters, and the rank that keeps the others waiting. Only for regions of
 * communicators of this process; its neighbours' counters are read in their regions, who is late they tell themselves. */
#ifndef MOTET_COUNTERS_H
#define MOTET_COUNTERS_H

#include "base/json.h"
#include "motet.h"

#define MOTET_COUNTERS_SENTENCE_MAX 320

/* Writes the members "counters" and, if a rank stands out, "late" of a row. Nothing, when the region is of no communicator here. */
void motet_counters_write(struct motet_json *json, const char *region);

/* The sentence about the rank that stands out; "" if none does or the region is of no communicator here. Returns text. */
const char *motet_counters_late(const char *region, char text[MOTET_COUNTERS_SENTENCE_MAX]);

#endif
