/* SPDX-License-Identifier: Apache-2.0
 * `motet run`: starts a program as the ranks of a job, on this host or on several. Here: the options. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "binding.h"
#include "command.h"
#include "launch.h"
#include "shepherd.h"

#define RANKS_MAX 65536

struct run_settings {
    int64_t nranks, max_restarts, timeout_ms, grace_ms, start_timeout_ms, master_port;
    const char *hosts, *hostfile, *ssh, *remote_path, *directory, *binding, *master_address, *report;
    struct option_list variables;
    bool agent, keep_going, no_prefix, quiet;
};

#define AT(member) offsetof(struct run_settings, member)

static const struct option_row run_options[] = {
    {'n', "nranks", "N", OPTION_INT, AT(nranks), 1, RANKS_MAX, NULL, "one per CPU, or one per slot of the hosts",
     "Number of ranks."},
    {'H', "hosts", "LIST", OPTION_TEXT, AT(hosts), 0, 0, NULL, NULL,
     "Hosts to start on over ssh, with the number of ranks where it matters: a,b:2. Ranks are dealt in blocks of neighbours."},
    {0, "hostfile", "FILE", OPTION_TEXT, AT(hostfile), 0, 0, NULL, NULL,
     "File with one host per line: name, name:2 or name slots=2; # begins a comment."},
    {'e', "env", "NAME[=VALUE]", OPTION_LIST, AT(variables), 0, 0, NULL, NULL,
     "Sets a variable for all ranks, or passes on the launcher's; may be repeated. MOTET_ and OMP_ variables reach other hosts anyway."},
    {'b', "bind", "HOW", OPTION_CHOICE, AT(binding), 0, 0, "core|numa|none", "none",
     "Binds each rank to its share of the CPUs (core) or to the CPUs of a memory node (numa)."},
    {0, "max-restarts", "K", OPTION_INT, AT(max_restarts), 0, 1000000, NULL, "0",
     "Starts the whole job again after a failure, at most K times."},
    {0, "keep-going", NULL, OPTION_FLAG, AT(keep_going), 0, 0, NULL, NULL,
     "A rank that fails does not end the others: for programs that go on without it. They are told why it ended."},
    {0, "timeout", "TIME", OPTION_TIME, AT(timeout_ms), 0, INT64_MAX / 4, NULL, "none",
     "Ends the job after this long; exit status 124."},
    {0, "grace", "TIME", OPTION_TIME, AT(grace_ms), 0, 86400000, NULL, "5s",
     "Time between SIGTERM and SIGKILL when the job is ended."},
    {0, "no-prefix", NULL, OPTION_FLAG, AT(no_prefix), 0, 0, NULL, NULL, "Prints the ranks' lines without [rank] in front."},
    {'q', "quiet", NULL, OPTION_FLAG, AT(quiet), 0, 0, NULL, NULL, "Says nothing but failures."},
    {0, "report", "FILE", OPTION_WISH, AT(report), 0, 0, NULL, "-",
     "Where the time of the job went, who kept the others waiting, and what helps: rank 0 writes it at the end, as JSON if the file's name "
     "ends in .json; - is its stderr."},
    {0, "directory", "DIR", OPTION_TEXT, AT(directory), 0, 0, NULL, "the current one", "Working directory of the ranks."},
    {0, "master-addr", "ADDRESS", OPTION_TEXT, AT(master_address), 0, 0, NULL, "rank 0's host", "MASTER_ADDR of the ranks."},
    {0, "master-port", "PORT", OPTION_INT, AT(master_port), 1, 65535, NULL, "a free one", "MASTER_PORT of the ranks."},
    {0, "ssh", "COMMAND", OPTION_TEXT, AT(ssh), 0, 0, NULL, "ssh -o BatchMode=yes",
     "Command that runs another one on a host: it is given the host's name and the command line."},
    {0, "remote-path", "FILE", OPTION_TEXT, AT(remote_path), 0, 0, NULL, "the same path as here",
     "The motet program on the other hosts."},
    {0, "start-timeout", "TIME", OPTION_TIME, AT(start_timeout_ms), 0, 86400000, NULL, "60s",
     "Time that other hosts have to answer."},
    {0, "agent", NULL, OPTION_FLAG, AT(agent), 0, 0, NULL, NULL, "Used by motet run itself on other hosts."},
};

static bool collect_hosts(const struct run_settings *settings, struct hosts *hosts)
{
    char error[512];
    if ((settings->hosts && !hosts_parse_list(hosts, settings->hosts, error, sizeof error)) ||
        (settings->hostfile && !hosts_parse_file(hosts, settings->hostfile, error, sizeof error))) {
        usage_error("run", "%s: %s", settings->hosts ? "--hosts" : "--hostfile", error);
        return false;
    }
    return true;
}

/* The variables of --env, and for other hosts what begins with MOTET_ or OMP_. Malloced; NULL and a message on failure. */
static char **collect_variables(const struct run_settings *settings, bool other_hosts)
{
    size_t n = (size_t)settings->variables.n + 2;
    for (char **at = environ; *at; at++)
        n++;
    char **variables = calloc(n, sizeof *variables);
    size_t used = 0;
    for (char **at = environ; variables && other_hosts && *at; at++)
        if (!strncmp(*at, "MOTET_", 6) || !strncmp(*at, "OMP_", 4))
            variables[used++] = strdup(*at);
    for (int i = 0; variables && i < settings->variables.n; i++) {
        const char *item = settings->variables.items[i];
        const char *value = strchr(item, '=') ? NULL : getenv(item);
        char *text = NULL;
        if (!strchr(item, '=') && !value) {
            usage_error("run", "--env %s: it is not set here, so it needs a value: --env %s=VALUE", item, item);
            free(variables);
            return NULL;
        }
        if (asprintf(&text, value ? "%s=%s" : "%s", item, value) < 0)
            text = NULL;
        variables[used++] = text;
    }
    char *report = NULL;
    if (variables && settings->report && asprintf(&report, "MOTET_REPORT=%s", settings->report) >= 0)
        variables[used++] = report;
    return variables;
}

