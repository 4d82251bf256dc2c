/* SPDX-License-Identifier: Apache-2.0
 * The grammar of settings: numbers with units, yes and no, choices. The whole text has to parse. NCCL reads "8M" as 8 and
 * "true" as 0 without a word; here whatever is not understood is an error that says what is. */
#include "base/setting_text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/log.h"

struct unit {
    const char *name;
    int64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},         {"B", 1},         {"K", 1 << 10}, {"KB", 1 << 10}, {"KiB", 1 << 10}, {"M", 1 << 20},
    {"MB", 1 << 20}, {"MiB", 1 << 20}, {"G", 1 << 30}, {"GB", 1 << 30}, {"GiB", 1 << 30}, {NULL, 0},
};

/* In milliseconds. A bare number is seconds; "m" is left out because it could be minutes, milli or mega. */
static const struct unit time_units[] = {
    {"ms", 1}, {"", 1000}, {"s", 1000}, {"sec", 1000}, {"min", 60000}, {"h", 3600000}, {NULL, 0},
};

static const struct unit plain_units[] = {{"", 1}, {NULL, 0}};

static const char *const yes_words[] = {"1", "true", "yes", "on", NULL};
static const char *const no_words[] = {"0", "false", "no", "off", NULL};

static bool is_one_of(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strcasecmp(text, *words) == 0)
            return true;
    return false;
}

/* Digits, or 0x and hexadecimal digits. false if there are none or they overflow. */
static bool read_digits(const char **text, int64_t *value)
{
    const char *at = *text;
    int base = at[0] == '0' && (at[1] == 'x' || at[1] == 'X') ? 16 : 10;
    at += base == 16 ? 2 : 0;
    const char *first = at;
    *value = 0;
    for (;; at++) {
        const char *digits = "0123456789abcdef", *found = *at ? strchr(digits, *at | (*at > '9' ? 0x20 : 0)) : NULL;
        if (!found || found - digits >= base)
            break;
        if (__builtin_mul_overflow(*value, base, value) || __builtin_add_overflow(*value, found - digits, value))
            return false;
    }
    *text = at;
    return at != first;
}

/* The digits behind a point, as thousandths; further ones are refused rather than dropped. */
static bool read_thousandths(const char **text, int64_t *thousandths)
{
    *thousandths = 0;
    if (**text != '.')
        return true;
    const char *at = *text + 1;
    int64_t weight = 100;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++, weight /= 10) {
        if (weight == 0)
            return false;
        *thousandths += (*at - '0') * weight;
    }
    *text = at;
    return true;
}

static bool read_number(const char *text, const struct unit *units, int64_t *value)
{
    int64_t whole, thousandths;
    bool negative = *text == '-';
    if (negative || *text == '+')
        text++;
    if (!read_digits(&text, &whole))
        return false;
    bool has_point = *text == '.';
    if (!read_thousandths(&text, &thousandths))
        return false;
    while (units->name && strcasecmp(units->name, text) != 0)
        units++;
    if (!units->name || (has_point && units->factor == 1))
        return false;
    if (__builtin_mul_overflow(whole, units->factor, value) ||
        __builtin_add_overflow(*value, units->factor / 1000 * thousandths + units->factor % 1000 * thousandths / 1000, value))
        return false;
    if (negative)
        *value = -*value;
    return true;
}

