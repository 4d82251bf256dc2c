/* SPDX-License-Identifier: Apache-2.0
 * What is known of each algorithm in closed form: rounds, messages, chunks, who talks to whom, what crosses between hosts. That the
 * results are right is the verifier's business (test_algorithms.c); here every row must be the algorithm whose name it bears. */
#include "coll/coll.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coll/canonical.h"
#include "coll/hosts.h"
#include "coll/tree.h"
#include "coll/walk.h"

#define MAX_RANKS 65

/* What the schedules of all positions do together. A multicast counts once per receiver. */
struct traffic {
    int nranks, parts;
    int rounds;                     /* most of a position */
    int messages[MAX_RANKS];        /* sent by position */
    int chunks[MAX_RANKS];          /* sent by position */
    int received[MAX_RANKS];        /* chunks */
    int pair[MAX_RANKS][MAX_RANKS]; /* chunks (of signals: messages) from .. to */
    int peers[MAX_RANKS];           /* others that a position talks to */
    int all_chunks, between_hosts, messages_between_hosts;
};

static void add_message(struct traffic *t, const struct motet_shape *shape, int from, int to, int n)
{
    t->messages[from]++;
    t->chunks[from] += n;
    t->received[to] += n;
    t->all_chunks += n;
    t->pair[from][to] += n > 0 ? n : 1;
    if (motet_host_of(shape, from).index != motet_host_of(shape, to).index) {
        t->between_hosts += n;
        t->messages_between_hosts++;
    }
}

static void add_schedule(struct traffic *t, const struct motet_shape *shape, const struct motet_schedule *schedule)
{
    int rounds = 0;
    for (int s = 0; s < schedule->nsteps; s++) {
        const struct motet_step *step = &schedule->steps[s];
        rounds += (step->flags & MOTET_ENDS_ROUND) || s == schedule->nsteps - 1;
        for (int i = 0; i < motet_peers_count(step->to, schedule->position, t->nranks); i++)
            add_message(t, shape, schedule->position, motet_peers_at(step->to, i, schedule->position, t->nranks), step->n);
    }
    t->rounds = rounds > t->rounds ? rounds : t->rounds;
    t->parts = schedule->parts;
}

static const struct traffic *observe(enum motet_collective collective, const char *name, struct motet_shape shape)
{
    static struct traffic t;
    const struct motet_algorithm *algorithm = motet_algorithm_find(collective, name);
    struct motet_schedule schedule = {0};
    assert_non_null(algorithm);
    assert_true(shape.nranks <= MAX_RANKS);
    memset(&t, 0, sizeof(t));
    t.nranks = shape.nranks;
    for (shape.position = 0; shape.position < shape.nranks; shape.position++) {
        algorithm->build(&schedule, &shape);
        motet_schedule_expand(&schedule);
        assert_false(schedule.out_of_memory);
        add_schedule(&t, &shape, &schedule);
    }
    for (int a = 0; a < shape.nranks; a++) {
        for (int b = 0; b < shape.nranks; b++)
            t.peers[a] += t.pair[a][b] + t.pair[b][a] > 0;
    }
    motet_schedule_free(&schedule);
    return &t;
}

static struct motet_shape on_one_host(int nranks, int root)
{
    static int host_first[2];
    host_first[1] = nranks;
    return (struct motet_shape){.nranks = nranks, .root = root, .nhosts = 1, .host_first = host_first};
}

/* Hosts of 3, 5, 1, 3, 5, ... ranks; or all of `size`. */
static struct motet_shape on_hosts(int nranks, int size, int root)
{
    static int host_first[MAX_RANKS + 1];
    static const int sizes[] = {3, 5, 1};
    int hosts = 0;
    for (int first = 0; first < nranks; hosts++) {
        host_first[hosts] = first;
        first += size > 0 ? size : sizes[hosts % 3];
    }
    host_first[hosts] = nranks;
    return (struct motet_shape){.nranks = nranks, .root = root, .nhosts = hosts, .host_first = host_first};
}

