/* SPDX-License-Identifier: Apache-2.0
 * `motet explain`: what a collective would do and cost, and why. Turns options into a query, and hands the answer to one of the forms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "explain.h"
#include "network_file.h"
#include "perf_collective.h"
#include "quantity.h"

struct explain_settings {
    int64_t ranks, hosts, cores, root, rank;
    const char *type, *op, *algo, *topo, *latency, *bandwidth, *rank_bandwidth, *svg, *sweep;
    bool threads, here, ideal, whole, scattered, sizes, why, play, json, mermaid;
};

#define AT(member) offsetof(struct explain_settings, member)

static const struct option_row explain_options[] = {
    {'n', "ranks", "N", OPTION_INT, AT(ranks), 1, 4096, NULL, "8", "Ranks in all."},
    {'H', "hosts", "N", OPTION_INT, AT(hosts), 1, 4096, NULL, "1", "Hosts over which the ranks are spread evenly."},
    {0, "cores", "N", OPTION_INT, AT(cores), 0, 1 << 20, NULL, "one for each rank", "CPUs of each host."},
    {0, "threads", NULL, OPTION_FLAG, AT(threads), 0, 0, NULL, NULL, "The ranks of a host are threads of one process."},
    {0, "here", NULL, OPTION_FLAG, AT(here), 0, 0, NULL, NULL,
     "The hosts are machines like this one: as measured, and with the table of motet tune, as far as it has such jobs."},
    {'d', "datatype", "TYPE", OPTION_TEXT, AT(type), 0, 0, NULL, "float32", "Datatype, as for motet perf."},
    {'o', "op", "OP", OPTION_TEXT, AT(op), 0, 0, "sum|prod|min|max|avg|band|bor|bxor", "sum",
     "Operation, where something is reduced."},
    {0, "root", "RANK", OPTION_INT, AT(root), 0, 4095, NULL, "0", "Root, where there is one."},
    {'a', "algo", "NAME", OPTION_TEXT, AT(algo), 0, 0, NULL, "the chosen one",
     "Shows steps, rounds and pictures of this algorithm."},
    {'r', "rank", "RANK", OPTION_INT, AT(rank), 0, 4095, NULL, "0", "Whose steps are printed."},
    {0, "topo", "FILE", OPTION_TEXT, AT(topo), 0, 0, NULL, NULL,
     "Takes hosts, cores, latency and bandwidths from a file, JSON or a topology as XML; options on the command line come on top."},
    {0, "latency", "TIME", OPTION_TEXT, AT(latency), 0, 0, NULL, NULL, "Latency between hosts: 5us, 150ns."},
    {0, "bandwidth", "SPEED", OPTION_TEXT, AT(bandwidth), 0, 0, NULL, NULL,
     "Of a host's link to the others, each way, shared by its ranks: 10GB/s, 100Gb/s."},
    {0, "rank-bandwidth", "SPEED", OPTION_TEXT, AT(rank_bandwidth), 0, 0, NULL, "no such link",
     "Of each rank's own link, each way."},
    {0, "ideal", NULL, OPTION_FLAG, AT(ideal), 0, 0, NULL, NULL, "Cores and local memory cost nothing: links alone decide."},
    {0, "whole", NULL, OPTION_FLAG, AT(whole), 0, 0, NULL, NULL,
     "Messages are forwarded when all of them has come: what textbooks call unpipelined."},
    {0, "scattered", NULL, OPTION_FLAG, AT(scattered), 0, 0, NULL, NULL,
     "Ranks are dealt to the hosts in turn and the algorithms do not know: what following the numbers of ranks costs. motet never does."},
    {0, "sizes", NULL, OPTION_FLAG, AT(sizes), 0, 0, NULL, NULL,
     "Prints bytes, messages, rounds and connections of all algorithms."},
    {0, "sweep", "n=LOW..HIGH", OPTION_TEXT, AT(sweep), 0, 0, NULL, NULL,
     "Compares ring and trees over sizes for LOW to HIGH ranks on a flat network, of 5us and 10GB/s unless said."},
    {0, "why", NULL, OPTION_FLAG, AT(why), 0, 0, NULL, NULL, "Prints common shorthands with numbers, and of what each is true."},
    {0, "play", NULL, OPTION_FLAG, AT(play), 0, 0, NULL, NULL,
     "Steps through the rounds and shows what each rank has; waits for Enter on a terminal."},
    {0, "svg", "FILE", OPTION_TEXT, AT(svg), 0, 0, NULL, NULL, "Draws messages over time; with --sweep the curves."},
    {0, "mermaid", NULL, OPTION_FLAG, AT(mermaid), 0, 0, NULL, NULL, "Prints a sequence diagram for Mermaid."},
    {0, "json", NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "Prints everything as JSON."},
};

static int failed(void)
{
    fprintf(stderr, "motet explain: %s\n", motetGetLastError(NULL));
    return EXIT_FAILED;
}

/* ---- The query ---- */

