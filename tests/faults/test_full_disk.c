/* SPDX-License-Identifier: Apache-2.0
 * What the library writes for people (log, record of calls, trace, report) has no room: on a full disk, and under a limit of file sizes,
 * whose signal would end the program. Results stay right, it is said, once for each file, and nothing half written is left. */
#include "../multi/probe.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "entries.h"
#include "mounts.h"

enum { RANKS = 2 };

static int all_reduce(motetComm_t *comms, int salt)
{
    int64_t in[RANKS], out[RANKS] = {-1, -1};
    CALL(motetGroupStart());
    for (int r = 0; r < RANKS; r++) {
        in[r] = probe_value(r, 0, salt);
        CALL(motetAllReduce(&in[r], &out[r], 1, motetInt64, motetSum, comms[r], NULL));
    }
    CALL(motetGroupEnd());
    CHECK(out[0] == probe_sum(RANKS, 0, salt) && out[1] == out[0]);
    return 0;
}

static char said[64 * 1024]; /* on stderr: a pipe, which is no file and has no limit but its size */

static int times_said(const char *words)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, words)); at++)
        n++;
    return n;
}

static void set_path(const char *name, const char *folder, const char *file)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    setenv(name, path, 1);
}

/* Everything that writes; `limit` 0: none of file sizes. */
static int write_everything(const char *folder, rlim_t limit, const char *cause)
{
    motetComm_t comms[RANKS];
    char *json = NULL;
    int ends[2], keep = dup(STDERR_FILENO);
    CHECK(pipe(ends) == 0 && keep >= 0);
    set_path("MOTET_DEBUG_FILE", folder, "log");
    set_path("MOTET_DUMP_FILE", folder, "dump");
    set_path("MOTET_TRACE", folder, "trace");
    set_path("MOTET_REPORT", folder, "report");
    setenv("MOTET_DEBUG", "INFO", 1);
    dup2(ends[1], STDERR_FILENO);
    CALL(motetCommInitAll(comms, RANKS, NULL));
    if (limit)
        CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit}) == 0);
    for (int salt = 0; salt < 20; salt++)
        CHECK(all_reduce(comms, salt) == 0);
    CALL(motetStatusDump(getpid(), 20000, &json));
    bool told = strstr(json, cause) != NULL;
    for (int r = 0; r < RANKS; r++)
        CALL(motetCommDestroy(comms[r]));
    dup2(keep, STDERR_FILENO);
    close(ends[1]);
    for (ssize_t at = 0, n; (n = read(ends[0], said + at, sizeof said - 1 - (size_t)at)) > 0;)
        at += n;
    if (!told)
        return world_complain(__FILE__, __LINE__, "no %s in %s", cause, json);
    free(json);
    return 0;
}

static int check_words(const char *folder, const char *cause)
{
    char text[160];
    snprintf(text, sizeof text, "%s/dump", folder);
    CHECK(access(text, F_OK) != 0 && errno == ENOENT);
    snprintf(text, sizeof text, "(%s): logging to stderr instead", cause);
    if (times_said(text) == 1 && times_said("the record of calls could not be written") == 1 &&
        times_said("the report could not be written") == 1)
        return 0;
    size_t len = strlen(said);
    return world_complain(__FILE__, __LINE__, "said at last: %s", said + (len > 1500 ? len - 1500 : 0));
}

/* ---- A disk that is full ---- */

static int on_a_full_disk(motetComm_t unused, int rank, int nranks, const void *argument)
{
    const char *folder = argument;
    char filler[128], bytes[4096] = {1};
    (void)unused, (void)rank, (void)nranks;
    snprintf(filler, sizeof filler, "%s/filler", folder);
    CHECK(mounts_unshare() && mounts_cover(folder, "16k"));
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, bytes, sizeof bytes) > 0)
        continue;
    CHECK(errno == ENOSPC);
    close(fd);
    CHECK(write_everything(folder, 0, "No space left on device") == 0);
    CHECK(check_words(folder, "No space left on device") == 0);
    /* The filler, and what was made and got no byte; no drafts. */
    CHECK(count_entries(folder) <= 2 + 1 + 2);
    return 0;
}

static int under_a_limit(motetComm_t unused, int rank, int nranks, const void *argument)
{
    const char *folder = argument;
    (void)unused, (void)rank, (void)nranks;
    CHECK(write_everything(folder, 100, "File too large") == 0);
    CHECK(check_words(folder, "File too large") == 0);
    CHECK(count_entries(folder) <= 2 + 2);
    return 0;
}

static void run_in_folder(world_function function)
{
    char folder[] = "/tmp/motet-full-disk-XXXXXX", command[128];
    assert_non_null(mkdtemp(folder));
    int failed = world_run(&(struct world){WORLD_ALONE, 1, {NULL}, 60, 0}, function, folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(failed, 0);
}

static void test_full_disk_is_said_once_and_changes_nothing(void **state)
{
    (void)state;
    if (!mounts_allowed())
        skip();
    run_in_folder(on_a_full_disk);
}

static void test_full_disk_limit_of_file_sizes_raises_no_signal(void **state)
{
    (void)state;
    run_in_folder(under_a_limit);
}

/* ---- A trace that goes to a device ---- */

static int trace_to_device(motetComm_t unused, int rank, int nranks, const void *argument)
{
    const char *folder = argument;
    motetComm_t comms[RANKS];
    struct stat status;
    char path[128];
    (void)unused, (void)rank, (void)nranks;
    snprintf(path, sizeof path, "%s/null", folder);
    CHECK(mknod(path, S_IFCHR | 0600, 1 << 8 | 3) == 0);
    setenv("MOTET_TRACE", path, 1);
    CALL(motetCommInitAll(comms, RANKS, NULL));
    CHECK(all_reduce(comms, 1) == 0);
    for (int r = 0; r < RANKS; r++)
        CALL(motetCommDestroy(comms[r]));
    CHECK(stat(path, &status) == 0 && S_ISCHR(status.st_mode)); /* written to, not replaced */
    CHECK(count_entries(folder) == 3);
    return 0;
}

static void test_full_disk_device_is_written_to_and_stays(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    run_in_folder(trace_to_device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_disk_is_said_once_and_changes_nothing),
        cmocka_unit_test(test_full_disk_limit_of_file_sizes_raises_no_signal),
        cmocka_unit_test(test_full_disk_device_is_written_to_and_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