static int log2_up(int n)
{
    int bits = 0;
    while (1 << bits < n)
        bits++;
    return bits;
}

static bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/* ---- The table ---- */

static void test_table_every_row_has_name_title_and_builder(void **state)
{
    (void)state;
    bool served[MOTET_NCOLLECTIVES] = {false};
    for (int i = 0; i < motet_nalgorithms; i++) {
        const struct motet_algorithm *row = &motet_algorithms[i];
        assert_true(strlen(row->name) > 0 && strlen(row->title) > 10);
        assert_non_null(row->build);
        assert_ptr_equal(motet_algorithm_find(row->collective, row->name), row); /* so names are unique */
        assert_int_equal(row->order != MOTET_ORDER_NONE, motet_collective_reduces(row->collective));
        served[row->collective] = true;
    }
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++)
        assert_true(served[c]);
}

static void test_table_names_are_found_in_any_case_and_tree_is_double_binary(void **state)
{
    (void)state;
    assert_string_equal(motet_algorithm_find(MOTET_ALLREDUCE, "Ring")->name, "ring");
    assert_string_equal(motet_algorithm_find(MOTET_ALLREDUCE, "TREE")->name, "double_binary_tree");
    assert_string_equal(motet_algorithm_find(MOTET_BROADCAST, "Tree")->name, "double_binary_tree");
    assert_string_equal(motet_algorithm_find(MOTET_BARRIER, "Tree")->name, "tree"); /* an own row goes first */
    assert_null(motet_algorithm_find(MOTET_ALLTOALL, "tree"));
    assert_null(motet_algorithm_find(MOTET_ALLREDUCE, "rings"));
    assert_null(motet_algorithm_find(MOTET_ALLREDUCE, ""));
}

static void test_table_collectives_know_roots_reductions_and_blocks(void **state)
{
    (void)state;
    assert_string_equal(motet_collective_name(MOTET_REDUCESCATTER), "ReduceScatter");
    assert_string_equal(motet_collective_name(MOTET_ALLTOALL), "AlltoAll");
    for (int c = 0; c < MOTET_NCOLLECTIVES; c++) {
        bool root = c == MOTET_REDUCE || c == MOTET_BROADCAST || c == MOTET_GATHER || c == MOTET_SCATTER;
        bool one_block = c == MOTET_ALLREDUCE || c == MOTET_REDUCE || c == MOTET_BROADCAST || c == MOTET_BARRIER;
        assert_int_equal(motet_collective_has_root(c), root);
        assert_int_equal(motet_collective_reduces(c), c == MOTET_ALLREDUCE || c == MOTET_REDUCE || c == MOTET_REDUCESCATTER);
        assert_int_equal(motet_collective_nblocks(c, 7), one_block ? 1 : 7);
    }
}

static void test_table_v_variants_have_rows(void **state)
{
    (void)state;
    int served[MOTET_NCOLLECTIVES] = {0};
    for (int i = 0; i < motet_nalgorithms; i++) {
        const struct motet_algorithm *row = &motet_algorithms[i];
        bool pairs = row->collective == MOTET_ALLTOALL || row->collective == MOTET_GATHER || row->collective == MOTET_SCATTER;
        served[row->collective] += row->counts >= (pairs ? MOTET_COUNTS_PAIR_KNOWS : MOTET_COUNTS_ALL_KNOW) && !row->fits;
    }
    assert_true(served[MOTET_ALLGATHER] && served[MOTET_REDUCESCATTER] && served[MOTET_ALLTOALL]);
    assert_true(served[MOTET_GATHER] && served[MOTET_SCATTER]);
}

static void test_every_row_one_rank_sends_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < motet_nalgorithms; i++) {
        struct motet_shape shape = on_one_host(1, 0);
        if (motet_algorithms[i].fits)
            assert_true(motet_algorithms[i].fits(&shape));
        assert_int_equal(observe(motet_algorithms[i].collective, motet_algorithms[i].name, shape)->messages[0], 0);
    }
}

/* ---- What they share ---- */

