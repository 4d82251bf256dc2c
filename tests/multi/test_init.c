/* SPDX-License-Identifier: Apache-2.0
 * The ways to make a communicator: unique id, environment, a caller's store, a directory, threads; non-blocking; and what init
 * says when something is wrong. */
#include "probe.h"

#include <dirent.h>
#include <stdatomic.h>
#include <sys/stat.h>

static int alone(world_function function, int nranks, const void *argument)
{
    return world_run(&(struct world){.kind = WORLD_ALONE, .nranks = nranks}, function, argument);
}

/* Runs `function` in nranks forked processes that have no communicator yet; returns how many failed. */
struct start {
    int (*function)(int rank, int nranks, void *shared);
    void *shared;
};

static int start_rank(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const struct start *start = argument;
    (void)comm;
    return start->function(rank, nranks, start->shared);
}

static int start_ranks(int nranks, int timeout_s, int (*function)(int, int, void *), void *shared)
{
    struct start start = {function, shared};
    struct world world = {.kind = WORLD_BARE, .nranks = nranks, .timeout_s = timeout_s};
    return world_run(&world, start_rank, &start);
}

static void *shared_memory(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

/* ---- a store in shared memory, with a lock and a tally of who calls it */

struct entry {
    char key[129];
    size_t len;
    char value[65536];
};

struct shared_store {
    _Atomic(int) lock;
    int nentries;
    _Atomic(int) broken; /* a rule of the contract that was not kept */
    struct entry entries[600];
};

static __thread bool inside_init;

static struct entry *look_up(struct shared_store *store, const char *key)
{
    for (int i = 0; i < store->nentries; i++)
        if (strcmp(store->entries[i].key, key) == 0)
            return &store->entries[i];
    return NULL;
}

static void lock(struct shared_store *store)
{
    while (atomic_exchange(&store->lock, 1))
        world_sleep_ms(1);
}

static int store_set(void *context, const char *key, const void *value, size_t len)
{
    struct shared_store *store = context;
    if (!inside_init || len > 65536 || strlen(key) > 128 || strncmp(key, "motet", 5) != 0)
        store->broken = 1;
    if (len > sizeof store->entries[0].value)
        return 2;
    lock(store);
    struct entry *entry = look_up(store, key);
    if (!entry && store->nentries < 600)
        entry = &store->entries[store->nentries++];
    if (!entry) {
        store->lock = 0;
        return 3;
    }
    snprintf(entry->key, sizeof entry->key, "%s", key);
    memcpy(entry->value, value, len);
    entry->len = len;
    store->lock = 0;
    return 0;
}

static int store_get(void *context, const char *key, void *value, size_t capacity, size_t *len, int timeout_ms)
{
    struct shared_store *store = context;
    double deadline = world_now() + timeout_ms * 1e-3;
    if (!inside_init || timeout_ms < 0)
        store->broken = 1;
    for (;;) {
        lock(store);
        struct entry *entry = look_up(store, key);
        if (entry) {
            bool fits = entry->len <= capacity;
            *len = entry->len;
            memcpy(value, entry->value, fits ? entry->len : 0);
            store->lock = 0;
            return fits ? 0 : 2;
        }
        store->lock = 0;
        if (world_now() >= deadline)
            return 1;
        world_sleep_ms(1);
    }
}

static int over_store(int rank, int nranks, void *shared)
{
    motetStore_t store = {shared, store_set, store_get};
    motetComm_t comm, child;
    inside_init = true;
    CALL(motetCommInitStore(&comm, nranks, &store, rank, NULL));
    memset(&store, 0, sizeof store); /* it was copied */
    inside_init = false;
    CHECK(probe(comm, 1) == 0);
    inside_init = true;
    CALL(motetCommSplit(comm, rank % 2, rank, &child, NULL));
    inside_init = false;
    CHECK(probe(child, 2) == 0);
    CALL(motetCommDestroy(child));
    CALL(motetCommDestroy(comm));
    CHECK(!((struct shared_store *)shared)->broken);
    return 0;
}

static void test_init_over_a_store_makes_a_communicator(void **state)
{
    (void)state;
    for (int nranks = 1; nranks <= 5; nranks++) {
        struct shared_store *store = shared_memory(sizeof *store);
        assert_int_equal(start_ranks(nranks, 60, over_store, store), 0);
        munmap(store, sizeof *store);
    }
}

static int refuse_set(void *context, const char *key, const void *value, size_t len)
{
    (void)context, (void)key, (void)value, (void)len;
    return 5;
}

static int bad_store(motetComm_t unused, int rank, int nranks, const void *argument)
{
    struct shared_store *memory = calloc(1, sizeof *memory);
    motetStore_t store = {memory, refuse_set, store_get}, half = {memory, store_set, NULL};
    motetComm_t comm = (motetComm_t)memory;
    (void)unused, (void)argument, (void)nranks;
    CHECK(memory);
    inside_init = true;
    CHECK(motetCommInitStore(&comm, 2, &store, rank, NULL) != motetSuccess);
    CHECK(comm == NULL && strlen(motetGetLastError(NULL)) > 10);
    EXPECT(motetInvalidArgument, motetCommInitStore(&comm, 2, NULL, rank, NULL));
    EXPECT(motetInvalidArgument, motetCommInitStore(&comm, 2, &half, rank, NULL));
    EXPECT(motetInvalidArgument, motetCommInitStore(&comm, 0, &store, rank, NULL));
    EXPECT(motetInvalidArgument, motetCommInitStore(&comm, 2, &store, 2, NULL));
    EXPECT(motetInvalidArgument, motetCommInitStore(NULL, 2, &store, 0, NULL));
    return 0;
}

static void test_init_over_a_failing_store_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(alone(bad_store, 2, NULL), 0);
}