static int read_network(const struct explain_settings *settings, struct network_file *file)
{
    char why[512];
    double value;
    if (settings->topo && !network_file_read(settings->topo, file, why, sizeof why)) {
        fprintf(stderr, "motet explain: %s\n", why);
        return EXIT_USAGE;
    }
    if (settings->latency && !quantity_parse_latency(settings->latency, &file->network.latencyUs))
        return usage_error("explain", "--latency: \"%s\" is not a time such as 5us", settings->latency);
    if (settings->bandwidth && !quantity_parse_speed(settings->bandwidth, &file->network.hostGBs))
        return usage_error("explain", "--bandwidth: \"%s\" is not a speed such as 100Gb/s", settings->bandwidth);
    if (settings->rank_bandwidth && quantity_parse_speed(settings->rank_bandwidth, &value))
        file->network.rankGBs = value;
    else if (settings->rank_bandwidth)
        return usage_error("explain", "--rank-bandwidth: \"%s\" is not a speed such as 100Gb/s", settings->rank_bandwidth);
    file->network.ideal |= settings->ideal;
    file->network.whole |= settings->whole;
    return EXIT_OK;
}

static int make_query(const struct explain_settings *settings, motetExplainQuery_t *query)
{
    struct network_file file = {0};
    int code = read_network(settings, &file), type = perf_type_find(settings->type), op = perf_op_find(settings->op);
    if (code != EXIT_OK)
        return code;
    if (type < 0)
        return usage_error("explain", "--datatype: \"%s\" is unknown; motet perf --help lists them", settings->type);
    if (op < 0 || op == PERF_MULSUM)
        return usage_error("explain", "--op: \"%s\" is not one of sum, prod, min, max, avg, band, bor, bxor", settings->op);
    query->datatype = perf_types[type].type;
    query->op = perf_op_value((enum perf_op)op);
    query->nranks = (int)settings->ranks;
    query->nhosts = settings->hosts ? (int)settings->hosts : file.hosts ? file.hosts : 1;
    query->coresPerHost = settings->cores ? (int)settings->cores : file.cores;
    query->root = (int)settings->root;
    query->threads = settings->threads;
    query->here = settings->here;
    query->scattered = settings->scattered;
    query->network = file.network;
    return EXIT_OK;
}

/* ---- The answer ---- */

/* Name and kind as perf has them; a barrier is not among perf's patterns. */
static bool find_collective(const char *word, struct explain_view *view)
{
    static const char *const names[PERF_KINDS] = {
        [PERF_ALL_REDUCE] = "AllReduce", [PERF_ALL_GATHER] = "AllGather", [PERF_BROADCAST] = "Broadcast",
        [PERF_REDUCE] = "Reduce",        [PERF_ALLTOALL] = "AlltoAll",    [PERF_REDUCE_SCATTER] = "ReduceScatter",
        [PERF_GATHER] = "Gather",        [PERF_SCATTER] = "Scatter",      [PERF_BARRIER] = "Barrier"};
    const struct perf_collective *found = perf_collective_find(word);
    if (!found || !names[found->kind])
        return false;
    view->kind = found->kind;
    view->collective = names[found->kind];
    view->moves = found->kind != PERF_BARRIER;
    return true;
}

