/* SPDX-License-Identifier: Apache-2.0
 * Messages between pairs of ranks, over mapped, streamed and mixed worlds, all ranks driven by one thread: sizes around the borders of ring
 * and direct access, order, tags, any source, messages that come unasked, mismatches, cycles of sends. */
/* test: timeout=300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>
#include <cmocka.h>

#include "base/os.h"
#include "p2p.h"
#include "sim_world.h"

#define RING   MOTET_RING_MIN
#define DIRECT (64 * 1024)
#define POISON 0xa5
#define GUARD  64

/* ---- What a rank does: batches, one after the other ---- */

#define MAX_BATCHES  300
#define MAX_MESSAGES 300

struct script {
    struct motet_transfer messages[MAX_MESSAGES];
    size_t expected_seed[MAX_MESSAGES]; /* receives: which message must have come; 0: checked by the test */
    int ends[MAX_BATCHES];              /* one past the last message of each batch */
    int nmessages, nbatches;
    int at;
    bool begun;
    struct motet_batch batch;
    motetResult_t result;
};

struct play {
    struct sim_world world;
    struct script scripts[SIM_MAX_RANKS];
};

static struct play play;

static void fill(char *at, size_t bytes, uint64_t seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(sim_mix(seed * 0x10001 + i / 8) >> 8 * (i % 8));
}

static void *message_memory(size_t bytes)
{
    void *memory;
    size_t len = bytes + 2 * GUARD;
    if (play.world.options.apart && sim_random(&play.world, 2)) {
        SIM_REQUIRE(motet_segment_alloc(len, &memory) == motetSuccess);
    } else {
        memory = malloc(len);
        SIM_REQUIRE(memory);
    }
    memset(memory, POISON, len);
    return (char *)memory + GUARD;
}

static void drop_memory(void *at)
{
    char *memory = (char *)at - GUARD;
    if (motet_segment_owns(memory))
        motet_segment_free(memory);
    else
        free(memory);
}

static struct motet_transfer *add(int rank, bool is_send, int peer, int tag, size_t bytes, uint64_t seed)
{
    struct script *script = &play.scripts[rank];
    assert_true(script->nmessages < MAX_MESSAGES);
    struct motet_transfer *message = &script->messages[script->nmessages];
    *message = (struct motet_transfer){.is_send = is_send,
                                       .peer = peer < 0 ? -1 : play.world.comms[0]->position_of[peer],
                                       .tag = tag,
                                       .buf = message_memory(bytes),
                                       .bytes = bytes,
                                       .dtype = motetInt8,
                                       .name = is_send                 ? (tag == MOTET_UNTAGGED ? "Send" : "SendTag")
                                               : tag == MOTET_UNTAGGED ? "Recv"
                                                                       : "RecvTag"};
    if (is_send)
        fill(message->buf, bytes, seed);
    script->expected_seed[script->nmessages++] = seed;
    return message;
}

static struct motet_transfer *add_send(int rank, int peer, int tag, size_t bytes, uint64_t seed)
{
    return add(rank, true, peer, tag, bytes, seed);
}

static struct motet_transfer *add_recv(int rank, int peer, int tag, size_t bytes, uint64_t seed)
{
    return add(rank, false, peer, tag, bytes, seed);
}

/* Ends the batch that the messages added last belong to. */
static void end_batch(int rank)
{
    struct script *script = &play.scripts[rank];
    assert_true(script->nbatches < MAX_BATCHES);
    script->ends[script->nbatches++] = script->nmessages;
}

static void open_play(const struct sim_options *options)
{
    memset(&play, 0, sizeof play);
    sim_world_open(&play.world, options);
}

static void close_play(void)
{
    for (int r = 0; r < play.world.options.nranks; r++)
        for (int m = 0; m < play.scripts[r].nmessages; m++)
            drop_memory(play.scripts[r].messages[m].buf);
    sim_world_close(&play.world);
}

