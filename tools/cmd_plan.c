/* SPDX-License-Identifier: Apache-2.0
 * `motet plan`: will a training job scale? Turns options and files into one input, and prints what scaling.h says of it. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "network_file.h"
#include "quantity.h"
#include "scaling.h"

struct plan_settings {
    int64_t devices, per_host, tp, pp, ep, zero, microbatches, virtual_stages, layers, hidden, heads, sequence, batch, global_batch,
        top;
    const char *params, *config, *type, *device, *link, *net, *latency, *compute, *tflops, *utilisation, *memory, *overlap,
        *compression, *recompute, *topo, *svg, *algo;
    struct option_list measured;
    bool search, sweep, formulas, presets, json;
};

#define AT(member) offsetof(struct plan_settings, member)

static const struct option_row plan_options[] = {
    {'p', "params", "COUNT", OPTION_TEXT, AT(params), 0, 0, NULL, NULL, "Parameters of the model: 7B, 25.6M."},
    {'c', "config", "FILE", OPTION_TEXT, AT(config), 0, 0, NULL, NULL,
     "Takes parameters, layers, hidden size, heads and experts from a Hugging Face config.json."},
    {'d', "dtype", "TYPE", OPTION_CHOICE, AT(type), 0, 0, "fp16|bf16|fp32", "fp16", "Of parameters and gradients."},
    {'n', "devices", "N", OPTION_INT, AT(devices), 1, 65536, NULL, "4", "Devices in all."},
    {0, "per-host", "N", OPTION_INT, AT(per_host), 1, 65536, NULL, "all", "Devices of a host."},
    {0, "tp", "N", OPTION_INT, AT(tp), 1, 4096, NULL, "1", "Ranks that share the tensors of a layer."},
    {0, "pp", "N", OPTION_INT, AT(pp), 1, 4096, NULL, "1", "Pipeline stages."},
    {0, "ep", "N", OPTION_INT, AT(ep), 1, 4096, NULL, "1", "Data parallel ranks that share the experts."},
    {'z', "zero", "STAGE", OPTION_INT, AT(zero), 0, 3, NULL, "0",
     "What data parallel ranks share: optimizer, gradients, parameters."},
    {'m', "micro-steps", "N", OPTION_INT, AT(microbatches), 1, 1 << 20, NULL, "1",
     "Micro-steps of a step: microbatches of the pipeline, or accumulation."},
    {0, "virtual-stages", "N", OPTION_INT, AT(virtual_stages), 1, 1024, NULL, "1", "Interleaved stages of a device."},
    {'b', "batch", "N", OPTION_INT, AT(batch), 1, 1 << 20, NULL, "1", "Sequences of a micro-step and data parallel rank."},
    {'s', "seq", "N", OPTION_INT, AT(sequence), 0, 1 << 26, NULL, NULL, "Tokens of a sequence."},
    {0, "layers", "N", OPTION_INT, AT(layers), 0, 1 << 20, NULL, NULL, "Layers, where there is no --config."},
    {0, "hidden", "N", OPTION_INT, AT(hidden), 0, 1 << 20, NULL, NULL, "Hidden size, where there is no --config."},
    {0, "heads", "N", OPTION_INT, AT(heads), 0, 1 << 20, NULL, NULL, "Attention heads, where there is no --config."},
    {0, "device", "PRESET", OPTION_TEXT, AT(device), 0, 0, NULL, NULL, "Memory, links and speed of a device: see --presets."},
    {0, "link", "SPEED", OPTION_TEXT, AT(link), 0, 0, NULL, NULL, "One way, of a device inside its host: 32GB/s, or a preset."},
    {0, "net", "SPEED", OPTION_TEXT, AT(net), 0, 0, NULL, "as --link",
     "One way, of a device to other hosts: 100Gb/s, or a preset."},
    {0, "latency", "TIME", OPTION_TEXT, AT(latency), 0, 0, NULL, "0", "Between hosts: 5us, or the presets tcp and rdma."},
    {0, "topo", "FILE", OPTION_TEXT, AT(topo), 0, 0, NULL, NULL,
     "Takes rank_bandwidth (of --link), bandwidth (of --net) and latency from a file as for motet explain."},
    {0, "compute", "SECONDS", OPTION_TEXT, AT(compute), 0, 0, NULL, "from --tflops", "What one micro-step computes on one device."},
    {0, "tflops", "N", OPTION_TEXT, AT(tflops), 0, 0, NULL, NULL, "10^12 operations per second of a device."},
    {0, "utilisation", "SHARE", OPTION_TEXT, AT(utilisation), 0, 0, NULL, "0.4", "Of these, what the program reaches, 0 to 1."},
    {0, "memory", "GB", OPTION_TEXT, AT(memory), 0, 0, NULL, NULL, "10^9 bytes of a device."},
    {0, "overlap", "SHARE", OPTION_TEXT, AT(overlap), 0, 0, NULL, "0",
     "Gradients and parameters move beside this share of the compute time, 0 to 1."},
    {0, "compression", "FACTOR", OPTION_TEXT, AT(compression), 0, 0, NULL, "1", "Gradients are so many times smaller on the wire."},
    {0, "recompute", "HOW", OPTION_CHOICE, AT(recompute), 0, 0, "none|selective|full", "none",
     "Which activations are computed again."},
    {'a', "algo", "NAME", OPTION_TEXT, AT(algo), 0, 0, NULL, "ring", "All-reduce of the gradients."},
    {0, "measured", "compute=S,eff=E", OPTION_LIST, AT(measured), 0, 0, NULL, NULL,
     "A step that was measured: seconds of compute, efficiency. Two or more give overlap, and predict other batches."},
    {0, "search", NULL, OPTION_FLAG, AT(search), 0, 0, NULL, NULL, "Tries all layouts of the devices and ranks them."},
    {0, "global-batch", "N", OPTION_INT, AT(global_batch), 1, 1 << 26, NULL, "devices x batch x micro-steps",
     "Sequences of a step, for --search."},
    {0, "top", "N", OPTION_INT, AT(top), 1, 1000, NULL, "10", "Layouts that --search prints."},
    {0, "sweep", NULL, OPTION_FLAG, AT(sweep), 0, 0, NULL, NULL, "Efficiency for 1, 2, 4, ... devices."},
    {0, "svg", "FILE", OPTION_TEXT, AT(svg), 0, 0, NULL, NULL, "Draws the sweep."},
    {0, "formulas", NULL, OPTION_FLAG, AT(formulas), 0, 0, NULL, NULL, "Prints the formulas with their numbers and sources."},
    {0, "presets", NULL, OPTION_FLAG, AT(presets), 0, 0, NULL, NULL, "Prints devices and links that are known, with sources."},
    {0, "json", NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "Prints JSON."},
};

/* ---- Reading ---- */

