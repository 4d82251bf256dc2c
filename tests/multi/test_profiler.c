/* SPDX-License-Identifier: Apache-2.0
 * What a profiler is told, through the public interface: every call and step once, in order, with the right words; who may call what inside;
 * who hears nothing. */
#include "world.h"

#define EVENTS_MAX 4096

enum event_kind { START_CALL, STOP_CALL, START_STEP, STOP_STEP };

struct event {
    enum event_kind kind;
    motetProfilerCall_t call;
    motetProfilerStep_t step;
    void *handle; /* given back, or given out */
    motetResult_t result;
    pthread_t thread;
};

struct diary {
    struct event events[EVENTS_MAX];
    int n;
    uintptr_t last_handle;
    motetComm_t other; /* a call on it is tried inside of the first callback; NULL: none */
    motetResult_t tried;
};

static struct event *note(struct diary *diary, enum event_kind kind, const motetProfilerCall_t *call)
{
    struct event *event = &diary->events[diary->n < EVENTS_MAX - 1 ? diary->n++ : EVENTS_MAX - 1];
    *event = (struct event){.kind = kind, .call = *call, .thread = pthread_self()};
    return event;
}

static void start_call(void *context, const motetProfilerCall_t *call, void **handle)
{
    struct diary *diary = context;
    struct event *event = note(diary, START_CALL, call);
    *handle = event->handle = (void *)++diary->last_handle;
    if (diary->other) {
        float in = 1, out;
        diary->tried = motetAllReduce(&in, &out, 1, motetFloat32, motetSum, diary->other, NULL);
        diary->other = NULL;
    }
}

static void stop_call(void *context, const motetProfilerCall_t *call, void *handle, motetResult_t result)
{
    struct event *event = note(context, STOP_CALL, call);
    event->handle = handle;
    event->result = result;
}

static void start_step(void *context, const motetProfilerCall_t *call, void *call_handle, const motetProfilerStep_t *step,
                       void **handle)
{
    struct diary *diary = context;
    struct event *event = note(diary, START_STEP, call);
    event->step = *step;
    *handle = event->handle = (void *)++diary->last_handle;
    event->result = call_handle ? motetSuccess : motetInternalError;
}

static void stop_step(void *context, const motetProfilerCall_t *call, void *call_handle, const motetProfilerStep_t *step,
                      void *handle)
{
    struct event *event = note(context, STOP_STEP, call);
    event->step = *step;
    event->handle = handle;
    event->result = call_handle ? motetSuccess : motetInternalError;
}

static motetProfiler_t profiler_of(struct diary *diary)
{
    return (motetProfiler_t){.size = sizeof(motetProfiler_t),
                             .context = diary,
                             .startCall = start_call,
                             .stopCall = stop_call,
                             .startStep = start_step,
                             .stopStep = stop_step};
}

/* A communicator of the same ranks whose calls go into the diary, which is empty then. */
static int profiled(motetComm_t comm, int rank, struct diary *diary, const char *name, motetComm_t *out)
{
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetProfiler_t profiler = profiler_of(diary);
    config.commName = name;
    config.profiler = &profiler;
    CALL(motetCommSplit(comm, 0, rank, out, &config));
    diary->n = 0;
    return 0;
}

/* The next call of the diary from *at on: its steps are inside, each ends as it began. Returns the index of its stop; -1: it is not as it
 * should be. */