static bool is_done(int rank)
{
    const struct script *script = &play.scripts[rank];
    return script->at == script->nbatches || script->result != motetSuccess;
}

/* One look of one rank. Returns whether anything happened. */
static bool visit(int rank)
{
    struct script *script = &play.scripts[rank];
    motetComm_t comm = play.world.comms[rank];
    bool moved = false;
    if (is_done(rank)) {
        motet_comm_poll(comm, &moved);
        return false;
    }
    int first = script->at > 0 ? script->ends[script->at - 1] : 0;
    motetResult_t result = motetSuccess;
    if (!script->begun)
        result = motet_batch_begin(&script->batch, comm, &script->messages[first], script->ends[script->at] - first, false);
    script->begun = true;
    if (result == motetSuccess)
        result = motet_batch_progress(&script->batch, &moved);
    motet_comm_poll(comm, &moved);
    if (result == motetInProgress && !moved && motet_comm_check(comm) != motetSuccess)
        result = motet_comm_check(comm);
    if (result == motetInProgress)
        return moved;
    script->begun = false;
    if (result == motetSuccess)
        script->at++;
    else
        motet_batch_end(&script->batch);
    script->result = result;
    return true;
}

static void check_message(int rank, int m)
{
    const struct script *script = &play.scripts[rank];
    const struct motet_transfer *message = &script->messages[m];
    const unsigned char *memory = (const unsigned char *)message->buf - GUARD;
    char *want = malloc(message->bytes + 1);
    SIM_REQUIRE(want);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(memory[i], POISON);
        assert_int_equal(memory[GUARD + message->bytes + i], POISON);
    }
    if (script->expected_seed[m] && !message->is_send)
        fill(want, message->received, script->expected_seed[m]);
    else
        memcpy(want, message->buf, message->bytes);
    if (message->is_send)
        fill(want, message->bytes, script->expected_seed[m]);
    if (memcmp(want, message->buf, message->is_send ? message->bytes : message->received) != 0) {
        print_error("rank %d, message %d of %zu bytes, tag %d: wrong bytes\n", rank, m, message->bytes, message->tag);
        fail();
    }
    free(want);
}

/* Drives all ranks in random order until everybody is done. */
static void run_play(void)
{
    int n = play.world.options.nranks, idle = 0, left = n;
    while (left > 0) {
        int rank = (int)sim_random(&play.world, (uint64_t)n);
        idle = visit(rank) ? 0 : idle + 1;
        if (idle > 4000 * n)
            for (int r = 0; r < n; r++) {
                char text[300];
                motet_batch_describe(&play.scripts[r].batch, text, sizeof text);
                print_error("rank %d, batch %d of %d: %s\n", r, play.scripts[r].at, play.scripts[r].nbatches, text);
                assert_true(r < n - 1);
            }
        left = 0;
        for (int r = 0; r < n; r++)
            left += !is_done(r);
    }
    for (int r = 0; r < n; r++) {
        if (play.scripts[r].result != motetSuccess)
            print_error("rank %d: %s\n", r, play.world.comms[r]->control->fault.text);
        assert_int_equal(play.scripts[r].result, motetSuccess);
        for (int m = 0; m < play.scripts[r].nmessages; m++)
            check_message(r, m);
    }
}

/* ---- Worlds ---- */

#define NASTY                                                               \
    {                                                                       \
        .capacity = 5000, .longest = 3000, .stall_percent = 20, .nlanes = 2 \
    }

static const struct sim_options worlds[] = {
    {.nranks = 4, .placement = SIM_ONE_HOST, .seed = 1},
    {.nranks = 4, .placement = SIM_ONE_HOST, .apart = true, .seed = 2},
    {.nranks = 4, .placement = SIM_ONE_HOST, .staged = true, .seed = 3},
    {.nranks = 4, .placement = SIM_ONE_RANK_EACH, .seed = 4},
    {.nranks = 4, .placement = SIM_ONE_RANK_EACH, .stream = NASTY, .seed = 5},
    {.nranks = 5, .placement = SIM_ROUND_ROBIN, .apart = true, .stream = NASTY, .seed = 6},
};
#define NWORLDS (sizeof worlds / sizeof worlds[0])

