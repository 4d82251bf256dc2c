/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json_file.h"

#define DIGITS 6 /* of a time */

/* Makes all folders of a path. */
static bool make_folders(char *file)
{
    for (char *slash = strchr(file + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(file, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

bool tune_table_usual_file(char *file, size_t len, char *why, size_t why_len)
{
    const char *own = getenv("MOTET_CACHE_DIR"), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        snprintf(file, len, "%s/tuning.json", own);
    else if (base && *base == '/') /* relative ones do not count */
        snprintf(file, len, "%s/motet/tuning.json", base);
    else if (home && *home)
        snprintf(file, len, "%s/.cache/motet/tuning.json", home);
    else
        return snprintf(why, why_len, "no cache directory: neither MOTET_CACHE_DIR, XDG_CACHE_HOME nor HOME is set; use --output"),
               false;
    if (make_folders(file))
        return true;
    snprintf(why, why_len, "%s: %s", file, strerror(errno));
    return false;
}

static json_t *make_point(const struct tune_point *point, bool with_predictions)
{
    json_t *object = json_object(), *times = json_object(), *predicted = json_object();
    json_object_set_new(object, "collective", json_string(point->collective));
    json_object_set_new(object, "bytes", json_integer((json_int_t)point->bytes));
    for (int a = 0; a < point->n; a++) {
        json_object_set_new(times, point->times[a].name, json_real(point->times[a].us));
        json_object_set_new(predicted, point->times[a].name, json_real(point->times[a].predicted_us));
    }
    json_object_set_new(object, "times_us", times);
    if (!with_predictions) {
        json_decref(predicted);
        return object;
    }
    json_object_set_new(object, "predicted_us", predicted);
    json_object_set_new(object, "probe_us", json_real(point->probe_us));
    json_object_set_new(object, "chosen", point->chosen ? json_string(point->chosen) : json_null());
    return object;
}

static json_t *make_shape(const struct tune_plan *plan, const struct tune_point *points, int n, bool with_predictions)
{
    char machine[20];
    json_t *object = json_object(), *list = json_array();
    snprintf(machine, sizeof machine, "%016llx", (unsigned long long)plan->shape.machine);
    json_object_set_new(object, "machine", json_string(machine));
    json_object_set_new(object, "ranks", json_integer(plan->shape.nranks));
    json_object_set_new(object, "hosts", json_integer(plan->shape.nhosts));
    json_object_set_new(object, "cpus", json_integer(plan->shape.cpus));
    json_object_set_new(object, "threads", json_boolean(plan->shape.threads));
    for (int i = 0; i < n; i++)
        json_array_append_new(list, make_point(&points[i], with_predictions));
    json_object_set_new(object, "points", list);
    return object;
}

static bool same_shape(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"machine", "ranks", "hosts", "cpus", "threads"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *x = json_object_get(a, keys[i]), *y = json_object_get(b, keys[i]);
        if (!x || !y || !json_equal(x, y))
            return false;
    }
    return true;
}

static json_t *new_table(void)
{
    return json_pack("{s:i, s:[]}", "motet_tuning", 1, "shapes");
}

/* The table that is there, or an empty one. */
static json_t *load(const char *file, char *why, size_t why_len)
{
    size_t len;
    struct stat status;
    if (stat(file, &status) != 0 && errno == ENOENT)
        return new_table();
    char *text = json_file_load(file, &len, why, why_len);
    json_t *table = text ? json_file_parse(file, text, len, why, why_len) : NULL;
    if (table && !json_is_array(json_object_get(table, "shapes"))) {
        json_file_complain(file, text, len, "shapes", "is missing: not a table of motet tune", why, why_len);
        json_decref(table);
        table = NULL;
    }
    free(text);
    return table;
}

/* Points of the same collective and size go, others stay. */
static void merge_points(json_t *into, json_t *points)
{
    size_t i, k;
    json_t *point, *old;
    json_array_foreach(points, i, point)
    {
        json_array_foreach(into, k, old)
        {
            if (json_equal(json_object_get(old, "collective"), json_object_get(point, "collective")) &&
                json_equal(json_object_get(old, "bytes"), json_object_get(point, "bytes"))) {
                json_array_remove(into, k);
                break;
            }
        }
        json_array_append(into, point);
    }
}

static void merge_shape(json_t *table, json_t *shape)
{
    size_t i;
    json_t *old, *shapes = json_object_get(table, "shapes");
    json_array_foreach(shapes, i, old)
    {
        if (!same_shape(old, shape) || !json_is_array(json_object_get(old, "points")))
            continue;
        merge_points(json_object_get(old, "points"), json_object_get(shape, "points"));
        json_decref(shape);
        return;
    }
    json_array_append_new(shapes, shape);
}

static bool write_file(const char *file, const json_t *table, char *why, size_t why_len)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%d", file, (int)getpid()) >= (int)sizeof temporary)
        return snprintf(why, why_len, "%s: %s", file, strerror(ENAMETOOLONG)), false;
    FILE *out = fopen(temporary, "we");
    bool ok = out && json_dumpf(table, out, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS)) == 0 && fputc('\n', out) != EOF;
    if (out && fclose(out) != 0)
        ok = false;
    ok = ok && rename(temporary, file) == 0;
    if (!ok) {
        snprintf(why, why_len, "%s: %s", file, strerror(errno ? errno : EIO));
        unlink(temporary);
    }
    return ok;
}

bool tune_table_merge(const char *file, const struct tune_plan *plan, const struct tune_point *points, int n, char *why,
                      size_t why_len)
{
    json_t *table = load(file, why, why_len);
    if (!table)
        return false;
    merge_shape(table, make_shape(plan, points, n, false));
    bool ok = write_file(file, table, why, why_len);
    json_decref(table);
    return ok;
}

void tune_table_print(const struct tune_plan *plan, const struct tune_point *points, int n)
{
    json_t *table = new_table();
    json_array_append_new(json_object_get(table, "shapes"), make_shape(plan, points, n, true));
    json_dumpf(table, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    putchar('\n');
    json_decref(table);
}