static int check_call(const struct diary *diary, int *at, const char *name, int *nsteps)
{
    const struct event *begin = &diary->events[*at];
    int open = 0;
    *nsteps = 0;
    if (*at >= diary->n || begin->kind != START_CALL || strcmp(begin->call.name, name) != 0)
        return world_complain(__FILE__, __LINE__, "event %d of %d is not the start of %s", *at, diary->n, name), -1;
    for (int i = *at + 1; i < diary->n; i++) {
        const struct event *event = &diary->events[i];
        if (event->call.timeNs != begin->call.timeNs && event->kind != STOP_CALL)
            return world_complain(__FILE__, __LINE__, "a step of another call inside of %s", name), -1;
        if (event->kind == STOP_CALL) {
            *at = i + 1;
            bool right = event->handle == begin->handle && open == 0 && event->call.timeNs >= begin->call.timeNs &&
                         event->call.seqNumber == begin->call.seqNumber && event->result == motetSuccess;
            return right ? i : (world_complain(__FILE__, __LINE__, "%s ends wrongly", name), -1);
        }
        if (event->kind == START_CALL || event->result != motetSuccess || event->step.timeNs < begin->call.timeNs)
            return world_complain(__FILE__, __LINE__, "event %d inside of %s", i, name), -1;
        open += event->kind == START_STEP ? 1 : -1;
        *nsteps += event->kind == START_STEP;
        bool paired = event->kind == START_STEP;
        for (int k = i - 1; !paired && k > *at; k--)
            if (diary->events[k].kind == START_STEP && diary->events[k].handle == event->handle)
                paired = diary->events[k].step.step == event->step.step && diary->events[k].step.tile == event->step.tile &&
                         diary->events[k].step.round == event->step.round && diary->events[k].step.peer == event->step.peer;
        if (!paired)
            return world_complain(__FILE__, __LINE__, "a step of %s ends that did not begin", name), -1;
    }
    return world_complain(__FILE__, __LINE__, "%s does not end", name), -1;
}

/* ---- What is told ---- */

static int collectives(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { LARGE = 300000, SMALL = 50 };
    struct diary *diary = calloc(1, sizeof *diary);
    float *in = malloc(LARGE * sizeof *in), *out = malloc(LARGE * sizeof *out);
    motetComm_t mine;
    int at = 0, nsteps, peers = 0;
    (void)argument;
    CHECK(diary && in && out);
    CHECK(profiled(comm, rank, diary, "watched", &mine) == 0);
    for (int i = 0; i < LARGE; i++)
        in[i] = (float)(rank + i % 7);
    for (int i = 0; i < SMALL; i++)
        CALL(motetAllReduce(in, out, 2, motetFloat32, motetMax, mine, NULL));
    CALL(motetAllReduce(in, out, LARGE, motetFloat32, motetSum, mine, NULL));
    for (int i = 0; i < LARGE; i++)
        CHECK(out[i] == (float)(nranks * (nranks - 1) / 2 + nranks * (i % 7)));
    CALL(motetBroadcast(in, out, 5, motetFloat32, nranks - 1, mine, NULL));
    CALL(motetAllReduce(in, out, 0, motetFloat32, motetSum, mine, NULL));
    uint64_t first = diary->events[0].call.seqNumber;
    for (int i = 0; i < SMALL; i++) {
        int end = check_call(diary, &at, "AllReduce", &nsteps);
        CHECK(end >= 0 && (nsteps > 0) == (nranks > 1));
        const motetProfilerCall_t *call = &diary->events[end].call;
        CHECK(call->seqNumber == first + (uint64_t)i && call->rank == rank && call->nRanks == nranks && call->count == 2);
        CHECK(strcmp(call->commName, "watched") == 0 && call->commId != 0 && call->operation == motetStatsAllReduce);
        CHECK(call->datatype == motetFloat32 && call->redOp == motetMax && call->peer == -1 && call->bytes == 8);
        CHECK(call->sendbuff == in && call->recvbuff == out && !call->onStream && call->algorithm && call->protocol);
    }
    int from = at, end = check_call(diary, &at, "AllReduce", &nsteps);
    CHECK(end >= 0 && diary->events[end].call.bytes == LARGE * sizeof *in && nsteps > 1);
    for (int i = from; i < end; i++) {
        const motetProfilerStep_t *step = &diary->events[i].step;
        bool is_step = diary->events[i].kind != START_CALL;
        CHECK(!is_step || (step->peer >= -1 && step->peer < nranks && step->peer != rank));
        peers += is_step && step->peer >= 0 && step->nPeers > 0 && (diary->events[i].kind == START_STEP || step->bytes > 0);
    }
    CHECK(peers > 0);
    end = check_call(diary, &at, "Broadcast", &nsteps);
    CHECK(end >= 0 && diary->events[end].call.peer == nranks - 1 && diary->events[end].call.redOp == -1);
    end = check_call(diary, &at, "AllReduce", &nsteps);
    CHECK(end >= 0 && nsteps == 0 && !diary->events[end].call.algorithm && diary->events[end].call.count == 0);
    CHECK(at == diary->n);
    CALL(motetCommDestroy(mine));
    free(diary);
    free(in);
    free(out);
    return 0;
}