/* ---- Tests ---- */

static void test_p2p_sizes_around_borders_arrive_whole(void **state)
{
    (void)state;
    static const size_t borders[] = {0, 1, 40, 63, 64, 65, 4096, 16384, DIRECT, RING - 64, RING, 2 * RING, 3 * RING + 640};
    for (size_t w = 0; w < NWORLDS; w++)
        for (size_t b = 0; b < sizeof borders / sizeof borders[0]; b++) {
            open_play(&worlds[w]);
            int n = worlds[w].nranks;
            for (int r = 0; r < n; r++)
                for (int off = -1; off <= 1; off++) {
                    size_t bytes = borders[b] + (size_t)(borders[b] ? off : off + 1);
                    int to = (r + 1) % n, from = (r + n - 1) % n;
                    add_send(r, to, MOTET_UNTAGGED, bytes, (uint64_t)(100 + r * 10 + off));
                    add_recv(r, from, MOTET_UNTAGGED, bytes, (uint64_t)(100 + from * 10 + off));
                    if (off == 0)
                        end_batch(r);
                }
            for (int r = 0; r < n; r++)
                end_batch(r);
            run_play();
            close_play();
        }
}

/* Everybody to everybody, itself included, in one group: no size deadlocks. */
static void test_p2p_everybody_to_everybody_in_one_group_never_deadlocks(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        int n = worlds[w].nranks;
        for (int a = 0; a < n; a++) {
            for (int b = 0; b < n; b++)
                add_send(a, b, MOTET_UNTAGGED, RING + 1000 * (size_t)b + (size_t)a, (uint64_t)(1 + a * n + b));
            for (int b = 0; b < n; b++)
                add_recv(a, b, MOTET_UNTAGGED, RING + 1000 * (size_t)a + (size_t)b, (uint64_t)(1 + b * n + a));
            end_batch(a);
        }
        run_play();
        close_play();
    }
}

static void test_p2p_many_messages_keep_their_order(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        for (int m = 0; m < 200; m++) {
            size_t bytes = sim_random(&play.world, 5) ? sim_random(&play.world, 600) : sim_random(&play.world, RING + DIRECT);
            add_send(0, 1, MOTET_UNTAGGED, bytes, 1000 + (uint64_t)m);
            add_recv(1, 0, MOTET_UNTAGGED, bytes, 1000 + (uint64_t)m);
            if (sim_random(&play.world, 3) == 0)
                end_batch(0);
            if (sim_random(&play.world, 3) == 0)
                end_batch(1);
        }
        end_batch(0);
        end_batch(1);
        run_play();
        close_play();
    }
}

/* Messages of five tags are taken tag by tag, against the order in which they were sent: most wait unasked. */
static void test_p2p_tags_are_matched_whatever_the_order(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        size_t sizes[25];
        for (int m = 0; m < 25; m++) {
            sizes[m] = m % 7 == 3 ? DIRECT + 100 + (size_t)m : 50 * (size_t)m;
            add_send(2, 3, 10 + m % 5, sizes[m], 500 + (uint64_t)m);
        }
        end_batch(2);
        for (int tag = 4; tag >= 0; tag--)
            for (int m = tag; m < 25; m += 5) {
                add_recv(3, 2, 10 + tag, sizes[m] + 7, 500 + (uint64_t)m); /* room for more than comes */
                if (m % 2)
                    end_batch(3);
            }
        end_batch(3);
        run_play();
        for (int m = 0; m < 25; m++) {
            assert_int_equal(play.scripts[3].messages[m].source, 2);
            assert_int_equal(play.scripts[3].messages[m].received_tag, play.scripts[3].messages[m].tag);
        }
        close_play();
    }
}