/* The texts that a setting of type STRING accepts, where they are a fixed few; NULL otherwise. */
static const char *const *choices(const struct motet_setting_row *row)
{
    static const char *const levels[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE", NULL};
    static const char *const families[] = {"AF_INET", "AF_INET6", NULL};
    if (row == &motet_setting_rows[MOTET_SET_DEBUG])
        return levels;
    if (row == &motet_setting_rows[MOTET_SET_SOCKET_FAMILY])
        return families;
    return NULL;
}

static motetResult_t check_string(const struct motet_setting_row *row, const char *text)
{
    const char *const *accepted = choices(row);
    char range[MOTET_SETTING_TEXT_MAX];
    int mask;
    if (accepted && !is_one_of(text, accepted)) {
        motet_setting_format_range(row, range, sizeof(range));
        return motet_fail_quiet(motetInvalidArgument, "%s=%s is none of %s", row->name, text, range);
    }
    if (row == &motet_setting_rows[MOTET_SET_DEBUG_SUBSYS] && !motet_log_parse_subsys(text, &mask))
        return motet_fail_quiet(motetInvalidArgument,
                                "%s=%s is not a comma list of INIT, COLL, P2P, SHM, NET, GRAPH, TUNING, ENV, ALLOC, CALL, PROXY, "
                                "BOOTSTRAP, REG, PROFILE, DESTROY and ALL (a leading ^ inverts it)",
                                row->name, text);
    return motetSuccess;
}

static const char *what_is_accepted(enum motet_setting_type type)
{
    switch (type) {
    case MOTET_SETTING_SIZE:
        return "a size: bytes, or with K, M or G (8M)";
    case MOTET_SETTING_TIME:
        return "a time: seconds, or with ms, s, min or h (500ms)";
    default:
        return "a whole number";
    }
}

static motetResult_t parse_number(const struct motet_setting_row *row, const char *text, int64_t *value)
{
    const struct unit *units = row->type == MOTET_SETTING_SIZE   ? size_units
                               : row->type == MOTET_SETTING_TIME ? time_units
                                                                 : plain_units;
    char range[MOTET_SETTING_TEXT_MAX];
    int64_t number;
    motet_setting_format_range(row, range, sizeof(range));
    if (!read_number(text, units, &number))
        return motet_fail_quiet(motetInvalidArgument, "%s=%s is not %s; accepted: %s", row->name, text, what_is_accepted(row->type),
                                range);
    if (number < row->min || number > row->max)
        return motet_fail_quiet(motetInvalidArgument, "%s=%s is out of range; accepted: %s", row->name, text, range);
    *value = number;
    return motetSuccess;
}

motetResult_t motet_setting_parse(const struct motet_setting_row *row, const char *text, int64_t *value)
{
    switch (row->type) {
    case MOTET_SETTING_STRING:
        return check_string(row, text);
    case MOTET_SETTING_BOOL:
        if (!is_one_of(text, yes_words) && !is_one_of(text, no_words))
            return motet_fail_quiet(motetInvalidArgument,
                                    "%s=%s is neither yes nor no; accepted: 1, true, yes, on, 0, false, no, off", row->name, text);
        *value = is_one_of(text, yes_words);
        return motetSuccess;
    default:
        return parse_number(row, text, value);
    }
}

void motet_setting_format(const struct motet_setting_row *row, int64_t value, char *buf, size_t size)
{
    static const struct unit shown_sizes[] = {{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {NULL, 0}};
    static const struct unit shown_times[] = {{"h", 3600000}, {"min", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0}};
    const struct unit *units = row->type == MOTET_SETTING_SIZE ? shown_sizes : row->type == MOTET_SETTING_TIME ? shown_times : NULL;
    while (units && units->name && value % units->factor != 0)
        units++;
    if (units && units->name && value != 0)
        snprintf(buf, size, "%lld%s", (long long)(value / units->factor), units->name);
    else
        snprintf(buf, size, "%lld", (long long)value);
}

void motet_setting_format_range(const struct motet_setting_row *row, char *buf, size_t size)
{
    char low[MOTET_SETTING_TEXT_MAX / 2], high[MOTET_SETTING_TEXT_MAX / 2];
    size_t len = 0;
    buf[0] = '\0';
    if (row->type == MOTET_SETTING_STRING) {
        for (const char *const *choice = choices(row); choice && *choice && len < size; choice++)
            len += (size_t)snprintf(buf + len, size - len, "%s%s", len ? ", " : "", *choice);
    } else if (row->type == MOTET_SETTING_BOOL) {
        snprintf(buf, size, "0, 1");
    } else {
        motet_setting_format(row, row->min, low, sizeof(low));
        motet_setting_format(row, row->max, high, sizeof(high));
        snprintf(buf, size, "%s..%s", low, high);
    }
}
