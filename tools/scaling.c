/* SPDX-License-Identifier: Apache-2.0 */
#include "scaling.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

const char *scaling_kind_name(enum scaling_kind kind)
{
    static const char *const names[SCALING_KINDS] = {[SCALING_GRADIENTS] = "gradients",
                                                     [SCALING_PARAMETERS] = "parameters",
                                                     [SCALING_TENSOR] = "tensor parallel",
                                                     [SCALING_STAGES] = "pipeline stages",
                                                     [SCALING_EXPERTS] = "experts"};
    return names[kind];
}

/* ---- What a collective moves ---- */

/* On ideal links whole messages take hops * latency + factor * bytes / speed, so that two sizes tell both. Asked once for each number of
 * ranks: a search asks for the same few again and again. One thread. */
#define KNOWN_MOST 256
static struct known {
    char collective[16], algorithm[32];
    int nranks;
    double factor, hops;
} known[KNOWN_MOST];
static int nknown;

bool scaling_collective(const char *collective, const char *algorithm, int nranks, double *factor, double *hops, char *why,
                        size_t why_len)
{
    *factor = *hops = 0;
    if (nranks <= 1)
        return true;
    for (int i = 0; i < nknown; i++) {
        if (known[i].nranks != nranks || strcmp(known[i].collective, collective) != 0 || strcmp(known[i].algorithm, algorithm) != 0)
            continue;
        *factor = known[i].factor;
        *hops = known[i].hops;
        return true;
    }
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    const double bytes[2] = {0, 1e9};
    double ns[2];
    query.collective = collective;
    query.nranks = query.nhosts = nranks;
    query.tileBytes = SIZE_MAX;
    query.network = (motetExplainNetwork_t){.latencyUs = 1, .hostGBs = 1, .ideal = 1, .whole = 1};
    if (motetExplainTimes(&query, algorithm, bytes, 2, ns) != motetSuccess) {
        snprintf(why, why_len, "%s", motetGetLastError(NULL));
        return false;
    }
    *hops = ns[0] / 1e3;
    *factor = (ns[1] - ns[0]) / 1e9;
    if (nknown < KNOWN_MOST) {
        struct known *entry = &known[nknown++];
        *entry = (struct known){.nranks = nranks, .factor = *factor, .hops = *hops};
        snprintf(entry->collective, sizeof entry->collective, "%s", collective);
        snprintf(entry->algorithm, sizeof entry->algorithm, "%s", algorithm);
    }
    return true;
}

/* ---- One step ---- */

/* Where a group of n ranks, `stride` apart, talks. */
struct path {
    double gbs, us;
    bool crosses;
};

static struct path path_of(const struct scaling_input *input, int n, int stride)
{
    bool crosses = n > 1 && (long)n * stride > input->per_host;
    return (struct path){crosses ? input->net_gbs : input->link_gbs, crosses ? input->net_us : input->link_us, crosses};
}

/* Adds `times` collectives over `bytes` each. */
static bool add_collective(const struct scaling_input *input, struct scaling_traffic *traffic, const char *collective,
                           const char *algorithm, int n, int stride, double bytes, double times, char *why, size_t why_len)
{
    double factor, hops;
    struct path path = path_of(input, n, stride);
    if (n <= 1 || times <= 0)
        return true;
    if (!scaling_collective(collective, algorithm, n, &factor, &hops, why, why_len))
        return false;
    traffic->bytes += times * factor * bytes;
    traffic->s += times * (hops * path.us * 1e-6 + factor * bytes / (path.gbs * 1e9));
    traffic->crosses = path.crosses;
    traffic->ranks = n;
    return true;
}

/* Stage 0 reduces gradients to all, once a step. 1: to their owners, who send parameters back. 2: gradients are scattered in every
 * micro-step, since nobody keeps all. 3: parameters are gathered for forward and backward of every micro-step, too. */
static bool add_data_parallel(const struct scaling_input *input, struct scaling_result *result, char *why, size_t why_len)
{
    double bytes = result->gradient_bytes, wire = bytes / input->compression, m = input->microbatches;
    struct scaling_traffic *grads = &result->traffic[SCALING_GRADIENTS], *params = &result->traffic[SCALING_PARAMETERS];
    if (input->zero == 0)
        return add_collective(input, grads, "AllReduce", input->algo, input->dp, input->tp, wire, 1, why, why_len);
    return add_collective(input, grads, "ReduceScatter", "ring", input->dp, input->tp, wire, input->zero >= 2 ? m : 1, why,
                          why_len) &&
           add_collective(input, params, "AllGather", "ring", input->dp, input->tp, bytes, input->zero == 3 ? 2 * m : 1, why,
                          why_len);
}

