/* SPDX-License-Identifier: Apache-2.0
 * The table of motet tune: {"motet_tuning": 1, "shapes": [{"machine", "ranks", "hosts", "cpus", "threads", "points": [{"collective",
 * "bytes", "times_us": {algorithm: microseconds}}]}]}. Members that are not known are passed over, so that later versions can say more;
 * algorithms that this version does not have, too. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/json_reader.h"
#include "tuning.h"

#define VERSION 1

struct parser {
    struct motet_json_reader json;
    struct motet_tuning *tuning;
    int room_shapes, room_points;
    bool no_memory;
};

static bool no_memory(struct parser *parser)
{
    parser->no_memory = true;
    return motet_json_reader_fail(&parser->json, "out of memory");
}

static bool read_whole(struct parser *parser, double low, double high, int *value)
{
    double number;
    if (!motet_json_read_number(&parser->json, &number))
        return false;
    if (number < low || number > high || number != (double)(int)number)
        return motet_json_reader_fail(&parser->json, "a whole number that makes sense here is expected");
    *value = (int)number;
    return true;
}

static bool read_machine(struct parser *parser, uint64_t *machine)
{
    char text[20], *end;
    if (!motet_json_read_text(&parser->json, text, sizeof(text)))
        return false;
    *machine = strtoull(text, &end, 16);
    return (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16) ||
           motet_json_reader_fail(&parser->json, "16 hexadecimal digits are expected");
}

/* ---- Points ---- */

static bool read_collective(struct parser *parser, int *collective)
{
    char name[32];
    if (!motet_json_read_text(&parser->json, name, sizeof(name)))
        return false;
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        *collective = c;
        if (strcasecmp(name, motet_collective_name((enum motet_collective)c)) == 0)
            return true;
    }
    return motet_json_reader_fail(&parser->json, "there is no such collective");
}

/* Names may come before the collective is known: times of all collectives that have an algorithm of that name. */
static bool read_times(struct parser *parser, float *ns)
{
    char name[64];
    double us;
    if (!motet_json_enter(&parser->json, '{'))
        return false;
    while (motet_json_next_member(&parser->json, name, sizeof(name))) {
        if (!motet_json_read_number(&parser->json, &us))
            return false;
        if (!(us > 0) || us > 1e12)
            return motet_json_reader_fail(&parser->json, "microseconds, more than 0, are expected");
        for (int row = 0; row < motet_nalgorithms; row++)
            if (strcasecmp(name, motet_algorithms[row].name) == 0)
                ns[row] = (float)(us * 1e3);
    }
    return !parser->json.failed;
}

static struct motet_tuning_point *add_point(struct parser *parser)
{
    struct motet_tuning *tuning = parser->tuning;
    if (tuning->npoints == MOTET_TUNING_POINTS_MAX)
        return motet_json_reader_fail(&parser->json, "too many points"), NULL;
    if (tuning->npoints == parser->room_points) {
        int room = parser->room_points ? 2 * parser->room_points : 64;
        struct motet_tuning_point *grown = realloc(tuning->points, (size_t)room * sizeof(*grown));
        if (!grown)
            return no_memory(parser), NULL;
        tuning->points = grown;
        parser->room_points = room;
    }
    float *ns = calloc((size_t)motet_nalgorithms, sizeof(*ns));
    if (!ns)
        return no_memory(parser), NULL;
    tuning->points[tuning->npoints] = (struct motet_tuning_point){.ns = ns, .bytes = -1};
    return &tuning->points[tuning->npoints++];
}

static bool read_point(struct parser *parser)
{
    char key[32];
    int collective = -1;
    bool has_times = false;
    struct motet_tuning_point *point = motet_json_enter(&parser->json, '{') ? add_point(parser) : NULL;
    while (point && motet_json_next_member(&parser->json, key, sizeof(key))) {
        if (!strcmp(key, "collective"))
            read_collective(parser, &collective);
        else if (!strcmp(key, "bytes")) {
            if (motet_json_read_number(&parser->json, &point->bytes) && !(point->bytes >= 0 && point->bytes < 1e18))
                motet_json_reader_fail(&parser->json, "a number of bytes is expected");
        } else if (!strcmp(key, "times_us"))
            has_times = read_times(parser, point->ns);
        else
            motet_json_skip(&parser->json);
    }
    if (parser->json.failed)
        return false;
    if (collective < 0 || point->bytes < 0 || !has_times)
        return motet_json_reader_fail(&parser->json, collective < 0     ? "collective is missing"
                                                     : point->bytes < 0 ? "bytes is missing"
                                                                        : "times_us is missing");
    point->collective = (enum motet_collective)collective;
    return true;
}