/* A message that is still arriving unasked when somebody asks for it goes before a later one of its tag. */
static void test_p2p_message_half_stored_goes_before_later_ones(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, 2, RING + 20000, 71);
        end_batch(0);
        add_send(0, 1, 2, 500, 72);
        end_batch(0);
        add_send(2, 1, 1, 10, 73);
        end_batch(2);
        add_recv(1, -1, 1, 10, 73);
        end_batch(1);
        struct motet_transfer *first = add_recv(1, 0, 2, RING + 20000, 71), *second = add_recv(1, 0, 2, 500, 72);
        end_batch(1);
        for (int i = 0; i < 300; i++)
            visit(0);                     /* fills the ring */
        while (play.scripts[1].at == 0) { /* what comes with tag 2 is stored, unasked, as far as it is there; then tag 1 comes */
            visit(1);
            visit(2);
        }
        for (int i = 0; i < 300; i++)
            visit(0); /* the rest of the first message and all of the second one */
        run_play();
        assert_int_equal(first->received, RING + 20000);
        assert_int_equal(second->received, 500);
        close_play();
    }
}

static void test_p2p_any_source_takes_all_and_keeps_each_senders_order(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        int n = worlds[w].nranks, each = 10, next[SIM_MAX_RANKS] = {0};
        for (int r = 1; r < n; r++)
            for (int m = 0; m < each; m++) {
                add_send(r, 0, 3, 100 + 7000 * (size_t)m, (uint64_t)(1 + r * 100 + m));
                end_batch(r);
            }
        for (int m = 0; m < (n - 1) * each; m++) {
            add_recv(0, -1, m % 2 ? MOTET_ANY_TAG : 3, 100 + 7000 * (size_t)each, 0);
            if (m % 3 == 0)
                end_batch(0);
        }
        end_batch(0);
        run_play();
        for (int m = 0; m < (n - 1) * each; m++) {
            const struct motet_transfer *message = &play.scripts[0].messages[m];
            int from = message->source;
            assert_in_range(from, 1, n - 1);
            size_t bytes = 100 + 7000 * (size_t)next[from];
            char *want = malloc(bytes);
            SIM_REQUIRE(want);
            fill(want, bytes, (uint64_t)(1 + from * 100 + next[from]));
            assert_int_equal(message->received, bytes);
            assert_memory_equal(message->buf, want, bytes);
            free(want);
            next[from]++;
        }
        close_play();
    }
}

static void test_p2p_any_tag_does_not_take_untagged(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, MOTET_UNTAGGED, 100, 11);
        add_send(0, 1, 0, 100, 12);
        end_batch(0);
        struct motet_transfer *tagged = add_recv(1, -1, MOTET_ANY_TAG, 100, 12);
        end_batch(1);
        add_recv(1, 0, MOTET_UNTAGGED, 100, 11);
        end_batch(1);
        run_play();
        assert_int_equal(tagged->received_tag, 0);
        close_play();
    }
}

static void test_p2p_to_itself_small_first_or_large_in_a_group(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        for (int r = 0; r < worlds[w].nranks; r++) {
            add_send(r, r, MOTET_UNTAGGED, 16384, 21);
            end_batch(r);
            add_recv(r, r, MOTET_UNTAGGED, 16384, 21);
            end_batch(r);
            add_recv(r, r, MOTET_UNTAGGED, 3 * RING, 22);
            add_send(r, r, MOTET_UNTAGGED, 3 * RING, 22);
            end_batch(r);
        }
        run_play();
        close_play();
    }
}

static void test_p2p_eager_sends_complete_without_the_receiver(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        for (int m = 0; m < 4; m++) {
            add_send(0, 1, MOTET_UNTAGGED, 16384, 31 + (uint64_t)m);
            end_batch(0);
        }
        for (int i = 0; i < 100 && !is_done(0); i++)
            visit(0);
        assert_true(is_done(0));
        for (int m = 0; m < 4; m++)
            memset(play.scripts[0].messages[m].buf, 0, 16384); /* the buffers may be reused: what was sent has left them */
        for (int m = 0; m < 4; m++)
            play.scripts[0].messages[m].bytes = 0;
        for (int m = 0; m < 4; m++) {
            add_recv(1, 0, MOTET_UNTAGGED, 16384, 31 + (uint64_t)m);
            end_batch(1);
        }
        while (!is_done(1))
            visit((int)sim_random(&play.world, 2));
        for (int m = 0; m < 4; m++)
            check_message(1, m);
        close_play();
    }
}

