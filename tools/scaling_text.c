/* SPDX-License-Identifier: Apache-2.0
 * The report of one layout, the formulas behind it with their numbers put in, and JSON. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "quantity.h"
#include "scaling.h"

/* ---- The bottleneck ---- */

static enum scaling_kind largest(const struct scaling_result *result)
{
    enum scaling_kind most = SCALING_GRADIENTS;
    for (int kind = 0; kind < SCALING_KINDS; kind++)
        most = result->traffic[kind].s > result->traffic[most].s ? (enum scaling_kind)kind : most;
    return most;
}

static void bottleneck(const struct scaling_input *input, const struct scaling_result *result, char *text, size_t size)
{
    enum scaling_kind kind = largest(result);
    const struct scaling_traffic *traffic = &result->traffic[kind];
    char need[QUANTITY_MAX], have[QUANTITY_MAX];
    if (!result->fits)
        snprintf(text, size, "memory: a device needs %s and has %s", quantity_decimal_bytes(result->memory.total, need),
                 quantity_decimal_bytes(input->memory_gb * 1e9, have));
    else if (result->exposed_s <= 0.05 * result->step_s && result->bubble <= 0.05)
        snprintf(text, size, "computing: communication and waiting take %.1f %% of the step", 100 * (1 - result->efficiency));
    else if (result->bubble_s > result->exposed_s)
        snprintf(text, size, "the pipeline's bubble: stages are idle %.1f %% of the pipeline's time; more microbatches shrink it",
                 100 * result->bubble);
    else
        snprintf(text, size,
                 "%s over %s of %.4g GB/s: %s sent by a rank in a step take %.3g s, %.3g s of the step is waiting for links",
                 scaling_kind_name(kind), traffic->crosses ? "the network" : "links inside the host",
                 traffic->crosses ? input->net_gbs : input->link_gbs, quantity_decimal_bytes(traffic->bytes, need), traffic->s,
                 result->exposed_s);
}

/* ---- Report ---- */

static void print_memory(const struct scaling_input *input, const struct scaling_result *result)
{
    const struct scaling_memory *memory = &result->memory;
    char a[QUANTITY_MAX], b[QUANTITY_MAX], c[QUANTITY_MAX], d[QUANTITY_MAX], e[QUANTITY_MAX];
    printf("memory of a device: %s = parameters %s + gradients %s + optimizer %s + activations %s\n",
           quantity_decimal_bytes(memory->total, a), quantity_decimal_bytes(memory->params, b),
           quantity_decimal_bytes(memory->grads, c), quantity_decimal_bytes(memory->optimizer, d),
           memory->has_activations ? quantity_decimal_bytes(memory->activations, e)
                                   : "not counted (needs layers, hidden, sequence)");
    if (input->memory_gb > 0)
        printf("  it %s into %.4g GB\n", result->fits ? "fits" : "does not fit", input->memory_gb);
}

/* Memory of each stage of ZeRO, and what would fit. */
static void print_stages(const struct scaling_input *input)
{
    char text[QUANTITY_MAX], why[256];
    int fits = -1;
    printf("memory by stage, of one device:");
    for (int zero = 0; zero <= 3; zero++) {
        struct scaling_input other = *input;
        struct scaling_result result;
        other.zero = zero;
        if (!scaling_compute(&other, &result, why, sizeof why))
            continue;
        fits = fits < 0 && result.fits ? zero : fits;
        printf("%s %s %s", zero ? "," : "",
               zero == 0   ? "DP"
               : zero == 1 ? "ZeRO-1"
               : zero == 2 ? "ZeRO-2"
                           : "ZeRO-3",
               quantity_decimal_bytes(result.memory.total, text));
    }
    printf("\n");
    if (fits >= 0 || input->memory_gb <= 0)
        return;
    struct scaling_input more = *input;
    struct scaling_result result;
    more.zero = 3;
    while (more.dp <= 2048) {
        more.dp *= 2;
        if (scaling_compute(&more, &result, why, sizeof why) && result.fits)
            break;
    }
    if (more.dp > 2048)
        printf(
            "  none fits into %.4g GB; more devices alone do not help: cut the model by --tp or --pp, or recompute activations\n",
            input->memory_gb);
    else
        printf(
            "  none fits into %.4g GB; ZeRO-3 on %d devices would, with %s each, or --tp, --pp, or parameters and optimizer in the host\n",
            input->memory_gb, more.dp * more.tp * more.pp, quantity_decimal_bytes(result.memory.total, text));
}

