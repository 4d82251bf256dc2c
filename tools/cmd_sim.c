/* SPDX-License-Identifier: Apache-2.0
 * `motet sim`: collectives on a simulated cluster. Turns options into a query, and hands the answer to one of the forms. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "perf_collective.h"
#include "quantity.h"
#include "sim.h"
#include "sim_topology.h"

#define LOGGED_MOST  200000
#define BINS         240
#define BUCKETS_MOST 100000

struct sim_settings {
    int64_t ranks, hosts, cores, root, seed, messages;
    const char *topo, *type, *op, *algo, *latency, *bandwidth, *tile, *step, *jitter, *trace, *svg;
    struct option_list also, slow_link, straggler, late, kill, kill_host, cut;
    bool threads, ideal, whole, every_rank, json;
};

/* A query and what it points to. */
struct sim_request {
    motetSimulateQuery_t query;
    motetSimulateOperation_t *operations;
    motetSimulatePlant_t *plants;
    struct sim_topology topology;
    char **texts; /* of plants and operations, malloced */
    int ntexts;
    bool is_step, shows_progress;
    double compute_ns;
};

#define AT(member) offsetof(struct sim_settings, member)

static const struct option_row sim_options[] = {
    {'n', "ranks", "N", OPTION_INT, AT(ranks), 1, MOTET_SIMULATE_RANKS, NULL, "8", "Ranks in all."},
    {'H', "hosts", "N", OPTION_INT, AT(hosts), 1, MOTET_SIMULATE_RANKS, NULL, "one for each rank",
     "Hosts over which the ranks are spread evenly."},
    {0, "topo", "NETWORK", OPTION_TEXT, AT(topo), 0, 0, NULL, "flat",
     "flat, hosts, fat-tree, torus or dragonfly with parameters after a colon, or a file of links that ends in .json: see below."},
    {0, "latency", "TIME", OPTION_TEXT, AT(latency), 0, 0, NULL, NULL, "Between hosts, over the first link: 5us, 150ns."},
    {0, "bandwidth", "SPEED", OPTION_TEXT, AT(bandwidth), 0, 0, NULL, NULL, "Of a link, each way: 10GB/s, 100Gb/s."},
    {'d', "datatype", "TYPE", OPTION_TEXT, AT(type), 0, 0, NULL, "float32", "Datatype, as for motet perf."},
    {'o', "op", "OP", OPTION_TEXT, AT(op), 0, 0, "sum|prod|min|max|avg|band|bor|bxor", "sum",
     "Operation, where something is reduced."},
    {0, "root", "RANK", OPTION_INT, AT(root), 0, MOTET_SIMULATE_RANKS - 1, NULL, "0", "Root, where there is one."},
    {'a', "algo", "NAME", OPTION_TEXT, AT(algo), 0, 0, NULL, "what the library would choose", "Algorithm, as in MOTET_ALGO."},
    {0, "cores", "N", OPTION_INT, AT(cores), 0, 1 << 20, NULL, "one for each rank", "CPUs of each host."},
    {0, "threads", NULL, OPTION_FLAG, AT(threads), 0, 0, NULL, NULL, "The ranks of a host are threads of one process."},
    {0, "ideal", NULL, OPTION_FLAG, AT(ideal), 0, 0, NULL, NULL, "Cores and local memory cost nothing: links alone decide."},
    {0, "whole", NULL, OPTION_FLAG, AT(whole), 0, 0, NULL, NULL, "Messages are used and forwarded when all of them has come."},
    {0, "tile", "SIZE", OPTION_TEXT, AT(tile), 0, 0, NULL, "as MOTET_BUFFSIZE", "Staging of a tile; all: everything is one tile."},
    {0, "step", "compute=S,buckets=SIZE", OPTION_TEXT, AT(step), 0, 0, NULL, NULL,
     "A training step: SIZE of gradients become ready bucket by bucket while S seconds are computed, and each bucket is reduced then."},
    {0, "also", "COLLECTIVE:SIZE[:ALGO]", OPTION_LIST, AT(also), 0, 0, NULL, NULL, "Runs this at the same time; up to 15 times."},
    {0, "slow-link", "LINKS=FACTOR", OPTION_LIST, AT(slow_link), 0, 0, NULL, NULL,
     "Links of this name (* and ? match) carry so many times less: \"host 3 out=4\"."},
    {0, "straggler", "RANK=FACTOR", OPTION_LIST, AT(straggler), 0, 0, NULL, NULL,
     "Cores of this rank take so many times as long, and so does its computing."},
    {0, "late", "RANK=TIME", OPTION_LIST, AT(late), 0, 0, NULL, NULL, "This rank begins so much later."},
    {0, "kill", "RANK=TIME", OPTION_LIST, AT(kill), 0, 0, NULL, NULL, "This rank dies then."},
    {0, "kill-host", "RANK=TIME", OPTION_LIST, AT(kill_host), 0, 0, NULL, NULL, "The host of this rank loses power then."},
    {0, "cut", "LINKS=TIME", OPTION_LIST, AT(cut), 0, 0, NULL, NULL, "Links of this name lose everything from then on."},
    {0, "jitter", "SHARE", OPTION_TEXT, AT(jitter), 0, 0, NULL, "0",
     "Latencies and work of cores are longer by this share on average, exponentially distributed."},
    {0, "seed", "N", OPTION_INT, AT(seed), 0, INT64_MAX, NULL, "1", "Of the jitter."},
    {0, "messages", "N", OPTION_INT, AT(messages), 1, INT64_MAX, NULL, "10^7",
     "Where an operation takes more messages, later tiles are continued from the first ones."},
    {0, "every-rank", NULL, OPTION_FLAG, AT(every_rank), 0, 0, NULL, NULL,
     "Simulates each rank also where ranks are known to do the same."},
    {0, "trace", "FILE", OPTION_TEXT, AT(trace), 0, 0, NULL, NULL, "Writes the first 200,000 messages as a trace for Perfetto."},
    {0, "svg", "FILE", OPTION_TEXT, AT(svg), 0, 0, NULL, NULL, "Draws the use of links over time."},
    {0, "json", NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "Prints JSON."},
};

