/* SPDX-License-Identifier: Apache-2.0
 * Send and Recv: order within a pair, the eager limit, tags and any-source, wrong partners and sizes. */
#include "probe.h"

static const struct world worlds[] = {
    {WORLD_PROCESSES, 2, {NULL}, 0, 0}, {WORLD_PROCESSES, 2, {"MOTET_SHM_DISABLE=1"}, 0, 0}, {WORLD_THREADS, 2, {NULL}, 0, 0},
    {WORLD_PROCESSES, 4, {NULL}, 0, 0}, {WORLD_PROCESSES, 3, {"MOTET_SHM_DISABLE=1"}, 0, 0}, {WORLD_THREADS, 4, {NULL}, 0, 0},
};

static void run_everywhere(world_function function)
{
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        assert_int_equal(world_run(&worlds[i], function, NULL), 0);
}

/* Rank 0 sends a stream of messages of many sizes to each other rank in turn, which answers each with a checksum. */
static int stream_of_messages(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static __thread int64_t data[70000];
    (void)argument;
    for (int m = 0; m < 300; m++) {
        int peer = 1 + m % (nranks - 1);
        size_t n = m % 50 == 49 ? 70000 : (size_t)(m * m % 3001);
        if (rank == 0) {
            probe_fill(data, n, 0, m);
            CALL(motetSend(data, n, motetInt64, peer, comm, NULL));
        } else if (rank == peer) {
            memset(data, 0xA5, sizeof data);
            CALL(motetRecv(data, n, motetInt64, 0, comm, NULL));
            CHECK(probe_is(data, n, 0, m));
        }
    }
    int64_t token = rank;
    if (rank == 0)
        for (int p = 1; p < nranks; p++) {
            CALL(motetRecv(&token, 1, motetInt64, p, comm, NULL));
            CHECK(token == p);
        }
    else
        CALL(motetSend(&token, 1, motetInt64, 0, comm, NULL));
    return 0;
}

static void test_p2p_messages_arrive_in_order(void **state)
{
    (void)state;
    run_everywhere(stream_of_messages);
}

/* Everybody sends to the next before receiving: up to the eager limit that works without a group. */
static int eager_ring(motetComm_t comm, int rank, int nranks, const void *argument)
{
    static const size_t lens[] = {0, 1, 7, 8, 64, 4096, 16383, 16384};
    static __thread uint8_t out[16384], in[16384];
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    for (size_t s = 0; s < sizeof lens / sizeof lens[0]; s++) {
        memset(out, rank * 16 + (int)s, sizeof out);
        memset(in, 0xEE, sizeof in);
        CALL(motetSend(out, lens[s], motetUint8, next, comm, NULL));
        memset(out, 0xCC, sizeof out); /* the buffer may be reused */
        CALL(motetRecv(in, lens[s], motetUint8, previous, comm, NULL));
        for (size_t i = 0; i < sizeof in; i++)
            CHECK(in[i] == (i < lens[s] ? previous * 16 + (int)s : 0xEE));
    }
    return 0;
}

static void test_p2p_eager_ring_does_not_wait(void **state)
{
    (void)state;
    run_everywhere(eager_ring);
}

/* Around a ring of ranks, by groups: what fits into a header, what does not, ends of lines, of pieces and of the pair's memory. */
static int every_size(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { ROOM = 131200 };
    static __thread uint8_t out[ROOM + 64], in[ROOM + 64];
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks, turn = 0;
    (void)argument;
    for (size_t n = 0; n < ROOM; n += n < 200 ? 1 : n == 200 ? 1840 : n == 2056 ? 63480 : n == 65608 ? 65392 : 8, turn++) {
        int shift = turn % 3; /* unaligned, too */
        for (size_t i = 0; i < n; i++)
            out[shift + (int)i] = (uint8_t)(i * 7 + (size_t)rank * 31 + (size_t)turn);
        memset(in, 0xA5, n + 64);
        CALL(motetGroupStart());
        CALL(motetSend(out + shift, n, motetUint8, next, comm, NULL));
        CALL(motetRecv(in + 1, n, motetUint8, previous, comm, NULL));
        CALL(motetGroupEnd());
        for (size_t i = 0; i < n; i++)
            CHECK(in[1 + i] == (uint8_t)(i * 7 + (size_t)previous * 31 + (size_t)turn));
        CHECK(in[0] == 0xA5 && in[n + 1] == 0xA5);
    }
    return turn > 200 ? 0 : 1;
}