/* Whether all ranks go to this host without ssh: no hosts, or only "localhost". */
static bool is_local(const struct hosts *hosts)
{
    for (int i = 0; i < hosts->n; i++)
        if (strcmp(hosts->items[i].name, "localhost"))
            return false;
    return true;
}

static bool deal_ranks(const struct run_settings *settings, struct launch_settings *launch)
{
    char error[256];
    if (!launch->hosts.n) {
        launch->nranks = settings->nranks ? (int)settings->nranks : binding_cpu_count();
        return true;
    }
    launch->nranks = hosts_deal(&launch->hosts, (int)settings->nranks, error, sizeof error);
    if (launch->nranks < 0)
        usage_error("run", "--nranks: %s", error);
    return launch->nranks > 0;
}

static int start(const struct run_settings *settings, char **words)
{
    char *own = command_own_path();
    char directory[4096];
    struct launch_settings launch = {
        .argv = words,
        .ssh = settings->ssh,
        .program = settings->remote_path ? settings->remote_path
                   : own                 ? own
                                         : "motet",
        .directory = settings->directory,
        .master_address = settings->master_address,
        .master_port = (int)settings->master_port,
        .max_restarts = (int)settings->max_restarts,
        .timeout_ms = settings->timeout_ms,
        .grace_ms = settings->grace_ms,
        .start_timeout_ms = settings->start_timeout_ms,
        .prefixes = !settings->no_prefix,
        .quiet = settings->quiet,
        .keep_going = settings->keep_going,
    };
    int code = EXIT_USAGE;
    binding_parse(settings->binding, &launch.binding);
    if (!collect_hosts(settings, &launch.hosts) || !deal_ranks(settings, &launch))
        goto done;
    if (is_local(&launch.hosts))
        hosts_free(&launch.hosts);
    else if (!launch.directory)
        launch.directory = getcwd(directory, sizeof directory);
    launch.variables = collect_variables(settings, launch.hosts.n > 0);
    if (launch.variables)
        code = shepherd_run(launch_main, &launch);
done:
    for (char **at = launch.variables; at && *at; at++)
        free(*at);
    free(launch.variables);
    hosts_free(&launch.hosts);
    free(own);
    return code;
}

static int run_run(int argc, char **argv)
{
    struct run_settings settings = {.ssh = "ssh -o BatchMode=yes", .binding = "none", .grace_ms = 5000, .start_timeout_ms = 60000};
    struct arguments rest = {0};
    int code = EXIT_USAGE;
    enum options_result parsed = options_parse(&command_run, argc, argv, &settings, true, &rest);
    if (parsed == OPTIONS_HELP) {
        help_print_command(&command_run);
        code = EXIT_OK;
    } else if (parsed == OPTIONS_OK && settings.agent) {
        code = rest.n ? usage_error("run", "--agent takes no program") : shepherd_run(agent_main, NULL);
    } else if (parsed == OPTIONS_OK && !rest.n) {
        code = usage_error("run", "which program? usage: motet run %s", command_run.synopsis);
    } else if (parsed == OPTIONS_OK) {
        code = start(&settings, rest.items);
    }
    free(settings.variables.items);
    free(rest.items);
    return code;
}

const struct command command_run = {
    .name = "run",
    .summary = "starts a program as the ranks of a job, on this host or on several",
    .synopsis = "[-n N] [--hosts LIST] [OPTIONS] PROGRAM [ARGUMENTS]",
    .description =
        "Starts N copies of the program. Each finds its place in torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
        "GROUP_RANK, MASTER_ADDR, MASTER_PORT and others) and in motet's (MOTET_RANK, MOTET_NRANKS, MOTET_LOCAL_RANK, MOTET_UNIQUE_ID, "
        "MOTET_ROOT, MOTET_SECRET), which motetCommInitEnv reads. OMP_NUM_THREADS is set to CPUs / ranks unless it is set already.\n\n"
        "What the ranks print comes out in whole lines with [rank] in front ([host:rank] on several hosts), stdout and stderr kept apart. "
        "Rank 0 reads the launcher's stdin, the others read nothing.\n\n"
        "When a rank fails, it is named with its exit code or signal, the others get SIGTERM and after the grace time SIGKILL, and "
        "motet run exits with the code of that first failure. SIGINT, SIGTERM and SIGHUP are passed on and end the job, a second one kills "
        "it; SIGUSR1, SIGUSR2 and SIGQUIT are passed on. At the end everything that the ranks started is ended too, also what left their "
        "session, and also when motet run itself is killed.\n\n"
        "Other hosts need ssh without a password and the motet program at the same path (or --remote-path).",
    .exit_status = "0  all ranks exited with 0\n"
                   "2  wrong usage\n"
                   "124  the time of --timeout was over\n"
                   "126, 127  the program could not be run, or was not found\n"
                   "128 + S  a rank was killed by signal S\n"
                   "other  the exit code of the rank that failed first; 1 when a host could not be reached",
    .examples = "motet run -n 4 ./train # four ranks on this host\n"
                "motet run --hosts a:2,b:2 ./train # two ranks on each of two hosts\n"
                "motet run -n 4 --report ./train # and where the time went\n"
                "motet run -n 2 --bind core python train.py # a share of the CPUs for each rank\n"
                "motet run -n 2 all_reduce_perf -g 4 # 8 ranks: threads of two processes",
    .options = run_options,
    .noptions = sizeof run_options / sizeof run_options[0],
    .run = run_run,
};
