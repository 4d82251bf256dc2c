/* SPDX-License-Identifier: Apache-2.0
 * Meeting through the caller's store and through a directory: the same cases over both, since both hold the same meeting. */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "boot_ranks.h"

#define TIMEOUT_MS 20000
#define ENTRIES    512

/* A store in shared memory, as a caller would write one. */
struct entry {
    char key[132];
    size_t len;
    uint8_t *value; /* into the heap below */
};

struct store {
    pthread_mutex_t lock;
    int nentries, nsets, longest_get_ms;
    size_t longest_value;
    int fail_set, fail_get; /* as results, when not 0 */
    struct entry entries[ENTRIES];
    size_t used;
    uint8_t heap[16 << 20];
};

struct meeting {
    bool is_file;
    char directory[64];
    struct store *store;
    int64_t timeout_ms;
    int special, nrounds;
};

static int store_set(void *context, const char *key, const void *value, size_t len)
{
    struct store *store = context;
    pthread_mutex_lock(&store->lock);
    int i = 0;
    while (i < store->nentries && strcmp(store->entries[i].key, key) != 0)
        i++;
    int status = store->fail_set;
    if (status == 0 && i < ENTRIES && store->used + len <= sizeof(store->heap)) {
        store->nentries += i == store->nentries;
        snprintf(store->entries[i].key, sizeof(store->entries[i].key), "%s", key);
        store->entries[i].len = len;
        store->entries[i].value = store->heap + store->used;
        memcpy(store->entries[i].value, value, len);
        store->used += len;
        store->nsets++;
        if (len > store->longest_value)
            store->longest_value = len;
        if (strncmp(key, "motet", 5) != 0 || strlen(key) > 128)
            status = 77;
    }
    pthread_mutex_unlock(&store->lock);
    return status;
}

static int store_get(void *context, const char *key, void *value, size_t capacity, size_t *len, int timeout_ms)
{
    struct store *store = context;
    uint64_t deadline = motet_now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        int status = 1;
        pthread_mutex_lock(&store->lock);
        if (timeout_ms > store->longest_get_ms)
            store->longest_get_ms = timeout_ms;
        for (int i = 0; i < store->nentries; i++) {
            if (strcmp(store->entries[i].key, key) != 0)
                continue;
            *len = store->entries[i].len;
            status = *len > capacity ? -1 : 0;
            if (status == 0)
                memcpy(value, store->entries[i].value, *len);
        }
        status = store->fail_get ? store->fail_get : status;
        pthread_mutex_unlock(&store->lock);
        if (status != 1 || motet_now_ns() >= deadline)
            return status;
        usleep(500);
    }
}

static struct meeting make_meeting(bool is_file)
{
    struct meeting meeting = {.is_file = is_file, .timeout_ms = TIMEOUT_MS, .special = -1, .nrounds = 2};
    if (is_file) {
        snprintf(meeting.directory, sizeof(meeting.directory), "/tmp/motet-test-XXXXXX");
        assert_non_null(mkdtemp(meeting.directory));
        return meeting;
    }
    pthread_mutexattr_t attributes;
    meeting.store = mmap(NULL, sizeof(*meeting.store), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(meeting.store, MAP_FAILED);
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&meeting.store->lock, &attributes);
    return meeting;
}

static int count_files(const char *directory)
{
    int count = 0;
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        count += entry->d_name[0] != '.';
    if (entries)
        closedir(entries);
    return count;
}

/* Removes everything, returns how many files there were. */
static int end_meeting(struct meeting *meeting)
{
    char command[128];
    int count = 0;
    if (meeting->is_file) {
        count = count_files(meeting->directory);
        snprintf(command, sizeof(command), "rm -rf %s", meeting->directory);
        assert_int_equal(system(command), 0);
    } else {
        munmap(meeting->store, sizeof(*meeting->store));
    }
    return count;
}

