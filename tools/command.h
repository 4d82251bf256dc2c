/* SPDX-License-Identifier: Apache-2.0
 * A command of the `motet` program: one of these structs, defined in its own cmd_<name>.c and listed once in motet.c. Parsing,
 * --help, the man page and shell completion are all made from the struct, so that they cannot disagree. */
#ifndef MOTET_TOOLS_COMMAND_H
#define MOTET_TOOLS_COMMAND_H

#include "options.h"

enum exit_code {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_SLOWER = 3, /* slower than the baseline */
    EXIT_TIMED_OUT = 124,
    EXIT_CANNOT_RUN = 126,
    EXIT_NOT_FOUND = 127,
};

struct command {
    const char *name;
    const char *summary;     /* half a sentence, no full stop */
    const char *synopsis;    /* what follows the command's name */
    const char *description; /* paragraphs, separated by empty lines */
    const char *exit_status; /* one line per code */
    const char *examples;    /* lines "command # what it does" */
    const char *words;       /* first arguments offered by completion, separated by spaces; NULL: files */
    const struct option_row *options;
    size_t noptions;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns the exit code */
};

/* All commands, in the order of the help text; ends with NULL. */
extern const struct command *const commands[];

extern const struct command command_run;
extern const struct command command_perf;
extern const struct command command_status;
extern const struct command command_trace;
extern const struct command command_explain;
extern const struct command command_plan;
extern const struct command command_sim;
extern const struct command command_topo;
extern const struct command command_tune;
extern const struct command command_env;
extern const struct command command_help;
extern const struct command command_version;

/* The command of that name, or NULL. */
const struct command *command_find(const char *name);

/* Complains about an unknown command and names the nearest one. */
void command_unknown(const char *name);

/* --help of one command, on stdout. */
void help_print_command(const struct command *command);

/* The list of commands, on `stream_fd` 1 or 2. */
void help_print_overview(int stream_fd);

/* roff of motet-<name>(1), or of motet(1) when command is NULL; on stdout. */
void man_page_print(const struct command *command);

/* Completion script for "bash", "zsh" or "fish"; false when the shell is unknown. */
bool completion_print(const char *shell);

/* Absolute path of this program, for starting it again; malloced. NULL when /proc is not mounted. */
char *command_own_path(void);

#endif