static bool read_number(const char *text, double low, double high, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && *value >= low && *value <= high;
}

/* Plain numbers of options; NULL leaves them as they are. */
static int read_numbers(const struct plan_settings *settings, struct scaling_input *input)
{
    const struct {
        const char *name, *text;
        double low, high, *value;
    } rows[] = {{"compute", settings->compute, 1e-9, 1e9, &input->compute_s},
                {"tflops", settings->tflops, 1e-6, 1e9, &input->tflops},
                {"utilisation", settings->utilisation, 1e-6, 1, &input->utilisation},
                {"memory", settings->memory, 1e-6, 1e9, &input->memory_gb},
                {"overlap", settings->overlap, 0, 1, &input->overlap},
                {"compression", settings->compression, 1, 1e6, &input->compression}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].text && !read_number(rows[i].text, rows[i].low, rows[i].high, rows[i].value))
            return usage_error("plan", "--%s: \"%s\" is not a number from %g to %g", rows[i].name, rows[i].text, rows[i].low,
                               rows[i].high);
    return EXIT_OK;
}

static bool read_speed(const char *text, double *gbs)
{
    const struct scaling_preset *preset = scaling_preset_find(text);
    if (!preset)
        return quantity_parse_speed(text, gbs);
    *gbs = preset->gbs;
    return preset->gbs > 0;
}

