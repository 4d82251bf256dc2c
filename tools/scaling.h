/* SPDX-License-Identifier: Apache-2.0
 * Whether a training job scales: bytes, times and memory of one step from a model, a layout and links. What collectives move and how
 * often latency counts is read from their schedules through motet.h; the rest is arithmetic whose sources scaling_formulas.c names.
 *
 * Layout: tensor parallel ranks are neighbours, then data parallel ones, then pipeline stages; expert parallel groups are parts of data
 * parallel ones. A group that fits into a host uses the devices' own links, any other one the network. Speeds are one way, per device. */
#ifndef MOTET_TOOLS_SCALING_H
#define MOTET_TOOLS_SCALING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct scaling_model {
    double params;             /* all of them */
    double expert_params;      /* of these, in experts of which each token uses some */
    int layers, hidden, heads; /* 0: unknown; then tensor parallelism, stages and activations cannot be counted */
    int experts, experts_used; /* 0: no experts */
};

enum scaling_recompute { SCALING_KEEP_ALL, SCALING_SELECTIVE, SCALING_FULL };

struct scaling_input {
    struct scaling_model model;
    double dtype_bytes;                     /* of parameters and gradients */
    double sequence, batch;                 /* tokens; sequences of one micro-step of one data parallel rank */
    int tp, pp, dp, ep, zero, microbatches; /* micro-steps of one step: pipeline microbatches, or accumulation */
    int virtual_stages;                     /* interleaved stages per device; 1: none */
    int per_host;                           /* devices */
    enum scaling_recompute recompute;
    double compute_s;           /* of one micro-step on one device; 0: from tflops */
    double tflops, utilisation; /* of one device */
    double memory_gb;           /* of one device; 0: not said */
    double link_gbs, link_us, net_gbs, net_us;
    double overlap;     /* of the compute time so much can run beside gradients, 0..1 */
    double compression; /* gradients are this many times smaller on the wire, at least 1 */
    const char *algo;   /* of the gradients' all-reduce */
};

enum scaling_kind { SCALING_GRADIENTS, SCALING_PARAMETERS, SCALING_TENSOR, SCALING_STAGES, SCALING_EXPERTS, SCALING_KINDS };

struct scaling_traffic {
    double bytes, s; /* sent by the busiest rank, and received at the same time; per step */
    bool crosses;    /* hosts */
    int ranks;
};

struct scaling_memory {
    double params, grads, optimizer, activations, total; /* bytes */
    bool has_activations;
};

struct scaling_result {
    struct scaling_traffic traffic[SCALING_KINDS];
    double gradient_bytes; /* of one rank's part of the model, uncompressed */
    double compute_s;      /* of a step: all micro-steps */
    double bubble;         /* share of the pipeline's time; (p-1)/(vm+p-1) */
    double bubble_s, hidden_s, exposed_s, step_s;
    double efficiency;   /* compute_s / step_s */
    double tokens_per_s; /* of all devices */
    struct scaling_memory memory;
    bool fits;
};

const char *scaling_kind_name(enum scaling_kind kind);

/* False: *why says which input makes no sense, or what the library said. */
bool scaling_compute(const struct scaling_input *input, struct scaling_result *result, char *why, size_t why_len);

/* factor: bytes that the busiest rank sends per byte of the vector; hops: how often latency counts. From the schedule. */
bool scaling_collective(const char *collective, const char *algorithm, int nranks, double *factor, double *hops, char *why,
                        size_t why_len);

/* One kind of change, tried: the input with it, and what comes out. */
struct scaling_change {
    char name[64];
    struct scaling_input input;
    struct scaling_result result;
};
#define SCALING_CHANGES 10

/* Changes that make sense here, the one with most tokens per second first. */
int scaling_try_changes(const struct scaling_input *input, struct scaling_change changes[SCALING_CHANGES]);

struct scaling_layout {
    struct scaling_input input;
    struct scaling_result result;
};

/* All layouts of `devices` that process `sequences` in a step: those that fit into memory first, then by tokens per second. *layouts is
 * malloced; -1: out of memory. */
int scaling_search(const struct scaling_input *input, int devices, int sequences, struct scaling_layout **layouts);

/* compute and efficiency, measured. */
struct scaling_point {
    double compute_s, efficiency;
};

/* exposed = total - share * compute, by least squares; one point: share 0. */
void scaling_fit(const struct scaling_point *points, int n, double *total_s, double *share);

/* Parameters by shape from a Hugging Face config.json. False: why is "FILE:LINE: ...". */
bool scaling_config_parse(const char *name, const char *text, size_t len, struct scaling_model *model, char *why, size_t why_len);
bool scaling_config_read(const char *name, struct scaling_model *model, char *why, size_t why_len);

/* What is known of devices and links. 0: not said by the source. */
struct scaling_preset {
    const char *name;
    enum { PRESET_DEVICE, PRESET_LINK, PRESET_LATENCY } kind;
    double gbs;       /* one way, of its fastest link to another device */
    double us;        /* latency */
    double memory_gb; /* 10^9 bytes */
    double tflops;    /* dense, 16-bit floats with float32 sums */
    const char *source;
};
extern const struct scaling_preset scaling_presets[];
extern const int scaling_npresets;

/* By name in any case; NULL: none. */
const struct scaling_preset *scaling_preset_find(const char *name);
void scaling_print_presets(void);

void scaling_print_report(const struct scaling_input *input, const struct scaling_result *result);
void scaling_print_formulas(const struct scaling_input *input, const struct scaling_result *result);
void scaling_print_json(const struct scaling_input *input, const struct scaling_result *result);

/* Efficiency over the number of devices, in a terminal; drawn: NULL, or where an SVG goes. */
bool scaling_print_sweep(const struct scaling_input *input, int most, FILE *drawn, char *why, size_t why_len);

#endif