/* What layers exchange: per layer and micro-step two all-reduces forward and two backward inside a tensor parallel group, two all-to-alls
 * each way of tokens to experts; one activation forward and one gradient back per stage. */
static bool add_layers(const struct scaling_input *input, struct scaling_result *result, char *why, size_t why_len)
{
    double activation = input->batch * input->sequence * input->model.hidden * input->dtype_bytes, m = input->microbatches;
    double layers = (double)input->model.layers / input->pp;
    struct scaling_traffic *stages = &result->traffic[SCALING_STAGES];
    if (!add_collective(input, &result->traffic[SCALING_TENSOR], "AllReduce", "ring", input->tp, 1, activation, 4 * layers * m, why,
                        why_len) ||
        !add_collective(input, &result->traffic[SCALING_EXPERTS], "AlltoAll", "pairwise", input->ep, input->tp,
                        activation * input->model.experts_used / input->tp, 4 * layers * m, why, why_len))
        return false;
    if (input->pp > 1) {
        struct path path = path_of(input, input->pp, input->tp * input->dp);
        double each = activation / input->tp, times = 2 * m * input->virtual_stages;
        *stages =
            (struct scaling_traffic){times * each, times * (path.us * 1e-6 + each / (path.gbs * 1e9)), path.crosses, input->pp};
    }
    return true;
}

/* Mixed precision with Adam is 16 bytes a parameter: 2 + 2 and 12 of float32 (copy, two moments); float32 4 + 4 + 8. */
static void fill_memory(const struct scaling_input *input, struct scaling_result *result)
{
    struct scaling_memory *memory = &result->memory;
    const struct scaling_model *model = &input->model;
    double own = result->gradient_bytes / input->dtype_bytes, share = 1.0 / input->dp;
    memory->params = own * input->dtype_bytes * (input->zero >= 3 ? share : 1);
    memory->grads = own * input->dtype_bytes * (input->zero >= 2 ? share : 1);
    memory->optimizer = own * (input->dtype_bytes < 4 ? 12 : 8) * (input->zero >= 1 ? share : 1);
    memory->has_activations = model->layers > 0 && model->hidden > 0 && input->sequence > 0 && input->batch > 0;
    if (memory->has_activations) {
        double token_bytes = input->dtype_bytes / 2 * input->batch * input->sequence * model->hidden;
        double scores = model->heads > 0 ? 5.0 * model->heads * input->sequence / model->hidden : 0;
        double per_layer = input->recompute == SCALING_FULL        ? 2
                           : input->recompute == SCALING_SELECTIVE ? 10 + 24.0 / input->tp
                                                                   : 10 + (24 + scores) / input->tp;
        /* Of a pipeline the first stage has as many micro-steps in flight as there are stages, but not more than there are. */
        double flying = input->pp > 1 ? fmin(input->pp, input->microbatches) : 1;
        memory->activations = token_bytes * per_layer * model->layers / input->pp * flying;
    }
    memory->total = memory->params + memory->grads + memory->optimizer + memory->activations;
    result->fits = input->memory_gb <= 0 || memory->total <= input->memory_gb * 1e9;
}

static bool refuse(char *why, size_t why_len, const char *sentence)
{
    snprintf(why, why_len, "%s", sentence);
    return false;
}

