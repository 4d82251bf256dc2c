/* SPDX-License-Identifier: Apache-2.0
 * The numbers of this host: measured once, kept, read back the same, and never in the way of a program that starts. */
#include "speeds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/machine.h"
#include "base/os.h"
#include "base/settings.h"
#include "measurement.h"
#include "unit/child.h"

static char folder[64], setting[128];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/motet_test_XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(setting, sizeof setting, "MOTET_CACHE_DIR=%s/deep/er", folder);
    return 0;
}

static int remove_folder(void **state)
{
    char command[160];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        n += entry->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n;
}

/* The path of the one file that begins with "speeds-" and ends with ".json". */
static bool find_file(char *path, size_t len)
{
    char where[128];
    snprintf(where, sizeof where, "%s/deep/er", folder);
    DIR *files = opendir(where);
    bool found = false;
    for (struct dirent *entry; files && (entry = readdir(files));) {
        size_t n = strlen(entry->d_name);
        if (strncmp(entry->d_name, "speeds-", 7) == 0 && n > 5 && strcmp(entry->d_name + n - 5, ".json") == 0) {
            snprintf(path, len, "%s/%s", where, entry->d_name);
            found = true;
        }
    }
    if (files)
        closedir(files);
    return found;
}

/* Also on a machine whose CPUs are all busy. */
static void get_measured(struct motet_speeds *speeds)
{
    for (int tries = 0; tries < 10 && !speeds->is_measured; tries++) {
        if (tries > 0)
            sleep(3); /* nobody tries again before */
        motet_speeds_get_patiently(speeds, 50);
    }
}

static void body_measured(void)
{
    struct motet_speeds first = {0}, again;
    cpu_set_t before, after;
    char path[512];
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    CHILD_CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    get_measured(&first);
    CHILD_CHECK(first.machine == motet_machine_fingerprint() && first.machine != 0);
    CHILD_CHECK(count_threads() == 1);
    CHILD_CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    CHILD_CHECK(first.is_measured && find_file(path, sizeof path));
    CHILD_CHECK(first.line_ns > 1 && first.line_ns < 1e5 && first.switch_ns > 10 && first.copy_bytes_per_ns > 0.1);
    CHILD_CHECK(first.memory_bytes_per_ns > 0.1 && first.combine_bytes_per_ns > 0.1);
    for (int tries = 0; tries < 200; tries++) { /* soon enough after the last probe, the same numbers */
        motet_speeds_get(&first);
        motet_speeds_get(&again);
        if (memcmp(&first, &again, sizeof first) == 0)
            return;
    }
    CHILD_CHECK(!"two processes that start one after the other have the same numbers");
}

static void test_speeds_are_measured_once_and_kept(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, (const char *[]){setting, NULL}, body_measured);
    if (child.status)
        fail_msg("%s", child.output);
}

static void body_not_wanted(void)
{
    struct motet_speeds speeds;
    char path[512];
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    motet_speeds_get(&speeds);
    CHILD_CHECK(!speeds.is_measured && speeds.machine != 0 && !find_file(path, sizeof path));
}

static void test_nothing_is_measured_or_written_where_it_is_not_wanted(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, (const char *[]){setting, "MOTET_MEASURE=0", NULL}, body_not_wanted);
    if (child.status)
        fail_msg("%s", child.output);
    child_run(&child, (const char *[]){"MOTET_CACHE_DIR=/proc/nowhere", NULL}, body_not_wanted);
    if (child.status)
        fail_msg("%s", child.output);
}

/* Whatever stands in the file: no crash, no number that makes no sense. */
static void body_damaged(void)
{
    struct motet_speeds speeds = {0};
    char path[512];
    CHILD_CHECK(motet_settings_load() == motetSuccess);
    get_measured(&speeds);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return;
    CHILD_CHECK(speeds.is_measured && find_file(path, sizeof path));
    static const char *const texts[] = {"", "{", "nonsense", "{\"probed_s\": 1e999, \"distance\": -3}",
                                        "{\"probed_s\": 99999999999, \"distance\": 0, \"near\": {\"line_ns\": -5}}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE *out = fopen(path, "w");
        CHILD_CHECK(out);
        fputs(texts[i], out);
        fclose(out);
        motet_speeds_get(&speeds);
        CHILD_CHECK(!speeds.is_measured || (speeds.line_ns > 1 && speeds.memory_bytes_per_ns > 0.01));
    }
    /* A pipe in the place of the file, or of the lock, does not block. */
    char lock[520];
    snprintf(lock, sizeof lock, "%s.lock", path);
    unlink(path);
    unlink(lock);
    CHILD_CHECK(mkfifo(path, 0600) == 0 && mkfifo(lock, 0600) == 0);
    motet_speeds_get(&speeds);
    unlink(lock);
    unlink(path);
}

static void test_damaged_files_are_measured_anew(void **state)
{
    struct child child;
    (void)state;
    child_run(&child, (const char *[]){setting, NULL}, body_damaged);
    if (child.status)
        fail_msg("%s", child.output);
}

static void test_measurement_ends_at_its_deadline(void **state)
{
    (void)state;
    struct motet_speeds speeds = {.machine = 1};
    uint64_t begin_ns = motet_now_ns();
    assert_false(motet_measurement_run(begin_ns, &speeds));
    assert_float_equal(motet_measurement_probe(begin_ns), 0, 0);
    assert_true(motet_now_ns() - begin_ns < 20ull * 1000000000);
    assert_true(speeds.machine == 1 && !speeds.is_measured);
    assert_int_equal(motet_measurement_distance(60), MOTET_DISTANCE_NEAR);
    assert_int_equal(motet_measurement_distance(110), MOTET_DISTANCE_MIDDLE);
    assert_int_equal(motet_measurement_distance(400), MOTET_DISTANCE_FAR);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_speeds_are_measured_once_and_kept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_nothing_is_measured_or_written_where_it_is_not_wanted, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_damaged_files_are_measured_anew, make_folder, remove_folder),
        cmocka_unit_test(test_measurement_ends_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