static void test_canonical_path_splits_at_the_largest_power_of_two(void **state)
{
    (void)state;
    struct motet_canonical_node path[MOTET_CANONICAL_DEPTH];
    assert_int_equal(motet_canonical_path(1, 0, path), 0);
    assert_int_equal(motet_canonical_path(13, 12, path), 2); /* 8 + (4 + 1) */
    assert_true(path[0].low == 8 && path[0].middle == 12 && path[0].high == 13);
    assert_true(path[1].low == 0 && path[1].middle == 8 && path[1].high == 13);
    assert_int_equal(motet_canonical_path(13, 3, path), 4);
    assert_true(path[0].low == 2 && path[0].middle == 3 && path[0].high == 4);
    assert_true(path[2].low == 0 && path[2].middle == 4 && path[2].high == 8);
}

static void test_walk_any_root_crosses_hosts_once_each(void **state)
{
    (void)state;
    for (int n = 1; n <= 17; n++) {
        for (int root = 0; root < n; root++) {
            struct motet_shape shape = on_hosts(n, 0, root);
            int crossings = 0;
            assert_int_equal(motet_walk_position(&shape, 0), root);
            for (int place = 0; place < n; place++) {
                int position = motet_walk_position(&shape, place);
                assert_int_equal(motet_walk_place(&shape, position), place);
                if (place + 1 < n) {
                    int next = motet_walk_position(&shape, place + 1);
                    crossings += motet_host_of(&shape, position).index != motet_host_of(&shape, next).index;
                }
            }
            assert_int_equal(crossings, shape.nhosts - 1);
        }
    }
}

/* Distance from the root in tree 0 or 1; checks on the way that parents and children agree. */
static int depth_in_tree(struct motet_shape shape, int tree, int position)
{
    int depth = 0;
    for (shape.position = position; shape.position != shape.root; depth++) {
        struct motet_tree at = motet_tree_at(&shape, tree);
        int child = shape.position;
        bool found = false;
        assert_int_equal(at.parent.n, 1);
        assert_true(depth < shape.nranks);
        shape.position = at.parent.first;
        struct motet_tree above = motet_tree_at(&shape, tree);
        for (int i = 0; i < motet_peers_count(above.children, shape.position, shape.nranks); i++)
            found |= motet_peers_at(above.children, i, shape.position, shape.nranks) == child;
        assert_true(found);
    }
    return depth;
}

static void test_trees_are_binary_shallow_and_share_no_inner_positions(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_RANKS; n++) {
        for (int root = 0; root<n; root += n> 17 ? 7 : 1) {
            struct motet_shape shape = on_hosts(n, 0, root);
            int inner_in_both = 0;
            for (int p = 0; p < n; p++) {
                shape.position = p;
                struct motet_tree first = motet_tree_at(&shape, 0), second = motet_tree_at(&shape, 1);
                assert_true(first.children.n <= 2 && second.children.n <= 2);
                inner_in_both += p != root && first.children.n > 0 && second.children.n > 0;
                assert_true(first.children.n + second.children.n <= 2);
                assert_true(depth_in_tree(shape, 0, p) <= log2_up(n) + 1);
                assert_true(depth_in_tree(shape, 1, p) <= log2_up(n) + 1);
            }
            assert_true(inner_in_both <= (n % 4 == 2 && n >= 6));
        }
    }
}

static void test_host_of_finds_every_position(void **state)
{
    (void)state;
    struct motet_shape shape = on_hosts(17, 0, 0); /* 3 5 1 3 5 */
    static const int sizes[] = {3, 5, 1, 3, 5};
    for (int h = 0, p = 0; h < 5; h++) {
        for (int member = 0; member < sizes[h]; member++, p++) {
            struct motet_host host = motet_host_of(&shape, p);
            assert_true(host.index == h && host.size == sizes[h] && host.first == p - member);
            assert_int_equal(motet_host_carrier(host, p), p);
        }
    }
    assert_false(motet_hosts_are_even(&shape));
}