static bool fill_view(struct explain_view *view)
{
    if (motetExplainCount(view->explanation, &view->n) != motetSuccess || view->n > EXPLAIN_CANDIDATES)
        return false;
    for (int i = 0; i < view->n; i++) {
        if (motetExplainCandidate(view->explanation, i, &view->candidates[i]) != motetSuccess)
            return false;
        if (view->candidates[i].chosen)
            view->chosen = view->shown = i;
    }
    return true;
}

static int find_shown(struct explain_view *view, const char *algo)
{
    char words[1024] = "";
    const char *name = !algo ? NULL : !strcasecmp(algo, "tree") ? "double_binary_tree" : algo;
    for (int i = 0; name && i < view->n; i++) {
        if (!strcasecmp(view->candidates[i].name, name)) {
            view->shown = i;
            if (view->candidates[i].fits)
                return EXIT_OK;
            return usage_error("explain", "--algo: %s does not exist for %d ranks on %d hosts", name, view->query->nranks,
                               view->query->nhosts);
        }
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", i ? ", " : "", view->candidates[i].name);
    }
    return name ? usage_error("explain", "--algo: %s has no algorithm \"%s\"; it has %s", view->collective, name, words) : EXIT_OK;
}

static int draw(const struct explain_view *view, const char *path)
{
    FILE *out = fopen(path, "we");
    bool told = out && explain_draw(view, out), written = out && !ferror(out);
    if (out && fclose(out))
        written = false;
    if (out && !told)
        return failed();
    if (written)
        return EXIT_OK;
    fprintf(stderr, "motet explain: cannot write %s: %s\n", path, strerror(errno));
    return EXIT_FAILED;
}

static bool print(const struct explain_settings *settings, const struct explain_view *view)
{
    if (settings->json)
        return explain_print_json(view, (int)settings->rank);
    if (settings->mermaid)
        return explain_print_mermaid(view);
    if (settings->play)
        return explain_play(view, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
    if (settings->why || settings->sizes) {
        if (settings->why)
            explain_print_why(view);
        if (settings->sizes)
            explain_print_sizes(view);
        return true;
    }
    printf("%s of %s on %d ranks, %d host%s\n\n", view->collective, view->what, view->query->nranks, view->query->nhosts,
           view->query->nhosts == 1 ? "" : "s");
    explain_print_candidates(view);
    explain_print_reasons(view);
    return explain_print_ranges(view) && explain_print_steps(view, (int)settings->rank);
}

static int answer(const struct explain_settings *settings, const motetExplainQuery_t *query, struct explain_view *view)
{
    char size[QUANTITY_MAX], what[96];
    snprintf(what, sizeof what, "%s of %s", quantity_bytes((double)query->bytes, size), settings->type);
    view->query = query;
    view->what = view->moves ? what : "signals";
    if (settings->rank >= query->nranks)
        return usage_error("explain", "--rank %d: there are %d ranks", (int)settings->rank, query->nranks);
    if (motetExplain(query, &view->explanation) != motetSuccess)
        return failed();
    int code = fill_view(view) ? find_shown(view, settings->algo) : failed();
    if (code == EXIT_OK && settings->svg)
        code = draw(view, settings->svg);
    if (code == EXIT_OK && !print(settings, view))
        code = failed();
    motetExplainFree(view->explanation);
    return code;
}

/* ---- The command ---- */

static int sweep(const struct explain_settings *settings, motetExplainQuery_t *query)
{
    int low = 0, high = 0, used = 0;
    if (sscanf(settings->sweep, "n=%d..%d%n", &low, &high, &used) != 2 || settings->sweep[used] || low < 2 || high < low ||
        high > 4096)
        return usage_error("explain", "--sweep: \"%s\" is not n=LOW..HIGH with numbers from 2 to 4096", settings->sweep);
    if (!settings->latency && query->network.latencyUs <= 0)
        query->network.latencyUs = 5;
    if (!settings->bandwidth && query->network.hostGBs <= 0)
        query->network.hostGBs = 10;
    query->network.ideal = 1;
    query->op = motetMax;
    FILE *drawn = settings->svg ? fopen(settings->svg, "we") : NULL;
    if (settings->svg && !drawn) {
        fprintf(stderr, "motet explain: cannot write %s: %s\n", settings->svg, strerror(errno));
        return EXIT_FAILED;
    }
    bool good = explain_sweep(query, low, high, settings->json, drawn);
    if (drawn && fclose(drawn)) {
        fprintf(stderr, "motet explain: cannot write %s: %s\n", settings->svg, strerror(errno));
        return EXIT_FAILED;
    }
    return good ? EXIT_OK : failed();
}

static int explain(const struct explain_settings *settings, const struct arguments *rest)
{
    struct explain_view view = {0};
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    int64_t bytes = 1 << 20;
    int code = make_query(settings, &query);
    if (code != EXIT_OK)
        return code;
    if (settings->sweep)
        return rest->n ? usage_error("explain", "--sweep takes no collective: it compares all-reduces") : sweep(settings, &query);
    if (rest->n == 0)
        return usage_error("explain", "which collective? For example: motet explain all_reduce 1M -n 8");
    if (rest->n > 2)
        return usage_error("explain", "\"%s\" is one word too many", rest->items[2]);
    if (!find_collective(rest->items[0], &view))
        return usage_error("explain",
                           "there is no collective \"%s\"; there are all_reduce, all_gather, broadcast, reduce, reduce_scatter, "
                           "alltoall, gather, scatter, barrier",
                           rest->items[0]);
    if (rest->n == 2 && !options_parse_size(rest->items[1], &bytes))
        return usage_error("explain", "\"%s\" is not a size such as 64K, 1M, 2G", rest->items[1]);
    query.bytes = view.moves ? (size_t)bytes : 0;
    query.collective = view.collective;
    return answer(settings, &query, &view);
}

static int run_explain(int argc, char **argv)
{
    struct explain_settings settings = {.ranks = 8, .type = "float", .op = "sum"};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_explain, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_explain);
    else if (settings.json + settings.mermaid + settings.play > 1)
        code = usage_error("explain", "--json, --mermaid and --play exclude each other");
    else
        code = explain(&settings, &rest);
    free(rest.items);
    return code;
}