static void test_p2p_every_size_arrives_whole(void **state)
{
    (void)state;
    run_everywhere(every_size);
}

/* A cycle of Sends that all wait is an error on all ranks, soon. */
static int waiting_cycle(motetComm_t comm, int rank, int nranks, const void *argument)
{
    size_t n = 4 << 20;
    char *out = calloc(n, 1);
    double start = world_now();
    motetResult_t state;
    (void)argument;
    CHECK(out);
    EXPECT(motetInvalidUsage, motetSend(out, n, motetUint8, (rank + 1) % nranks, comm, NULL));
    CHECK(world_now() - start < 4);
    CHECK(strstr(motetGetLastError(comm), "ank") != NULL);
    CALL(motetCommGetAsyncError(comm, &state));
    CHECK(state == motetInvalidUsage);
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_p2p_cycle_of_waiting_sends_is_an_error_everywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        if (worlds[i].kind == WORLD_PROCESSES)
            assert_int_equal(world_run(&worlds[i], waiting_cycle, NULL), 0);
}

/* Rank 1 has taken the header of rank 0's long message into store, but none of its bytes, and has not said so: rank 0's ring looks full. Then
 * both wait in Send. Small messages leave room for just that header. */
static int cycle_behind_a_header(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { RING = 128 * 1024, LINE = 64, SMALL = 16384 - LINE };
    struct {
        _Atomic int sending;
    } *const page = (void *)(uintptr_t)argument;
    char *buf = calloc(4, 1 << 20), word[8] = "";
    (void)nranks;
    CHECK(buf);
    CALL(motetBarrier(comm, NULL));
    if (rank == 0) {
        for (int i = 0; i < 7; i++)
            CALL(motetSendTag(buf, SMALL, motetUint8, 1, 3, comm, NULL));
        CALL(motetSendTag(buf, SMALL - LINE, motetUint8, 1, 3, comm, NULL));
        page->sending++;
        EXPECT(motetInvalidUsage, motetSendTag(buf, 4 << 20, motetUint8, 1, 3, comm, NULL));
    } else if (rank == 1) {
        while (page->sending < 2)
            world_sleep_ms(1);
        world_sleep_ms(300); /* both sleep by now */
        CALL(motetRecvTag(word, sizeof word, motetUint8, MOTET_ANY_SOURCE, 9, NULL, comm, NULL));
        EXPECT(motetInvalidUsage, motetSend(buf, 4 << 20, motetUint8, 0, comm, NULL));
    } else {
        CALL(motetSendTag(word, sizeof word, motetUint8, 1, 9, comm, NULL));
        page->sending++;
        EXPECT(motetInvalidUsage, motetBarrier(comm, NULL));
    }
    CHECK(strstr(motetGetLastError(comm), "deadlock: rank ") && strstr(motetGetLastError(comm), "rank 1 waits in Send to rank 0"));
    CALL(motetCommAbort(comm));
    free(buf);
    return WORLD_ABORTED;
}

static void test_p2p_cycle_of_sends_is_seen_behind_a_header(void **state)
{
    static const struct world three[] = {{WORLD_PROCESSES, 3, {"MOTET_TIMEOUT=20s"}, 60, 0},
                                         {WORLD_PROCESSES, 3, {"MOTET_TIMEOUT=20s", "MOTET_SHM_DISABLE=1"}, 60, 0}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(page != MAP_FAILED);
        assert_int_equal(world_run(&three[i], cycle_behind_a_header, page), 0);
        munmap(page, 4096);
    }
}

/* Receives name tags in another order than they were sent. */
static int tags_out_of_order(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t data[100];
    motetStatus_t status;
    (void)argument, (void)nranks;
    if (rank == 0) {
        for (int tag = 0; tag < 10; tag++) {
            probe_fill(data, 10 + (size_t)tag, 0, tag);
            CALL(motetSendTag(data, 10 + (size_t)tag, motetInt64, 1, tag * 1000, comm, NULL));
        }
    } else if (rank == 1) {
        for (int tag = 9; tag >= 0; tag -= 2) {
            memset(data, 0xA5, sizeof data);
            CALL(motetRecvTag(data, 100, motetInt64, 0, tag * 1000, &status, comm, NULL));
            CHECK(status.source == 0 && status.tag == tag * 1000 && status.count == 10 + (size_t)tag);
            CHECK(probe_is(data, status.count, 0, tag) && data[status.count] == (int64_t)0xA5A5A5A5A5A5A5A5);
        }
        for (int tag = 0; tag < 10; tag += 2) { /* what is left comes in the order of the calls */
            CALL(motetRecvTag(data, 100, motetInt64, 0, MOTET_ANY_TAG, &status, comm, NULL));
            CHECK(status.source == 0 && status.tag == tag * 1000 && status.count == 10 + (size_t)tag);
            CHECK(probe_is(data, status.count, 0, tag));
        }
    }
    return probe(comm, 4);
}