static void test_profiler_collectives_are_told_once_each_with_their_steps(void **state)
{
    (void)state;
    struct world worlds[] = {{.kind = WORLD_PROCESSES, .nranks = 2},
                             {.kind = WORLD_THREADS, .nranks = 4},
                             {.kind = WORLD_PROCESSES, .nranks = 3, .per_host = 1}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        assert_int_equal(world_run(&worlds[i], collectives, NULL), 0);
}

static const struct event *find(const struct diary *diary, enum event_kind kind, const char *name)
{
    for (int i = 0; i < diary->n; i++)
        if (diary->events[i].kind == kind && strcmp(diary->events[i].call.name, name) == 0)
            return &diary->events[i];
    return NULL;
}

static int messages(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct diary *diary = calloc(1, sizeof *diary);
    int32_t in[40], out[40];
    int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;
    motetComm_t mine;
    motetStream_t stream;
    (void)argument;
    CHECK(diary && profiled(comm, rank, diary, "messages", &mine) == 0);
    for (int i = 0; i < 40; i++)
        in[i] = 100 * rank + i;
    CALL(motetStreamCreate(&stream));
    CALL(motetGroupStart());
    CALL(motetSend(in, 40, motetInt32, next, mine, NULL));
    CALL(motetRecv(out, 40, motetInt32, before, mine, NULL));
    CALL(motetGroupEnd());
    CHECK(out[39] == 100 * before + 39);
    CALL(motetGroupStart());
    CALL(motetSendTag(in, 3, motetInt32, next, 7, mine, stream));
    CALL(motetRecvTag(out, 40, motetInt32, MOTET_ANY_SOURCE, 7, NULL, mine, stream));
    CALL(motetGroupEnd());
    CALL(motetStreamSynchronize(stream));
    CHECK(diary->n == 8);
    const struct event *sent = find(diary, STOP_CALL, "Send"), *came = find(diary, STOP_CALL, "Recv");
    CHECK(sent && sent->call.peer == next && sent->call.bytes == 160 && sent->call.sendbuff == in && !sent->call.onStream);
    CHECK(came && came->call.peer == before && came->call.recvbuff == out && !came->call.algorithm);
    CHECK(sent->call.operation == motetStatsSend && came->call.operation == motetStatsRecv);
    const struct event *posted = find(diary, START_CALL, "RecvTag"), *got = find(diary, STOP_CALL, "RecvTag");
    CHECK(posted && posted->call.peer == -1 && posted->call.count == 40 && posted->call.onStream);
    CHECK(got && got->call.peer == before && got->call.count == 3 && got->handle == posted->handle);
    CHECK(!pthread_equal(got->thread, sent->thread) && got->call.seqNumber > came->call.seqNumber);
    CALL(motetStreamDestroy(stream));
    CALL(motetCommDestroy(mine));
    free(diary);
    return 0;
}

static void test_profiler_messages_are_told_with_their_peers_and_threads(void **state)
{
    (void)state;
    struct world worlds[] = {{.kind = WORLD_PROCESSES, .nranks = 2}, {.kind = WORLD_PROCESSES, .nranks = 3, .per_host = 1}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        assert_int_equal(world_run(&worlds[i], messages, NULL), 0);
}

/* ---- Who may do what ---- */

static int calls_inside(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct diary *diary = calloc(1, sizeof *diary);
    float in = (float)rank, out;
    motetComm_t mine;
    (void)argument;
    CHECK(diary && profiled(comm, rank, diary, "inside", &mine) == 0);
    for (int i = 0; i < 3; i++) /* the call is known: those like it need not be checked in full */
        CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, comm, NULL));
    diary->other = comm;
    CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, mine, NULL));
    CHECK(out == (float)(nranks * (nranks - 1) / 2) && diary->tried == motetInvalidUsage);
    diary->other = mine; /* the one that is being told of */
    diary->tried = motetSuccess;
    CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, mine, NULL));
    CHECK(diary->tried == motetInvalidUsage);
    CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, comm, NULL)); /* neither communicator is hurt */
    CALL(motetCommDestroy(mine));
    free(diary);
    return 0;
}

