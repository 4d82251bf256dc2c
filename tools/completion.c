/* SPDX-License-Identifier: Apache-2.0
 * Completion scripts for bash, zsh and fish, printed from the command table. */
#include <stdio.h>
#include <string.h>

#include "command.h"

static void print_choices(const char *choices)
{
    for (const char *at = choices; *at; at++)
        putchar(*at == '|' ? ' ' : *at);
}

static void bash_command(const struct command *command)
{
    printf("    %s)\n        case $previous in\n", command->name);
    for (size_t i = 0; i < command->noptions; i++) {
        const struct option_row *row = &command->options[i];
        if (!row->argument || row->kind == OPTION_WISH)
            continue;
        printf("        --%s", row->name);
        if (row->letter)
            printf("|-%c", row->letter);
        if (row->choices) {
            printf(") COMPREPLY=($(compgen -W '");
            print_choices(row->choices);
            printf("' -- \"$current\")); return ;;\n");
        } else {
            printf(") COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n");
        }
    }
    printf("        esac\n        case $current in\n        -*) COMPREPLY=($(compgen -W '--help");
    for (size_t i = 0; i < command->noptions; i++)
        printf(" --%s", command->options[i].name);
    printf("' -- \"$current\")) ;;\n");
    if (command->words)
        printf("        *) COMPREPLY=($(compgen -W '%s' -- \"$current\")) ;;\n", command->words);
    else
        printf("        *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n");
    printf("        esac ;;\n");
}

static void print_bash(void)
{
    printf(
        "# bash completion for motet\n_motet()\n{\n    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '");
    for (size_t i = 0; commands[i]; i++)
        printf("%s%s", i ? " " : "", commands[i]->name);
    printf("' -- \"$current\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; commands[i]; i++)
        bash_command(commands[i]);
    printf("    esac\n}\ncomplete -F _motet motet\n");
}

/* Text inside single quotes, with what zsh's _arguments and fish would interpret taken out. */
static void print_plain(const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (*text == '[' || *text == ']' || *text == ':')
            printf("\\%c", *text);
        else
            putchar(*text);
}

static void zsh_command(const struct command *command)
{
    printf("    %s)\n        _arguments '--help[Shows the help text.]'", command->name);
    for (size_t i = 0; i < command->noptions; i++) {
        const struct option_row *row = &command->options[i];
        printf(" \\\n            '--%s%s[", row->name, row->kind == OPTION_WISH ? "=-" : row->argument ? "=" : "");
        print_plain(row->sentence);
        printf("]");
        if (row->argument && row->choices) {
            printf(":%s:(", row->argument);
            print_choices(row->choices);
            printf(")");
        } else if (row->argument) {
            printf(":%s:_files", row->argument);
        }
        printf("'");
    }
    if (command->words)
        printf(" \\\n            '*:word:(%s)' ;;\n", command->words);
    else
        printf(" \\\n            '*:file:_files' ;;\n");
}

static void print_zsh(void)
{
    printf("#compdef motet\n# zsh completion for motet\n_motet()\n{\n    if (( CURRENT == 2 )); then\n        local -a names=(");
    for (size_t i = 0; commands[i]; i++) {
        printf("'%s:", commands[i]->name);
        print_plain(commands[i]->summary);
        printf("' ");
    }
    printf(
        ")\n        _describe command names\n        return\n    fi\n    local name=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
        "    case $name in\n");
    for (size_t i = 0; commands[i]; i++)
        zsh_command(commands[i]);
    printf("    esac\n}\n_motet \"$@\"\n");
}

static void fish_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

static void fish_command(const struct command *command)
{
    for (size_t i = 0; i < command->noptions; i++) {
        const struct option_row *row = &command->options[i];
        printf("complete -c motet -n '__fish_seen_subcommand_from %s' -l %s", command->name, row->name);
        if (row->letter)
            printf(" -s %c", row->letter);
        if (row->argument && row->kind != OPTION_WISH)
            printf(row->choices ? " -x" : " -r");
        if (row->argument && row->choices) {
            printf(" -a '");
            print_choices(row->choices);
            printf("'");
        }
        printf(" -d ");
        fish_quoted(row->sentence);
        printf("\n");
    }
    if (command->words)
        printf("complete -c motet -f -n '__fish_seen_subcommand_from %s' -a '%s'\n", command->name, command->words);
}

static void print_fish(void)
{
    printf("# fish completion for motet\n");
    for (size_t i = 0; commands[i]; i++) {
        printf("complete -c motet -f -n __fish_use_subcommand -a %s -d ", commands[i]->name);
        fish_quoted(commands[i]->summary);
        printf("\n");
    }
    for (size_t i = 0; commands[i]; i++)
        fish_command(commands[i]);
}

bool completion_print(const char *shell)
{
    if (!strcmp(shell, "bash"))
        print_bash();
    else if (!strcmp(shell, "zsh"))
        print_zsh();
    else if (!strcmp(shell, "fish"))
        print_fish();
    else
        return false;
    return true;
}