static void test_p2p_receive_by_tag_passes_over_others(void **state)
{
    (void)state;
    run_everywhere(tags_out_of_order);
}

/* Rank 0 serves requests from anybody, small and large, and answers with the tag it got. */
static int any_source(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { REQUESTS = 20, LARGE = 50000 };
    static __thread int64_t data[LARGE];
    motetStatus_t status;
    (void)argument;
    if (rank != 0) {
        for (int m = 0; m < REQUESTS; m++) {
            size_t n = m % 7 == 6 ? LARGE : (size_t)m;
            probe_fill(data, n, rank, m);
            CALL(motetSendTag(data, n, motetInt64, 0, m, comm, NULL));
            CALL(motetRecvTag(data, 1, motetInt64, 0, m, NULL, comm, NULL));
            CHECK(data[0] == rank * 100 + m);
        }
        return 0;
    }
    int next[16] = {0};
    for (int m = 0; m < REQUESTS * (nranks - 1); m++) {
        CALL(motetRecvTag(data, LARGE, motetInt64, MOTET_ANY_SOURCE, MOTET_ANY_TAG, &status, comm, NULL));
        CHECK(status.source > 0 && status.source < nranks && status.tag == next[status.source]);
        next[status.source]++;
        CHECK(status.count == (status.tag % 7 == 6 ? LARGE : (size_t)status.tag));
        CHECK(probe_is(data, status.count, status.source, status.tag));
        data[0] = status.source * 100 + status.tag;
        CALL(motetSendTag(data, 1, motetInt64, status.source, status.tag, comm, NULL));
    }
    return 0;
}

static void test_p2p_any_source_serves_everybody(void **state)
{
    (void)state;
    run_everywhere(any_source);
}

/* Tagged and untagged messages of one pair do not meet. */
static int separate_worlds(motetComm_t comm, int rank, int nranks, const void *argument)
{
    int64_t tagged = 11, plain = 22;
    (void)argument, (void)nranks;
    if (rank == 0) {
        CALL(motetSendTag(&tagged, 1, motetInt64, 1, 0, comm, NULL));
        CALL(motetSend(&plain, 1, motetInt64, 1, comm, NULL));
    } else if (rank == 1) {
        tagged = plain = 0;
        CALL(motetRecv(&plain, 1, motetInt64, 0, comm, NULL));
        CALL(motetRecvTag(&tagged, 1, motetInt64, MOTET_ANY_SOURCE, MOTET_ANY_TAG, NULL, comm, NULL));
        CHECK(plain == 22 && tagged == 11);
    }
    return 0;
}

static void test_p2p_tagged_and_untagged_messages_never_meet(void **state)
{
    (void)state;
    run_everywhere(separate_worlds);
}

/* Sends and receives on a stream, several in flight, both directions at once. */
static int on_stream(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 60000 };
    static __thread int64_t out[3][N], in[3][N];
    motetStream_t sending, receiving;
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    CALL(motetStreamCreate(&sending));
    CALL(motetStreamCreate(&receiving));
    for (int m = 0; m < 3; m++) {
        probe_fill(out[m], N, rank, m);
        CALL(motetGroupStart());
        CALL(motetSend(out[m], N, motetInt64, next, comm, sending));
        CALL(motetRecv(in[m], N, motetInt64, previous, comm, receiving));
        CALL(motetGroupEnd());
    }
    CALL(motetStreamSynchronize(receiving)); /* each stream's operations, on whatever stream the group's others are */
    for (int m = 0; m < 3; m++)
        CHECK(probe_is(in[m], N, previous, m));
    CALL(motetStreamSynchronize(sending));
    CALL(motetStreamDestroy(sending));
    CALL(motetStreamDestroy(receiving));
    return 0;
}

static void test_p2p_on_streams_exchanges(void **state)
{
    (void)state;
    run_everywhere(on_stream);
}