/* ---- a directory */

static int over_directory(int rank, int nranks, void *directory)
{
    motetComm_t comm;
    CALL(motetCommInitFile(&comm, nranks, directory, rank, NULL));
    CHECK(probe(comm, 3) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static int entries_of(const char *directory)
{
    DIR *open = opendir(directory);
    int n = 0;
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open))
        n += entry->d_name[0] != '.';
    if (open)
        closedir(open);
    return n;
}

static void test_init_over_a_directory_leaves_it_empty(void **state)
{
    (void)state;
    for (int nranks = 1; nranks <= 4; nranks++) {
        char directory[] = "/tmp/motet-test-XXXXXX";
        assert_non_null(mkdtemp(directory));
        assert_int_equal(start_ranks(nranks, 60, over_directory, directory), 0);
        assert_int_equal(entries_of(directory), 0);
        rmdir(directory);
    }
}

/* ---- launchers' environments */

struct launcher {
    const char *rank, *size, *fixed[4];
};

static int from_environment(int rank, int nranks, void *argument)
{
    const struct launcher *launcher = argument;
    char text[16];
    motetComm_t comm, second;
    int got, count, device;
    snprintf(text, sizeof text, "%d", rank);
    setenv(launcher->rank, text, 1);
    snprintf(text, sizeof text, "%d", nranks);
    setenv(launcher->size, text, 1);
    for (int i = 0; i < 4 && launcher->fixed[i]; i++)
        putenv((char *)(uintptr_t)launcher->fixed[i]);
    CALL(motetCommInitEnv(&comm, NULL));
    CALL(motetCommUserRank(comm, &got));
    CALL(motetCommCount(comm, &count));
    CALL(motetCommCuDevice(comm, &device));
    CHECK(got == rank && count == nranks && device == rank);
    CHECK(probe(comm, 4) == 0);
    CALL(motetCommInitEnv(&second, NULL));
    CHECK(probe(second, 5) == 0);
    CHECK(probe(comm, 6) == 0);
    CALL(motetCommDestroy(comm));
    CHECK(probe(second, 7) == 0);
    CALL(motetCommDestroy(second));
    return 0;
}