static void test_p2p_large_send_returns_when_the_buffer_has_been_read(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, MOTET_UNTAGGED, 10 * RING, 41);
        end_batch(0);
        for (int i = 0; i < 2000; i++)
            visit(0);
        assert_false(is_done(0));
        add_recv(1, 0, MOTET_UNTAGGED, 10 * RING, 41);
        end_batch(1);
        while (!is_done(0))
            visit((int)sim_random(&play.world, 2));
        memset(play.scripts[0].messages[0].buf, 0, 10 * RING);
        play.scripts[0].messages[0].bytes = 0;
        while (!is_done(1))
            visit((int)sim_random(&play.world, 2));
        check_message(1, 0);
        close_play();
    }
}

/* Visits until both ranks have the error; its sentence must hold `wanted`. */
static void expect_error(int nranks, motetResult_t code, const char *const wanted[])
{
    uint64_t begin = motet_now_ns();
    for (int left = nranks; left > 0;) {
        left = 0;
        for (int r = 0; r < nranks; r++) {
            visit(r);
            left += play.scripts[r].result == motetSuccess;
        }
        assert_true(motet_now_ns() - begin < 60000000000ull);
    }
    for (int r = 0; r < nranks; r++) {
        assert_int_equal(play.scripts[r].result, code);
        for (int i = 0; wanted[i]; i++)
            if (!strstr(play.world.comms[r]->control->fault.text, wanted[i])) {
                print_error("rank %d: \"%s\" lacks \"%s\"\n", r, play.world.comms[r]->control->fault.text, wanted[i]);
                fail();
            }
    }
}

static void test_p2p_sizes_differ_both_ranks_hear_both_calls(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, MOTET_UNTAGGED, 4000, 51)->dtype = motetInt32;
        add_recv(0, 1, MOTET_UNTAGGED, 1, 0);
        end_batch(0);
        add_recv(1, 0, MOTET_UNTAGGED, 400, 51)->dtype = motetInt32;
        end_batch(1);
        expect_error(2, motetInvalidUsage,
                     (const char *const[]){"rank 1 called Recv(100 x int32) from rank 0",
                                           "rank 0 called Send(1000 x int32) to rank 1", NULL});
        close_play();
    }
}

static void test_p2p_datatypes_differ_both_ranks_hear_both_calls(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, 5, 400, 51)->dtype = motetFloat32;
        add_recv(0, 1, MOTET_UNTAGGED, 1, 0);
        end_batch(0);
        add_recv(1, -1, MOTET_ANY_TAG, 400, 51)->dtype = motetInt64;
        end_batch(1);
        expect_error(2, motetInvalidUsage,
                     (const char *const[]){"rank 1 called RecvTag(50 x int64) from rank 0",
                                           "rank 0 called SendTag(100 x float32) to rank 1", NULL});
        close_play();
    }
}

static void test_p2p_cycle_of_sends_all_hear(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++)
        for (int length = 1; length <= 3; length++) {
            open_play(&worlds[w]);
            for (int r = 0; r < length; r++) {
                add_send(r, (r + 1) % length, MOTET_UNTAGGED, 2 * RING, 61);
                end_batch(r);
                add_recv(r, (r + length - 1) % length, MOTET_UNTAGGED, 2 * RING, 61);
                end_batch(r);
            }
            const char *second = length == 1 ? "rank 0 waits in Send to rank 0" : "rank 1 waits in Send to rank ";
            expect_error(length, motetInvalidUsage,
                         (const char *const[]){"deadlock", "rank 0 waits in Send to rank ", second, NULL});
            close_play();
        }
}

