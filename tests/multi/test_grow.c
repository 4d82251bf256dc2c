/* SPDX-License-Identifier: Apache-2.0
 * New ranks join a communicator; and the whole recovery, again and again: create, lose a rank, shrink, grow, all-reduce. Nothing of the lost
 * ranks may stay behind in those that live on. MOTET_TEST_ROUNDS sets how often. */
/* test: slow serial timeout=900 */
#include "survivors.h"

#include "usage.h"

/* What ranks hand to each other beside the library: an id for each turn. */
struct board {
    _Atomic(int) turn;
    motetUniqueId id;
};

static struct board *make_board(void)
{
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(board != MAP_FAILED);
    return board;
}

static void await_turn(struct board *board, int turn)
{
    while (board->turn < turn)
        world_sleep_ms(1);
}

/* An existing rank's part of a growth; rank `maker` makes the id. */
static int grow_old(motetComm_t comm, struct board *board, int turn, int nranks, int maker, motetComm_t *grown)
{
    int rank;
    CALL(motetCommUserRank(comm, &rank));
    if (rank == maker) {
        CALL(motetCommGetUniqueId(comm, &board->id));
        board->turn = turn;
    }
    motetUniqueId id = rank == maker ? board->id : (motetUniqueId){{0}};
    CALL(motetCommGrow(comm, nranks, rank == maker ? &id : NULL, -1, grown, NULL));
    return 0;
}

static int grow_new(struct board *board, int turn, int nranks, int rank, motetComm_t *grown)
{
    await_turn(board, turn);
    motetUniqueId id = board->id;
    CALL(motetCommGrow(NULL, nranks, &id, rank, grown, NULL));
    return 0;
}

/* Processes 0 and 1 begin, 2 and 3 join them, 4 joins those. */
static int joins(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct board *board = (void *)(uintptr_t)argument;
    motetComm_t four = NULL, five = NULL;
    int n, r;
    (void)nranks;
    if (rank == 0) {
        CALL(motetGetUniqueId(&board->id));
        board->turn = 1;
    }
    if (rank < 2) {
        await_turn(board, 1);
        motetUniqueId id = board->id;
        CALL(motetCommInitRank(&comm, 2, id, rank));
        CHECK(probe(comm, 1) == 0);
        CHECK(grow_old(comm, board, 2, 4, 1, &four) == 0);
        CHECK(probe(comm, 2) == 0); /* the parent stays as it was */
    } else if (rank < 4) {
        CHECK(grow_new(board, 2, 4, rank, &four) == 0);
    }
    if (rank < 4) {
        CALL(motetCommUserRank(four, &r));
        CALL(motetCommCount(four, &n));
        CHECK(r == rank && n == 4);
        CHECK(survivors_judge(four) == 0);
        CHECK(grow_old(four, board, 3, 5, 3, &five) == 0);
        CALL(motetCommDestroy(four));
    } else {
        CHECK(grow_new(board, 3, 5, rank, &five) == 0);
    }
    CHECK(survivors_judge(five) == 0);
    CALL(motetCommDestroy(five));
    if (rank < 2)
        CALL(motetCommDestroy(comm));
    return 0;
}

static void test_grow_new_ranks_take_part(void **state)
{
    static const char *const settings[] = {NULL, "MOTET_SHM_DISABLE=1"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct board *board = make_board();
        assert_int_equal(world_run(&(struct world){WORLD_BARE, 5, {settings[i]}, 60, 0}, joins, board), 0);
        munmap(board, sizeof *board);
    }
}

struct joiner {
    pthread_t thread;
    motetUniqueId id;
    int nranks, rank, failed;
};

static void *join_as_thread(void *pointer)
{
    struct joiner *self = pointer;
    motetComm_t grown = NULL;
    self->failed = motetCommGrow(NULL, self->nranks, &self->id, self->rank, &grown, NULL) != motetSuccess || probe(grown, 5) != 0 ||
                   motetCommDestroy(grown) != motetSuccess;
    return NULL;
}

/* New ranks may be threads of an existing rank's process. */
static int joined_by_thread(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct joiner joiner = {.nranks = nranks + 1, .rank = nranks};
    motetComm_t grown;
    (void)argument;
    if (rank == 0) {
        CALL(motetCommGetUniqueId(comm, &joiner.id));
        CHECK(pthread_create(&joiner.thread, NULL, join_as_thread, &joiner) == 0);
    }
    motetUniqueId id = joiner.id;
    CALL(motetCommGrow(comm, nranks + 1, rank == 0 ? &id : NULL, -1, &grown, NULL));
    CHECK(probe(grown, 5) == 0);
    CALL(motetCommDestroy(grown));
    if (rank == 0)
        pthread_join(joiner.thread, NULL);
    CHECK(!joiner.failed);
    return probe(comm, 6);
}

