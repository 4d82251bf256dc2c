/* SPDX-License-Identifier: Apache-2.0
 * `motet env`: every setting, its value and where it came from; NCCL's variables beside their counterparts; the docs page. */
#include <ctype.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "motet.h"

struct env_settings {
    bool json, from_nccl, markdown;
};

static const struct option_row env_options[] = {
    {0, "json", NULL, OPTION_FLAG, offsetof(struct env_settings, json), 0, 0, NULL, NULL,
     "Prints a JSON array instead of the table."},
    {0, "from-nccl", NULL, OPTION_FLAG, offsetof(struct env_settings, from_nccl), 0, 0, NULL, NULL,
     "Prints export lines that give the NCCL_ variables which are set to motet; those without a counterpart become comments."},
    {0, "markdown", NULL, OPTION_FLAG, offsetof(struct env_settings, markdown), 0, 0, NULL, NULL,
     "Prints the settings page of the documentation."},
};

static int setting_count(void)
{
    int n = 0;
    return motetParamCount(&n) == motetSuccess ? n : 0;
}

static bool setting(int index, motetParamInfo_t *info)
{
    memset(info, 0, sizeof *info);
    if (motetParamInfo(index, info) != motetSuccess)
        return false;
    bool secret = !strcmp(info->name, "MOTET_SECRET") || !strcmp(info->name, "MOTET_UNIQUE_ID");
    if (secret && info->value[0])
        info->value = "(set)"; /* what is printed may end up in a log */
    return true;
}

/* The setting called MOTET_<suffix>; false when there is none. */
static bool find_setting(const char *suffix, motetParamInfo_t *info)
{
    int n = setting_count();
    for (int i = 0; i < n; i++)
        if (setting(i, info) && !strncmp(info->name, "MOTET_", 6) && !strcmp(info->name + 6, suffix))
            return true;
    return false;
}

/* Splits "NCCL_X=value" of the environment; false when it is another variable. */
static bool nccl_variable(const char *entry, char *suffix, size_t size, const char **value)
{
    const char *equals = strchr(entry, '=');
    if (strncmp(entry, "NCCL_", 5) || !equals || (size_t)(equals - entry) >= size + 5)
        return false;
    snprintf(suffix, size, "%.*s", (int)(equals - entry - 5), entry + 5);
    *value = equals + 1;
    return true;
}

static void print_shell_quoted(const char *text)
{
    putchar('\'');
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*text);
    putchar('\'');
}

