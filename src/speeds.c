/* SPDX-License-Identifier: Apache-2.0
 * See speeds.h. The file is replaced as a whole, by the one process that holds the lock beside it; readers need no lock. */
#include "speeds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cache.h"
#include "base/cpus.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/os.h"
#include "base/settings.h"
#include "base/tuning_file.h"
#include "measurement.h"

#define FRESH_S    10 /* a probe counts for so long */
#define RETRY_S    2  /* after a measurement that was not complete nobody tries for so long */
#define PROBE_MS   10
#define MEASURE_MS 80
#define LOCK_TRIES 60 /* milliseconds that another process may take to measure */
#define FILE_MOST  16384

static const char *const distances[MOTET_NDISTANCES] = {
    [MOTET_DISTANCE_NEAR] = "near", [MOTET_DISTANCE_MIDDLE] = "middle", [MOTET_DISTANCE_FAR] = "far"};

/* Members of the file, in order. */
static const struct {
    const char *name;
    size_t offset;
    double least, most;
} numbers[] = {
    {"line_ns", offsetof(struct motet_speeds, line_ns), 1, 1e6},
    {"copy_bytes_per_ns", offsetof(struct motet_speeds, copy_bytes_per_ns), 0.01, 1e5},
    {"shared_bytes_per_ns", offsetof(struct motet_speeds, shared_bytes_per_ns), 0.01, 1e5},
    {"cache_bytes", offsetof(struct motet_speeds, cache_bytes), 0, 1e12},
    {"shared_cache_bytes", offsetof(struct motet_speeds, shared_cache_bytes), 0, 1e12},
    {"memory_bytes_per_ns", offsetof(struct motet_speeds, memory_bytes_per_ns), 0.01, 1e5},
    {"pass_bytes_per_ns", offsetof(struct motet_speeds, pass_bytes_per_ns), 0.01, 1e5},
    {"pass_start_ns", offsetof(struct motet_speeds, pass_start_ns), 0, 1e6},
    {"exchange_bytes_per_ns", offsetof(struct motet_speeds, exchange_bytes_per_ns), 0.01, 1e5},
    {"exchange_start_ns", offsetof(struct motet_speeds, exchange_start_ns), 0, 1e6},
    {"combine_bytes_per_ns", offsetof(struct motet_speeds, combine_bytes_per_ns), 0.01, 1e5},
    {"switch_ns", offsetof(struct motet_speeds, switch_ns), 1, 1e7},
    {"socket_latency_ns", offsetof(struct motet_speeds, socket_latency_ns), 0, 1e9},
    {"socket_bytes_per_ns", offsetof(struct motet_speeds, socket_bytes_per_ns), 0, 1e5},
};
#define NNUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* What the file says. */
struct known {
    struct motet_speeds at[MOTET_NDISTANCES]; /* is_measured: it is there */
    int64_t probed_s;                         /* Unix time of the last probe */
    int64_t failed_s;                         /* of the last measurement that was not complete in time */
    int distance;                             /* that it found */
};

/* Processes that may run on different CPUs measure different pairs. */
static bool find_file(char *path, size_t len)
{
    char name[64];
    struct motet_cpus cpus = motet_cpus_allowed();
    uint64_t hash = motet_machine_fingerprint();
    if (motet_cpus_count(&cpus) > 1) /* one CPU: bound by a launcher, the whole host is meant */
        hash = motet_hash_bytes(hash, &cpus, sizeof(cpus));
    snprintf(name, sizeof(name), "speeds-%016llx.json", (unsigned long long)hash);
    return motet_cache_path(name, path, len);
}

/* ---- The file ---- */

static void read_set(struct motet_json_reader *json, struct motet_speeds *speeds)
{
    char key[32];
    unsigned seen = 0; /* a bit for each */
    if (!motet_json_enter(json, '{'))
        return;
    while (motet_json_next_member(json, key, sizeof(key))) {
        double value;
        size_t i = 0;
        while (i < NNUMBERS && strcmp(key, numbers[i].name) != 0)
            i++;
        if (i == NNUMBERS) {
            motet_json_skip(json);
            continue;
        }
        if (!motet_json_read_number(json, &value) || value < numbers[i].least || value > numbers[i].most)
            return;
        memcpy((char *)speeds + numbers[i].offset, &value, sizeof(value));
        seen |= 1u << i;
    }
    speeds->is_measured = !json->failed && seen == (1u << NNUMBERS) - 1;
}

static void read_known(const char *text, size_t len, struct known *known)
{
    struct motet_json_reader json;
    char key[32];
    double number;
    motet_json_reader_begin(&json, text, len);
    *known = (struct known){.distance = -1};
    if (!motet_json_enter(&json, '{'))
        return;
    while (motet_json_next_member(&json, key, sizeof(key))) {
        int d = 0;
        while (d < MOTET_NDISTANCES && strcmp(key, distances[d]) != 0)
            d++;
        if (d < MOTET_NDISTANCES) {
            read_set(&json, &known->at[d]);
            known->at[d].distance = (uint32_t)d;
        } else if (!strcmp(key, "probed_s") && motet_json_read_number(&json, &number) && number >= 0 && number < 1e12) {
            known->probed_s = (int64_t)number;
        } else if (!strcmp(key, "failed_s") && motet_json_read_number(&json, &number) && number >= 0 && number < 1e12) {
            known->failed_s = (int64_t)number;
        } else if (!strcmp(key, "distance") && motet_json_read_number(&json, &number) && number >= 0 && number < MOTET_NDISTANCES) {
            known->distance = (int)number;
        } else {
            motet_json_skip(&json);
        }
    }
    if (!motet_json_reader_finish(&json)) /* half a file, or another's: it is written anew */
        *known = (struct known){.distance = -1};
}