/* ---- All-reduce ---- */

static void test_allreduce_ring_sends_2n_minus_2_messages_to_the_next_position(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        struct motet_shape shape = on_hosts(n, 0, 0);
        const struct traffic *t = observe(MOTET_ALLREDUCE, "ring", shape);
        assert_true(t->parts == n && t->rounds == 1);
        for (int p = 0; p < n; p++) {
            assert_true(t->messages[p] == 2 * (n - 1) && t->chunks[p] == 2 * (n - 1));
            assert_int_equal(t->pair[p][(p + 1) % n], 2 * (n - 1));
        }
        assert_int_equal(t->between_hosts, shape.nhosts > 1 ? shape.nhosts * 2 * (n - 1) : 0);
    }
}

static void test_allreduce_trees_send_up_and_down_once(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "double_binary_tree", on_one_host(n, 0));
        assert_true(t->parts == 2 && t->rounds == 1 && t->all_chunks == 4 * (n - 1));
        assert_int_equal(t->chunks[0], 2); /* M */
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] <= 4 && t->peers[p] <= 4); /* 2M */
        t = observe(MOTET_ALLREDUCE, "binary_tree", on_one_host(n, 0));
        assert_true(t->parts == 1 && t->rounds == 1 && t->all_chunks == 2 * (n - 1));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] <= 3 && t->peers[p] <= 3);
    }
}

static void test_allreduce_recursive_doubling_takes_log2_n_rounds(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "recursive_doubling", on_one_host(n, 0));
        assert_true(t->parts == 1 && t->rounds == log2_up(n));
        for (int p = 0; p < n && is_power_of_two(n); p++) {
            assert_int_equal(t->messages[p], log2_up(n));
            for (int bit = 1; bit < n; bit *= 2)
                assert_int_equal(t->pair[p][p ^ bit], 1);
        }
        assert_true(t->received[n - 1] <= log2_up(n));
    }
}

static void test_allreduce_rabenseifner_volume_is_optimal_for_powers_of_two(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "rabenseifner", on_one_host(n, 0));
        int parts = motet_largest_power_of_two(n);
        assert_int_equal(t->parts, parts);
        if (is_power_of_two(n))
            assert_int_equal(t->rounds, 2 * log2_up(n));
        for (int p = 0; p < n; p++) {
            if (is_power_of_two(n))
                assert_true(t->chunks[p] == 2 * (n - 1) && t->messages[p] == 2 * log2_up(n));
            else
                assert_true(t->chunks[p] <= 2 * parts - 2 + __builtin_popcount((unsigned)n) - 1);
        }
    }
}

static void test_circulant_volume_and_rounds_are_optimal_for_every_n(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "circulant", on_one_host(n, 0));
        assert_true(t->parts == n && t->rounds == 2 * log2_up(n));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == 2 * (n - 1) && t->pair[p][(p + (n + 1) / 2) % n] >= n / 2);
        t = observe(MOTET_REDUCESCATTER, "circulant", on_one_host(n, 0));
        assert_int_equal(t->rounds, log2_up(n));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == n - 1 && t->messages[p] <= log2_up(n) + n % 2);
    }
}

static void test_allreduce_one_shot_and_two_shot_talk_to_everybody_in_one_round(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "one_shot", on_one_host(n, 0));
        assert_true(t->parts == 1 && t->rounds == 1);
        for (int p = 0; p < n; p++)
            assert_true(t->messages[p] == n - 1 && t->peers[p] == n - 1);
        t = observe(MOTET_ALLREDUCE, "two_shot", on_one_host(n, 0));
        assert_true(t->parts == n && t->rounds == 1);
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == 2 * (n - 1) && t->pair[p][(p + 1) % n] == 2);
    }
}

static void test_allreduce_two_shot_is_three_steps(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        struct motet_schedule schedule = {0};
        struct motet_shape shape = on_one_host(n, 0);
        shape.position = n / 2;
        motet_algorithm_find(MOTET_ALLREDUCE, "two_shot")->build(&schedule, &shape);
        assert_int_equal(schedule.nsteps, 3);
        motet_schedule_free(&schedule);
    }
}

