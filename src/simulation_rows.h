/* SPDX-License-Identifier: Apache-2.0
 * The regular networks, one set of functions each; see struct motet_network_row. */
#ifndef MOTET_SIMULATION_ROWS_H
#define MOTET_SIMULATION_ROWS_H

#include "simulation_network.h"

#define MOTET_NETWORK_ROW(NAME)                                                                                              \
    const char *motet_##NAME##_shape(struct motet_network *network);                                                         \
    int32_t motet_##NAME##_next(const struct motet_network *network, int32_t at, int32_t src, int32_t dst, int32_t *behind); \
    void motet_##NAME##_name(const struct motet_network *network, int32_t link, char name[MOTET_NETWORK_NAME]);

MOTET_NETWORK_ROW(star)
MOTET_NETWORK_ROW(fat_tree)
MOTET_NETWORK_ROW(torus)
MOTET_NETWORK_ROW(dragonfly)
#undef MOTET_NETWORK_ROW

double motet_dragonfly_speed(const struct motet_network *network, int32_t link);

#endif