static int failed(void)
{
    fprintf(stderr, "motet sim: %s\n", motetGetLastError(NULL));
    return EXIT_FAILED;
}

static bool read_number(const char *text, double low, double high, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && *value >= low && *value <= high;
}

/* A copy that lives as long as the request. */
static char *keep(struct sim_request *request, const char *text)
{
    char **more = realloc(request->texts, ((size_t)request->ntexts + 1) * sizeof *more);
    if (!more)
        return NULL;
    request->texts = more;
    return request->texts[request->ntexts++] = strdup(text);
}

/* ---- What is planted ---- */

/* "WHAT=VALUE" at the last equals sign. */
static int add_plant(struct sim_request *request, const char *option, const char *text, motetSimulateFault_t kind)
{
    bool of_link = kind == motetSimulateSlowLink || kind == motetSimulateDeadLink;
    bool slow = kind == motetSimulateSlowLink || kind == motetSimulateSlowRank;
    motetSimulatePlant_t *plant = &request->plants[request->query.nplants];
    char *what = keep(request, text), *equals = what ? strrchr(what, '=') : NULL;
    int64_t rank = 0;
    double us;
    *plant = (motetSimulatePlant_t){.kind = kind};
    if (!equals || equals == what)
        return usage_error("sim", "--%s: \"%s\" is not %s=%s", option, text, of_link ? "LINKS" : "RANK", slow ? "FACTOR" : "TIME");
    *equals = '\0';
    if (of_link)
        plant->link = what;
    else if (!options_parse_int(what, &rank) || rank < 0 || rank >= request->query.call.nranks)
        return usage_error("sim", "--%s: \"%s\" is not a rank from 0 to %d", option, what, request->query.call.nranks - 1);
    plant->rank = (int)rank;
    if (slow && !read_number(equals + 1, 1e-6, 1e6, &plant->factor))
        return usage_error("sim", "--%s: \"%s\" is not a factor from 1e-6 to 1e6", option, equals + 1);
    if (!slow && (!quantity_parse_latency(equals + 1, &us) || us > 1e12))
        return usage_error("sim", "--%s: \"%s\" is not a time such as 5us or 2s", option, equals + 1);
    plant->atNs = slow ? 0 : us * 1e3;
    request->query.nplants++;
    return EXIT_OK;
}