static motetResult_t open_meeting(struct motet_boot *boot, const struct meeting *meeting, int nranks, int rank)
{
    motetStore_t store = {.context = meeting->store, .set = store_set, .get = store_get};
    uint64_t deadline = motet_deadline_ns(meeting->timeout_ms);
    return meeting->is_file ? motet_boot_open_file(boot, meeting->directory, nranks, rank, deadline, NULL)
                            : motet_boot_open_store(boot, &store, nranks, rank, deadline, NULL);
}

static size_t swept_len(int rank, unsigned round)
{
    static const size_t lens[] = {0, 1, 65527, 65528, 65529, 65536, 131064, 200001};
    return lens[((unsigned)rank + round) % (sizeof(lens) / sizeof(lens[0]))];
}

static int gather_rank(int rank, int nranks, void *argument)
{
    const struct meeting *meeting = argument;
    struct motet_boot boot;
    void **all;
    size_t *lens;
    RANK_CHECK(open_meeting(&boot, meeting, nranks, rank) == motetSuccess);
    /* The secret is the same everywhere, and not a constant. */
    RANK_CHECK(motet_boot_allgather(&boot, &boot.secret, sizeof(boot.secret), &all, &lens) == motetSuccess);
    static const struct motet_secret zeros;
    for (int i = 0; i < nranks; i++)
        RANK_CHECK(lens[i] == sizeof(boot.secret) && memcmp(all[i], &boot.secret, sizeof(boot.secret)) == 0);
    RANK_CHECK(memcmp(&boot.secret, &zeros, sizeof(zeros)) != 0);
    free(all);
    for (unsigned round = 0; round < (unsigned)meeting->nrounds; round++)
        RANK_CHECK(gather_and_check(&boot, swept_len, round) == 0);
    motet_boot_close(&boot);
    return 0;
}

static void test_allgather_blobs_of_all_sizes_arrive_and_nothing_is_left(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int i = 0; i < 10; i++) {
        struct meeting meeting = make_meeting(i % 2);
        meeting.nrounds = 8;
        struct outcome *outcomes = run_ranks(sizes[i / 2], gather_rank, &meeting);
        assert_all(outcomes, sizes[i / 2], 0);
        outcomes_free(outcomes, sizes[i / 2]);
        if (!meeting.is_file)
            assert_true(meeting.store->longest_value <= 65536);
        assert_int_equal(end_meeting(&meeting), 0);
    }
}

static void test_directory_that_is_missing_is_made_and_removed(void **state)
{
    (void)state;
    struct meeting meeting = make_meeting(true);
    assert_int_equal(rmdir(meeting.directory), 0);
    struct outcome *outcomes = run_ranks(3, gather_rank, &meeting);
    assert_all(outcomes, 3, 0);
    outcomes_free(outcomes, 3);
    assert_int_equal(access(meeting.directory, F_OK), -1);
    assert_int_equal(errno, ENOENT);
}

/* ---- disagreement */

static int differing_rank(int rank, int nranks, void *argument)
{
    const struct meeting *meeting = argument;
    struct motet_boot boot;
    bool differs = rank == meeting->special;
    int result = (int)open_meeting(&boot, meeting, differs ? nranks + 3 : nranks, rank);
    if (result == 0)
        motet_boot_close(&boot);
    return result;
}

static void test_open_other_size_is_an_error_on_all_that_names_both(void **state)
{
    (void)state;
    for (int is_file = 0; is_file < 2; is_file++) {
        struct meeting meeting = make_meeting(is_file);
        meeting.special = 2;
        struct outcome *outcomes = run_ranks(4, differing_rank, &meeting);
        assert_all(outcomes, 4, motetInvalidUsage);
        for (int rank = 0; rank < 4; rank++) {
            assert_says(&outcomes[rank], "rank 2 (pid ");
            assert_says(&outcomes[rank], "says that there are 7 ranks");
            assert_says(&outcomes[rank], "says 4");
        }
        outcomes_free(outcomes, 4);
        end_meeting(&meeting);
    }
}

