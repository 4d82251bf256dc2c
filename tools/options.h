/* SPDX-License-Identifier: Apache-2.0
 * Command line options as a table: one row gives the letter, the long name, where the value goes, its range, its default and its
 * sentence. Dashes and underscores are the same in long names; a unique beginning of a long name is enough. */
#ifndef MOTET_TOOLS_OPTIONS_H
#define MOTET_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum option_kind {
    OPTION_FLAG,   /* bool */
    OPTION_INT,    /* int64_t */
    OPTION_SIZE,   /* int64_t, bytes: 8, 64K, 1M, 2G */
    OPTION_TIME,   /* int64_t, milliseconds: 5 (seconds), 500ms, 2s, 10min, 1h */
    OPTION_TEXT,   /* const char *, points into argv */
    OPTION_WISH,   /* const char *: the fallback, or another word given as --name=WORD; NULL: not asked for */
    OPTION_CHOICE, /* const char *, one of `choices` */
    OPTION_LIST,   /* struct option_list, may be given several times */
};

struct option_list {
    const char **items;
    int n;
};

struct option_row {
    char letter;          /* 0: long name only */
    const char *name;     /* long name without dashes */
    const char *argument; /* what the help calls the value; NULL for flags */
    enum option_kind kind;
    size_t offset;        /* of the value in the command's struct */
    int64_t min, max;     /* of numbers */
    const char *choices;  /* "core|numa|none", for CHOICE; for others only a hint for completion */
    const char *fallback; /* the default as the help shows it; NULL: none. The struct is filled by the command beforehand. */
    const char *sentence;
};

struct command;

/* What is left after the options. */
struct arguments {
    char **items;
    int n;
};

enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_USAGE };

/* Parses argv[1..argc) into *into. With stop_at_word everything from the first word that is no option is left alone (the command
 * line of a program); otherwise words and options may be mixed. "--" ends the options. rest->items is malloced.
 * OPTIONS_USAGE: a message that names the culprit is on stderr. OPTIONS_HELP: --help was given. */
enum options_result options_parse(const struct command *command, int argc, char **argv, void *into, bool stop_at_word,
                                  struct arguments *rest);

/* Parses "8", "64K", "1M", "2G" (binary, an optional B or iB after the letter); false on anything else. */
bool options_parse_size(const char *text, int64_t *bytes);

/* Parses "5" (seconds), "500ms", "2s", "10min", "1h"; false on anything else. */
bool options_parse_time(const char *text, int64_t *milliseconds);

/* Whole decimal number; false on anything else. */
bool options_parse_int(const char *text, int64_t *value);

/* The word of `words` (separated by any of " |,") that is closest to `text`, or NULL when none is near. Static storage. */
const char *options_nearest(const char *text, const char *words);

/* Prints "motet COMMAND: sentence" on stderr and returns the exit code of usage errors. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
