/* SPDX-License-Identifier: Apache-2.0
 * `motet help` and `motet version`. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "motet.h"

struct help_settings {
    const char *man;
    const char *completion;
};

static const struct option_row help_options[] = {
    {0, "man", "COMMAND", OPTION_TEXT, offsetof(struct help_settings, man), 0, 0, NULL, NULL,
     "Prints the manual page of a command in roff; \"motet\" is the page of the program itself."},
    {0, "completion", "SHELL", OPTION_CHOICE, offsetof(struct help_settings, completion), 0, 0, "bash|zsh|fish", NULL,
     "Prints the completion script for a shell."},
};

static int print_man(const char *name)
{
    const struct command *command = strcmp(name, "motet") ? command_find(name) : NULL;
    if (!command && strcmp(name, "motet")) {
        command_unknown(name);
        return EXIT_USAGE;
    }
    man_page_print(command);
    return EXIT_OK;
}

static int run_help(int argc, char **argv)
{
    struct help_settings settings = {0};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_help, argc, argv, &settings, false, &rest);
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE) {
        code = EXIT_USAGE;
    } else if (parsed == OPTIONS_HELP) {
        help_print_command(&command_help);
    } else if (settings.man) {
        code = print_man(settings.man);
    } else if (settings.completion) {
        completion_print(settings.completion);
    } else if (rest.n == 0) {
        help_print_overview(STDOUT_FILENO);
    } else if (command_find(rest.items[0])) {
        help_print_command(command_find(rest.items[0]));
    } else {
        command_unknown(rest.items[0]);
        code = EXIT_USAGE;
    }
    free(rest.items);
    return code;
}

const struct command command_help = {
    .name = "help",
    .summary = "describes a command; prints manual pages and completion scripts",
    .synopsis = "[COMMAND] | --man COMMAND | --completion SHELL",
    .description = "Without arguments, lists the commands.",
    .exit_status = "0  printed\n2  wrong usage",
    .examples = "motet help run # describes motet run\n"
                "motet help --man perf | man -l - # shows a manual page\n"
                "source <(motet help --completion bash) # completion in this shell",
    .words = "run perf explain plan env help version",
    .options = help_options,
    .noptions = sizeof help_options / sizeof help_options[0],
    .run = run_help,
};

static int run_version(int argc, char **argv)
{
    struct arguments rest = {0};
    char nothing;
    enum options_result parsed = options_parse(&command_version, argc, argv, &nothing, false, &rest);
    int linked = 0;
    free(rest.items);
    if (parsed == OPTIONS_USAGE || (parsed == OPTIONS_OK && rest.n))
        return parsed == OPTIONS_USAGE ? EXIT_USAGE : usage_error("version", "takes no arguments");
    if (parsed == OPTIONS_HELP) {
        help_print_command(&command_version);
        return EXIT_OK;
    }
    if (motetGetVersion(&linked) != motetSuccess)
        return EXIT_FAILED;
    printf("motet %d.%d.%d (library %d)\n", MOTET_MAJOR, MOTET_MINOR, MOTET_PATCH, linked);
    return EXIT_OK;
}

const struct command command_version = {
    .name = "version",
    .summary = "prints the version of the program and of the library it uses",
    .synopsis = "",
    .description = "Prints one line.",
    .exit_status = "0  printed\n2  wrong usage",
    .words = "",
    .run = run_version,
};
