/* SPDX-License-Identifier: Apache-2.0
 * Manual pages in roff (man macros), printed from the command table; the build installs them as motet(1) and motet-<command>(1). */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "motet.h"

/* Prints text with what roff would interpret escaped. `at_start`: the next character begins a line. */
static void print_text(const char *text, size_t len, bool at_start)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (at_start && (c == '.' || c == '\''))
            fputs("\\&", stdout);
        if (c == '\\')
            fputs("\\e", stdout);
        else if (c == '-')
            fputs("\\-", stdout);
        else
            putchar(c);
        at_start = c == '\n';
    }
}

static void print_paragraphs(const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        print_text(text, len, true);
        fputs("\n", stdout);
        text += len;
        if (*text)
            fputs(".PP\n", stdout);
        text += strspn(text, "\n");
    }
}

/* Lines "left SEPARATOR right" as a list of tagged paragraphs. */
static void print_tagged_lines(const char *title, const char *text, const char *separator)
{
    if (!text)
        return;
    printf(".SH %s\n", title);
    while (*text) {
        size_t len = strcspn(text, "\n");
        const char *split = strstr(text, separator);
        size_t left = split && split < text + len ? (size_t)(split - text) : len;
        fputs(".TP\n.B ", stdout);
        print_text(text, left, true);
        fputs("\n", stdout);
        if (left < len)
            print_text(text + left + strlen(separator), len - left - strlen(separator), true);
        fputs("\n", stdout);
        text += len;
        text += *text == '\n';
    }
}

static void print_title(const char *name)
{
    char upper[64];
    size_t i = 0;
    for (; name[i] && i < sizeof upper - 1; i++)
        upper[i] = (char)toupper((unsigned char)name[i]);
    upper[i] = '\0';
    printf(".TH %s 1 \"\" \"motet %d.%d.%d\" \"motet\"\n", upper, MOTET_MAJOR, MOTET_MINOR, MOTET_PATCH);
}

static void print_option(const struct option_row *row)
{
    fputs(".TP\n", stdout);
    if (row->letter)
        printf("\\fB\\-%c\\fR, ", row->letter);
    fputs("\\fB\\-\\-", stdout);
    print_text(row->name, strlen(row->name), false);
    fputs("\\fR", stdout);
    if (row->argument) {
        bool wish = row->kind == OPTION_WISH;
        fputs(wish ? "[=\\fI" : " \\fI", stdout);
        print_text(row->argument, strlen(row->argument), false);
        fputs(wish ? "\\fR]" : "\\fR", stdout);
    }
    fputs("\n", stdout);
    print_text(row->sentence, strlen(row->sentence), true);
    if (row->fallback) {
        fputs(" Default: ", stdout);
        print_text(row->fallback, strlen(row->fallback), false);
        fputs(".", stdout);
    }
    fputs("\n", stdout);
}

static void print_overview(void)
{
    print_title("motet");
    fputs(".SH NAME\nmotet \\- collective communication on CPU memory\n.SH SYNOPSIS\n.B motet\n.I COMMAND\n[\\fIOPTIONS\\fR]\n"
          ".SH DESCRIPTION\nStarts programs of several ranks, measures the collectives and explains the settings of the motet "
          "library.\n.SH COMMANDS\n",
          stdout);
    for (size_t i = 0; commands[i]; i++) {
        printf(".TP\n.BR motet\\-%s (1)\n", commands[i]->name);
        print_text(commands[i]->summary, strlen(commands[i]->summary), true);
        fputs(".\n", stdout);
    }
    fputs(
        ".SH EXIT STATUS\n0 when done, 1 when it failed, 2 when it was called in a wrong way; \\fBmotet run\\fR passes on the status "
        "of the program.\n",
        stdout);
}

void man_page_print(const struct command *command)
{
    char name[64];
    if (!command) {
        print_overview();
        return;
    }
    snprintf(name, sizeof name, "motet-%s", command->name);
    print_title(name);
    printf(".SH NAME\nmotet\\-%s \\- ", command->name);
    print_text(command->summary, strlen(command->summary), false);
    printf("\n.SH SYNOPSIS\n.B motet %s\n", command->name);
    print_text(command->synopsis, strlen(command->synopsis), true);
    fputs("\n.SH DESCRIPTION\n", stdout);
    print_paragraphs(command->description);
    if (command->noptions) {
        fputs(".SH OPTIONS\n", stdout);
        for (size_t i = 0; i < command->noptions; i++)
            print_option(&command->options[i]);
    }
    print_tagged_lines("EXIT STATUS", command->exit_status, "  ");
    print_tagged_lines("EXAMPLES", command->examples, " # ");
    fputs(".SH SEE ALSO\n.BR motet (1)\n", stdout);
}