static void test_profiler_calls_inside_of_a_callback_are_refused(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    assert_int_equal(world_run(&world, calls_inside, NULL), 0);
}

static int mismatch(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct diary *diary = calloc(1, sizeof *diary);
    float in[2] = {(float)rank, 1}, out[2];
    motetComm_t mine;
    (void)nranks, (void)argument;
    CHECK(diary && profiled(comm, rank, diary, "differs", &mine) == 0);
    EXPECT(motetInvalidUsage, motetAllReduce(in, out, rank == 0 ? 1 : 2, motetFloat32, motetSum, mine, NULL));
    const struct event *stopped = find(diary, STOP_CALL, "AllReduce");
    CHECK(stopped && stopped->result == motetInvalidUsage && stopped->handle == find(diary, START_CALL, "AllReduce")->handle);
    CALL(motetCommAbort(mine));
    free(diary);
    return 0;
}

static void test_profiler_a_call_that_fails_ends_with_its_error(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_PROCESSES, .nranks = 2};
    assert_int_equal(world_run(&world, mismatch, NULL), 0);
}

static int arguments(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct diary *diary = calloc(1, sizeof *diary);
    motetProfiler_t profiler = profiler_of(diary), bad = profiler, empty = {.size = sizeof empty};
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    motetComm_t first, child, later;
    motetUniqueId id;
    float in = 3, out = 0;
    (void)comm, (void)rank, (void)nranks, (void)argument;
    bad.size--;
    EXPECT(motetInvalidArgument, motetProfilerRegister(&bad));
    EXPECT(motetInvalidArgument, motetProfilerRegister(&empty));
    config.profiler = &bad;
    CALL(motetGetUniqueId(&id));
    EXPECT(motetInvalidArgument, motetCommInitRankConfig(&first, 1, id, 0, &config));
    CALL(motetProfilerRegister(&profiler));
    CALL(motetCommInitRank(&first, 1, id, 0));
    CALL(motetProfilerRegister(NULL));
    diary->n = 0;
    CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, first, NULL));
    CHECK(out == 3 && find(diary, STOP_CALL, "AllReduce")); /* it keeps the one that it was made with */
    CALL(motetCommSplit(first, 0, 0, &child, NULL));
    diary->n = 0;
    CALL(motetBroadcast(&in, &out, 1, motetFloat32, 0, child, NULL));
    CHECK(find(diary, STOP_CALL, "Broadcast")); /* and so do its children */
    CALL(motetGetUniqueId(&id));
    CALL(motetCommInitRank(&later, 1, id, 0));
    diary->n = 0;
    CALL(motetAllReduce(&in, &out, 1, motetFloat32, motetSum, later, NULL));
    CHECK(diary->n == 0);
    CALL(motetCommDestroy(child));
    CALL(motetCommDestroy(first));
    CALL(motetCommDestroy(later));
    free(diary);
    return 0;
}

static void test_profiler_registration_reaches_later_communicators_and_their_children(void **state)
{
    (void)state;
    struct world world = {.kind = WORLD_ALONE, .nranks = 1};
    assert_int_equal(world_run(&world, arguments, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiler_collectives_are_told_once_each_with_their_steps),
        cmocka_unit_test(test_profiler_messages_are_told_with_their_peers_and_threads),
        cmocka_unit_test(test_profiler_calls_inside_of_a_callback_are_refused),
        cmocka_unit_test(test_profiler_a_call_that_fails_ends_with_its_error),
        cmocka_unit_test(test_profiler_registration_reaches_later_communicators_and_their_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