static void test_init_from_launchers_environments_meets(void **state)
{
    static char port[32], job[32];
    snprintf(port, sizeof port, "MASTER_PORT=%d", 20000 + getpid() % 9000);
    snprintf(job, sizeof job, "SLURM_JOB_ID=%d", getpid());
    struct launcher launchers[] = {
        {"RANK", "WORLD_SIZE", {"MASTER_ADDR=127.0.0.1", port}},
        {"SLURM_PROCID", "SLURM_NTASKS", {job, "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=localhost", "SLURM_NNODES=1"}},
        {"PMI_RANK", "PMI_SIZE", {NULL}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++)
        for (int nranks = 1; nranks <= 3; nranks += 2)
            assert_int_equal(start_ranks(nranks, 60, from_environment, &launchers[i]), 0);
}

static int no_launcher(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)rank, (void)nranks, (void)argument;
    CALL(motetCommInitEnv(&comm, NULL));
    CALL(motetCommCount(comm, &nranks));
    CHECK(nranks == 1 && probe(comm, 8) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_without_a_launcher_is_one_rank(void **state)
{
    (void)state;
    assert_int_equal(alone(no_launcher, 1, NULL), 0);
}

/* ---- what can be wrong */

static int bad_arguments(motetComm_t unused, int rank, int nranks, const void *argument)
{
    motetUniqueId id, broken;
    motetComm_t comm = (motetComm_t)&id;
    motetConfig_t config = MOTET_CONFIG_INITIALIZER, bad_config;
    (void)unused, (void)rank, (void)nranks, (void)argument;
    EXPECT(motetInvalidArgument, motetGetUniqueId(NULL));
    CALL(motetGetUniqueId(&id));
    EXPECT(motetInvalidArgument, motetCommInitRank(NULL, 1, id, 0));
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, 0, id, 0));
    CHECK(comm == NULL);
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, -3, id, 0));
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, 2, id, 2));
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, 2, id, -1));
    EXPECT(motetInvalidArgument, motetCommInitAll(NULL, 2, NULL));
    EXPECT(motetInvalidArgument, motetCommInitAll(&comm, 0, NULL));
    memset(&broken, 0, sizeof broken);
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, 1, broken, 0));
    broken = id;
    broken.internal[40] ^= 4;
    EXPECT(motetInvalidArgument, motetCommInitRank(&comm, 1, broken, 0));
    bad_config = config;
    bad_config.magic = 7;
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    bad_config = config;
    bad_config.size = 3;
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    bad_config = config;
    bad_config.blocking = 2;
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    bad_config = config;
    bad_config.maxCTAs = 0;
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    bad_config = config;
    bad_config.timeoutMs = -5;
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    bad_config = config;
    bad_config.netName = "nonsense";
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&comm, 1, id, 0, &bad_config));
    config.commName = "a name";
    config.minCTAs = 1;
    config.maxCTAs = 32;
    config.splitShare = 1;
    config.cgaClusterSize = 4;
    config.netName = "Socket";
    CALL(motetCommInitRankConfig(&comm, 1, id, 0, &config));
    CHECK(probe(comm, 2) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_with_bad_arguments_is_refused(void **state)
{
    (void)state;
    assert_int_equal(alone(bad_arguments, 1, NULL), 0);
}

/* A rank that never comes: the others say so, in time, and can try again. */
static int missing_rank(motetComm_t unused, int rank, int nranks, const void *argument)
{
    motetUniqueId id;
    motetComm_t comm;
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    (void)unused, (void)rank, (void)nranks, (void)argument;
    config.initTimeoutMs = 500;
    CALL(motetGetUniqueId(&id));
    double start = world_now();
    EXPECT(motetTimeout, motetCommInitRankConfig(&comm, 2, id, 0, &config));
    CHECK(world_now() - start > 0.4 && world_now() - start < 3);
    CHECK(comm == NULL && strstr(motetGetLastError(NULL), "1") != NULL);
    CALL(motetCommInitAll(&comm, 1, NULL));
    CHECK(probe(comm, 2) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_names_a_rank_that_did_not_come(void **state)
{
    (void)state;
    assert_int_equal(alone(missing_rank, 1, NULL), 0);
}

struct meeting {
    _Atomic(int) ready;
    motetUniqueId id;
};

static int meet(struct meeting *meeting, int rank)
{
    if (rank == 0) {
        CALL(motetGetUniqueId(&meeting->id));
        meeting->ready = 1;
    }
    while (!meeting->ready)
        world_sleep_ms(1);
    return 0;
}

/* A rank that comes late: one of the others says who is missing, and init goes on when it comes. */
static int late_rank(int rank, int nranks, void *shared)
{
    struct meeting *meeting = shared;
    char path[64];
    motetComm_t comm;
    snprintf(path, sizeof path, "/tmp/motet-init-%d", (int)getppid());
    setenv("MOTET_DEBUG_FILE", path, 1);
    setenv("MOTET_WARN_AFTER", "300ms", 1);
    CHECK(meet(meeting, rank) == 0);
    if (rank == 2)
        world_sleep_ms(1500);
    CALL(motetCommInitRank(&comm, nranks, meeting->id, rank));
    CHECK(probe(comm, 3) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_says_who_is_missing_and_waits_on(void **state)
{
    struct meeting *meeting = shared_memory(sizeof *meeting);
    char path[64], line[512];
    int named = 0;
    (void)state;
    assert_int_equal(start_ranks(4, 40, late_rank, meeting), 0);
    snprintf(path, sizeof path, "/tmp/motet-init-%d", (int)getpid());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        named += strstr(line, "rank 0 of 4: init waits for ") && strstr(line, ": missing ranks: 2; 3 of 4 ranks came: 0-1, 3");
    fclose(file);
    unlink(path);
    assert_true(named >= 1);
    munmap(meeting, sizeof *meeting);
}

/* A setting that changes the wire differs: an error that names it, on all ranks. */
static int settings_differ(int rank, int nranks, void *shared)
{
    struct meeting *meeting = shared;
    motetComm_t comm;
    setenv("MOTET_BUFFSIZE", rank == 1 ? "2M" : "1M", 1);
    CHECK(meet(meeting, rank) == 0);
    EXPECT(motetInvalidUsage, motetCommInitRank(&comm, nranks, meeting->id, rank));
    CHECK(comm == NULL && strstr(motetGetLastError(NULL), "MOTET_BUFFSIZE") != NULL);
    return 0;
}

/* Which algorithm a communicator would run for a call. */
static const char *chosen_by(motetComm_t comm, size_t bytes)
{
    motetExplainQuery_t query = MOTET_EXPLAIN_QUERY_INITIALIZER;
    motetExplanation_t explanation;
    motetExplainCandidate_t candidate = {.name = ""};
    const char *name = "none";
    int n;
    query.bytes = bytes;
    if (motetCommExplain(comm, &query, &explanation) != motetSuccess)
        return "failed";
    for (int i = motetExplainCount(explanation, &n) == motetSuccess ? 0 : n; i < n; i++)
        if (motetExplainCandidate(explanation, i, &candidate) == motetSuccess && candidate.chosen)
            name = candidate.name;
    motetExplainFree(explanation);
    return name;
}

/* algo of a configuration: for one communicator and those that are made from it, unless they say otherwise. */
static int config_algo(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetTuneShape_t shape;
    motetComm_t ring, child;
    (void)argument;
    config.algo = "allreduce:ring";
    CHECK(strcmp(chosen_by(comm, 8), "ring") != 0);
    CALL(motetCommSplit(comm, 0, rank, &ring, &config));
    CHECK(strcmp(chosen_by(ring, 8), "ring") == 0);
    CHECK(probe(ring, nranks) == 0);
    CALL(motetCommSplit(ring, 0, rank, &child, NULL));
    CHECK(strcmp(chosen_by(child, 8), "ring") == 0);
    CALL(motetCommDestroy(child));
    config.algo = "allreduce:two_shot";
    CALL(motetCommSplit(ring, 0, rank, &child, &config));
    CHECK(strcmp(chosen_by(child, 8), "two_shot") == 0);
    CALL(motetCommShape(child, &shape));
    CHECK(shape.size == sizeof shape && shape.nranks == nranks && shape.nhosts == 1 && shape.machine != 0 && !shape.threads);
    CALL(motetCommDestroy(child));
    config.algo = rank == 1 ? "allreduce:ring" : "allreduce:chain";
    EXPECT(motetInvalidUsage, motetCommSplit(ring, 0, rank, &child, &config));
    CHECK(strstr(motetGetLastError(NULL), "\"allreduce:chain\"") && strstr(motetGetLastError(NULL), "\"allreduce:ring\""));
    CALL(motetCommDestroy(ring));
    char long_list[200];
    memset(long_list, 'x', sizeof long_list - 1);
    long_list[sizeof long_list - 1] = '\0';
    config.algo = long_list;
    EXPECT(motetInvalidArgument, motetCommSplit(comm, 0, rank, &child, &config));
    return 0;
}

static void test_init_with_algorithms_in_the_configuration_runs_them(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){.nranks = 3}, config_algo, NULL), 0);
}

static int algo_differs(int rank, int nranks, void *shared)
{
    motetComm_t comm;
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    config.algo = rank == 1 ? "ring" : "tree";
    EXPECT(motetInvalidUsage, motetCommInitFile(&comm, nranks, shared, rank, &config));
    CHECK(strstr(motetGetLastError(NULL), "rank 0 has algo \"tree\", rank 1 has \"ring\""));
    return 0;
}

static void test_init_with_different_algorithms_names_them(void **state)
{
    char folder[] = "/tmp/motet_init_XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(start_ranks(2, 30, algo_differs, folder), 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* Ranks that have read different tables use none; those that have read the same one go by it. */
static int tables_differ(int rank, int nranks, void *shared)
{
    char file[128];
    motetComm_t comm;
    bool differs = ((char *)shared)[strlen(shared) - 1] == 'd';
    snprintf(file, sizeof file, "%s/%s.csv", (char *)shared, differs && rank == 1 ? "other" : "rules");
    setenv("MOTET_TUNER_FILE", file, 1);
    CALL(motetCommInitFile(&comm, nranks, shared, rank, NULL));
    CHECK((strcmp(chosen_by(comm, 64), "central") == 0) == !differs);
    CHECK(probe(comm, nranks) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_with_different_tables_uses_none_of_them(void **state)
{
    static const char *const endings[] = {"same", "differed"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        char parent[] = "/tmp/motet_init_XXXXXX", folder[64], file[128], command[64];
        assert_non_null(mkdtemp(parent));
        snprintf(folder, sizeof folder, "%s/%s", parent, endings[i]);
        assert_int_equal(mkdir(folder, 0700), 0);
        for (int k = 0; k < 2; k++) {
            snprintf(file, sizeof file, "%s/%s.csv", folder, k ? "other" : "rules");
            FILE *out = fopen(file, "w");
            assert_non_null(out);
            fprintf(out, "allreduce,0,%d,central,simple,-1,-1,-1\n", 1000 + k);
            fclose(out);
        }
        assert_int_equal(start_ranks(2, 30, tables_differ, folder), 0);
        snprintf(command, sizeof command, "rm -rf %s", parent);
        assert_int_equal(system(command), 0);
    }
}

static void test_init_with_different_settings_names_them(void **state)
{
    struct meeting *meeting = shared_memory(sizeof *meeting);
    (void)state;
    assert_int_equal(start_ranks(3, 30, settings_differ, meeting), 0);
    munmap(meeting, sizeof *meeting);
}

/* A nonsensical setting is an error at init that names it. */
static int nonsense(motetComm_t comm, int rank, int nranks, const void *argument)
{
    (void)rank, (void)nranks, (void)argument;
    EXPECT(motetInvalidArgument, motetCommInitAll(&comm, 1, NULL));
    CHECK(strstr(motetGetLastError(NULL), "MOTET_BUFFSIZE") && strstr(motetGetLastError(NULL), "8 elephants"));
    return 0;
}

static void test_init_with_a_nonsensical_setting_is_refused(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_ALONE, .environment = {"MOTET_BUFFSIZE=8 elephants"}};
    assert_int_equal(world_run(&world, nonsense, NULL), 0);
}

/* blocking = 0: init, split and finalize return at once or soon, and the state tells. */
static int wait_ready(motetComm_t comm)
{
    motetResult_t state = motetInProgress;
    for (double start = world_now(); state == motetInProgress && world_now() - start < 20; world_sleep_ms(1))
        CALL(motetCommGetAsyncError(comm, &state));
    CHECK(state == motetSuccess);
    return 0;
}

static int non_blocking(int rank, int nranks, void *shared)
{
    struct meeting *meeting = shared;
    motetComm_t comm = NULL, child = NULL;
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    config.blocking = 0;
    CHECK(meet(meeting, rank) == 0);
    if (rank == 1)
        world_sleep_ms(400);
    double start = world_now();
    motetResult_t result = motetCommInitRankConfig(&comm, nranks, meeting->id, rank, &config);
    CHECK(result == motetInProgress || result == motetSuccess);
    CHECK(world_now() - start < 0.3 && comm != NULL);
    CHECK(wait_ready(comm) == 0);
    CHECK(probe(comm, 1) == 0);
    result = motetCommSplit(comm, 0, rank, &child, NULL);
    CHECK(result == motetInProgress || result == motetSuccess);
    CHECK(wait_ready(comm) == 0 && wait_ready(child) == 0);
    CHECK(probe(child, 2) == 0);
    result = motetCommFinalize(child);
    CHECK(result == motetInProgress || result == motetSuccess);
    CHECK(wait_ready(child) == 0);
    CALL(motetCommDestroy(child));
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_init_without_blocking_reports_progress(void **state)
{
    (void)state;
    for (int nranks = 2; nranks <= 3; nranks++) {
        struct meeting *meeting = shared_memory(sizeof *meeting);
        assert_int_equal(start_ranks(nranks, 30, non_blocking, meeting), 0);
        munmap(meeting, sizeof *meeting);
    }
}

/* 64 ranks on whatever cores there are: processes and threads, then 100 all-reduces of 1 KB. */
static int hundred(motetComm_t comm, int rank, int nranks, const void *argument)
{
    float mine[256], sum[256];
    (void)argument;
    for (int i = 0; i < 100; i++) {
        for (int k = 0; k < 256; k++)
            mine[k] = (float)(rank + k + i);
        CALL(motetAllReduce(mine, sum, 256, motetFloat32, motetSum, comm, NULL));
        for (int k = 0; k < 256; k++)
            CHECK(sum[k] == (float)(nranks * (k + i) + nranks * (nranks - 1) / 2));
    }
    return 0;
}

static void test_init_of_64_ranks_is_quick_and_works(void **state)
{
    (void)state;
    for (int kind = WORLD_PROCESSES; kind <= WORLD_THREADS; kind++) {
        double start = world_now();
        assert_int_equal(world_run(&(struct world){.kind = kind, .nranks = 64, .timeout_s = 60}, hundred, NULL), 0);
        printf("64 ranks as %s: %.2f s in all\n", kind == WORLD_THREADS ? "threads" : "processes", world_now() - start);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_over_a_store_makes_a_communicator),
        cmocka_unit_test(test_init_over_a_failing_store_is_an_error),
        cmocka_unit_test(test_init_over_a_directory_leaves_it_empty),
        cmocka_unit_test(test_init_from_launchers_environments_meets),
        cmocka_unit_test(test_init_without_a_launcher_is_one_rank),
        cmocka_unit_test(test_init_with_bad_arguments_is_refused),
        cmocka_unit_test(test_init_names_a_rank_that_did_not_come),
        cmocka_unit_test(test_init_says_who_is_missing_and_waits_on),
        cmocka_unit_test(test_init_with_different_settings_names_them),
        cmocka_unit_test(test_init_with_algorithms_in_the_configuration_runs_them),
        cmocka_unit_test(test_init_with_different_algorithms_names_them),
        cmocka_unit_test(test_init_with_different_tables_uses_none_of_them),
        cmocka_unit_test(test_init_with_a_nonsensical_setting_is_refused),
        cmocka_unit_test(test_init_without_blocking_reports_progress),
        cmocka_unit_test(test_init_of_64_ranks_is_quick_and_works),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