/* Process 2 of 3 says that it is rank 1 too, a moment later or at once. */
static int duplicate_rank(int rank, int nranks, void *argument)
{
    const struct meeting *meeting = argument;
    struct motet_boot boot;
    if (rank == 2 && meeting->special)
        usleep(200000);
    int result = (int)open_meeting(&boot, meeting, nranks, rank == 2 ? 1 : rank);
    if (result == 0)
        motet_boot_close(&boot);
    return result;
}

static void test_open_duplicate_rank_is_an_error_on_all(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct meeting meeting = make_meeting(i % 2);
        meeting.special = i / 2;
        meeting.timeout_ms = 4000; /* nobody is rank 2 */
        struct outcome *outcomes = run_ranks(3, duplicate_rank, &meeting);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(outcomes[rank].result, motetInvalidUsage);
            assert_says(&outcomes[rank], "rank 1");
            assert_says(&outcomes[rank], "pid ");
        }
        outcomes_free(outcomes, 3);
        end_meeting(&meeting);
    }
}

static void test_open_used_meeting_point_is_an_error(void **state)
{
    (void)state;
    struct meeting meeting = make_meeting(false);
    struct outcome *outcomes = run_ranks(3, gather_rank, &meeting);
    assert_all(outcomes, 3, 0);
    outcomes_free(outcomes, 3);
    meeting.timeout_ms = 3000;
    outcomes = run_ranks(3, differing_rank, &meeting);
    assert_all(outcomes, 3, motetInvalidUsage);
    assert_says(&outcomes[0], "meeting point of its own");
    outcomes_free(outcomes, 3);
    end_meeting(&meeting);
}

/* ---- ranks that do not come or give up */

static int absent_rank(int rank, int nranks, void *argument)
{
    const struct meeting *meeting = argument;
    struct motet_boot boot;
    if (rank == meeting->special)
        return 0;
    int result = (int)open_meeting(&boot, meeting, nranks, rank);
    if (result == 0)
        motet_boot_close(&boot);
    return result;
}

static void test_open_missing_rank_times_out_and_is_named_on_all(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct meeting meeting = make_meeting(i % 2);
        meeting.special = i / 2 ? 0 : 2;
        meeting.timeout_ms = 600;
        struct outcome *outcomes = run_ranks(4, absent_rank, &meeting);
        for (int rank = 0; rank < 4; rank++) {
            if (rank == meeting.special)
                continue;
            assert_int_equal(outcomes[rank].result, motetTimeout);
            assert_says(&outcomes[rank], meeting.special ? "missing ranks: 2;" : "missing ranks: 0;");
            assert_says(&outcomes[rank], meeting.special ? "3 of 4 ranks came: 0-1, 3" : "3 of 4 ranks came: 1-3");
            assert_says(&outcomes[rank], meeting.is_file ? meeting.directory : "the caller's store");
        }
        outcomes_free(outcomes, 4);
        end_meeting(&meeting);
    }
}

static int quitting_rank(int rank, int nranks, void *argument)
{
    const struct meeting *meeting = argument;
    struct motet_boot boot;
    RANK_CHECK(open_meeting(&boot, meeting, nranks, rank) == motetSuccess);
    RANK_CHECK(gather_and_check(&boot, swept_len, 0) == 0);
    int result = 0;
    if (rank == meeting->special) {
        motet_boot_give_up(&boot, motetRemoteError, "the dog ate the memory");
    } else {
        result = gather_and_check(&boot, swept_len, 1);
        RANK_CHECK(motet_boot_check(&boot) != motetSuccess);
    }
    motet_boot_close(&boot);
    return result;
}