static bool read_latency(const char *text, double *us)
{
    const struct scaling_preset *preset = scaling_preset_find(text);
    if (!preset)
        return quantity_parse_latency(text, us);
    *us = preset->us;
    return preset->kind == PRESET_LATENCY;
}

static int read_links(const struct plan_settings *settings, struct scaling_input *input)
{
    char why[512];
    struct network_file file = {0};
    if (settings->device) {
        const struct scaling_preset *preset = scaling_preset_find(settings->device);
        if (!preset || preset->kind != PRESET_DEVICE)
            return usage_error("plan", "--device: \"%s\" is unknown; motet plan --presets lists them", settings->device);
        input->link_gbs = preset->gbs;
        input->memory_gb = preset->memory_gb;
        input->tflops = preset->tflops;
    }
    if (settings->topo && !network_file_read(settings->topo, &file, why, sizeof why)) {
        fprintf(stderr, "motet plan: %s\n", why);
        return EXIT_USAGE;
    }
    input->link_gbs = file.network.rankGBs > 0 ? file.network.rankGBs : input->link_gbs;
    input->net_gbs = file.network.hostGBs;
    input->net_us = file.network.latencyUs;
    input->link_us = file.network.localLatencyUs;
    if (settings->link && !read_speed(settings->link, &input->link_gbs))
        return usage_error("plan", "--link: \"%s\" is neither a speed such as 32GB/s nor a preset", settings->link);
    if (settings->net && !read_speed(settings->net, &input->net_gbs))
        return usage_error("plan", "--net: \"%s\" is neither a speed such as 100Gb/s nor a preset", settings->net);
    if (settings->latency && !read_latency(settings->latency, &input->net_us))
        return usage_error("plan", "--latency: \"%s\" is neither a time such as 5us nor tcp or rdma", settings->latency);
    if (!(input->net_gbs > 0))
        input->net_gbs = input->link_gbs;
    if (!(input->link_gbs > 0))
        input->link_gbs = input->net_gbs;
    return EXIT_OK;
}

static int read_model(const struct plan_settings *settings, struct scaling_model *model)
{
    char why[512];
    if (settings->config && !scaling_config_read(settings->config, model, why, sizeof why)) {
        fprintf(stderr, "motet plan: %s\n", why);
        return EXIT_USAGE;
    }
    if (settings->params && (!quantity_parse_count(settings->params, &model->params) || !(model->params >= 1)))
        return usage_error("plan", "--params: \"%s\" is not a number such as 7B or 25.6M", settings->params);
    model->layers = settings->layers ? (int)settings->layers : model->layers;
    model->hidden = settings->hidden ? (int)settings->hidden : model->hidden;
    model->heads = settings->heads ? (int)settings->heads : model->heads;
    return EXIT_OK;
}

static int make_input(const struct plan_settings *settings, struct scaling_input *input)
{
    *input = (struct scaling_input){
        .dtype_bytes = strcmp(settings->type, "fp32") ? 2 : 4,
        .sequence = (double)settings->sequence,
        .batch = (double)settings->batch,
        .tp = (int)settings->tp,
        .pp = (int)settings->pp,
        .ep = (int)settings->ep,
        .zero = (int)settings->zero,
        .microbatches = (int)settings->microbatches,
        .virtual_stages = (int)settings->virtual_stages,
        .per_host = (int)(settings->per_host ? settings->per_host : settings->devices),
        .recompute = !strcmp(settings->recompute, "full")        ? SCALING_FULL
                     : !strcmp(settings->recompute, "selective") ? SCALING_SELECTIVE
                                                                 : SCALING_KEEP_ALL,
        .utilisation = 0.4,
        .compression = 1,
        .algo = settings->algo,
    };
    int code = read_model(settings, &input->model);
    code = code == EXIT_OK ? read_links(settings, input) : code;
    code = code == EXIT_OK ? read_numbers(settings, input) : code;
    int cut = input->tp * input->pp;
    if (code == EXIT_OK && settings->devices % cut)
        return usage_error("plan", "%d devices are no multiple of --tp x --pp = %d", (int)settings->devices, cut);
    input->dp = (int)settings->devices / cut;
    return code;
}