static int print_exports(void)
{
    for (char **at = environ; *at; at++) {
        char suffix[128];
        const char *value;
        motetParamInfo_t info;
        if (!nccl_variable(*at, suffix, sizeof suffix, &value))
            continue;
        if (find_setting(suffix, &info)) {
            printf("export MOTET_%s=", suffix);
            print_shell_quoted(value);
            printf("\n");
        } else {
            printf("# NCCL_%s has no counterpart\n", suffix);
        }
    }
    return EXIT_OK;
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static int print_json(void)
{
    json_t *all = json_array();
    int n = setting_count();
    int code = EXIT_OK;
    for (int i = 0; i < n; i++) {
        motetParamInfo_t info;
        if (!setting(i, &info))
            continue;
        char nccl_name[160];
        snprintf(nccl_name, sizeof nccl_name, "NCCL_%s", info.name + strlen("MOTET_"));
        json_t *row = json_object();
        const struct {
            const char *key, *value;
        } members[] = {{"name", info.name},   {"value", info.value},      {"source", info.source}, {"default", info.defaultValue},
                       {"type", info.type},   {"unit", info.unit},        {"range", info.range},   {"sentence", info.sentence},
                       {"error", info.error}, {"nccl", getenv(nccl_name)}};
        for (size_t k = 0; k < sizeof members / sizeof members[0]; k++)
            json_object_set_new(row, members[k].key, text_or_null(members[k].value));
        json_array_append_new(all, row);
        if (info.error)
            code = EXIT_FAILED;
    }
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
    return code;
}

/* A cell of a Markdown table. */
static void print_cell(const char *text, bool code)
{
    fputs(code && text[0] ? " `" : " ", stdout);
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
    fputs(code ? "` |" : " |", stdout);
}

static int print_markdown(void)
{
    int n = setting_count();
    printf(
        "# Settings\n\n<!-- Printed by `motet env --markdown`; not to be edited by hand. -->\n\n"
        "Environment variables, read once by the first call of the library. Sizes take K, M and G (binary), times take ms, s, min and\n"
        "h, switches take 0/1, true/false, yes/no, on/off. A value that cannot be read is an error of init; a MOTET_ name that does not\n"
        "exist is a warning that names the nearest real one. `motet env` shows what is in force.\n\n"
        "| variable | default | values | what it does |\n|---|---|---|---|\n");
    for (int i = 0; i < n; i++) {
        motetParamInfo_t info;
        char values[256];
        if (!setting(i, &info))
            continue;
        snprintf(values, sizeof values, "%s%s%s%s%s", info.type, info.range[0] ? ", " : "", info.range, info.unit[0] ? " " : "",
                 info.unit);
        printf("|");
        print_cell(info.name, true);
        if (info.defaultValue[0])
            print_cell(info.defaultValue, true);
        else
            print_cell("unset", false);
        print_cell(values, false);
        print_cell(info.sentence, false);
        printf("\n");
    }
    return EXIT_OK;
}

static void print_nccl_variables(void)
{
    bool any = false;
    for (char **at = environ; *at; at++) {
        char suffix[128];
        const char *value;
        motetParamInfo_t info;
        if (!nccl_variable(*at, suffix, sizeof suffix, &value))
            continue;
        if (!any)
            printf("\nNCCL's variables are set and are not read by motet (motet env --from-nccl prints exports):\n");
        any = true;
        if (find_setting(suffix, &info))
            printf("  NCCL_%s=%s -> MOTET_%s, now \"%s\"\n", suffix, value, suffix, info.value);
        else
            printf("  NCCL_%s=%s has no counterpart\n", suffix, value);
    }
}

static int print_table(void)
{
    int n = setting_count(), name_width = 4, value_width = 5;
    int code = EXIT_OK;
    for (int i = 0; i < n; i++) {
        motetParamInfo_t info;
        if (!setting(i, &info))
            continue;
        int name_len = (int)strlen(info.name), value_len = (int)strlen(info.value);
        name_width = name_len > name_width ? name_len : name_width;
        value_width = value_len > value_width && value_len < 32 ? value_len : value_width;
    }
    printf("%-*s  %-*s  %-11s  %-5s  %s\n", name_width, "NAME", value_width, "VALUE", "SOURCE", "UNIT", "WHAT IT DOES");
    for (int i = 0; i < n; i++) {
        motetParamInfo_t info;
        if (!setting(i, &info))
            continue;
        printf("%-*s  %-*s  %-11s  %-5s  %s\n", name_width, info.name, value_width, info.value[0] ? info.value : "-", info.source,
               info.unit, info.sentence);
        if (info.error) {
            printf("%-*s  refused: %s\n", name_width, "", info.error);
            code = EXIT_FAILED;
        }
    }
    print_nccl_variables();
    return code;
}

static int run_env(int argc, char **argv)
{
    struct env_settings settings = {0};
    struct arguments rest = {0};
    enum options_result parsed = options_parse(&command_env, argc, argv, &settings, false, &rest);
    bool word = rest.n > 0;
    const char *first = word ? rest.items[0] : "";
    int code = EXIT_OK;
    if (parsed == OPTIONS_USAGE)
        code = EXIT_USAGE;
    else if (parsed == OPTIONS_HELP)
        help_print_command(&command_env);
    else if (word)
        code = usage_error("env", "\"%s\" is not understood; the command takes options only", first);
    else if (settings.json + settings.from_nccl + settings.markdown > 1)
        code = usage_error("env", "--json, --from-nccl and --markdown exclude each other");
    else if (settings.json)
        code = print_json();
    else if (settings.from_nccl)
        code = print_exports();
    else
        code = settings.markdown ? print_markdown() : print_table();
    free(rest.items);
    return code;
}

const struct command command_env = {
    .name = "env",
    .summary = "prints every setting, its value and where it came from",
    .synopsis = "[--json | --from-nccl | --markdown]",
    .description =
        "Prints the MOTET_ variables as the library sees them in this environment. NCCL's variables are never read by motet; those "
        "that are set are listed beside their counterparts.",
    .exit_status = "0  printed\n1  a variable has a value that init would refuse\n2  wrong usage",
    .examples = "motet env # the table\n"
                "eval \"$(motet env --from-nccl)\" # takes NCCL's variables over\n"
                "motet env --json # for programs",
    .words = "",
    .options = env_options,
    .noptions = sizeof env_options / sizeof env_options[0],
    .run = run_env,
};