static void test_allreduce_central_loads_position_0_only(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLREDUCE, "central", on_one_host(n, 0));
        assert_true(t->chunks[0] == n - 1 && t->received[0] == n - 1 && t->parts == 1);
        for (int p = 1; p < n; p++)
            assert_true(t->messages[p] == 1 && t->pair[p][0] == 1 && t->received[p] == 1);
    }
}

static void test_allreduce_chain_uses_every_link_once_each_way(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        struct motet_shape shape = on_hosts(n, 0, 0);
        const struct traffic *t = observe(MOTET_ALLREDUCE, "chain", shape);
        assert_true(t->all_chunks == 2 * (n - 1) && t->rounds == 1 && t->between_hosts == 2 * (shape.nhosts - 1));
        for (int p = 0; p + 1 < n; p++)
            assert_true(t->pair[p][p + 1] == 1 && t->pair[p + 1][p] == 1);
    }
}

static void test_torus2d_talks_to_grid_neighbours_and_moves_what_a_ring_moves(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        int x = 1;
        for (int divisor = 2; divisor * divisor <= n; divisor++)
            x = n % divisor == 0 ? divisor : x;
        int hops = x - 1 + n / x - 1;
        const struct traffic *t = observe(MOTET_ALLREDUCE, "torus2d", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == 2 * (n - 1) && t->messages[p] == 2 * hops && t->peers[p] <= 4 &&
                        t->pair[p][(p + x) % n] > 0);
        t = observe(MOTET_ALLGATHER, "torus2d", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == n - 1 && t->messages[p] == hops && t->peers[p] <= 4);
        t = observe(MOTET_REDUCESCATTER, "torus2d", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == n - 1 && t->messages[p] == hops && t->peers[p] <= 4);
    }
}

static void test_hierarchical_moves_the_least_between_hosts(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_RANKS; n++) {
        for (int size = 0; size <= 8; size++) { /* 0: uneven; the last host may be smaller */
            for (int root = 0; root < n; root += n / 3 + 1) {
                struct motet_shape shape = on_hosts(n, size, root);
                int others = shape.nhosts - 1;
                const struct traffic *t = observe(MOTET_REDUCE, "hierarchical", shape);
                assert_int_equal(t->between_hosts, others * t->parts);
                assert_int_equal(observe(MOTET_BROADCAST, "hierarchical", shape)->between_hosts, others);
            }
            struct motet_shape shape = on_hosts(n, size, 0);
            int others = shape.nhosts - 1;
            assert_int_equal(observe(MOTET_ALLREDUCE, "hierarchical", shape)->between_hosts, 2 * others * n);
            assert_int_equal(observe(MOTET_ALLGATHER, "hierarchical", shape)->between_hosts, others * n);
            assert_int_equal(observe(MOTET_REDUCESCATTER, "hierarchical", shape)->between_hosts, others * n);
        }
    }
}

static void test_hierarchical_equal_hosts_share_the_load(void **state)
{
    (void)state;
    for (int size = 1; size <= 8; size++) {
        for (int hosts = 2; hosts * size <= MAX_RANKS && hosts < 9; hosts++) {
            int n = hosts * size;
            const struct traffic *t = observe(MOTET_ALLREDUCE, "hierarchical", on_hosts(n, size, 0));
            for (int p = 0; p < n; p++) {
                int outside = 0;
                for (int other = 0; other < n; other++)
                    outside += other / size != p / size ? t->pair[p][other] : 0;
                assert_int_equal(outside, 2 * (hosts - 1)); /* of n parts: each host sends 2 (H-1) / H * M */
            }
        }
    }
}

/* ---- Reduce and broadcast ---- */

