/* SPDX-License-Identifier: Apache-2.0
 * Every MOTET_ setting, one row each (settings_table.h). The rows give parsing, range checks, `motet env` and docs/settings.md.
 * Values are read from the environment once, by motet_settings_load, and are constants afterwards. */
#ifndef MOTET_BASE_SETTINGS_H
#define MOTET_BASE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "motet.h"

enum motet_setting_type { MOTET_SETTING_BOOL, MOTET_SETTING_INT, MOTET_SETTING_SIZE, MOTET_SETTING_TIME, MOTET_SETTING_STRING };

enum motet_setting {
#define MOTET_SETTING(id, name, type, min, max, fallback, unit, wire, sentence) MOTET_SET_##id,
#include "base/settings_table.h"
#undef MOTET_SETTING
    MOTET_NSETTINGS
};

struct motet_setting_row {
    const char *name; /* "MOTET_BUFFSIZE" */
    enum motet_setting_type type;
    int64_t min, max;     /* range of INT, SIZE (bytes) and TIME (milliseconds); ignored otherwise */
    const char *fallback; /* default, as a user would write it; "" = unset/automatic */
    const char *unit;     /* "bytes", "time", "" */
    bool wire;            /* compared across ranks at init: a difference is an error that names both */
    const char *sentence; /* one sentence for `motet env` and the docs */
};

extern const struct motet_setting_row motet_setting_rows[MOTET_NSETTINGS];

/* Parses the environment. Idempotent and thread safe; the first call does the work, later ones return the same result. Nonsense is
 * motetInvalidArgument naming the variable, the value and what is accepted; an unknown MOTET_ name is one WARN line that suggests
 * the nearest real one. An empty variable counts as unset. */
motetResult_t motet_settings_load(void);

/* Value of an INT, SIZE (bytes), TIME (milliseconds) or BOOL (0/1) setting; the default where the environment's was refused. */
int64_t motet_setting_int(enum motet_setting id);

/* Value of a STRING setting; "" when unset. Never NULL. */
const char *motet_setting_string(enum motet_setting id);

/* Whether the environment set it (rather than the default). */
bool motet_setting_is_set(enum motet_setting id);

/* What the environment said: for tools, which show settings even where loading fails. */
struct motet_setting_state {
    const char *text; /* what is in force, as written; the refused text where error is not NULL */
    bool is_set;
    const char *error; /* NULL, or why it is refused. All live for ever. */
};
struct motet_setting_state motet_setting_state(enum motet_setting id);

/* Parses one text for a row of motet_setting_rows ("8M", "true", "2s"; a bare time is in seconds). A refusal is a quiet failure and
 * leaves *value alone; STRING rows never write it. */
motetResult_t motet_setting_parse(const struct motet_setting_row *row, const char *text, int64_t *value);

/* "NAME=value\n" of every setting whose row says `wire`, in table order: what ranks compare at init. Malloced. */
char *motet_settings_wire_text(void);

#endif