static int make_plants(const struct sim_settings *settings, struct sim_request *request)
{
    const struct {
        const char *option;
        const struct option_list *list;
        motetSimulateFault_t kind;
    } rows[] = {
        {"slow-link", &settings->slow_link, motetSimulateSlowLink}, {"straggler", &settings->straggler, motetSimulateSlowRank},
        {"late", &settings->late, motetSimulateLateRank},           {"kill", &settings->kill, motetSimulateDeadRank},
        {"kill-host", &settings->kill_host, motetSimulateDeadHost}, {"cut", &settings->cut, motetSimulateDeadLink},
    };
    int n = 0, code = EXIT_OK;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        n += rows[r].list->n;
    request->plants = calloc((size_t)n + 1, sizeof *request->plants);
    for (size_t r = 0; request->plants && r < sizeof rows / sizeof rows[0]; r++)
        for (int i = 0; i < rows[r].list->n && code == EXIT_OK; i++)
            code = add_plant(request, rows[r].option, rows[r].list->items[i], rows[r].kind);
    request->query.plants = request->plants;
    return request->plants ? code : usage_error("sim", "out of memory");
}

/* ---- Operations ---- */

/* compute=SECONDS,buckets=SIZE: the i-th of n buckets is ready when (i + 1) / n of the computing is done. */
static int make_step(const struct sim_settings *settings, struct sim_request *request)
{
    char *text = keep(request, settings->step), *rest = text;
    double seconds = -1;
    int64_t bucket = 25 << 20;
    for (char *word; text && (word = strsep(&rest, ",")) != NULL;) {
        bool good = !strncmp(word, "compute=", 8)   ? read_number(word + 8, 0, 1e6, &seconds)
                    : !strncmp(word, "buckets=", 8) ? options_parse_size(word + 8, &bucket) && bucket > 0
                                                    : false;
        if (!good)
            return usage_error("sim", "--step: \"%s\" is not compute=SECONDS or buckets=SIZE", word);
    }
    if (seconds < 0)
        return usage_error("sim", "--step needs compute=SECONDS");
    double bytes = (double)request->query.call.bytes, n = ceil(bytes / (double)bucket);
    n = n < 1 ? 1 : n;
    if (n > BUCKETS_MOST)
        return usage_error("sim", "--step: %.0f buckets are too many; %d at most", n, BUCKETS_MOST);
    request->is_step = true;
    request->compute_ns = seconds * 1e9;
    request->operations = calloc((size_t)n + 16, sizeof *request->operations);
    if (!request->operations)
        return usage_error("sim", "out of memory");
    for (int i = 0; i < (int)n; i++) {
        double left = bytes - (double)i * (double)bucket;
        request->operations[request->query.noperations++] = (motetSimulateOperation_t){
            .bytes = (size_t)(left < (double)bucket ? left : (double)bucket), .computedNs = request->compute_ns * (i + 1) / n};
    }
    return EXIT_OK;
}