static void test_reduce_everybody_but_the_root_sends_m_once(void **state)
{
    (void)state;
    static const char *const names[] = {"binomial", "chain", "direct"};
    for (int i = 0; i < 3; i++) {
        for (int n = 1; n <= 33; n++) {
            for (int root = 0; root < n; root++) {
                struct motet_shape shape = on_hosts(n, 0, root);
                const struct traffic *t = observe(MOTET_REDUCE, names[i], shape);
                for (int p = 0; p < n; p++)
                    assert_true(t->messages[p] == (p != root) && t->chunks[p] == (p != root) && t->parts == 1);
                assert_true(i != 0 || t->received[root] <= log2_up(n));
                assert_true(i != 1 || t->between_hosts == shape.nhosts - 1);
                assert_true(i != 2 || t->received[root] == n - 1);
            }
        }
    }
}

static void test_reduce_by_parts_loads_nobody_with_more_than_m(void **state)
{
    (void)state;
    for (int n = 2; n <= 33; n++) {
        for (int root = 0; root < n; root++) {
            const struct traffic *t = observe(MOTET_REDUCE, "two_shot", on_one_host(n, root));
            assert_true(t->received[root] == 2 * (n - 1) && t->parts == n && t->rounds == 1);
            for (int p = 0; p < n; p++)
                assert_int_equal(t->chunks[p], n - (p == root));
            t = observe(MOTET_REDUCE, "rabenseifner", on_one_host(n, root));
            for (int p = 0; p < n; p++)
                assert_true(t->chunks[p] <= t->parts);
        }
    }
}

static void test_broadcast_everybody_but_the_root_receives_m_once(void **state)
{
    (void)state;
    static const char *const names[] = {"binomial", "chain", "direct", "double_binary_tree", "hierarchical", "scatter_allgather"};
    for (int i = 0; i < 6; i++) {
        for (int n = 1; n <= 33; n++) {
            for (int root = 0; root < n; root++) {
                struct motet_shape shape = on_hosts(n, 0, root);
                const struct traffic *t = observe(MOTET_BROADCAST, names[i], shape);
                for (int p = 0; p < n; p++)
                    assert_int_equal(t->received[p], p == root ? 0 : t->parts);
                assert_true(i != 0 || t->chunks[root] == log2_up(n));
                assert_true(i != 1 || (t->chunks[root] == (n > 1) && t->between_hosts == shape.nhosts - 1));
                assert_true(i != 3 || t->chunks[root] == (n > 1 ? 2 : 0));
                assert_true(i != 5 || (t->parts == n && t->chunks[root] == 2 * (n - 1)));
            }
        }
    }
}

/* ---- Blocks ---- */

static void test_allgather_every_block_reaches_everybody_once(void **state)
{
    (void)state;
    for (int i = 0; i < motet_nalgorithms; i++) {
        const struct motet_algorithm *row = &motet_algorithms[i];
        for (int n = 1; n <= 33 && row->collective == MOTET_ALLGATHER; n++) {
            struct motet_shape shape = on_hosts(n, 0, 0);
            if (row->fits && !row->fits(&shape))
                continue;
            const struct traffic *t = observe(MOTET_ALLGATHER, row->name, shape);
            for (int p = 0; p < n; p++)
                assert_int_equal(t->received[p], n - 1);
        }
    }
}

static void test_allgather_rounds_and_partners_are_those_of_the_name(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        const struct traffic *t = observe(MOTET_ALLGATHER, "ring", on_one_host(n, 0));
        assert_true(t->rounds == 1 && t->pair[n - 1][0] == n - 1);
        t = observe(MOTET_ALLGATHER, "neighbor", on_one_host(n, 0));
        assert_true(t->rounds == 1 && t->pair[0][1] + t->pair[0][n - 1] == (n == 2 ? 2 : n - 1));
        assert_true(n == 2 || (t->pair[0][1] == n / 2 && t->pair[0][n - 1] == (n - 1) / 2));
        t = observe(MOTET_ALLGATHER, "bruck", on_one_host(n, 0));
        assert_true(t->rounds == 1 + log2_up(n) && t->messages[0] == log2_up(n) && t->chunks[0] == n - 1);
        t = observe(MOTET_ALLGATHER, "direct", on_one_host(n, 0));
        assert_true(t->rounds == 1 && t->messages[0] == n - 1);
        if (!is_power_of_two(n))
            continue;
        t = observe(MOTET_ALLGATHER, "recursive_doubling", on_one_host(n, 0));
        assert_true(t->rounds == 1 + log2_up(n) && t->messages[0] == log2_up(n) && t->pair[0][n / 2] == n / 2);
    }
}

