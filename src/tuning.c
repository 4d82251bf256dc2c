/* SPDX-License-Identifier: Apache-2.0 */
#include "tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/tuning_file.h"

#define BEYOND 4 /* times the largest size that was measured */

motetResult_t motet_tuning_parse(const char *name, const char *text, size_t len, struct motet_tuning *tuning)
{
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    while (at < len && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n'))
        at++;
    *tuning = (struct motet_tuning){0};
    if (at == len)
        return motet_fail(motetInvalidArgument, "%s:1: the file is empty", name);
    motetResult_t result =
        text[at] == '{' ? motet_tuning_parse_json(name, text, len, tuning) : motet_tuning_parse_csv(name, text, len, tuning);
    if (result != motetSuccess)
        motet_tuning_free(tuning);
    return result;
}

void motet_tuning_free(struct motet_tuning *tuning)
{
    for (int i = 0; i < tuning->npoints; i++)
        free(tuning->points[i].ns);
    free(tuning->points);
    free(tuning->shapes);
    free(tuning->rules);
    *tuning = (struct motet_tuning){0};
}

/* ---- The table of this process ---- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct motet_tuning own;
static motetResult_t own_result;
static char own_error[MOTET_ERROR_TEXT_MAX];

static void load(void)
{
    const struct motet_tuning_file *file = motet_tuning_file();
    if (file->error)
        own_result = motet_fail_quiet(motetInvalidArgument, "MOTET_TUNER_FILE=%s: %s", file->name, strerror(file->error));
    else if (file->text)
        own_result = motet_tuning_parse(file->name, file->text, file->len, &own);
    if (own_result == motetSuccess)
        return;
    strcpy(own_error, motet_error_text());
    if (file->is_named || own_result == motetSystemError)
        return;
    WARN(MOTET_LOG_TUNING, "%s: no measured times are used; motet tune writes them anew once the file is removed", own_error);
    own_result = motetSuccess;
}

motetResult_t motet_tuning_load(const struct motet_tuning **tuning)
{
    pthread_once(&once, load);
    *tuning = own_result == motetSuccess && (own.nshapes || own.nrules) ? &own : NULL;
    return own_result == motetSuccess ? motetSuccess : motet_fail(own_result, "%s", own_error);
}

/* ---- Looking up ---- */

const struct motet_tuning_shape *motet_tuning_find(const struct motet_tuning *tuning, uint64_t machine, int nranks, int nhosts,
                                                   int cpus, bool threads)
{
    for (int i = 0; i < tuning->nshapes; i++) {
        const struct motet_tuning_shape *shape = &tuning->shapes[i];
        if (shape->machine == machine && shape->nranks == nranks && shape->nhosts == nhosts && shape->cpus == cpus &&
            shape->threads == threads)
            return shape;
    }
    return NULL;
}

/* Only + - * / and comparisons: all ranks get the same bits. */
double motet_tuning_time(const struct motet_tuning *tuning, const struct motet_tuning_shape *shape, int row, double bytes)
{
    const struct motet_tuning_point *below = NULL, *above = NULL;
    for (int i = shape->first; i < shape->first + shape->npoints; i++) {
        const struct motet_tuning_point *point = &tuning->points[i];
        if (point->collective != motet_algorithms[row].collective || point->ns[row] <= 0)
            continue;
        if (point->bytes <= bytes)
            below = point;
        else if (!above)
            above = point;
    }
    if (!below)
        return above ? (double)above->ns[row] : 0;
    double at = (double)below->ns[row];
    if (above)
        return at + ((double)above->ns[row] - at) * (bytes - below->bytes) / (above->bytes - below->bytes);
    if (below->bytes <= 0)
        return at;
    return bytes <= BEYOND * below->bytes ? at * bytes / below->bytes : 0;
}

int motet_tuning_rule(const struct motet_tuning *tuning, enum motet_collective collective, double bytes, int nranks, int nhosts,
                      const bool *allowed)
{
    for (int i = 0; i < tuning->nrules; i++) {
        const struct motet_tuning_rule *rule = &tuning->rules[i];
        bool fits = rule->collective == collective && rule->min_bytes <= bytes && bytes <= rule->max_bytes;
        if (fits && (rule->nranks < 0 || rule->nranks == nranks) && (rule->nhosts < 0 || rule->nhosts == nhosts) &&
            allowed[rule->row])
            return rule->row;
    }
    return -1;
}