static void print_help(const struct scaling_input *input, const struct scaling_result *result)
{
    struct scaling_change changes[SCALING_CHANGES];
    int n = scaling_try_changes(input, changes);
    char text[QUANTITY_MAX];
    printf("what would help, tried one at a time:\n");
    for (int i = 0; i < n; i++)
        printf("  %-45s %+6.1f %% throughput, efficiency %.1f %%, %s a device%s\n", changes[i].name,
               100 * (changes[i].result.tokens_per_s / result->tokens_per_s - 1), 100 * changes[i].result.efficiency,
               quantity_decimal_bytes(changes[i].result.memory.total, text), changes[i].result.fits ? "" : ", which does not fit");
}

void scaling_print_report(const struct scaling_input *input, const struct scaling_result *result)
{
    char text[QUANTITY_MAX], sentence[256];
    int devices = input->tp * input->pp * input->dp;
    printf("%.4g parameters on %d device%s: %d-way data, %d-way tensor, %d stage%s, ZeRO-%d, %d micro-step%s\n\n",
           input->model.params, devices, devices == 1 ? "" : "s", input->dp, input->tp, input->pp, input->pp == 1 ? "" : "s",
           input->zero, input->microbatches, input->microbatches == 1 ? "" : "s");
    printf("gradients of a rank: %s (%.4g GiB)\n", quantity_decimal_bytes(result->gradient_bytes, text),
           result->gradient_bytes / 0x1p30);
    printf("%-16s %6s %14s %10s  %s\n", "a step moves", "ranks", "a rank sends", "time", "over");
    for (int kind = 0; kind < SCALING_KINDS; kind++) {
        const struct scaling_traffic *traffic = &result->traffic[kind];
        if (traffic->ranks)
            printf("%-16s %6d %14s %8.3f s  %s, %.4g GB/s one way\n", scaling_kind_name((enum scaling_kind)kind), traffic->ranks,
                   quantity_decimal_bytes(traffic->bytes, text), traffic->s,
                   traffic->crosses ? "the network" : "links inside the host", traffic->crosses ? input->net_gbs : input->link_gbs);
    }
    printf("As much is received at the same time.\n\n");
    printf("step: %.4g s = compute %.4g + bubble %.4g + exposed communication %.4g (%.4g more is hidden)\n", result->step_s,
           result->compute_s, result->bubble_s, result->exposed_s, result->hidden_s);
    printf("scaling efficiency: %.1f %%\n", 100 * result->efficiency);
    if (input->sequence > 0)
        printf("throughput: %.4g tokens/s\n", result->tokens_per_s);
    if (input->pp > 1)
        printf(
            "bubble: %.1f %% of the pipeline's time, (p-1)/(vm+p-1); %.1f %% of the ideal time, (p-1)/(vm), the other definition\n",
            100 * result->bubble, 100 * result->bubble_s / result->compute_s);
    print_memory(input, result);
    if (input->dp > 1)
        print_stages(input);
    bottleneck(input, result, sentence, sizeof sentence);
    printf("bottleneck: %s\n", sentence);
    print_help(input, result);
}

/* ---- Formulas ---- */