static bool check(const struct scaling_input *input, char *why, size_t why_len)
{
    const struct scaling_model *model = &input->model;
    if (!(model->params > 0))
        return refuse(why, why_len, "how large is the model? --params 7B, or --config config.json");
    if (input->tp < 1 || input->pp < 1 || input->dp < 1 || input->microbatches < 1 || input->per_host < 1)
        return refuse(why, why_len, "numbers of ranks, micro-steps and devices per host must be at least 1");
    if (input->dp > 4096 || input->tp > 4096)
        return refuse(why, why_len, "groups of more than 4096 ranks are not known");
    if (input->ep > 1 && input->dp % input->ep)
        return refuse(why, why_len, "--ep must divide the data parallel ranks");
    if (input->ep > 1 && model->experts == 0)
        return refuse(why, why_len, "--ep needs a model with experts: --config config.json");
    if ((input->tp > 1 || input->pp > 1 || input->ep > 1) && (model->layers == 0 || model->hidden == 0 || !(input->sequence > 0)))
        return refuse(why, why_len,
                      "--tp, --pp and --ep need layers, hidden size and sequence: --config, or --layers, --hidden, --seq");
    if (input->pp > 1 && input->pp * input->virtual_stages > model->layers)
        return refuse(why, why_len, "there are more stages than layers");
    if (!(input->compute_s > 0) && !(input->tflops > 0 && input->sequence > 0))
        return refuse(why, why_len, "how long does a micro-step compute? --compute 0.3, or --device or --tflops with --seq");
    if (!(input->link_gbs > 0) || !(input->net_gbs > 0))
        return refuse(why, why_len, "how fast are the links? --link inside a host, --net between hosts");
    return true;
}

/* Parameters of one rank: experts are shared out over expert parallel ranks, too. */
static double own_params(const struct scaling_input *input)
{
    double experts = input->model.expert_params, dense = input->model.params - experts;
    return (dense + experts / (input->ep > 1 ? input->ep : 1)) / (input->tp * input->pp);
}

/* Forward and backward are 6 operations a parameter and token; full recomputation is one more forward. */
static double micro_step_s(const struct scaling_input *input)
{
    const struct scaling_model *model = &input->model;
    if (input->compute_s > 0)
        return input->compute_s;
    double used = model->experts ? model->expert_params * model->experts_used / model->experts : 0;
    double active = model->params - model->expert_params + used;
    double operations = (input->recompute == SCALING_FULL ? 8 : 6) * active / (input->tp * input->pp);
    return operations * input->batch * input->sequence / (input->tflops * 1e12 * input->utilisation);
}

bool scaling_compute(const struct scaling_input *input, struct scaling_result *result, char *why, size_t why_len)
{
    *result = (struct scaling_result){0};
    if (!check(input, why, why_len))
        return false;
    double m = input->microbatches, micro = micro_step_s(input), others = 0, data = 0;
    result->gradient_bytes = own_params(input) * input->dtype_bytes;
    result->compute_s = micro * m;
    if (!add_data_parallel(input, result, why, why_len) || !add_layers(input, result, why, why_len))
        return false;
    for (int kind = 0; kind < SCALING_KINDS; kind++)
        *(kind <= SCALING_PARAMETERS ? &data : &others) += result->traffic[kind].s;
    double idle = (input->pp - 1) / (input->virtual_stages * m);
    result->bubble = idle / (1 + idle);
    result->bubble_s = result->compute_s * idle;
    /* Accumulation leaves gradients and parameters of the stages that run once a step only the last micro-step to hide behind. */
    double beside = input->zero >= 2 ? result->compute_s : micro;
    result->hidden_s = fmin(data, input->overlap * beside);
    result->exposed_s = data - result->hidden_s + others;
    result->step_s = result->compute_s + result->bubble_s + result->exposed_s;
    result->efficiency = result->compute_s / result->step_s;
    result->tokens_per_s = m * input->batch * (input->sequence > 0 ? input->sequence : 1) * input->dp / result->step_s;
    fill_memory(input, result);
    return true;
}

/* ---- Measured points ---- */

void scaling_fit(const struct scaling_point *points, int n, double *total_s, double *share)
{
    double sum_c = 0, sum_e = 0, sum_cc = 0, sum_ce = 0;
    for (int i = 0; i < n; i++) {
        double exposed = points[i].compute_s * (1 / points[i].efficiency - 1);
        sum_c += points[i].compute_s;
        sum_e += exposed;
        sum_cc += points[i].compute_s * points[i].compute_s;
        sum_ce += points[i].compute_s * exposed;
    }
    double spread = n * sum_cc - sum_c * sum_c;
    double slope = n > 1 && spread > 1e-12 * n * sum_cc ? (n * sum_ce - sum_c * sum_e) / spread : 0;
    *share = -slope;
    *total_s = n > 0 ? (sum_e - slope * sum_c) / n : 0;
}
