/* SPDX-License-Identifier: Apache-2.0
 * What helps, and which layout is best: inputs are changed, computed and compared. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scaling.h"

/* ---- Changes ---- */

static void try_change(const char *name, const struct scaling_input *input, struct scaling_change *changes, int *n)
{
    char why[256];
    struct scaling_change *change = &changes[*n];
    change->input = *input;
    if (*n == SCALING_CHANGES || !scaling_compute(input, &change->result, why, sizeof why))
        return;
    snprintf(change->name, sizeof change->name, "%s", name);
    ++*n;
}

/* Those that do not fit come last. */
static int by_tokens(const void *a, const void *b)
{
    const struct scaling_change *left = a, *right = b;
    if (left->result.fits != right->result.fits)
        return right->result.fits - left->result.fits;
    return left->result.tokens_per_s > right->result.tokens_per_s ? -1 : left->result.tokens_per_s < right->result.tokens_per_s;
}

/* What a micro-step that was given in seconds takes with other numbers of sequences or ranks. */
static struct scaling_input scaled(const struct scaling_input *input, double work)
{
    struct scaling_input changed = *input;
    changed.compute_s *= work;
    return changed;
}

int scaling_try_changes(const struct scaling_input *input, struct scaling_change changes[SCALING_CHANGES])
{
    int n = 0;
    struct scaling_input changed = scaled(input, 2);
    changed.batch *= 2;
    try_change("twice the batch", &changed, changes, &n);
    changed = *input;
    changed.microbatches *= 2;
    try_change(input->pp > 1 ? "twice the microbatches" : "accumulation over twice the micro-steps", &changed, changes, &n);
    changed = *input;
    changed.compression *= 2;
    if (input->dp > 1)
        try_change("gradients compressed to half", &changed, changes, &n);
    changed = *input;
    changed.dtype_bytes = 2;
    if (input->dtype_bytes > 2)
        try_change("bf16 instead of float32", &changed, changes, &n);
    for (int zero = 0; zero <= 3 && input->dp > 1; zero++) {
        char name[32];
        snprintf(name, sizeof name, zero ? "ZeRO-%d" : "no ZeRO", zero);
        changed = *input;
        changed.zero = zero;
        if (zero != input->zero)
            try_change(name, &changed, changes, &n);
    }
    changed = scaled(input, 0.5);
    changed.tp *= 2;
    changed.dp /= 2;
    if (changed.tp <= input->per_host && input->dp % 2 == 0)
        try_change("twice the tensor parallelism, inside the host", &changed, changes, &n);
    changed = *input;
    bool crosses = (long)input->tp * input->dp * input->pp > input->per_host;
    *(crosses ? &changed.net_gbs : &changed.link_gbs) *= 2;
    try_change(crosses ? "a network twice as fast" : "links twice as fast", &changed, changes, &n);
    qsort(changes, (size_t)n, sizeof *changes, by_tokens);
    return n;
}

/* ---- Search ---- */

static int layout_order(const void *a, const void *b)
{
    const struct scaling_layout *left = a, *right = b;
    if (left->result.fits != right->result.fits)
        return right->result.fits - left->result.fits;
    if (left->result.fits)
        return left->result.tokens_per_s > right->result.tokens_per_s ? -1 : left->result.tokens_per_s < right->result.tokens_per_s;
    return left->result.memory.total < right->result.memory.total ? -1 : left->result.memory.total > right->result.memory.total;
}

struct found {
    struct scaling_layout *items;
    int n, capacity;
    bool failed;
};

static void consider(struct found *found, const struct scaling_input *input)
{
    char why[256];
    struct scaling_layout layout = {.input = *input};
    if (found->failed || !scaling_compute(input, &layout.result, why, sizeof why))
        return;
    if (found->n == found->capacity) {
        found->capacity = found->capacity ? 2 * found->capacity : 256;
        struct scaling_layout *grown = realloc(found->items, (size_t)found->capacity * sizeof *grown);
        found->failed = !grown;
        if (!grown)
            return;
        found->items = grown;
    }
    found->items[found->n++] = layout;
}

/* All micro-step sizes and stages of ZeRO of one way to cut the model. */
static void consider_cut(struct found *found, const struct scaling_input *input, int tp, int pp, int dp, int sequences)
{
    struct scaling_input cut = *input;
    cut.tp = tp;
    cut.pp = pp;
    cut.dp = dp;
    if (sequences % dp)
        return;
    for (int batch = 1; batch <= 16 && batch * dp <= sequences; batch *= 2) {
        if ((sequences / dp) % batch)
            continue;
        cut.batch = batch;
        cut.microbatches = sequences / dp / batch;
        if (input->compute_s > 0)
            cut.compute_s = input->compute_s * (batch / input->batch) * input->tp * input->pp / (double)(tp * pp);
        for (cut.zero = 0; cut.zero <= (dp > 1 ? 3 : 0); cut.zero++)
            consider(found, &cut);
    }
}

int scaling_search(const struct scaling_input *input, int devices, int sequences, struct scaling_layout **layouts)
{
    struct found found = {0};
    for (int tp = 1; tp <= devices; tp++) {
        if (devices % tp || (tp > input->per_host) || (input->model.heads > 0 && input->model.heads % tp))
            continue;
        for (int pp = 1; pp <= devices / tp; pp++) {
            if ((devices / tp) % pp || (pp > 1 && input->model.layers % pp))
                continue;
            int dp = devices / tp / pp;
            if (input->ep <= 1 || dp % input->ep == 0)
                consider_cut(&found, input, tp, pp, dp, sequences);
        }
    }
    if (found.n > 0)
        qsort(found.items, (size_t)found.n, sizeof *found.items, layout_order);
    *layouts = found.items;
    return found.failed ? -1 : found.n;
}
