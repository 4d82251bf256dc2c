/* SPDX-License-Identifier: Apache-2.0
 * What tests of revoke, shrink and grow share: ends that come suddenly, and whether a new communicator is right in every collective. */
#ifndef MOTET_TESTS_MULTI_SURVIVORS_H
#define MOTET_TESTS_MULTI_SURVIVORS_H

#include <stdatomic.h>

#include "judge.h"
#include "probe.h"

static const struct world survivors_places[] = {
    {WORLD_THREADS, 4, {NULL}, 60, 0},   {WORLD_PROCESSES, 4, {NULL}, 60, 0},  {WORLD_PROCESSES, 4, {"MOTET_SHM_DISABLE=1"}, 60, 0},
    {WORLD_PROCESSES, 4, {NULL}, 60, 2}, {WORLD_PROCESSES, 4, {NULL}, 60, -2},
};

#define SURVIVORS_PLACES (int)(sizeof survivors_places / sizeof survivors_places[0])

static _Atomic int *survivors_came; /* shared by the ranks of a world */

/* Returns when all ranks are here, without the communicator: who is in its first call may still be in init elsewhere, and would take what
 * happens next for init's failure. */
static inline void survivors_await_all(int nranks)
{
    atomic_fetch_add(survivors_came, 1);
    while (atomic_load(survivors_came) % nranks)
        world_sleep_ms(1);
}

/* Runs the function in every placement; ranks of `may_die` kill themselves, where ranks are processes. */
static inline void survivors_run(world_function function, const void *argument, uint64_t may_die)
{
    survivors_came = mmap(NULL, sizeof *survivors_came, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(survivors_came != MAP_FAILED);
    for (int i = 0; i < SURVIVORS_PLACES; i++) {
        if (may_die && survivors_places[i].kind == WORLD_THREADS)
            continue;
        print_message("placement %d\n", i);
        atomic_store(survivors_came, 0);
        assert_int_equal(world_run_with_deaths(&survivors_places[i], function, argument, may_die), 0);
    }
    munmap(survivors_came, sizeof *survivors_came);
}

/* Call number `salt` of survivors_work. */
static inline motetResult_t survivors_call(motetComm_t comm, int rank, int salt)
{
    int64_t mine[PROBE_N], sum[PROBE_N];
    int nranks = 0;
    motetResult_t result = motetCommCount(comm, &nranks);
    probe_fill(mine, PROBE_N, rank, salt);
    if (result == motetSuccess)
        result = motetAllReduce(mine, sum, PROBE_N, motetInt64, motetSum, comm, NULL);
    return result == motetSuccess && !probe_is_sum(sum, PROBE_N, nranks, salt) ? motetNumResults : result;
}

/* All-reduces until the communicator fails. Returns its error. */
static inline motetResult_t survivors_work(motetComm_t comm)
{
    int rank = 0;
    motetResult_t result = motetCommUserRank(comm, &rank);
    for (int salt = 0; result == motetSuccess; salt++)
        result = survivors_call(comm, rank, salt);
    return result;
}

static inline int survivors_judge_one(motetComm_t comm, int rank, const struct judge_case *c)
{
    struct judge_seat seat;
    CHECK(judge_seat_prepare(&seat, c, rank) == 0);
    CALL(judge_call(c, rank, &seat, c->op, comm, NULL));
    int failed = judge_seat_verify(&seat, c, rank);
    judge_seat_free(&seat);
    return failed;
}

/* Every collective, in sizes on both sides of what fits in a line and of what is staged, and a ring of messages. Collective. */
static inline int survivors_judge(motetComm_t comm)
{
    static const size_t counts[] = {1, 5, 700, 40000};
    int rank, nranks;
    CALL(motetCommUserRank(comm, &rank));
    CALL(motetCommCount(comm, &nranks));
    for (int coll = 0; coll < JUDGE_NCOLLS; coll++)
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            struct judge_case c = {.coll = (enum judge_coll)coll,
                                   .dtype = i % 2 ? motetFloat32 : motetInt64,
                                   .op = motetSum,
                                   .count = counts[i],
                                   .root = (int)i % nranks,
                                   .nranks = nranks,
                                   .exact = true,
                                   .seed = 77 + (uint64_t)coll};
            CHECK(survivors_judge_one(comm, rank, &c) == 0);
        }
    int64_t mine = probe_value(rank, 3, nranks), theirs = 0;
    CALL(motetGroupStart());
    CALL(motetSend(&mine, 1, motetInt64, (rank + 1) % nranks, comm, NULL));
    CALL(motetRecv(&theirs, 1, motetInt64, (rank + nranks - 1) % nranks, comm, NULL));
    CALL(motetGroupEnd());
    CHECK(theirs == probe_value((rank + nranks - 1) % nranks, 3, nranks));
    CALL(motetBarrier(comm, NULL));
    return 0;
}

/* Whether the thread's last error says `part`. */
static inline int survivors_said(const char *part)
{
    if (strstr(motetGetLastError(NULL), part))
        return 0;
    return world_complain(__FILE__, __LINE__, "the error does not say \"%s\" but \"%s\"", part, motetGetLastError(NULL));
}

#endif
