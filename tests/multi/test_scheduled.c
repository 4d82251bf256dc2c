/* SPDX-License-Identifier: Apache-2.0
 * The flight recorder of what stands on streams: scheduled with the number that it will have, then started, then completed. */
#include <jansson.h>
#include <stdatomic.h>

#include "world.h"

#define NCALLS 5

/* Shared by the ranks: rank 1 stays away until rank 0 has looked. */
static struct {
    _Atomic int go;
} * page;

/* Where the dumps of this process go: MOTET_DUMP_FILE below. */
static const char *path(void)
{
    static char text[64];
    snprintf(text, sizeof text, "/tmp/motet-scheduled-%d.json", (int)getpid());
    return text;
}

/* What the flight recorder of this process says now. */
static int dump(json_t **document)
{
    char *told = NULL;
    json_error_t error;
    CALL(motetStatusDump((int)getpid(), 20000, &told));
    free(told);
    *document = json_load_file(path(), 0, &error);
    CHECK(*document);
    return 0;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* The entry of a number of this communicator; NULL: there is none. */
static const json_t *entry_of(const json_t *document, const char *comm, bool message, int64_t number)
{
    const json_t *entries = json_object_get(document, "entries");
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        const char *name = json_string_value(json_array_get(json_object_get(entry, "process_group"), 1));
        if (name && strcmp(name, comm) == 0 && json_is_true(json_object_get(entry, "is_p2p")) == message &&
            json_integer_value(json_object_get(entry, message ? "p2p_seq_id" : "collective_seq_id")) == number)
            return entry;
    }
    return NULL;
}

static int64_t in_elements(const json_t *entry)
{
    return json_integer_value(json_array_get(json_array_get(json_object_get(entry, "input_sizes"), 0), 0));
}

static bool is_in_state(const json_t *entry, const char *state, const char *name, int64_t elements)
{
    bool started = json_object_get(entry, "time_discovered_started_ns") != NULL,
         ended = json_object_get(entry, "time_discovered_completed_ns") != NULL;
    bool right = entry && strcmp(text_of(entry, "state"), state) == 0 && strcmp(text_of(entry, "profiling_name"), name) == 0 &&
                 in_elements(entry) == elements && json_integer_value(json_object_get(entry, "time_created_ns")) > 0 &&
                 started == (strcmp(state, "scheduled") != 0) && ended == (strcmp(state, "completed") == 0) &&
                 json_is_true(json_object_get(entry, "retired")) == ended;
    if (!right && entry)
        json_dumpf(entry, stderr, 0);
    return right;
}

static int enqueue(motetComm_t comm, int rank, float *a, float *b, motetStream_t stream)
{
    for (int i = 0; i < NCALLS; i++)
        CALL(motetAllReduce(a, b, (size_t)(10 + i), motetFloat32, motetSum, comm, stream));
    CALL(motetGroupStart());
    CALL(motetSend(a, 7, motetFloat32, !rank, comm, stream));
    CALL(motetRecv(b, 7, motetFloat32, !rank, comm, stream));
    CALL(motetGroupEnd());
    return 0;
}

/* The first call has started, which rank 1 keeps from going on; all others are scheduled, in order. */
static int look_before(const char *comm, int64_t *first)
{
    json_t *document = NULL;
    const json_t *entry = NULL;
    bool started = false;
    for (double end = world_now() + 30; !started && world_now() < end; world_sleep_ms(5)) {
        json_decref(document);
        CHECK(dump(&document) == 0);
        for (*first = 1; *first < 20 && !started; ++*first) {
            entry = entry_of(document, comm, false, *first);
            started = entry && strcmp(text_of(entry, "state"), "started") == 0;
        }
        --*first;
    }
    CHECK(started && is_in_state(entry, "started", "motet:AllReduce", 10));
    for (int i = 1; i < NCALLS; i++)
        CHECK(is_in_state(entry_of(document, comm, false, *first + i), "scheduled", "motet:AllReduce", 10 + i));
    CHECK(is_in_state(entry_of(document, comm, true, 1), "scheduled", "motet:Send", 7));
    CHECK(is_in_state(entry_of(document, comm, true, 2), "scheduled", "motet:Recv", 0));
    CHECK(!entry_of(document, comm, false, *first + NCALLS) && !entry_of(document, comm, true, 3));
    const json_t *status = json_object_get(document, "pg_status"), *mine = NULL;
    for (void *at = json_object_iter((json_t *)(uintptr_t)status); at; at = json_object_iter_next((json_t *)(uintptr_t)status, at))
        if (json_integer_value(json_object_get(json_object_iter_value(at), "last_enqueued_collective")) == *first + NCALLS - 1)
            mine = json_object_iter_value(at);
    CHECK(mine && json_integer_value(json_object_get(mine, "last_started_collective")) == *first);
    json_decref(document);
    return 0;
}

static int look_after(const char *comm, int64_t first)
{
    json_t *document;
    CHECK(dump(&document) == 0);
    for (int i = 0; i < NCALLS; i++)
        CHECK(is_in_state(entry_of(document, comm, false, first + i), "completed", "motet:AllReduce", 10 + i));
    CHECK(is_in_state(entry_of(document, comm, true, 1), "completed", "motet:Send", 7));
    CHECK(is_in_state(entry_of(document, comm, true, 2), "completed", "motet:Recv", 0));
    CHECK(!entry_of(document, comm, false, first + NCALLS));
    json_decref(document);
    return 0;
}

static int calls(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static float a[64], b[64];
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t child;
    motetStream_t stream;
    int64_t first = 0;
    (void)nranks, (void)argument;
    config.commName = "streams";
    for (int i = 0; i < 64; i++)
        a[i] = (float)(rank + i);
    CALL(motetCommSplit(comm, 0, rank, &child, &config));
    CALL(motetStreamCreate(&stream));
    for (double end = world_now() + 40; rank == 1 && !page->go && world_now() < end;)
        world_sleep_ms(1);
    CHECK(enqueue(child, rank, a, b, stream) == 0);
    if (rank == 0) {
        CHECK(look_before("streams", &first) == 0);
        page->go = 1;
    }
    CALL(motetStreamSynchronize(stream));
    CHECK(b[0] == (float)!rank && b[6] == (float)(!rank + 6));
    if (rank == 0)
        CHECK(look_after("streams", first) == 0);
    CALL(motetStreamDestroy(stream));
    CALL(motetCommDestroy(child));
    CALL(motetBarrier(comm, NULL)); /* nobody writes any more */
    unlink(path());
    return 0;
}

static void test_scheduled_calls_on_a_stream_are_dumped_in_each_of_their_states(void **state)
{
    (void)state;
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    for (int per_host = 0; per_host <= 1; per_host++) {
        page->go = 0;
        struct world world = {.kind = WORLD_PROCESSES,
                              .nranks = 2,
                              .per_host = per_host,
                              .environment = {"MOTET_DUMP_FILE=/tmp/motet-scheduled-%p.json"}};
        assert_int_equal(world_run(&world, calls, NULL), 0);
    }
    munmap(page, sizeof *page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scheduled_calls_on_a_stream_are_dumped_in_each_of_their_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