/* The operation of the command line, and what runs beside it, each in a stream of its own. */
static int make_operations(const struct sim_settings *settings, struct sim_request *request)
{
    if (settings->also.n > 15)
        return usage_error("sim", "--also: 15 at most");
    if (settings->step) {
        int code = make_step(settings, request);
        if (code != EXIT_OK)
            return code;
    } else if (settings->also.n > 0) {
        request->operations = calloc(16, sizeof *request->operations);
        if (!request->operations)
            return usage_error("sim", "out of memory");
        request->operations[request->query.noperations++] = (motetSimulateOperation_t){.bytes = request->query.call.bytes};
    }
    for (int i = 0; i < settings->also.n; i++) {
        char *rest = keep(request, settings->also.items[i]), *word = strsep(&rest, ":"), *size = rest ? strsep(&rest, ":") : NULL;
        int64_t bytes = 1 << 20;
        const struct perf_collective *found = word ? perf_collective_find(word) : NULL;
        if (!found || (size && !options_parse_size(size, &bytes)))
            return usage_error("sim", "--also: \"%s\" is not COLLECTIVE:SIZE or COLLECTIVE:SIZE:ALGO", settings->also.items[i]);
        request->operations[request->query.noperations++] =
            (motetSimulateOperation_t){.collective = word, .bytes = (size_t)bytes, .algo = rest, .stream = i + 1};
    }
    request->query.operations = request->operations;
    return EXIT_OK;
}

/* ---- The query ---- */

static int make_network(const struct sim_settings *settings, struct sim_request *request)
{
    motetSimulateQuery_t *query = &request->query;
    motetExplainNetwork_t *network = &query->call.network;
    char why[512];
    if (settings->latency && !quantity_parse_latency(settings->latency, &network->latencyUs))
        return usage_error("sim", "--latency: \"%s\" is not a time such as 5us", settings->latency);
    if (settings->bandwidth && !quantity_parse_speed(settings->bandwidth, &network->hostGBs))
        return usage_error("sim", "--bandwidth: \"%s\" is not a speed such as 100Gb/s", settings->bandwidth);
    network->ideal = settings->ideal;
    network->whole = settings->whole;
    query->topology = settings->topo;
    if (!settings->topo || !sim_topology_is_file(settings->topo))
        return EXIT_OK;
    if (!sim_topology_read(settings->topo, &request->topology, why, sizeof why)) {
        fprintf(stderr, "motet sim: %s\n", why);
        return EXIT_USAGE;
    }
    if (settings->hosts && settings->hosts != request->topology.hosts)
        return usage_error("sim", "--hosts is %d, and %s has %d", (int)settings->hosts, settings->topo, request->topology.hosts);
    if (request->topology.hosts > query->call.nranks)
        return usage_error("sim", "%s has %d hosts for %d ranks", settings->topo, request->topology.hosts, query->call.nranks);
    query->call.nhosts = request->topology.hosts;
    query->links = request->topology.links;
    query->nlinks = request->topology.nlinks;
    query->nswitches = request->topology.nswitches;
    return EXIT_OK;
}

static int make_call(const struct sim_settings *settings, motetExplainQuery_t *call)
{
    int type = perf_type_find(settings->type), op = perf_op_find(settings->op);
    int64_t tile;
    if (type < 0)
        return usage_error("sim", "--datatype: \"%s\" is unknown; motet perf --help lists them", settings->type);
    if (op < 0 || op == PERF_MULSUM)
        return usage_error("sim", "--op: \"%s\" is not one of sum, prod, min, max, avg, band, bor, bxor", settings->op);
    if (settings->hosts > settings->ranks)
        return usage_error("sim", "--hosts: %d hosts for %d ranks", (int)settings->hosts, (int)settings->ranks);
    if (settings->root >= settings->ranks)
        return usage_error("sim", "--root %d: there are %d ranks", (int)settings->root, (int)settings->ranks);
    if (settings->tile && strcmp(settings->tile, "all") == 0)
        call->tileBytes = SIZE_MAX;
    else if (settings->tile && options_parse_size(settings->tile, &tile) && tile > 0)
        call->tileBytes = (size_t)tile;
    else if (settings->tile)
        return usage_error("sim", "--tile: \"%s\" is not a size such as 1M, or all", settings->tile);
    call->datatype = perf_types[type].type;
    call->op = perf_op_value((enum perf_op)op);
    call->nranks = (int)settings->ranks;
    call->nhosts = (int)settings->hosts;
    call->coresPerHost = (int)settings->cores;
    call->root = (int)settings->root;
    call->threads = settings->threads;
    call->algo = settings->algo;
    return EXIT_OK;
}

