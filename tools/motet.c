/* SPDX-License-Identifier: Apache-2.0
 * The `motet` program: a table of commands and the choice among them, by the first argument or by the name that the program was
 * started under (all_reduce_perf and the like). It knows nothing about what a command does. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

const struct command *const commands[] = {
    &command_run,  &command_perf, &command_status, &command_trace, &command_explain, &command_plan, &command_sim,
    &command_topo, &command_tune, &command_env,    &command_help,  &command_version, NULL,
};

const struct command *command_find(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

void command_unknown(const char *name)
{
    char words[512] = "";
    size_t used = 0;
    for (size_t i = 0; commands[i]; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s ", commands[i]->name);
    const char *nearest = options_nearest(name, words);
    if (nearest)
        usage_error("", "unknown command \"%s\"; did you mean %s?", name, nearest);
    else
        usage_error("", "unknown command \"%s\"; motet help lists the commands", name);
}

char *command_own_path(void)
{
    char path[4096];
    ssize_t len = readlink("/proc/self/exe", path, sizeof path - 1);
    if (len <= 0)
        return NULL;
    path[len] = '\0';
    return strdup(path);
}

/* "all_reduce_perf" runs as "motet perf all_reduce". */
static int run_as_perf(const char *name, int argc, char **argv)
{
    char collective[64];
    char word[] = "perf";
    snprintf(collective, sizeof collective, "%.*s", (int)(strlen(name) - strlen("_perf")), name);
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (!words)
        return usage_error("perf", "out of memory");
    words[0] = word;
    words[1] = collective;
    for (int i = 1; i < argc; i++)
        words[i + 1] = argv[i];
    int code = command_perf.run(argc + 1, words);
    free(words);
    return code;
}

/* An earlier write may have failed, and the last one, of less, not. */
static int finish(int code)
{
    bool failed = ferror(stdout);
    if ((fflush(stdout) || failed) && errno != EPIPE) {
        fprintf(stderr, "motet: cannot write the output: %s\n", strerror(errno));
        return code ? code : EXIT_FAILED;
    }
    return code;
}

/* Started without 0, 1 or 2, the next file would take their place and get the output. These take it, and refuse like a closed one. */
static void fill_standard_streams(void)
{
    static const int refusing[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", refusing[fd]) != fd)
            return;
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "motet";
    size_t len = strlen(name);
    if (len > 5 && !strcmp(name + len - 5, "_perf"))
        return finish(run_as_perf(name, argc, argv));
    if (argc < 2) {
        help_print_overview(STDERR_FILENO);
        return EXIT_USAGE;
    }
    const char *word = argv[1];
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        word = "help";
    if (!strcmp(word, "--version") || !strcmp(word, "-V"))
        word = "version";
    const struct command *command = command_find(word);
    if (!command) {
        command_unknown(word);
        return EXIT_USAGE;
    }
    return finish(command->run(argc - 1, argv + 1));
}
