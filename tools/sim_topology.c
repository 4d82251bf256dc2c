/* SPDX-License-Identifier: Apache-2.0 */
#include "sim_topology.h"

#include <stdio.h>
#include <strings.h>

#include "json_file.h"
#include "quantity.h"

#define LINKS_MOST 1000000

/* What a file says, while it is read. */
struct reading {
    const char *name, *text;
    size_t len;
    char *why;
    size_t why_len;
    const json_t *switches;
    double latency_us, gbs; /* of links that do not say */
    struct sim_topology *topology;
};

static bool complain(const struct reading *reading, const char *key, const char *problem)
{
    json_file_complain(reading->name, reading->text, reading->len, key, problem, reading->why, reading->why_len);
    return false;
}

/* A number, or a text with a unit, if it is there at all. */
static bool read_latency(const struct reading *reading, const json_t *object, double *us)
{
    const json_t *value = json_object_get(object, "latency");
    if (!value)
        return true;
    if (json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) <= 1e9) {
        *us = json_number_value(value);
        return true;
    }
    return (json_is_string(value) && quantity_parse_latency(json_string_value(value), us) && *us <= 1e9) ||
           complain(reading, "latency", "must be microseconds, or a text like \"5us\"");
}

static bool read_speed(const struct reading *reading, const json_t *object, double *gbs)
{
    const json_t *value = json_object_get(object, "bandwidth");
    if (!value)
        return true;
    if (json_is_number(value) && json_number_value(value) > 0 && json_number_value(value) <= 1e9) {
        *gbs = json_number_value(value);
        return true;
    }
    return (json_is_string(value) && quantity_parse_speed(json_string_value(value), gbs) && *gbs <= 1e9) ||
           complain(reading, "bandwidth", "must be 10^9 bytes per second, or a text like \"100Gb/s\"");
}

/* "host 3" or "host3", or the name of a switch; -1: unknown. */
static int find_node(const struct reading *reading, const json_t *value)
{
    const char *word = json_string_value(value);
    int number, used = 0;
    if (!word)
        return -1;
    if (sscanf(word, "host %d%n", &number, &used) == 1 && !word[used] && number >= 0 && number < reading->topology->hosts)
        return number;
    for (size_t i = 0; i < json_array_size(reading->switches); i++)
        if (!strcmp(json_string_value(json_array_get(reading->switches, i)), word))
            return reading->topology->hosts + (int)i;
    return -1;
}

static bool add_link(const struct reading *reading, motetSimulateLink_t link, const char *name, bool back)
{
    struct sim_topology *topology = reading->topology;
    char text[MOTET_SIMULATE_NAME];
    if (topology->nlinks == LINKS_MOST)
        return complain(reading, "links", "are more than a million");
    if (topology->nlinks == topology->room) {
        int room = topology->room ? 2 * topology->room : 64;
        motetSimulateLink_t *more = realloc(topology->links, (size_t)room * sizeof *more);
        if (!more)
            return complain(reading, "links", "do not fit into memory");
        topology->links = more;
        topology->room = room;
    }
    if (name) {
        snprintf(text, sizeof text, "%.50s%s", name, back ? " back" : "");
        link.name = strdup(text);
    }
    topology->links[topology->nlinks++] = link;
    return true;
}

/* Whether all keys are among those known, which a NULL ends; `problem` with one that is not. */
static bool check_keys(const struct reading *reading, const json_t *object, const char *const *known, const char *problem)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return complain(reading, key, problem);
    }
    return true;
}