static void test_reducescatter_sends_one_block_for_every_other_position(void **state)
{
    (void)state;
    for (int i = 0; i < motet_nalgorithms; i++) {
        const struct motet_algorithm *row = &motet_algorithms[i];
        for (int n = 1; n <= 33 && row->collective == MOTET_REDUCESCATTER; n++) {
            const struct traffic *t = observe(MOTET_REDUCESCATTER, row->name, on_hosts(n, 0, 0));
            bool folds = strcmp(row->name, "recursive_halving") == 0 && !is_power_of_two(n);
            for (int p = 0; p < n; p++)
                assert_true(folds ? t->chunks[p] <= n : t->chunks[p] == n - 1);
        }
    }
    const struct traffic *t = observe(MOTET_REDUCESCATTER, "pairwise", on_one_host(9, 0));
    assert_true(t->rounds == 8 && t->pair[3][5] == 1);
    t = observe(MOTET_REDUCESCATTER, "recursive_halving", on_one_host(16, 0));
    assert_true(t->rounds == 4 && t->pair[5][4] == 8 && t->pair[5][13] == 1); /* the nearest get the most */
}

static void test_alltoall_volume_and_messages_are_those_of_the_name(void **state)
{
    (void)state;
    for (int n = 1; n <= MAX_RANKS; n++) {
        int travelled = 0;
        for (int distance = 1; distance < n; distance++)
            travelled += __builtin_popcount((unsigned)distance);
        const struct traffic *t = observe(MOTET_ALLTOALL, "bruck", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->chunks[p] == travelled && t->messages[p] == log2_up(n));
        t = observe(MOTET_ALLTOALL, "direct", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->messages[p] == n - 1 && t->peers[p] == n - 1 && t->rounds == 1);
        t = observe(MOTET_ALLTOALL, "pairwise", on_one_host(n, 0));
        for (int p = 0; p < n; p++)
            assert_true(t->messages[p] == n - 1 && t->peers[p] == n - 1 && t->rounds == (n > 1 ? n - 1 : 1));
    }
    for (int size = 1; size <= 8; size++) {
        for (int hosts = 1; hosts <= 8; hosts++) {
            const struct traffic *t = observe(MOTET_ALLTOALL, "hierarchical", on_hosts(hosts * size, size, 0));
            assert_int_equal(t->messages_between_hosts, hosts * size * (hosts - 1));
            for (int p = 0; p < hosts * size; p++)
                assert_int_equal(t->messages[p], size - 1 + hosts - 1);
        }
    }
    struct motet_shape uneven = on_hosts(9, 0, 0);
    assert_false(motet_algorithm_find(MOTET_ALLTOALL, "hierarchical")->fits(&uneven));
}

static void test_gather_and_scatter_load_the_root_with_every_block_once(void **state)
{
    (void)state;
    for (int n = 1; n <= 33; n++) {
        for (int root = 0; root < n; root++) {
            struct motet_shape shape = on_one_host(n, root);
            const struct traffic *t = observe(MOTET_GATHER, "direct", shape);
            assert_true(t->received[root] == n - 1 && t->all_chunks == n - 1);
            t = observe(MOTET_SCATTER, "direct", shape);
            assert_true(t->chunks[root] == n - 1 && t->all_chunks == n - 1);
            t = observe(MOTET_GATHER, "binomial", shape);
            assert_true(t->received[root] == n - 1 && t->messages[root] == 0 && t->peers[root] == log2_up(n));
            t = observe(MOTET_SCATTER, "binomial", shape);
            assert_true(t->chunks[root] == n - 1 && t->messages[root] == log2_up(n));
        }
    }
}

