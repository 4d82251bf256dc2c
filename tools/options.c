/* SPDX-License-Identifier: Apache-2.0
 * Parser of the option tables. Everything it knows about a command comes from the command's rows. */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

#define WORD_MAX 64

int usage_error(const char *command, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (command && command[0])
        fprintf(stderr, "motet %s: %s\n", command, text);
    else
        fprintf(stderr, "motet: %s\n", text);
    return EXIT_USAGE;
}

bool options_parse_int(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return false;
    *value = parsed;
    return true;
}

bool options_parse_size(const char *text, int64_t *bytes)
{
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0]))
        return false;
    long long value = strtoll(text, &end, 10);
    if (errno)
        return false;
    int shift = 0;
    switch (toupper((unsigned char)*end)) {
    case 'K':
        shift = 10;
        break;
    case 'M':
        shift = 20;
        break;
    case 'G':
        shift = 30;
        break;
    case 'T':
        shift = 40;
        break;
    default:
        break;
    }
    if (shift)
        end++;
    if (shift && end[0] == 'i' && end[1] == 'B')
        end += 2;
    else if (end[0] == 'B')
        end++;
    if (*end || value > INT64_MAX >> shift)
        return false;
    *bytes = value << shift;
    return true;
}

bool options_parse_time(const char *text, int64_t *milliseconds)
{
    static const struct {
        const char *name;
        double scale;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"sec", 1e3}, {"m", 60e3}, {"min", 60e3}, {"h", 3600e3}};
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].name))
            continue;
        if (value * units[i].scale > 1e15)
            return false;
        *milliseconds = (int64_t)(value * units[i].scale + 0.5);
        return true;
    }
    return false;
}

static int edit_distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int row[WORD_MAX + 1];
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return INT_MAX;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            int above = row[j];
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[b_len];
}

const char *options_nearest(const char *text, const char *words)
{
    static char nearest[WORD_MAX + 1];
    size_t len = strlen(text);
    int best = INT_MAX;
    for (const char *at = words; *at;) {
        size_t word_len = strcspn(at, " |,");
        int distance = edit_distance(text, len, at, word_len);
        /* A beginning of the word is a better guess than any misspelling of equal length. */
        if (len >= 3 && word_len > len && !strncmp(text, at, len))
            distance = 1;
        if (word_len && word_len <= WORD_MAX && distance < best) {
            best = distance;
            memcpy(nearest, at, word_len);
            nearest[word_len] = '\0';
        }
        at += word_len;
        at += strspn(at, " |,");
    }
    return best <= 1 + (int)len / 3 ? nearest : NULL;
}

static bool same_name(const char *name, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char a = name[i] == '_' ? '-' : name[i];
        char b = text[i] == '_' ? '-' : text[i];
        if (a != b)
            return false;
    }
    return true;
}

/* Finds a long option by its name or a unique beginning. NULL: unknown, or *ambiguous. */
static const struct option_row *find_long(const struct command *command, const char *text, size_t len, bool *ambiguous)
{
    const struct option_row *found = NULL;
    *ambiguous = false;
    for (size_t i = 0; i < command->noptions; i++) {
        const struct option_row *row = &command->options[i];
        if (strlen(row->name) < len || !same_name(row->name, text, len))
            continue;
        if (strlen(row->name) == len)
            return row;
        *ambiguous = found != NULL;
        found = row;
    }
    return *ambiguous ? NULL : found;
}

static const struct option_row *find_letter(const struct command *command, char letter)
{
    for (size_t i = 0; i < command->noptions; i++)
        if (command->options[i].letter == letter)
            return &command->options[i];
    return NULL;
}

static void complain_unknown(const struct command *command, const char *text, size_t len)
{
    char words[4096] = "help";
    size_t used = strlen(words);
    char name[WORD_MAX + 1];
    snprintf(name, sizeof name, "%.*s", (int)len, text);
    for (size_t i = 0; i < command->noptions; i++) {
        int n = snprintf(words + used, sizeof words - used, " %s", command->options[i].name);
        if (n < 0 || (size_t)n >= sizeof words - used)
            break;
        used += (size_t)n;
    }
    const char *nearest = options_nearest(name, words);
    if (nearest)
        usage_error(command->name, "unknown option --%s; did you mean --%s?", name, nearest);
    else
        usage_error(command->name, "unknown option --%s; see motet %s --help", name, command->name);
}

static bool word_in(const char *word, const char *choices)
{
    size_t len = strlen(word);
    for (const char *at = choices; *at;) {
        size_t n = strcspn(at, "|");
        if (n == len && !strncmp(at, word, n))
            return true;
        at += n;
        at += *at == '|';
    }
    return false;
}

static bool store_number(const struct command *command, const struct option_row *row, void *slot, const char *text)
{
    int64_t value = 0;
    bool ok = false;
    const char *what = "a whole number";
    if (row->kind == OPTION_SIZE) {
        ok = options_parse_size(text, &value);
        what = "a size such as 8, 64K, 1M or 2G";
    } else if (row->kind == OPTION_TIME) {
        ok = options_parse_time(text, &value);
        what = "a time such as 500ms, 2s or 10min";
    } else {
        ok = options_parse_int(text, &value);
    }
    if (!ok) {
        usage_error(command->name, "--%s: \"%s\" is not %s", row->name, text, what);
        return false;
    }
    if (value < row->min || value > row->max) {
        usage_error(command->name, "--%s: %s is outside %lld to %lld", row->name, text, (long long)row->min, (long long)row->max);
        return false;
    }
    memcpy(slot, &value, sizeof value);
    return true;
}

