/* SPDX-License-Identifier: Apache-2.0
 * `motet topo`: who reaches whom by what. Turns options into a topology with ranks, and hands it to one of the forms. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "topo.h"

struct topo_settings {
    int64_t ranks, time_ms, timeout_ms;
    const char *file, *root, *binding, *rows, *svg;
    bool measure, xml, json, running;
};

#define AT(member) offsetof(struct topo_settings, member)

static const struct option_row topo_options[] = {
    {'n', "nranks", "N", OPTION_INT, AT(ranks), 1, 4096, NULL, NULL, "Adds N ranks, placed as motet run places them."},
    {'b', "bind", "HOW", OPTION_CHOICE, AT(binding), 0, 0, "core|numa|none", "none",
     "How these ranks are bound, as for motet run."},
    {'r', "running", NULL, OPTION_FLAG, AT(running), 0, 0, NULL, NULL,
     "Adds the ranks of the job that this user runs on this host; PID or COMMUNICATOR says which."},
    {'f', "file", "FILE", OPTION_TEXT, AT(file), 0, 0, NULL, "MOTET_TOPO_FILE",
     "Reads the topology from a file instead of this machine."},
    {0, "root", "DIR", OPTION_TEXT, AT(root), 0, 0, NULL, NULL,
     "Reads the topology from a copy of another machine's /sys and /proc in this folder."},
    {0, "rows", "LIST", OPTION_TEXT, AT(rows), 0, 0, NULL, "ranks or cores, nics, gpus",
     "Rows of the matrix: ranks, nodes, caches, cores, bridges, nics, gpus, or all."},
    {'m', "measure", NULL, OPTION_FLAG, AT(measure), 0, 0, NULL, NULL,
     "Measures latency and bandwidth of each kind of path between two CPUs that may be used."},
    {0, "time", "TIME", OPTION_TIME, AT(time_ms), 10, 60000, NULL, "1s", "How long --measure may take."},
    {'t', "timeout", "TIME", OPTION_TIME, AT(timeout_ms), 100, 60000, NULL, "2s", "How long to wait for answers of a running job."},
    {'x', "xml", NULL, OPTION_FLAG, AT(xml), 0, 0, NULL, NULL, "Prints the topology as XML, in NCCL's form."},
    {0, "svg", "FILE", OPTION_TEXT, AT(svg), 0, 0, NULL, NULL, "Draws the topology."},
    {0, "json", NULL, OPTION_FLAG, AT(json), 0, 0, NULL, NULL, "Prints nodes, matrix and findings as JSON."},
};

static int failed(int code)
{
    fprintf(stderr, "motet topo: %s\n", motetGetLastError(NULL));
    return code;
}

/* What somebody wrote is wrong usage, what the machine refuses a failure. */
static int obtain(const struct topo_settings *settings, bool job, motetTopo_t *topo)
{
    const char *from = "";
    bool file = settings->file || (!settings->root && motetParamGet("MOTET_TOPO_FILE", &from) == motetSuccess && from[0]);
    motetResult_t result = file ? motetTopoRead(settings->file, topo) : motetTopoDetect(settings->root, !job, topo);
    return result == motetSuccess ? EXIT_OK : failed(result == motetInvalidArgument ? EXIT_USAGE : EXIT_FAILED);
}

static int measure(const struct topo_settings *settings, motetTopo_t topo)
{
    int measured = 0;
    if (motetTopoMeasure(topo, (int)settings->time_ms, &measured) != motetSuccess)
        return failed(EXIT_FAILED);
    if (measured == 0)
        fprintf(stderr, "motet topo: nothing was measured: two CPUs are needed to which threads may be bound\n");
    return EXIT_OK;
}

static int draw(const struct topo_view *view, const char *path)
{
    FILE *out = fopen(path, "we");
    if (out)
        topo_draw(view, out);
    bool written = out && !ferror(out);
    if (out && fclose(out))
        written = false;
    if (written)
        return EXIT_OK;
    fprintf(stderr, "motet topo: cannot write %s: %s\n", path, strerror(errno));
    return EXIT_FAILED;
}

static int print_xml(motetTopo_t topo)
{
    char *xml = NULL;
    if (motetTopoPrint(topo, &xml) != motetSuccess)
        return failed(EXIT_FAILED);
    fputs(xml, stdout);
    free(xml);
    return EXIT_OK;
}