static void test_give_up_is_heard_by_all_with_name_and_reason(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct meeting meeting = make_meeting(i % 2);
        uint64_t before = motet_now_ns();
        meeting.special = i / 2;
        struct outcome *outcomes = run_ranks(3, quitting_rank, &meeting);
        for (int rank = 0; rank < 3; rank++) {
            assert_int_equal(outcomes[rank].result, rank == meeting.special ? motetSuccess : motetRemoteError);
            if (rank == meeting.special)
                continue;
            assert_says(&outcomes[rank], "gave up: the dog ate the memory");
            assert_says(&outcomes[rank], meeting.special ? "rank 1 (pid " : "rank 0 (pid ");
            assert_true(outcomes[rank].ended_ns - before < 6000000000u);
        }
        outcomes_free(outcomes, 3);
        assert_int_equal(end_meeting(&meeting), 0); /* files go after a failure too, once all have closed */
    }
}

/* ---- callbacks and directories that fail */

static int failing_rank(int rank, int nranks, void *argument)
{
    return differing_rank(rank, nranks, argument);
}

static void test_store_errors_are_reported_with_key_and_code(void **state)
{
    (void)state;
    struct meeting meeting = make_meeting(false);
    meeting.store->fail_set = 42;
    struct outcome *outcomes = run_ranks(1, failing_rank, &meeting);
    assert_int_equal(outcomes[0].result, 0); /* one rank needs no store */
    outcomes_free(outcomes, 1);
    outcomes = run_ranks(2, failing_rank, &meeting);
    assert_all(outcomes, 2, motetRemoteError);
    assert_says(&outcomes[0], "motet/hello.0");
    assert_says(&outcomes[0], "error 42");
    outcomes_free(outcomes, 2);
    meeting.store->fail_set = 0;
    meeting.store->fail_get = -3;
    outcomes = run_ranks(2, failing_rank, &meeting);
    assert_all(outcomes, 2, motetRemoteError);
    assert_says(&outcomes[1], "motet/hello.1");
    assert_says(&outcomes[1], "error -3");
    outcomes_free(outcomes, 2);
    end_meeting(&meeting);
}

static void test_store_get_is_never_asked_to_wait_long(void **state)
{
    (void)state;
    struct meeting meeting = make_meeting(false);
    meeting.special = 1;
    meeting.timeout_ms = 500;
    struct outcome *outcomes = run_ranks(2, absent_rank, &meeting);
    assert_int_equal(outcomes[0].result, motetTimeout);
    assert_in_range(meeting.store->longest_get_ms, 1, 100); /* so that abort is seen soon */
    outcomes_free(outcomes, 2);
    end_meeting(&meeting);
}

static void test_directory_that_cannot_be_opened_is_named(void **state)
{
    (void)state;
    struct meeting meeting = {.is_file = true, .timeout_ms = 1000, .special = -1};
    snprintf(meeting.directory, sizeof(meeting.directory), "/dev/null");
    struct outcome *outcomes = run_ranks(2, failing_rank, &meeting);
    assert_all(outcomes, 2, motetSystemError);
    assert_says(&outcomes[1], "/dev/null");
    outcomes_free(outcomes, 2);
    snprintf(meeting.directory, sizeof(meeting.directory), "/proc/no/such/place");
    outcomes = run_ranks(2, failing_rank, &meeting);
    assert_all(outcomes, 2, motetSystemError);
    assert_says(&outcomes[0], strerror(ENOENT));
    outcomes_free(outcomes, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allgather_blobs_of_all_sizes_arrive_and_nothing_is_left),
        cmocka_unit_test(test_directory_that_is_missing_is_made_and_removed),
        cmocka_unit_test(test_open_other_size_is_an_error_on_all_that_names_both),
        cmocka_unit_test(test_open_duplicate_rank_is_an_error_on_all),
        cmocka_unit_test(test_open_used_meeting_point_is_an_error),
        cmocka_unit_test(test_open_missing_rank_times_out_and_is_named_on_all),
        cmocka_unit_test(test_give_up_is_heard_by_all_with_name_and_reason),
        cmocka_unit_test(test_store_errors_are_reported_with_key_and_code),
        cmocka_unit_test(test_store_get_is_never_asked_to_wait_long),
        cmocka_unit_test(test_directory_that_cannot_be_opened_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
