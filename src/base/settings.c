/* SPDX-License-Identifier: Apache-2.0
 * The settings' values: read from the environment once, then constant. A value that is refused leaves its default in force and
 * its sentence beside it, so that a tool can still show all of them; loading then fails with the first such sentence. */
#include "base/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/setting_text.h"
#include "base/text.h"

/* Names farther away than this are not suggested. */
#define SUGGEST_DISTANCE 3

const struct motet_setting_row motet_setting_rows[MOTET_NSETTINGS] = {
#define MOTET_SETTING(id, name_, type_, min_, max_, fallback_, unit_, wire_, sentence_) \
    [MOTET_SET_##id] = {                                                                \
        .name = name_,                                                                  \
        .type = MOTET_SETTING_##type_,                                                  \
        .min = min_,                                                                    \
        .max = max_,                                                                    \
        .fallback = fallback_,                                                          \
        .unit = unit_,                                                                  \
        .wire = wire_,                                                                  \
        .sentence = sentence_,                                                          \
    },
#include "base/settings_table.h"
#undef MOTET_SETTING
};

static struct motet_setting_state states[MOTET_NSETTINGS];
static int64_t values[MOTET_NSETTINGS];
static const char *load_error; /* NULL, or the sentence of the first refused value */
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

const char *motet_setting_nearest(const char *name)
{
    const char *nearest = NULL;
    unsigned best = SUGGEST_DISTANCE + 1;
    for (int id = 0; id < MOTET_NSETTINGS; id++) {
        unsigned distance = motet_text_distance(name, motet_setting_rows[id].name);
        if (distance < best) {
            best = distance;
            nearest = motet_setting_rows[id].name;
        }
    }
    return nearest;
}

/* Variables of the Python package, which shares the prefix: MOTET_LIBRARY, MOTET_TORCH... */
static bool is_of_the_package(const char *entry, size_t len)
{
    return (len == 13 && memcmp(entry, "MOTET_LIBRARY", 13) == 0) || (len >= 11 && memcmp(entry, "MOTET_TORCH", 11) == 0);
}

static bool is_known(const char *entry, size_t len)
{
    for (int id = 0; id < MOTET_NSETTINGS; id++)
        if (strlen(motet_setting_rows[id].name) == len && memcmp(motet_setting_rows[id].name, entry, len) == 0)
            return true;
    return false;
}

/* NCCL ignores a misspelt variable without a word; here it is said, but it stops nothing. */
static void warn_of_unknown_names(void)
{
    for (char **entry = environ; entry && *entry; entry++) {
        char name[128];
        size_t len = strcspn(*entry, "=");
        if (strncmp(*entry, "MOTET_", 6) != 0 || is_known(*entry, len) || is_of_the_package(*entry, len))
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)(len < sizeof(name) ? len : sizeof(name) - 1), *entry);
        const char *nearest = motet_setting_nearest(name);
        if (nearest)
            WARN(MOTET_LOG_ENV, "%s is set, but there is no such setting; did you mean %s?", name, nearest);
        else
            WARN(MOTET_LOG_ENV, "%s is set, but there is no such setting (motet env lists all)", name);
    }
}

/* A default is part of the table: the unit test parses all of them. */
static int64_t fallback_value(const struct motet_setting_row *row)
{
    int64_t value = 0;
    if (row->fallback[0])
        motet_setting_parse(row, row->fallback, &value);
    return value;
}

/* An empty variable is an unset one: "MOTET_ALGO= program" is how a shell user takes a setting back. */
static void load_row(enum motet_setting id)
{
    const struct motet_setting_row *row = &motet_setting_rows[id];
    const char *text = getenv(row->name);
    int64_t value = fallback_value(row);
    char *kept = text && text[0] ? strdup(text) : NULL;

    states[id] = (struct motet_setting_state){.text = kept ? kept : row->fallback, .is_set = kept != NULL};
    if (kept && motet_setting_parse(row, kept, &value) != motetSuccess) {
        states[id].error = strdup(motet_error_text());
        if (!load_error)
            load_error = states[id].error ? states[id].error : "out of memory while reading the settings";
    } else if (kept) {
        INFO(MOTET_LOG_ENV, "%s set by environment to %s.", row->name, motet_setting_shown(id));
    }
    values[id] = value;
}

static void load(void)
{
    for (int id = 0; id < MOTET_NSETTINGS; id++)
        load_row((enum motet_setting)id);
    motet_error_clear();
    warn_of_unknown_names();
}

motetResult_t motet_settings_load(void)
{
    pthread_once(&load_once, load);
    if (load_error)
        return motet_fail(motetInvalidArgument, "%s", load_error);
    return motetSuccess;
}

int64_t motet_setting_int(enum motet_setting id)
{
    pthread_once(&load_once, load);
    return values[id];
}

const char *motet_setting_string(enum motet_setting id)
{
    pthread_once(&load_once, load);
    return states[id].error ? motet_setting_rows[id].fallback : states[id].text;
}

bool motet_setting_is_set(enum motet_setting id)
{
    pthread_once(&load_once, load);
    return states[id].is_set;
}

struct motet_setting_state motet_setting_state(enum motet_setting id)
{
    pthread_once(&load_once, load);
    return states[id];
}

/* Called while loading too, so it must not load. A unique id carries the job's secret. */
const char *motet_setting_shown(enum motet_setting id)
{
    bool is_secret = id == MOTET_SET_SECRET || id == MOTET_SET_UNIQUE_ID;
    return is_secret && states[id].is_set ? "(hidden)" : states[id].text;
}

char *motet_settings_wire_text(void)
{
    char *text = NULL;
    size_t len;
    FILE *stream = open_memstream(&text, &len);
    if (!stream)
        return NULL;
    for (int id = 0; id < MOTET_NSETTINGS; id++) {
        const struct motet_setting_row *row = &motet_setting_rows[id];
        if (!row->wire)
            continue;
        if (row->type == MOTET_SETTING_STRING)
            fprintf(stream, "%s=%s\n", row->name, motet_setting_string((enum motet_setting)id));
        else
            fprintf(stream, "%s=%lld\n", row->name, (long long)motet_setting_int((enum motet_setting)id));
    }
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