const struct command command_explain = {
    .name = "explain",
    .summary = "says what a collective would do and cost, which algorithm is chosen and why",
    .synopsis = "COLLECTIVE [SIZE] [OPTIONS] | --sweep n=LOW..HIGH [OPTIONS]",
    .description =
        "Prints the algorithms of a collective with predicted time, bytes of the busiest rank and host, and rounds; which one the library "
        "would run and what makes the others slower; at which sizes the choice changes; and the chosen schedule step by step. Nothing is "
        "run: everything comes from the schedules and the cost model, for any number of ranks and hosts.\n\n"
        "SIZE is what motet perf counts, 1M unless given. MOTET_ALGO and MOTET_DETERMINISTIC count as in a job. Bandwidths are one way, in "
        "10^9 bytes per second; a SPEED in bits has a small b. A file for --topo is a JSON object with any of hosts, cores, latency, "
        "bandwidth, rank_bandwidth, local_latency, core_bandwidth, combine_bandwidth, ideal, whole; or a topology as motet topo --xml "
        "prints it: hosts, their CPUs, network cards as far as their slots feed them, and what was measured.",
    .exit_status = "0  answered\n1  the library has no answer, or a file could not be written\n2  wrong usage",
    .examples = "motet explain all_reduce 1M -n 8 --hosts 2 # the choice, and why\n"
                "motet explain all_reduce -n 4 --algo ring --play # a ring, round by round\n"
                "motet explain all_reduce -n 8 --sizes # bytes, rounds and connections of all\n"
                "motet explain --sweep n=2..1024 # where ring and trees cross",
    .words = "all_reduce all_gather broadcast reduce reduce_scatter alltoall gather scatter barrier",
    .options = explain_options,
    .noptions = sizeof explain_options / sizeof explain_options[0],
    .run = run_explain,
};