static void print_data_parallel(const struct scaling_input *input, const struct scaling_result *result)
{
    double n = input->dp, m = result->gradient_bytes / input->compression, k = input->microbatches, share = (n - 1) / n;
    const struct scaling_traffic *grads = &result->traffic[SCALING_GRADIENTS];
    double speed = grads->crosses ? input->net_gbs : input->link_gbs;
    char a[QUANTITY_MAX], b[QUANTITY_MAX];
    printf("M = parameters x bytes = %.4g x %g = %s (%.4g GiB)\n", result->gradient_bytes / input->dtype_bytes, input->dtype_bytes,
           quantity_decimal_bytes(result->gradient_bytes, a), result->gradient_bytes / 0x1p30);
    printf("ring all-reduce: 2(N-1)/N M = 2 x %g/%g x %s = %s sent, and received at once; rounded up to 2M = %s\n"
           "  [Patarasu, Yuan 2009, Bandwidth optimal all-reduce algorithms; read from the schedule of %s]\n",
           n - 1, n, quantity_decimal_bytes(m, a), quantity_decimal_bytes(2 * share * m, b),
           quantity_decimal_bytes(2 * m, (char[QUANTITY_MAX]){0}), input->zero ? "ring" : input->algo);
    printf(
        "time = bytes / speed one way = %.4g s at %.4g GB/s (%.4g s for 2M); as if both directions' sum were one: %.4g s (%.4g s)\n",
        2 * share * m / speed / 1e9, speed, 2 * m / speed / 1e9, share * m / speed / 1e9, m / speed / 1e9);
    double rounded = 2 * m / speed / 1e9;
    printf("  without overlap, efficiency %.1f %%; with 2M %.1f %%\n",
           100 * result->compute_s / (result->compute_s + 2 * share * m / speed / 1e9),
           100 * result->compute_s / (result->compute_s + rounded));
    printf("ZeRO [Rajbhandari et al. 2020], bytes of a rank and step, k = %g micro-steps, parameters in the same type:\n", k);
    printf("  DP and ZeRO-1: 2(N-1)/N M = %s (gradients are accumulated locally)\n", quantity_decimal_bytes(2 * share * m, a));
    printf("  ZeRO-2: (k+1)(N-1)/N M = %s (gradients are scattered in every micro-step, parameters gathered once)\n",
           quantity_decimal_bytes((k + 1) * share * m, a));
    printf("  ZeRO-3: 3k(N-1)/N M = %s (parameters gathered forward and backward, gradients scattered, in every micro-step)\n",
           quantity_decimal_bytes(3 * k * share * m, a));
}

static void print_layers(const struct scaling_input *input, const struct scaling_result *result)
{
    double p = input->pp, m = input->microbatches * input->virtual_stages;
    char a[QUANTITY_MAX];
    if (input->tp > 1)
        printf("tensor parallel: 4 all-reduces of b s h per layer and micro-step = %s sent [Shoeybi et al. 2019, Megatron-LM]\n",
               quantity_decimal_bytes(result->traffic[SCALING_TENSOR].bytes, a));
    if (input->ep > 1)
        printf(
            "experts: 4 all-to-alls of b s h x experts per token, per layer and micro-step = %s sent [Lepikhin et al. 2020, GShard]\n",
            quantity_decimal_bytes(result->traffic[SCALING_EXPERTS].bytes, a));
    if (input->pp > 1)
        printf("bubble = (p-1)/(vm+p-1) = %g/(%g+%g) = %.1f %%; to ideal time (p-1)/(vm) = %.1f %%\n"
               "  [Huang et al. 2019, GPipe; Narayanan et al. 2021, interleaved]\n",
               p - 1, m, p - 1, 100 * (p - 1) / (m + p - 1), 100 * (p - 1) / m);
}