/* ---- Barrier ---- */

static void test_barrier_signals_are_those_of_the_name(void **state)
{
    (void)state;
    for (int n = 2; n <= MAX_RANKS; n++) {
        struct motet_shape shape = on_hosts(n, 0, 0);
        const struct traffic *t = observe(MOTET_BARRIER, "dissemination", shape);
        assert_true(t->rounds == log2_up(n) && t->messages[n / 2] == log2_up(n) && t->all_chunks == 0);
        t = observe(MOTET_BARRIER, "one_shot", shape);
        assert_true(t->rounds == 1 && t->messages[n - 1] == n - 1);
        t = observe(MOTET_BARRIER, "central", shape);
        assert_true(t->messages[0] == n - 1 && t->messages[1] == 1 && t->pair[n - 1][0] == 1 && t->rounds == 2);
        t = observe(MOTET_BARRIER, "tree", shape);
        int signals = 0;
        for (int p = 0; p < n; p++) {
            signals += t->messages[p];
            assert_true(t->peers[p] <= 3);
        }
        assert_int_equal(signals, 2 * (n - 1));
        t = observe(MOTET_BARRIER, "hierarchical", shape);
        assert_int_equal(t->messages_between_hosts, shape.nhosts * log2_up(shape.nhosts));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_every_row_has_name_title_and_builder),
        cmocka_unit_test(test_table_names_are_found_in_any_case_and_tree_is_double_binary),
        cmocka_unit_test(test_table_collectives_know_roots_reductions_and_blocks),
        cmocka_unit_test(test_table_v_variants_have_rows),
        cmocka_unit_test(test_every_row_one_rank_sends_nothing),
        cmocka_unit_test(test_canonical_path_splits_at_the_largest_power_of_two),
        cmocka_unit_test(test_walk_any_root_crosses_hosts_once_each),
        cmocka_unit_test(test_trees_are_binary_shallow_and_share_no_inner_positions),
        cmocka_unit_test(test_host_of_finds_every_position),
        cmocka_unit_test(test_allreduce_ring_sends_2n_minus_2_messages_to_the_next_position),
        cmocka_unit_test(test_allreduce_trees_send_up_and_down_once),
        cmocka_unit_test(test_allreduce_recursive_doubling_takes_log2_n_rounds),
        cmocka_unit_test(test_allreduce_rabenseifner_volume_is_optimal_for_powers_of_two),
        cmocka_unit_test(test_circulant_volume_and_rounds_are_optimal_for_every_n),
        cmocka_unit_test(test_allreduce_one_shot_and_two_shot_talk_to_everybody_in_one_round),
        cmocka_unit_test(test_allreduce_two_shot_is_three_steps),
        cmocka_unit_test(test_allreduce_central_loads_position_0_only),
        cmocka_unit_test(test_allreduce_chain_uses_every_link_once_each_way),
        cmocka_unit_test(test_torus2d_talks_to_grid_neighbours_and_moves_what_a_ring_moves),
        cmocka_unit_test(test_hierarchical_moves_the_least_between_hosts),
        cmocka_unit_test(test_hierarchical_equal_hosts_share_the_load),
        cmocka_unit_test(test_reduce_everybody_but_the_root_sends_m_once),
        cmocka_unit_test(test_reduce_by_parts_loads_nobody_with_more_than_m),
        cmocka_unit_test(test_broadcast_everybody_but_the_root_receives_m_once),
        cmocka_unit_test(test_allgather_every_block_reaches_everybody_once),
        cmocka_unit_test(test_allgather_rounds_and_partners_are_those_of_the_name),
        cmocka_unit_test(test_reducescatter_sends_one_block_for_every_other_position),
        cmocka_unit_test(test_alltoall_volume_and_messages_are_those_of_the_name),
        cmocka_unit_test(test_gather_and_scatter_load_the_root_with_every_block_once),
        cmocka_unit_test(test_barrier_signals_are_those_of_the_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