static int compare_points(const void *a, const void *b)
{
    const struct motet_tuning_point *x = a, *y = b;
    if (x->collective != y->collective)
        return x->collective < y->collective ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool read_points(struct parser *parser, struct motet_tuning_shape *shape)
{
    struct motet_tuning *tuning = parser->tuning;
    if (shape->npoints > 0)
        return motet_json_reader_fail(&parser->json, "points come twice");
    shape->first = tuning->npoints;
    if (!motet_json_enter(&parser->json, '['))
        return false;
    while (motet_json_next_element(&parser->json))
        if (!read_point(parser))
            return false;
    shape->npoints = tuning->npoints - shape->first;
    if (shape->npoints > 0)
        qsort(tuning->points + shape->first, (size_t)shape->npoints, sizeof(*tuning->points), compare_points);
    return !parser->json.failed;
}

/* ---- Shapes ---- */

static struct motet_tuning_shape *add_shape(struct parser *parser)
{
    struct motet_tuning *tuning = parser->tuning;
    if (tuning->nshapes == MOTET_TUNING_SHAPES_MAX)
        return motet_json_reader_fail(&parser->json, "too many shapes"), NULL;
    if (tuning->nshapes == parser->room_shapes) {
        int room = parser->room_shapes ? 2 * parser->room_shapes : 8;
        struct motet_tuning_shape *grown = realloc(tuning->shapes, (size_t)room * sizeof(*grown));
        if (!grown)
            return no_memory(parser), NULL;
        tuning->shapes = grown;
        parser->room_shapes = room;
    }
    tuning->shapes[tuning->nshapes] = (struct motet_tuning_shape){.nhosts = 1};
    return &tuning->shapes[tuning->nshapes++];
}

static bool read_member(struct parser *parser, struct motet_tuning_shape *shape, const char *key)
{
    if (!strcmp(key, "machine"))
        return read_machine(parser, &shape->machine);
    if (!strcmp(key, "ranks"))
        return read_whole(parser, 1, 1 << 24, &shape->nranks);
    if (!strcmp(key, "hosts"))
        return read_whole(parser, 1, 1 << 24, &shape->nhosts);
    if (!strcmp(key, "cpus"))
        return read_whole(parser, 0, 1 << 24, &shape->cpus);
    if (!strcmp(key, "threads"))
        return motet_json_read_bool(&parser->json, &shape->threads);
    if (!strcmp(key, "points"))
        return read_points(parser, shape);
    return motet_json_skip(&parser->json);
}

static bool read_shape(struct parser *parser)
{
    char key[32];
    struct motet_tuning_shape *shape = motet_json_enter(&parser->json, '{') ? add_shape(parser) : NULL;
    while (shape && motet_json_next_member(&parser->json, key, sizeof(key)))
        if (!read_member(parser, shape, key))
            return false;
    if (parser->json.failed)
        return false;
    return (shape->nranks > 0 && shape->machine) ||
           motet_json_reader_fail(&parser->json, shape->machine ? "ranks is missing" : "machine is missing");
}

static bool read_table(struct parser *parser)
{
    char key[32];
    int version = 0;
    if (!motet_json_enter(&parser->json, '{'))
        return false;
    while (motet_json_next_member(&parser->json, key, sizeof(key))) {
        if (!strcmp(key, "motet_tuning"))
            read_whole(parser, 1, VERSION, &version);
        else if (strcmp(key, "shapes") != 0)
            motet_json_skip(&parser->json);
        else if (motet_json_enter(&parser->json, '['))
            while (motet_json_next_element(&parser->json) && read_shape(parser))
                ;
    }
    if (!parser->json.failed && version == 0)
        motet_json_reader_fail(&parser->json, "motet_tuning is missing: not a table of motet tune");
    return motet_json_reader_finish(&parser->json);
}

motetResult_t motet_tuning_parse_json(const char *name, const char *text, size_t len, struct motet_tuning *tuning)
{
    struct parser parser = {.tuning = tuning};
    motet_json_reader_begin(&parser.json, text, len);
    if (read_table(&parser))
        return motetSuccess;
    return motet_fail_quiet(parser.no_memory ? motetSystemError : motetInvalidArgument, "%s:%s", name, parser.json.why);
}