/* ---- Answering ---- */

static int print_measured(const struct plan_settings *settings)
{
    struct scaling_point points[64];
    int n = 0;
    double total, share;
    for (; n < settings->measured.n && n < 64; n++) {
        int used = 0;
        if (sscanf(settings->measured.items[n], "compute=%lf,eff=%lf%n", &points[n].compute_s, &points[n].efficiency, &used) != 2 ||
            settings->measured.items[n][used] || !(points[n].compute_s > 0) || !(points[n].efficiency > 0) ||
            !(points[n].efficiency <= 1) || !isfinite(points[n].compute_s))
            return usage_error("plan", "--measured: \"%s\" is not compute=SECONDS,eff=SHARE", settings->measured.items[n]);
    }
    scaling_fit(points, n, &total, &share);
    for (int i = 0; i < n; i++)
        printf("measured: compute %.4g s, efficiency %.4g: exposed communication %.4g s\n", points[i].compute_s,
               points[i].efficiency, points[i].compute_s * (1 / points[i].efficiency - 1));
    printf("fit: exposed = %.4g s - %.4g x compute: communication takes %.4g s, %.1f %% of the compute time hides it\n", total,
           share, total, 100 * share);
    if (share < 0)
        printf("  it grows with compute: what was measured is not gradients alone (stragglers, input, memory)\n");
    printf("%-26s %10s %10s %11s\n", "predicted", "compute s", "exposed s", "efficiency");
    for (int k = 1; k <= 16; k *= 2) {
        double batch = points[0].compute_s * k, exposed = fmax(0, total - share * batch),
               last = fmax(0, total - share * points[0].compute_s);
        printf("%2d times the batch         %10.4g %10.4g %9.1f %%\n", k, batch, exposed, 100 * batch / (batch + exposed));
        if (k > 1)
            printf("%2d accumulated micro-steps %10.4g %10.4g %9.1f %%\n", k, batch, last, 100 * batch / (batch + last));
    }
    return EXIT_OK;
}

static int search(const struct plan_settings *settings, const struct scaling_input *input)
{
    struct scaling_layout *layouts = NULL;
    char memory[QUANTITY_MAX], why[512];
    struct scaling_result result;
    int64_t sequences =
        settings->global_batch ? settings->global_batch : settings->devices * settings->batch * settings->microbatches;
    if (!scaling_compute(input, &result, why, sizeof why))
        return usage_error("plan", "%s", why);
    int n = scaling_search(input, (int)settings->devices, (int)sequences, &layouts);
    if (n <= 0) {
        fprintf(stderr, "motet plan: %s\n", n < 0 ? "out of memory" : "no layout of these devices divides the global batch");
        free(layouts);
        return EXIT_FAILED;
    }
    printf("%d layouts of %d devices, %lld sequences a step; the best by tokens per second:\n", n, (int)settings->devices,
           (long long)sequences);
    printf("%4s %4s %4s %5s %6s %6s %11s %11s %12s %8s\n", "tp", "pp", "dp", "ZeRO", "batch", "micro", "step", "efficiency",
           "tokens/s", "memory");
    for (int i = 0; i < n && i < settings->top; i++) {
        const struct scaling_layout *row = &layouts[i];
        printf("%4d %4d %4d %5d %6.0f %6d %9.4g s %9.1f %% %12.4g %8s%s\n", row->input.tp, row->input.pp, row->input.dp,
               row->input.zero, row->input.batch, row->input.microbatches, row->result.step_s, 100 * row->result.efficiency,
               row->result.tokens_per_s, quantity_decimal_bytes(row->result.memory.total, memory),
               row->result.fits ? "" : "  does not fit");
    }
    if (!layouts[0].result.fits)
        printf("None fits into %.4g GB; those that need least are shown.\n", input->memory_gb);
    free(layouts);
    return EXIT_OK;
}