static void test_grow_by_threads_and_processes(void **state)
{
    (void)state;
    survivors_run(joined_by_thread, NULL, 0);
}

/* ---- Mistakes ---- */

static int mistakes(motetComm_t comm, int rank, int nranks, const void *argument)
{
    motetUniqueId id;
    motetComm_t grown = (motetComm_t)(uintptr_t)1;
    motetConfig_t config = MOTET_CONFIG_INITIALIZER;
    (void)argument;
    config.initTimeoutMs = 1500;
    memset(&id, 0, sizeof id);
    CALL(motetCommGetUniqueId(comm, &id));
    EXPECT(motetInvalidArgument, motetCommGetUniqueId(comm, NULL));
    EXPECT(motetInvalidArgument, motetCommGetUniqueId(NULL, &id));
    EXPECT(motetInvalidArgument, motetCommGrow(comm, nranks, NULL, -1, &grown, NULL));
    EXPECT(motetInvalidArgument, motetCommGrow(comm, nranks + 1, NULL, rank, &grown, NULL));
    EXPECT(motetInvalidArgument, motetCommGrow(NULL, nranks + 1, NULL, nranks, &grown, NULL));
    EXPECT(motetInvalidArgument, motetCommGrow(NULL, nranks + 1, &id, nranks + 1, &grown, NULL));
    EXPECT(motetInvalidUsage, motetCommGrow(comm, nranks + 1, NULL, -1, &grown, NULL)); /* nobody brings an id */
    CHECK(grown == NULL && survivors_said("no rank passed") == 0);
    EXPECT(motetInvalidUsage, motetCommGrow(comm, nranks + 1, &id, -1, &grown, NULL));
    CHECK(survivors_said("ranks 0 and 1 both") == 0);
    EXPECT(motetInvalidUsage, motetCommGrow(comm, nranks + 1 + (rank == 1), rank == 0 ? &id : NULL, -1, &grown, NULL));
    CHECK(survivors_said("rank 0 wants 5 ranks, rank 1 wants 6") == 0);
    EXPECT(motetTimeout,
           motetCommGrow(comm, nranks + 1, rank == 0 ? &id : NULL, -1, &grown, &config)); /* the new rank never comes */
    CHECK(grown == NULL && survivors_said("missing ranks: 4") == 0);
    CHECK(probe(comm, 3) == 0);
    if (rank == 0) {
        CHECK(survivors_call(comm, rank, 0) == motetSuccess); /* nobody is in the probe any more */
        CALL(motetCommRevoke(comm, 0));
    } else {
        CHECK(survivors_work(comm) == motetInvalidUsage);
    }
    EXPECT(motetInvalidUsage, motetCommGrow(comm, nranks + 1, rank == 0 ? &id : NULL, -1, &grown, NULL));
    CHECK(survivors_said("CommGrow: communicator world has failed") == 0);
    (void)motetCommDestroy(comm);
    return WORLD_ABORTED;
}

static void test_grow_mistakes_are_errors_everywhere(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 4, {NULL}, 60, 0}, mistakes, NULL), 0);
    assert_int_equal(world_run(&(struct world){WORLD_PROCESSES, 4, {NULL}, 60, 2}, mistakes, NULL), 0);
}

/* ---- Recovery, again and again ---- */

enum { LIVING = 3 };

static int rounds(int by_default)
{
    const char *text = getenv("MOTET_TEST_ROUNDS");
    return text ? atoi(text) : by_default;
}

/* The processes that live on: ranks 0 to LIVING - 1 of every communicator. */
static int recover(struct board *board, int rank, motetComm_t *comm, int turn)
{
    int excluded[] = {LIVING};
    motetComm_t fewer, again;
    CHECK(probe(*comm, turn) == 0);
    CHECK(survivors_work(*comm) == motetRemoteError);
    CHECK(survivors_said("rank 3") == 0);
    CALL(motetCommShrink(*comm, excluded, 1, &fewer, NULL, turn % 2 ? MOTET_SHRINK_ABORT : MOTET_SHRINK_DEFAULT));
    if (turn % 3)
        CALL(motetCommAbort(*comm));
    else
        (void)motetCommDestroy(*comm);
    CHECK(probe(fewer, turn) == 0);
    CHECK(grow_old(fewer, board, turn + 1, LIVING + 1, turn % LIVING, &again) == 0);
    CALL(motetCommDestroy(fewer));
    *comm = again;
    return (void)rank, 0;
}

/* Processes of one round: each joins, works a little, and is killed in the middle of a call. */
static int live_shortly(struct board *board, int turn)
{
    motetComm_t comm;
    CHECK(grow_new(board, turn, LIVING + 1, LIVING, &comm) == 0);
    CHECK(probe(comm, turn) == 0);
    for (int i = 0; i <= turn % 5; i++) /* one at least: then the others have all of the probe */
        CALL(survivors_call(comm, LIVING, i));
    kill(getpid(), SIGKILL);
    return 1;
}