void scaling_print_formulas(const struct scaling_input *input, const struct scaling_result *result)
{
    const struct scaling_memory *memory = &result->memory;
    double own = result->gradient_bytes / input->dtype_bytes;
    char a[QUANTITY_MAX];
    print_data_parallel(input, result);
    print_layers(input, result);
    printf("memory: %g + %g + %g bytes a parameter (parameters, gradients, Adam) over N where sharded = %s\n"
           "  [Rajbhandari et al. 2020, ZeRO, section 3.1]\n",
           input->dtype_bytes, input->dtype_bytes, input->dtype_bytes < 4 ? 12.0 : 8.0,
           quantity_decimal_bytes(memory->params + memory->grads + memory->optimizer, a));
    if (memory->has_activations)
        printf("activations: b s h L (10 + 24/t + 5 a s/(h t)); selective (10 + 24/t); full 2 = %s [Korthikanti et al. 2022]\n",
               quantity_decimal_bytes(memory->activations, a));
    if (!(input->compute_s > 0))
        printf(
            "compute = %d x parameters x tokens / (operations per second x utilisation) = %g x %.4g x %g / (%g TFLOPS x %g) = %.4g s\n"
            "  [Kaplan et al. 2020, Scaling laws]\n",
            input->recompute == SCALING_FULL ? 8 : 6, input->recompute == SCALING_FULL ? 8.0 : 6.0, own,
            input->batch * input->sequence * input->microbatches, input->tflops, input->utilisation, result->compute_s);
    printf("exposed = max(0, data parallel time - overlap x compute) + the rest = %.4g s\n", result->exposed_s);
    printf("efficiency = compute / (compute + bubble + exposed) = %.4g / %.4g = %.1f %%\n", result->compute_s, result->step_s,
           100 * result->efficiency);
}

/* ---- JSON ---- */

void scaling_print_json(const struct scaling_input *input, const struct scaling_result *result)
{
    const struct scaling_memory *memory = &result->memory;
    char sentence[256];
    json_t *traffic = json_object(), *changed = json_array();
    struct scaling_change changes[SCALING_CHANGES];
    int n = scaling_try_changes(input, changes);
    for (int kind = 0; kind < SCALING_KINDS; kind++)
        json_object_set_new(traffic, scaling_kind_name((enum scaling_kind)kind),
                            json_pack("{s:f, s:f, s:b, s:i}", "bytes", result->traffic[kind].bytes, "s", result->traffic[kind].s,
                                      "crosses_hosts", result->traffic[kind].crosses, "ranks", result->traffic[kind].ranks));
    for (int i = 0; i < n; i++)
        json_array_append_new(changed, json_pack("{s:s, s:f, s:f, s:f, s:b}", "change", changes[i].name, "tokens_per_s",
                                                 changes[i].result.tokens_per_s, "efficiency", changes[i].result.efficiency,
                                                 "memory_bytes", changes[i].result.memory.total, "fits", changes[i].result.fits));
    bottleneck(input, result, sentence, sizeof sentence);
    json_t *all = json_pack("{s:f, s:i, s:i, s:i, s:i, s:i, s:f, s:o}", "params", input->model.params, "dp", input->dp, "tp",
                            input->tp, "pp", input->pp, "zero", input->zero, "micro_steps", input->microbatches, "gradient_bytes",
                            result->gradient_bytes, "traffic", traffic);
    json_object_update_new(all, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "compute_s", result->compute_s, "bubble",
                                          result->bubble, "bubble_s", result->bubble_s, "hidden_s", result->hidden_s, "exposed_s",
                                          result->exposed_s, "step_s", result->step_s, "efficiency", result->efficiency,
                                          "tokens_per_s", result->tokens_per_s));
    json_object_update_new(all,
                           json_pack("{s:{s:f, s:f, s:f, s:f, s:f}, s:b, s:s, s:o}", "memory_bytes", "parameters", memory->params,
                                     "gradients", memory->grads, "optimizer", memory->optimizer, "activations", memory->activations,
                                     "total", memory->total, "fits", result->fits, "bottleneck", sentence, "changes", changed));
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("\n");
    json_decref(all);
}