/* Drawn once a percent, on a terminal that shows nothing else of it. */
static int show_progress(void *context, double share)
{
    double *shown = context;
    if (share - *shown >= 0.01) {
        *shown = share;
        fprintf(stderr, "\rmotet sim: %.0f %%\033[K", 100 * (share > 1 ? 1 : share));
    }
    return 0;
}

static int make_query(const struct sim_settings *settings, struct sim_request *request)
{
    motetSimulateQuery_t *query = &request->query;
    int code = make_call(settings, &query->call);
    if (settings->jitter && !read_number(settings->jitter, 0, 1000, &query->jitter))
        return usage_error("sim", "--jitter: \"%s\" is not a share from 0 to 1000", settings->jitter);
    query->seed = (unsigned long long)settings->seed;
    query->mostMessages = (double)settings->messages;
    query->everyRank = settings->every_rank || settings->trace || settings->svg; /* pictures show all */
    query->logged = settings->trace ? LOGGED_MOST : 0;
    query->bins = settings->svg ? BINS : 0;
    if (code == EXIT_OK)
        code = make_network(settings, request);
    if (code == EXIT_OK)
        code = make_plants(settings, request);
    return code == EXIT_OK ? make_operations(settings, request) : code;
}

/* ---- The answer ---- */

static int write_file(const struct sim_view *view, const char *path, void (*write)(const struct sim_view *, FILE *))
{
    FILE *out = fopen(path, "we");
    if (out)
        write(view, out);
    bool good = out && !ferror(out);
    if (out && fclose(out))
        good = false;
    if (good)
        return EXIT_OK;
    fprintf(stderr, "motet sim: cannot write %s: %s\n", path, strerror(errno));
    return EXIT_FAILED;
}

static int answer(const struct sim_settings *settings, const struct sim_request *request, struct sim_view *view)
{
    int code = EXIT_OK;
    motetResult_t result = motetSimulate(&request->query, &view->simulation);
    if (request->shows_progress)
        fprintf(stderr, "\r\033[K");
    if (result != motetSuccess || motetSimulateResult(view->simulation, &view->result) != motetSuccess)
        return failed();
    if (settings->trace)
        code = write_file(view, settings->trace, sim_write_trace);
    if (code == EXIT_OK && settings->svg)
        code = write_file(view, settings->svg, sim_draw);
    if (code == EXIT_OK && settings->json)
        code = sim_print_json(view) ? EXIT_OK : EXIT_FAILED;
    else if (code == EXIT_OK)
        sim_print(view);
    motetSimulateFree(view->simulation);
    return code;
}

static int simulate(const struct sim_settings *settings, const struct arguments *rest, struct sim_request *request)
{
    struct sim_view view = {.query = &request->query, .network = settings->topo ? settings->topo : "flat"};
    int64_t bytes = 1 << 20;
    double shown = 0;
    char size[QUANTITY_MAX], what[96];
    if (rest->n == 0)
        return usage_error("sim", "which collective? For example: motet sim all_reduce 1G -n 1000 --topo fat-tree:radix=32,over=2");
    if (rest->n > 2)
        return usage_error("sim", "\"%s\" is one word too many", rest->items[2]);
    const struct perf_collective *found = perf_collective_find(rest->items[0]);
    if (!found || found->kind == PERF_SENDRECV || found->kind == PERF_HYPERCUBE)
        return usage_error("sim",
                           "there is no collective \"%s\"; there are all_reduce, all_gather, broadcast, reduce, reduce_scatter, "
                           "alltoall, gather, scatter, barrier",
                           rest->items[0]);
    if (rest->n == 2 && !options_parse_size(rest->items[1], &bytes))
        return usage_error("sim", "\"%s\" is not a size such as 64K, 1M, 2G", rest->items[1]);
    request->query.call.collective = found->name;
    request->query.call.bytes = found->kind == PERF_BARRIER ? 0 : (size_t)bytes;
    view.kind = found->kind;
    int code = make_query(settings, request);
    if (code != EXIT_OK)
        return code;
    if (isatty(STDERR_FILENO)) {
        request->query.progress = show_progress;
        request->query.context = &shown;
        request->shows_progress = true;
    }
    if (request->is_step)
        snprintf(what, sizeof what, "a training step with %s of gradients in %d buckets", quantity_bytes((double)bytes, size),
                 request->query.noperations - settings->also.n);
    else if (found->kind == PERF_BARRIER)
        snprintf(what, sizeof what, "barrier");
    else
        snprintf(what, sizeof what, "%s of %s of %s", found->name, quantity_bytes((double)bytes, size), settings->type);
    view.what = what;
    view.is_step = request->is_step;
    view.compute_ns = request->compute_ns;
    return answer(settings, request, &view);
}