static bool store(const struct command *command, const struct option_row *row, void *into, const char *text)
{
    void *slot = (char *)into + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)slot = true;
        return true;
    case OPTION_INT:
    case OPTION_SIZE:
    case OPTION_TIME:
        return store_number(command, row, slot, text);
    case OPTION_CHOICE:
        if (!word_in(text, row->choices)) {
            const char *nearest = options_nearest(text, row->choices);
            usage_error(command->name, "--%s: \"%s\" is none of %s%s%s%s", row->name, text, row->choices,
                        nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
            return false;
        }
        *(const char **)slot = text;
        return true;
    case OPTION_TEXT:
    case OPTION_WISH:
        *(const char **)slot = text;
        return true;
    case OPTION_LIST: {
        struct option_list *list = slot;
        const char **items = realloc(list->items, (size_t)(list->n + 1) * sizeof *items);
        if (!items)
            return false;
        list->items = items;
        items[list->n++] = text;
        return true;
    }
    }
    return false;
}

/* One "--name", "--name=value" or "--name value" at argv[*at]; moves *at over what it used. */
static enum options_result parse_long(const struct command *command, int argc, char **argv, int *at, void *into)
{
    const char *text = argv[*at] + 2;
    size_t len = strcspn(text, "=");
    bool ambiguous;
    const struct option_row *row = find_long(command, text, len, &ambiguous);
    if (!row && len == 4 && !strncmp(text, "help", 4))
        return OPTIONS_HELP;
    if (ambiguous) {
        usage_error(command->name, "--%.*s is the beginning of several options; see motet %s --help", (int)len, text,
                    command->name);
        return OPTIONS_USAGE;
    }
    if (!row) {
        complain_unknown(command, text, len);
        return OPTIONS_USAGE;
    }
    const char *value = text[len] == '=' ? text + len + 1 : NULL;
    if (row->kind == OPTION_FLAG && value) {
        usage_error(command->name, "--%s takes no value", row->name);
        return OPTIONS_USAGE;
    }
    if (row->kind == OPTION_WISH && !value)
        value = row->fallback;
    if (row->kind == OPTION_WISH && !value[0]) {
        usage_error(command->name, "--%s=: %s is empty", row->name, row->argument);
        return OPTIONS_USAGE;
    }
    if (row->kind != OPTION_FLAG && !value) {
        if (*at + 1 >= argc) {
            usage_error(command->name, "--%s needs a value: %s", row->name, row->argument);
            return OPTIONS_USAGE;
        }
        value = argv[++*at];
    }
    return store(command, row, into, value) ? OPTIONS_OK : OPTIONS_USAGE;
}

/* A word of letters: "-b8", "-b 8", "-qv". */
static enum options_result parse_letters(const struct command *command, int argc, char **argv, int *at, void *into)
{
    for (const char *letter = argv[*at] + 1; *letter; letter++) {
        const struct option_row *row = find_letter(command, *letter);
        if (!row && *letter == 'h')
            return OPTIONS_HELP;
        if (!row) {
            usage_error(command->name, "unknown option -%c; see motet %s --help", *letter, command->name);
            return OPTIONS_USAGE;
        }
        if (row->kind == OPTION_FLAG) {
            if (!store(command, row, into, NULL))
                return OPTIONS_USAGE;
            continue;
        }
        const char *value = letter[1] ? letter + 1 : NULL;
        if (!value && *at + 1 >= argc) {
            usage_error(command->name, "-%c needs a value: %s", row->letter, row->argument);
            return OPTIONS_USAGE;
        }
        if (!value)
            value = argv[++*at];
        return store(command, row, into, value) ? OPTIONS_OK : OPTIONS_USAGE;
    }
    return OPTIONS_OK;
}

enum options_result options_parse(const struct command *command, int argc, char **argv, void *into, bool stop_at_word,
                                  struct arguments *rest)
{
    enum options_result result = OPTIONS_OK;
    int at = 1;
    rest->n = 0;
    rest->items = calloc((size_t)argc + 1, sizeof *rest->items);
    if (!rest->items) {
        usage_error(command->name, "out of memory");
        return OPTIONS_USAGE;
    }
    for (; at < argc && result == OPTIONS_OK; at++) {
        const char *word = argv[at];
        if (!strcmp(word, "--")) {
            at++;
            break;
        }
        if (word[0] == '-' && word[1] == '-')
            result = parse_long(command, argc, argv, &at, into);
        else if (word[0] == '-' && word[1])
            result = parse_letters(command, argc, argv, &at, into);
        else if (stop_at_word)
            break;
        else
            rest->items[rest->n++] = argv[at];
    }
    for (; at < argc && result == OPTIONS_OK; at++)
        rest->items[rest->n++] = argv[at];
    return result;
}