/* Every message on a stream of its own. Receives are called first and for the last message first, and what they wait for is sent only
 * after this rank has sent, synchronized, and received something else: none of them may keep the others back. */
static int streams_apart(motetComm_t comm, int rank, int nranks, const void *argument)
{
    enum { N = 20000, M = 6 };
    static __thread int64_t out[M][N], in[M][N];
    motetStream_t sending[M], receiving[M];
    motetStatus_t status[M];
    int next = (rank + 1) % nranks, previous = (rank + nranks - 1) % nranks;
    (void)argument;
    for (int m = M - 1; m >= 0; m--) {
        CALL(motetStreamCreate(&receiving[m]));
        CALL(motetStreamCreate(&sending[m]));
        memset(in[m], 0xee, sizeof in[m]);
        CALL(motetRecvTag(in[m], N, motetInt64, m % 2 ? MOTET_ANY_SOURCE : previous, m, &status[m], comm, receiving[m]));
    }
    for (int m = 0; m < M; m++) {
        size_t n = m % 3 ? N : 1; /* eager ones, and such that wait for the receiver */
        probe_fill(out[m], n, rank, m);
        CALL(motetSendTag(out[m], n, motetInt64, next, m, comm, sending[m]));
        CALL(motetStreamSynchronize(receiving[m])); /* the receives called before are still waiting */
        CHECK(status[m].source == previous && status[m].tag == m && status[m].count == n);
        CHECK(probe_is(in[m], n, previous, m));
        CHECK(n == N || in[m][n] == (int64_t)0xeeeeeeeeeeeeeeee);
    }
    for (int m = 0; m < M; m++) {
        CALL(motetStreamSynchronize(sending[m]));
        CALL(motetStreamDestroy(sending[m]));
        CALL(motetStreamDestroy(receiving[m]));
    }
    return 0;
}

static void test_p2p_on_streams_do_not_wait_for_each_other(void **state)
{
    (void)state;
    run_everywhere(streams_apart);
}

/* Sizes that differ are an error on the receiver, whatever side is larger, never a wrong value. */
static int sizes_differ(motetComm_t comm, int rank, int nranks, const void *argument)
{
    const size_t *lens = argument;
    char *buffer = calloc(1, 1 << 20);
    (void)nranks;
    CHECK(buffer);
    motetResult_t result =
        rank == 0 ? motetSend(buffer, lens[0], motetUint8, 1, comm, NULL) : motetRecv(buffer, lens[1], motetUint8, 0, comm, NULL);
    if (rank == 1) {
        CHECK(result == motetInvalidUsage);
        CHECK(strlen(motetGetLastError(comm)) > 10);
    } else {
        CHECK(result == motetSuccess || result == motetInvalidUsage); /* an eager Send has returned before */
        double start = world_now();
        motetResult_t state = motetSuccess;
        while (state == motetSuccess && world_now() - start < 5) {
            CALL(motetCommGetAsyncError(comm, &state));
            world_sleep_ms(5);
        }
        CHECK(state == motetInvalidUsage);
    }
    CALL(motetCommAbort(comm));
    return WORLD_ABORTED;
}

static void test_p2p_sizes_that_differ_are_an_error_on_both(void **state)
{
    static const size_t lens[][2] = {{8, 16}, {16, 8}, {100000, 50000}, {50000, 100000}, {0, 1}, {1, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
        for (int w = 0; w < 2; w++)
            assert_int_equal(world_run(&worlds[w], sizes_differ, lens[i]), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p2p_messages_arrive_in_order),
        cmocka_unit_test(test_p2p_eager_ring_does_not_wait),
        cmocka_unit_test(test_p2p_every_size_arrives_whole),
        cmocka_unit_test(test_p2p_receive_by_tag_passes_over_others),
        cmocka_unit_test(test_p2p_any_source_serves_everybody),
        cmocka_unit_test(test_p2p_tagged_and_untagged_messages_never_meet),
        cmocka_unit_test(test_p2p_on_streams_exchanges),
        cmocka_unit_test(test_p2p_on_streams_do_not_wait_for_each_other),
        cmocka_unit_test(test_p2p_cycle_of_waiting_sends_is_an_error_everywhere),
        cmocka_unit_test(test_p2p_cycle_of_sends_is_seen_behind_a_header),
        cmocka_unit_test(test_p2p_sizes_that_differ_are_an_error_on_both),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