static void free_request(struct sim_request *request)
{
    for (int i = 0; i < request->ntexts; i++)
        free(request->texts[i]);
    free(request->texts);
    free(request->operations);
    free(request->plants);
    sim_topology_free(&request->topology);
}

static int run_sim(int argc, char **argv)
{
    struct sim_settings settings = {.ranks = 8, .type = "float", .op = "sum", .seed = 1};
    struct sim_request request = {.query = MOTET_SIMULATE_QUERY_INITIALIZER};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_sim, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_sim);
    else
        code = simulate(&settings, &rest, &request);
    free_request(&request);
    free(rest.items);
    free(settings.also.items);
    free(settings.slow_link.items);
    free(settings.straggler.items);
    free(settings.late.items);
    free(settings.kill.items);
    free(settings.kill_host.items);
    free(settings.cut.items);
    return code;
}

const struct command command_sim = {
    .name = "sim",
    .summary = "runs collectives on a simulated cluster: time, use of links, what holds everything up",
    .synopsis = "COLLECTIVE [SIZE] [OPTIONS]",
    .description =
        "Runs the schedules that the library would run, message by message and tile by tile, on a network of links with latency, bandwidth "
        "and sharing, for up to a million ranks. Prints the time, the busiest links and the chain of messages that ended last. Nothing is "
        "sent. SIZE is what motet perf counts, 1M unless given. The same command prints the same numbers everywhere.\n\n"
        "Networks: flat, a link for each rank; hosts, the ranks of a host share its links; fat-tree:radix=32,over=2,levels=3, switches of "
        "radix ports with over links down for each link up; torus:dims=8x8x4; dragonfly:routers=8,hosts=4,global=4,speed=1, groups of "
        "routers, of which each has hosts and links to other groups, these of relative speed. All but flat take nics=N, links of a host, "
        "and all take hop=NS, what each link but the first adds. A file is a JSON object with hosts, switches, latency, bandwidth and "
        "links, each between two of \"host 0\", \"host 1\" ... and the switches.\n\n"
        "Links are called as they are printed: \"rank 3 out\", \"host 3 in\", \"leaf 2 up 1\", \"node 1,2 +x\", \"group 0 to group 1\".",
    .exit_status = "0  simulated, also where ranks fail as planted\n1  the library has no answer, or a file could not be written\n"
                   "2  wrong usage",
    .examples = "motet sim all_reduce 1G -n 1000 --topo fat-tree:radix=32,over=2 # what the library would take\n"
                "motet sim all_reduce 64M -n 64 -a ring --slow-link \"rank 3 out=4\" # a slow link\n"
                "motet sim all_reduce 1G -n 64 --step compute=0.3,buckets=25M # a training step\n"
                "motet sim all_reduce 1M -n 8 -a ring --kill 3=100us # what each rank would report, and when\n"
                "motet sim alltoall 64M -n 64 --topo torus:dims=8x8 --svg use.svg --trace messages.json # pictures",
    .words = "all_reduce all_gather broadcast reduce reduce_scatter alltoall gather scatter barrier",
    .options = sim_options,
    .noptions = sizeof sim_options / sizeof sim_options[0],
    .run = run_sim,
};