/* Process LIVING only starts the short-lived ones, before it has threads. */
static int start_the_short_lived(struct board *board, int last)
{
    for (int turn = 1; turn <= last; turn++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(live_shortly(board, turn));
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    return 0;
}

static int recovery(motetComm_t comm, int rank, int nranks, const void *argument)
{
    struct board *board = (void *)(uintptr_t)argument;
    struct usage before = {0};
    int warm = 6, last = warm + rounds(20);
    motetComm_t first;
    (void)nranks;
    if (rank == LIVING)
        return start_the_short_lived(board, last);
    if (rank == 0) {
        CALL(motetGetUniqueId(&board->id));
        board->turn = -1;
    }
    while (board->turn == 0)
        world_sleep_ms(1);
    motetUniqueId id = board->id;
    CALL(motetCommInitRank(&first, LIVING, id, rank));
    CHECK(probe(first, 0) == 0); /* all have read the id */
    CHECK(grow_old(first, board, 1, LIVING + 1, 0, &comm) == 0);
    CALL(motetCommDestroy(first));
    for (int turn = 1; turn < last; turn++) {
        CHECK(recover(board, rank, &comm, turn) == 0);
        if (turn == warm)
            before = usage_measure();
    }
    CHECK(probe(comm, last) == 0 && survivors_work(comm) == motetRemoteError);
    CHECK(usage_is_flat(&before, rank) == 0);
    (void)motetCommDestroy(comm);
    return 0;
}

static void test_grow_recovery_again_and_again_leaves_processes_flat(void **state)
{
    static const char *const settings[] = {NULL, "MOTET_SHM_DISABLE=1"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct board *board = make_board();
        assert_int_equal(world_run(&(struct world){WORLD_BARE, LIVING + 1, {settings[i]}, 400, 0}, recovery, board), 0);
        munmap(board, sizeof *board);
    }
}

/* The same with threads, of which one aborts instead of being killed, and one joins. */
struct short_lived {
    motetComm_t comm;
    motetUniqueId id;
    pthread_t thread;
    int turn, failed;
};

static void *be_short_lived(void *pointer)
{
    struct short_lived *self = pointer;
    self->failed = motetCommGrow(NULL, 2, &self->id, 1, &self->comm, NULL) != motetSuccess || probe(self->comm, self->turn) != 0 ||
                   survivors_call(self->comm, 1, 0) != motetSuccess || motetCommAbort(self->comm) != motetSuccess;
    return NULL;
}

static int thread_recovery(motetComm_t unused, int unused_rank, int nranks, const void *argument)
{
    struct usage before = {0};
    int warm = 12, excluded[] = {1}, last = warm + rounds(20);
    motetComm_t comm, grown;
    (void)unused, (void)unused_rank, (void)nranks, (void)argument;
    CALL(motetCommInitAll(&comm, 1, NULL));
    for (int turn = 0; turn < last; turn++) {
        struct short_lived other = {.turn = turn};
        CALL(motetCommGetUniqueId(comm, &other.id));
        motetUniqueId id = other.id;
        CHECK(pthread_create(&other.thread, NULL, be_short_lived, &other) == 0);
        CALL(motetCommGrow(comm, 2, &id, -1, &grown, NULL));
        CALL(motetCommDestroy(comm));
        CHECK(probe(grown, turn) == 0);
        CHECK(survivors_work(grown) == motetRemoteError && survivors_said("rank 1 aborted") == 0);
        pthread_join(other.thread, NULL);
        CHECK(!other.failed);
        CALL(motetCommShrink(grown, excluded, 1, &comm, NULL, MOTET_SHRINK_ABORT));
        (void)motetCommDestroy(grown);
        CHECK(probe(comm, turn) == 0);
        if (turn == warm)
            before = usage_measure();
    }
    CHECK(usage_is_flat(&before, 0) == 0);
    CALL(motetCommDestroy(comm));
    return 0;
}

static void test_grow_recovery_of_threads_leaves_the_process_flat(void **state)
{
    (void)state;
    assert_int_equal(world_run(&(struct world){WORLD_ALONE, 1, {NULL}, 400, 0}, thread_recovery, NULL), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grow_new_ranks_take_part),
        cmocka_unit_test(test_grow_by_threads_and_processes),
        cmocka_unit_test(test_grow_mistakes_are_errors_everywhere),
        cmocka_unit_test(test_grow_recovery_again_and_again_leaves_processes_flat),
        cmocka_unit_test(test_grow_recovery_of_threads_leaves_the_process_flat),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