static int sweep(const struct plan_settings *settings, const struct scaling_input *input)
{
    char why[512];
    FILE *drawn = settings->svg ? fopen(settings->svg, "we") : NULL;
    bool good = (!settings->svg || drawn), told = true;
    if (good)
        told = scaling_print_sweep(input, (int)settings->devices, drawn, why, sizeof why);
    if (drawn && fclose(drawn))
        good = false;
    if (!told)
        return usage_error("plan", "%s", why);
    if (!good)
        fprintf(stderr, "motet plan: cannot write %s: %s\n", settings->svg, strerror(errno));
    return good ? EXIT_OK : EXIT_FAILED;
}

static int plan(const struct plan_settings *settings)
{
    struct scaling_input input;
    struct scaling_result result;
    char why[512];
    if (settings->presets) {
        scaling_print_presets();
        return EXIT_OK;
    }
    if (settings->measured.n > 0)
        return print_measured(settings);
    int code = make_input(settings, &input);
    if (code != EXIT_OK)
        return code;
    if (settings->search)
        return search(settings, &input);
    if (settings->sweep)
        return sweep(settings, &input);
    if (!scaling_compute(&input, &result, why, sizeof why))
        return usage_error("plan", "%s", why);
    if (settings->json)
        scaling_print_json(&input, &result);
    else if (settings->formulas)
        scaling_print_formulas(&input, &result);
    else
        scaling_print_report(&input, &result);
    return EXIT_OK;
}

static int run_plan(int argc, char **argv)
{
    struct plan_settings settings = {.devices = 4,
                                     .tp = 1,
                                     .pp = 1,
                                     .ep = 1,
                                     .microbatches = 1,
                                     .virtual_stages = 1,
                                     .batch = 1,
                                     .top = 10,
                                     .type = "fp16",
                                     .recompute = "none",
                                     .algo = "ring"};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_plan, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_plan);
    else if (rest.n > 0)
        code = usage_error("plan", "\"%s\" is not understood; the command takes options only", rest.items[0]);
    else
        code = plan(&settings);
    free(settings.measured.items);
    free(rest.items);
    return code;
}

const struct command command_plan = {
    .name = "plan",
    .summary = "says whether a training job will scale: bytes, times, memory, bottleneck, best layout",
    .synopsis = "--params COUNT --compute SECONDS --link SPEED [OPTIONS] | --config FILE --device PRESET [OPTIONS] | --presets",
    .description =
        "Computes one training step from the model, the layout and the links: what each kind of traffic moves and takes, the bubble of the "
        "pipeline, scaling efficiency, memory of a device, the bottleneck, and what would help most, tried one change at a time. What "
        "collectives move and how often latency counts is read from the library's own schedules.\n\n"
        "All speeds are one way, per device. Tensor parallel ranks are neighbours, then data parallel ones, then stages; a group that fits "
        "into a host uses --link, any other --net. Efficiency is compute time per step time.",
    .exit_status = "0  answered\n1  no layout was found, or a file could not be written\n2  wrong usage",
    .examples =
        "motet plan --params 7B -n 4 --link 32GB/s --compute 0.3 # does it scale?\n"
        "motet plan --params 7B -n 4 --link 32GB/s --compute 0.3 --formulas # by which formulas\n"
        "motet plan --config config.json -n 64 --per-host 8 --device h100 --net 400GbE --latency rdma -s 4096 --search # best layout\n"
        "motet plan --measured compute=0.3,eff=0.40 --measured compute=1.2,eff=0.75 # from two measured steps\n"
        "motet plan --presets # devices and links, with sources",
    .words = "",
    .options = plan_options,
    .noptions = sizeof plan_options / sizeof plan_options[0],
    .run = run_plan,
};
