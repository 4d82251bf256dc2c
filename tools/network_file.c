/* SPDX-License-Identifier: Apache-2.0 */
#include "network_file.h"

#include "json_file.h"
#include "quantity.h"
#include "topo_network.h"

enum member_kind { LATENCY, SPEED, WHOLE_NUMBER, SWITCH, TEXT };

static const struct {
    const char *name;
    enum member_kind kind;
    size_t offset; /* in struct network_file */
    int most;
} members[] = {
    {"name", TEXT, 0, 0},
    {"hosts", WHOLE_NUMBER, offsetof(struct network_file, hosts), 4096},
    {"cores", WHOLE_NUMBER, offsetof(struct network_file, cores), 1 << 20},
    {"latency", LATENCY, offsetof(struct network_file, network.latencyUs), 0},
    {"bandwidth", SPEED, offsetof(struct network_file, network.hostGBs), 0},
    {"rank_bandwidth", SPEED, offsetof(struct network_file, network.rankGBs), 0},
    {"local_latency", LATENCY, offsetof(struct network_file, network.localLatencyUs), 0},
    {"core_bandwidth", SPEED, offsetof(struct network_file, network.coreGBs), 0},
    {"combine_bandwidth", SPEED, offsetof(struct network_file, network.combineGBs), 0},
    {"ideal", SWITCH, offsetof(struct network_file, network.ideal), 0},
    {"whole", SWITCH, offsetof(struct network_file, network.whole), 0},
};
#define NMEMBERS (sizeof members / sizeof members[0])

/* A number, or a text with a unit. */
static bool read_quantity(const json_t *value, enum member_kind kind, double *out)
{
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return *out > 0 || (kind == LATENCY && *out >= 0);
    }
    const char *text = json_string_value(value);
    return text && (kind == LATENCY ? quantity_parse_latency(text, out) : quantity_parse_speed(text, out));
}

/* What is wrong with the value of member i; NULL: it was taken. */
static const char *take(struct network_file *file, size_t i, const json_t *value)
{
    void *place = (char *)file + members[i].offset;
    switch (members[i].kind) {
    case TEXT:
        return json_is_string(value) ? NULL : "must be a text";
    case SWITCH:
        *(int *)place = json_is_true(value);
        return json_is_boolean(value) ? NULL : "must be true or false";
    case WHOLE_NUMBER:
        if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > members[i].most)
            return "must be a whole number from 1 on, and not that large";
        *(int *)place = (int)json_integer_value(value);
        return NULL;
    case LATENCY:
        return read_quantity(value, LATENCY, place) ? NULL : "must be microseconds, or a text like \"5us\"";
    default:
        return read_quantity(value, SPEED, place) ? NULL : "must be 10^9 bytes per second, or a text like \"100Gb/s\"";
    }
}

/* XML begins with <, perhaps behind a mark of the encoding. */
static bool is_xml(const char *text, size_t len)
{
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < len && memchr(" \t\r\n", text[at], 4))
        at++;
    return at < len && text[at] == '<';
}

bool network_file_parse(const char *name, const char *text, size_t len, struct network_file *file, char *why, size_t why_len)
{
    if (is_xml(text, len))
        return topo_network_parse(name, text, len, file, why, why_len);
    const char *key;
    json_t *value, *object = json_file_parse(name, text, len, why, why_len);
    *file = (struct network_file){0};
    const char *problem = NULL;
    if (!object)
        return false;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < NMEMBERS && strcmp(members[i].name, key) != 0)
            i++;
        problem = i == NMEMBERS ? "is not known here" : take(file, i, value);
        if (problem) {
            json_file_complain(name, text, len, key, problem, why, why_len);
            break;
        }
    }
    json_decref(object);
    return !problem;
}

bool network_file_read(const char *name, struct network_file *file, char *why, size_t why_len)
{
    size_t len;
    char *text = json_file_load(name, &len, why, why_len);
    bool good = text && network_file_parse(name, text, len, file, why, why_len);
    free(text);
    return good;
}