static void load(const char *path, struct known *known)
{
    char text[FILE_MOST];
    size_t len = 0;
    ssize_t n;
    int fd = motet_descriptor_lift(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    *known = (struct known){.distance = -1};
    if (fd < 0)
        return;
    while (len < sizeof(text) && ((n = read(fd, text + len, sizeof(text) - len)) > 0 || (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    close(fd);
    if (len < sizeof(text))
        read_known(text, len, known);
}

static void save(const char *path, const struct known *known)
{
    char temporary[4200];
    struct motet_json json = {.limit = FILE_MOST - 1};
    motet_json_begin(&json, NULL, '{');
    motet_json_text(&json, "machine", motet_machine_text());
    motet_json_int(&json, "probed_s", known->probed_s);
    motet_json_int(&json, "failed_s", known->failed_s);
    motet_json_int(&json, "distance", known->distance);
    for (int d = 0; d < MOTET_NDISTANCES; d++) {
        if (!known->at[d].is_measured)
            continue;
        motet_json_begin(&json, distances[d], '{');
        for (size_t i = 0; i < NNUMBERS; i++) {
            double value;
            memcpy(&value, (const char *)&known->at[d] + numbers[i].offset, sizeof(value));
            motet_json_real(&json, numbers[i].name, value);
        }
        motet_json_end(&json, '}');
    }
    motet_json_end(&json, '}');
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    int fd = json.failed ? -1 : motet_descriptor_lift(open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (fd >= 0) {
        bool written = motet_descriptor_write(fd, json.text, json.len) == 0;
        if (close(fd) != 0 || !written || rename(temporary, path) != 0)
            unlink(temporary);
    }
    motet_json_free(&json);
}

/* ---- Measuring ---- */

static bool is_fresh(const struct known *known)
{
    int64_t age = (int64_t)time(NULL) - known->probed_s;
    return known->distance >= 0 && known->at[known->distance].is_measured && age >= 0 && age < FRESH_S;
}

/* The host is busy: a job of many ranks that starts would be busy with measuring, one rank after the other. */
static bool has_just_failed(const struct known *known)
{
    int64_t age = (int64_t)time(NULL) - known->failed_s;
    return age >= 0 && age < RETRY_S;
}

static uint64_t after_ms(int ms)
{
    return motet_now_ns() + (uint64_t)ms * 1000000;
}

static bool measure(struct known *known, int patience)
{
    double round_trip_ns = motet_measurement_probe(after_ms(patience * PROBE_MS));
    struct motet_speeds speeds = {0};
    if (round_trip_ns <= 0)
        return false;
    known->distance = motet_measurement_distance(round_trip_ns);
    known->probed_s = (int64_t)time(NULL);
    if (known->at[known->distance].is_measured)
        return true;
    if (!motet_measurement_run(after_ms(patience * MEASURE_MS), &speeds))
        return false;
    known->distance = (int)speeds.distance; /* it may have moved meanwhile */
    known->at[speeds.distance] = speeds;
    return true;
}

/* The lock that one process measures under. -1: not to be had in time, or there can be no file. */
static int take_lock(const char *path)
{
    char name[4200];
    snprintf(name, sizeof(name), "%s.lock", path);
    int fd = motet_cache_prepare(path) ? motet_descriptor_lift(open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) : -1;
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0; tries++) {
        struct timespec millisecond = {.tv_nsec = 1000000};
        if (tries == LOCK_TRIES) {
            close(fd);
            return -1;
        }
        nanosleep(&millisecond, NULL);
    }
    return fd;
}

static void find_out(struct motet_speeds *speeds, int patience)
{
    char path[4096];
    struct known known;
    if (!find_file(path, sizeof(path)))
        return;
    load(path, &known);
    if (!is_fresh(&known) && !has_just_failed(&known)) {
        int lock = take_lock(path);
        load(path, &known); /* another process may have been faster */
        if (lock >= 0 && !is_fresh(&known) && !has_just_failed(&known)) {
            if (!measure(&known, patience))
                known.failed_s = (int64_t)time(NULL);
            save(path, &known);
        }
        if (lock >= 0)
            close(lock);
    }
    if (known.distance >= 0 && known.at[known.distance].is_measured)
        *speeds = known.at[known.distance];
}

void motet_speeds_get(struct motet_speeds *speeds)
{
    motet_speeds_get_patiently(speeds, 1);
}

void motet_speeds_get_patiently(struct motet_speeds *speeds, int patience)
{
    *speeds = (struct motet_speeds){0};
    if (motet_setting_int(MOTET_SET_MEASURE))
        find_out(speeds, patience);
    speeds->machine = motet_machine_fingerprint();
    speeds->tuning = motet_tuning_file()->digest;
    if (speeds->is_measured)
        INFO(MOTET_LOG_TUNING, "machine: a line takes %.0f ns (%s), a switch %.0f; bytes/ns: copy %.1f, memory %.1f",
             speeds->line_ns, distances[speeds->distance], speeds->switch_ns, speeds->copy_bytes_per_ns,
             speeds->memory_bytes_per_ns);
    else
        INFO(MOTET_LOG_TUNING, "machine: not measured; the choice of algorithms assumes one");
}
