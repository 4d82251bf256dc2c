/* SPDX-License-Identifier: Apache-2.0
 * --help and the overview, printed from the command table. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

#define TEXT_COLUMN 32
#define WIDTH       100

/* Prints `text` broken into lines that start at column `indent`; the cursor stands at column `at`. */
static void print_wrapped(FILE *out, const char *text, int at, int indent)
{
    if (at > 0 && at >= indent) {
        fprintf(out, "\n");
        at = 0;
    }
    while (*text) {
        size_t word = strcspn(text, " \n");
        if (at + 1 + (int)word > WIDTH && at > indent) {
            fprintf(out, "\n");
            at = 0;
        }
        if (at < indent)
            at += fprintf(out, "%*s", indent - at, "");
        else if (at > indent)
            at += fprintf(out, " ");
        at += fprintf(out, "%.*s", (int)word, text);
        text += word;
        if (*text == '\n' && text[1] == '\n') {
            fprintf(out, "\n\n");
            at = 0;
            text++;
        }
        text += strspn(text, " \n");
    }
    fprintf(out, "\n");
}

static void print_option(const struct option_row *row)
{
    char left[128];
    char sentence[640];
    const char *value = row->argument ? row->argument : "";
    if (row->letter)
        snprintf(left, sizeof left, "  -%c, --%s%s%s", row->letter, row->name, *value ? " " : "", value);
    else if (row->kind == OPTION_WISH)
        snprintf(left, sizeof left, "      --%s[=%s]", row->name, value);
    else
        snprintf(left, sizeof left, "      --%s%s%s", row->name, *value ? " " : "", value);
    if (row->fallback)
        snprintf(sentence, sizeof sentence, "%s (default: %s)", row->sentence, row->fallback);
    else
        snprintf(sentence, sizeof sentence, "%s", row->sentence);
    print_wrapped(stdout, sentence, printf("%s", left), TEXT_COLUMN);
}

static void print_lines(const char *title, const char *text)
{
    if (!text)
        return;
    printf("\n%s\n", title);
    while (*text) {
        size_t len = strcspn(text, "\n");
        printf("  %.*s\n", (int)len, text);
        text += len;
        text += *text == '\n';
    }
}

void help_print_command(const struct command *command)
{
    printf("motet %s: %s\n\nusage: motet %s %s\n\n", command->name, command->summary, command->name, command->synopsis);
    print_wrapped(stdout, command->description, 0, 0);
    printf("\noptions\n");
    for (size_t i = 0; i < command->noptions; i++)
        print_option(&command->options[i]);
    print_wrapped(stdout, "Shows this text.", printf("  -h, --help"), TEXT_COLUMN);
    print_lines("exit status", command->exit_status);
    print_lines("examples", command->examples);
}

void help_print_overview(int stream_fd)
{
    FILE *out = stream_fd == STDERR_FILENO ? stderr : stdout;
    fprintf(out, "motet: collective communication on CPU memory\n\nusage: motet COMMAND [OPTIONS]\n\ncommands\n");
    for (size_t i = 0; commands[i]; i++)
        print_wrapped(out, commands[i]->summary, fprintf(out, "  %s", commands[i]->name), 12);
    fprintf(out, "\nmotet COMMAND --help describes a command. Exit status: 0 done, 1 failed, 2 wrong usage; motet run passes on\n"
                 "the status of the program.\n");
}
