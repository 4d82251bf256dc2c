/* SPDX-License-Identifier: Apache-2.0 */
#include "quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
    const char *name;
    double scale;
};

static char *scaled(double value, double base, const char *const *units, int nunits, char text[QUANTITY_MAX])
{
    int unit = 0;
    while (unit + 1 < nunits && fabs(value) >= base * 0.99995) {
        value /= base;
        unit++;
    }
    snprintf(text, QUANTITY_MAX, "%.4g %s", value, units[unit]);
    return text;
}

char *quantity_bytes(double bytes, char text[QUANTITY_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    return scaled(bytes, 1024, units, 6, text);
}

char *quantity_decimal_bytes(double bytes, char text[QUANTITY_MAX])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    return scaled(bytes, 1000, units, 6, text);
}

char *quantity_time(double ns, char text[QUANTITY_MAX])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    return scaled(ns, 1000, units, 4, text);
}

/* A number that is finite and not negative, then one of the units. */
static bool parse(const char *text, const struct unit *units, size_t nunits, double *value)
{
    char *end;
    if (!isdigit((unsigned char)text[0]) && text[0] != '.')
        return false;
    double number = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < nunits; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        *value = number * units[i].scale;
        return isfinite(*value) && *value >= 0;
    }
    return false;
}

bool quantity_parse_speed(const char *text, double *gbs)
{
    static const struct unit units[] = {
        {"", 1},           {"GB/s", 1},        {"MB/s", 1e-3},      {"KB/s", 1e-6},      {"TB/s", 1e3},
        {"Gb/s", 1.0 / 8}, {"Mb/s", 1e-3 / 8}, {"Gbit/s", 1.0 / 8}, {"Mbit/s", 1e-3 / 8}};
    return parse(text, units, sizeof units / sizeof units[0], gbs) && *gbs > 0;
}

bool quantity_parse_latency(const char *text, double *us)
{
    static const struct unit units[] = {{"", 1}, {"us", 1}, {"ns", 1e-3}, {"ms", 1e3}, {"s", 1e6}};
    return parse(text, units, sizeof units / sizeof units[0], us);
}

bool quantity_parse_count(const char *text, double *count)
{
    static const struct unit units[] = {{"", 1},    {"K", 1e3}, {"k", 1e3}, {"M", 1e6},  {"m", 1e6},
                                        {"B", 1e9}, {"b", 1e9}, {"G", 1e9}, {"T", 1e12}, {"t", 1e12}};
    return parse(text, units, sizeof units / sizeof units[0], count);
}