/* Visits everybody but `absent` for a while: nobody may call it a deadlock. */
static void expect_patience(int absent, uint64_t ms)
{
    uint64_t end = motet_now_ns() + ms * 1000000;
    while (motet_now_ns() < end)
        for (int r = 0; r < play.world.options.nranks; r++)
            if (r != absent) {
                visit(r);
                if (play.scripts[r].result != motetSuccess)
                    print_error("rank %d: %s\n", r, play.world.comms[r]->control->fault.text);
                assert_int_equal(play.scripts[r].result, motetSuccess);
            }
}

static void test_p2p_late_receiver_is_no_deadlock(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w += 3) {
        open_play(&worlds[w]);
        add_send(0, 1, MOTET_UNTAGGED, 2 * RING, 62); /* 0 -> 1 -> 2, and 2 is late */
        end_batch(0);
        add_send(1, 2, MOTET_UNTAGGED, 2 * RING, 63);
        end_batch(1);
        add_recv(1, 0, MOTET_UNTAGGED, 2 * RING, 62);
        end_batch(1);
        add_recv(2, 1, MOTET_UNTAGGED, 2 * RING, 63);
        end_batch(2);
        expect_patience(2, 700);
        run_play();
        close_play();
    }
}

/* Rank 0 waits in Send to 1 and says so; 1 takes the message, then waits in a Send to 0, which is late and has not noticed: no deadlock. */
static void test_p2p_sender_that_has_not_noticed_is_no_deadlock(void **state)
{
    (void)state;
    for (size_t w = 0; w < NWORLDS; w++) {
        open_play(&worlds[w]);
        add_send(0, 1, MOTET_UNTAGGED, RING + 10000, 64);
        end_batch(0);
        add_recv(0, 1, MOTET_UNTAGGED, 3 * RING, 65);
        end_batch(0);
        uint64_t end = motet_now_ns() + 250000000;
        while (motet_now_ns() < end)
            visit(0);
        add_recv(1, 0, MOTET_UNTAGGED, RING + 10000, 64);
        end_batch(1);
        add_send(1, 0, MOTET_UNTAGGED, 3 * RING, 65);
        end_batch(1);
        const struct motet_transfer *sent = &play.scripts[0].messages[0];
        while (play.scripts[1].at == 0 && sent->moved < sent->bytes) {
            visit(1);
            if (!sent->wait_until)
                visit(0); /* until the rest of the message is in the ring; it has not noticed that this is all */
        }
        expect_patience(0, 800);
        run_play();
        close_play();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_p2p_sizes_around_borders_arrive_whole),
        cmocka_unit_test(test_p2p_everybody_to_everybody_in_one_group_never_deadlocks),
        cmocka_unit_test(test_p2p_many_messages_keep_their_order),
        cmocka_unit_test(test_p2p_tags_are_matched_whatever_the_order),
        cmocka_unit_test(test_p2p_message_half_stored_goes_before_later_ones),
        cmocka_unit_test(test_p2p_any_source_takes_all_and_keeps_each_senders_order),
        cmocka_unit_test(test_p2p_any_tag_does_not_take_untagged),
        cmocka_unit_test(test_p2p_to_itself_small_first_or_large_in_a_group),
        cmocka_unit_test(test_p2p_eager_sends_complete_without_the_receiver),
        cmocka_unit_test(test_p2p_large_send_returns_when_the_buffer_has_been_read),
        cmocka_unit_test(test_p2p_sizes_differ_both_ranks_hear_both_calls),
        cmocka_unit_test(test_p2p_datatypes_differ_both_ranks_hear_both_calls),
        cmocka_unit_test(test_p2p_cycle_of_sends_all_hear),
        cmocka_unit_test(test_p2p_late_receiver_is_no_deadlock),
        cmocka_unit_test(test_p2p_sender_that_has_not_noticed_is_no_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