static int show(const struct topo_settings *settings, motetTopo_t topo)
{
    struct topo_view view;
    unsigned what = 0;
    if (settings->rows && !topo_rows_parse(settings->rows, &what))
        return usage_error("topo", "--rows: \"%s\" is not a list of ranks, nodes, caches, cores, bridges, nics, gpus, or all",
                           settings->rows);
    if (!topo_view_make(topo, what, &view)) {
        fprintf(stderr, "motet topo: out of memory\n");
        return EXIT_FAILED;
    }
    int code = settings->svg ? draw(&view, settings->svg) : EXIT_OK;
    if (code == EXIT_OK && settings->xml)
        code = print_xml(topo);
    else if (code == EXIT_OK && settings->json)
        code = topo_print_json(&view) ? EXIT_OK : EXIT_FAILED;
    else if (code == EXIT_OK)
        topo_print_text(&view);
    topo_view_free(&view);
    return code;
}

/* word: a process or a communicator; NULL: none was named. */
static int answer(const struct topo_settings *settings, const char *word)
{
    motetTopo_t topo = NULL;
    enum binding binding = BINDING_NONE;
    int64_t pid = 0;
    bool running = settings->running || word;
    if (settings->binding)
        binding_parse(settings->binding, &binding);
    if (word && options_parse_int(word, &pid) && pid > 0 && pid <= INT32_MAX)
        word = NULL;
    int code = obtain(settings, running, &topo);
    if (code == EXIT_OK && settings->ranks && !topo_add_planned(topo, (int)settings->ranks, binding))
        code = EXIT_FAILED;
    if (code == EXIT_OK && running && !topo_add_running(topo, (int)pid, word, (int)settings->timeout_ms))
        code = EXIT_FAILED;
    if (code == EXIT_OK && settings->measure)
        code = measure(settings, topo);
    if (code == EXIT_OK)
        code = show(settings, topo);
    motetTopoFree(topo);
    return code;
}

static int run_topo(int argc, char **argv)
{
    struct topo_settings settings = {.time_ms = 1000, .timeout_ms = 2000};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_topo, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_topo);
    else if (rest.n > 1)
        code = usage_error("topo", "\"%s\" is too much: one process or one communicator", rest.items[1]);
    else if (settings.file && settings.root)
        code = usage_error("topo", "--file and --root exclude each other");
    else if (settings.xml && settings.json)
        code = usage_error("topo", "--xml and --json exclude each other");
    else if (settings.ranks && (settings.running || rest.n))
        code = usage_error("topo", "--nranks adds ranks that do not run: it excludes those of a job");
    else if (settings.measure && (settings.file || settings.root))
        code = usage_error("topo", "--measure measures this machine, not one of a file");
    else
        code = answer(&settings, rest.n ? rest.items[0] : NULL);
    free(rest.items);
    return code;
}

const struct command command_topo = {
    .name = "topo",
    .summary = "says who reaches whom by what: ranks, cores, caches, memory nodes, PCIe bridges, network cards, GPUs",
    .synopsis = "[OPTIONS] [PID | COMMUNICATOR]",
    .description =
        "Prints sockets, caches and cores of this machine, the matrix that nvidia-smi topo -m has made known, with words of its own for CPUs "
        "that share a core or a cache, network cards and GPUs with their PCIe links and interrupts, and what of it looks wrong. Only CPUs "
        "that may be used here are shown, and those that are left out are named.\n\n"
        "Ranks are added from a running job (a process is named by its pid, a communicator by its name or the beginning of its id), or as "
        "many as --nranks says. Where a rank may run on several CPUs, a path is what holds wherever it runs.\n\n"
        "Topologies are written and read as XML in NCCL's form, so the files that clouds provide for NCCL can be shown.",
    .exit_status =
        "0  printed\n1  the machine cannot be looked at, or there is no such job\n2  wrong usage, or a file that is wrong",
    .examples = "motet topo # this machine\n"
                "motet topo -n 4 --bind core # where four bound ranks would be\n"
                "motet topo --running # the job that runs\n"
                "motet topo --measure # with latency and bandwidth\n"
                "motet topo --xml >machine.xml # for MOTET_TOPO_FILE and motet explain --topo\n"
                "motet topo --file p5.xml --rows nics,gpus --svg p5.svg # a cloud's file",
    .words = "",
    .options = topo_options,
    .noptions = sizeof topo_options / sizeof topo_options[0],
    .run = run_topo,
};
