/* SPDX-License-Identifier: Apache-2.0
 * What the files of the cost model share: a schedule's surroundings at hand, and the work of its steps. Nobody else includes it. */
#ifndef MOTET_COST_MODEL_H
#define MOTET_COST_MODEL_H

#include "cost.h"

/* What a reader of many schedules needs at hand. */
struct motet_cost_model {
    const struct motet_shape *shape;
    const struct motet_cost_world *world;
    const struct motet_cost_machine *machine;
    const struct motet_cost_load *load;
    double chunk_bytes, wide_ratio;
    double core_bytes_per_ns; /* of these data */
    bool is_short;            /* the calls take the short way */
};

struct motet_cost_model motet_cost_model_make(const struct motet_shape *shape, const struct motet_cost_world *world,
                                              const struct motet_cost_load *load, int nchunks);

int motet_cost_host_of(const struct motet_cost_world *world, const struct motet_shape *shape, int position);

enum motet_link_class motet_cost_link_class(const struct motet_cost_model *model, int host, int other_host);

struct motet_cost_work motet_cost_work_of(const struct motet_cost_model *model, const struct motet_step *step, int position);

#endif
