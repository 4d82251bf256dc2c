/* SPDX-License-Identifier: Apache-2.0
 * Measured times, and rules, that the choice of algorithms goes by: what a file of motet tune, or one in the CSV of NCCL's example tuner,
 * says. Knows the table of algorithms; not which of them may run a call. */
#ifndef MOTET_TUNING_H
#define MOTET_TUNING_H

#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"
#include "motet.h"

#define MOTET_TUNING_POINTS_MAX 20000
#define MOTET_TUNING_SHAPES_MAX 1000
#define MOTET_TUNING_RULES_MAX  10000

/* For which communicators times count. */
struct motet_tuning_shape {
    uint64_t machine;
    int nranks, nhosts, cpus; /* cpus 0: each rank has one */
    bool threads;
    int first, npoints; /* points are in order of collective and bytes */
};

struct motet_tuning_point {
    enum motet_collective collective;
    double bytes;
    float *ns; /* by row of the table of algorithms; 0: not measured */
};

/* "This algorithm from so many bytes to so many", for nhosts hosts and nranks ranks; -1: any number. */
struct motet_tuning_rule {
    enum motet_collective collective;
    double min_bytes, max_bytes; /* both included */
    int row, nhosts, nranks;
};

struct motet_tuning {
    struct motet_tuning_shape *shapes;
    struct motet_tuning_point *points;
    struct motet_tuning_rule *rules;
    int nshapes, npoints, nrules;
};

/* Reads a table (its first character is a brace) or rules. Errors are motetInvalidArgument: "NAME:LINE: element: what is wrong". On
 * failure nothing is left. */
motetResult_t motet_tuning_parse(const char *name, const char *text, size_t len, struct motet_tuning *tuning);
void motet_tuning_free(struct motet_tuning *tuning);

/* The two formats, for motet_tuning_parse. */
motetResult_t motet_tuning_parse_json(const char *name, const char *text, size_t len, struct motet_tuning *tuning);
motetResult_t motet_tuning_parse_csv(const char *name, const char *text, size_t len, struct motet_tuning *tuning);

/* What this process goes by: the file of MOTET_TUNER_FILE, or the one in the cache directory. Read once, kept for ever; NULL: none. A file
 * that the setting names and that cannot be read is an error; one in the cache directory is a WARN line. Any thread. */
motetResult_t motet_tuning_load(const struct motet_tuning **tuning);

/* The shape that fits; NULL: none. */
const struct motet_tuning_shape *motet_tuning_find(const struct motet_tuning *tuning, uint64_t machine, int nranks, int nhosts,
                                                   int cpus, bool threads);

/* Time of a row for so many bytes, between the two sizes around, in ns; 0: unknown. Beyond the last size it grows with the bytes, up to
 * four times as many; below the first it is that one's. */
double motet_tuning_time(const struct motet_tuning *tuning, const struct motet_tuning_shape *shape, int row, double bytes);

/* The first rule of the collective that is for this call and whose row is allowed: the row, -1: none. */
int motet_tuning_rule(const struct motet_tuning *tuning, enum motet_collective collective, double bytes, int nranks, int nhosts,
                      const bool *allowed);

#endif