static bool read_link(const struct reading *reading, const json_t *object)
{
    static const char *const known[] = {"between", "from", "to", "latency", "bandwidth", "name", NULL};
    motetSimulateLink_t link = {.latencyUs = reading->latency_us, .GBs = reading->gbs};
    if (!json_is_object(object))
        return complain(reading, "links", "must be a list of objects in braces");
    if (!check_keys(reading, object, known, "is not known in a link"))
        return false;
    const json_t *between = json_object_get(object, "between"), *name = json_object_get(object, "name");
    bool both = between != NULL;
    if (both && (!json_is_array(between) || json_array_size(between) != 2))
        return complain(reading, "between", "must be a list of two nodes");
    link.from = find_node(reading, both ? json_array_get(between, 0) : json_object_get(object, "from"));
    link.to = find_node(reading, both ? json_array_get(between, 1) : json_object_get(object, "to"));
    if (link.from < 0 || link.to < 0 || link.from == link.to)
        return complain(reading, both ? "between" : "from",
                        "and its other end must be two of \"host 0\", \"host 1\" ... and the switches");
    if (!read_latency(reading, object, &link.latencyUs) || !read_speed(reading, object, &link.GBs))
        return false;
    if (link.GBs <= 0)
        return complain(reading, "links", "have no bandwidth: give one to each, or to all at the top");
    motetSimulateLink_t other = link;
    other.from = link.to;
    other.to = link.from;
    const char *text = json_string_value(name);
    return add_link(reading, link, text, false) && (!both || add_link(reading, other, text, true));
}

static bool read_switches(struct reading *reading, const json_t *object)
{
    reading->switches = json_object_get(object, "switches");
    if (reading->switches && !json_is_array(reading->switches))
        return complain(reading, "switches", "must be a list of names");
    for (size_t i = 0; i < json_array_size(reading->switches); i++)
        if (!json_is_string(json_array_get(reading->switches, i)))
            return complain(reading, "switches", "must be a list of names");
    reading->topology->nswitches = (int)json_array_size(reading->switches);
    return true;
}

static bool read_all(struct reading *reading, const json_t *object)
{
    static const char *const known[] = {"hosts", "switches", "latency", "bandwidth", "links", "name", NULL};
    const json_t *hosts = json_object_get(object, "hosts"), *links = json_object_get(object, "links");
    if (!check_keys(reading, object, known, "is not known here"))
        return false;
    if (!json_is_integer(hosts) || json_integer_value(hosts) < 1 || json_integer_value(hosts) > MOTET_SIMULATE_NODES)
        return complain(reading, "hosts", "must be a whole number from 1 to 8192");
    reading->topology->hosts = (int)json_integer_value(hosts);
    if (!read_switches(reading, object) || !read_latency(reading, object, &reading->latency_us) ||
        !read_speed(reading, object, &reading->gbs))
        return false;
    if (!json_is_array(links) || json_array_size(links) == 0)
        return complain(reading, "links", "must be a list of links");
    for (size_t i = 0; i < json_array_size(links); i++)
        if (!read_link(reading, json_array_get(links, i)))
            return false;
    return true;
}

bool sim_topology_parse(const char *name, const char *text, size_t len, struct sim_topology *topology, char *why, size_t why_len)
{
    struct reading reading = {.name = name, .text = text, .len = len, .why = why, .why_len = why_len, .topology = topology};
    *topology = (struct sim_topology){0};
    json_t *object = json_file_parse(name, text, len, why, why_len);
    bool good = object && read_all(&reading, object);
    json_decref(object);
    return good;
}

/* Readers by the ending of the name; another format is one more row. */
static const struct {
    const char *ending;
    bool (*parse)(const char *name, const char *text, size_t len, struct sim_topology *topology, char *why, size_t why_len);
} readers[] = {{".json", sim_topology_parse}};
#define NREADERS (sizeof readers / sizeof readers[0])

static size_t find_reader(const char *name)
{
    size_t len = strlen(name), i = 0;
    for (; i < NREADERS; i++) {
        size_t ending = strlen(readers[i].ending);
        if (len > ending && !strcasecmp(name + len - ending, readers[i].ending))
            break;
    }
    return i;
}

bool sim_topology_is_file(const char *word)
{
    return find_reader(word) < NREADERS;
}

bool sim_topology_read(const char *name, struct sim_topology *topology, char *why, size_t why_len)
{
    size_t len, reader = find_reader(name);
    *topology = (struct sim_topology){0};
    char *text = json_file_load(name, &len, why, why_len);
    bool good = text && readers[reader].parse(name, text, len, topology, why, why_len);
    free(text);
    return good;
}

void sim_topology_free(struct sim_topology *topology)
{
    for (int l = 0; l < topology->nlinks; l++)
        free((void *)(uintptr_t)topology->links[l].name);
    free(topology->links);
    *topology = (struct sim_topology){0};
}
