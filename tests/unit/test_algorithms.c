/* SPDX-License-Identifier: Apache-2.0
 * Every row of the table of algorithms, proved: all shapes, placements, roots and mixes of in-place ranks; the declared order and counts
 * hold; the volume equals the closed formula where the literature has one. New rows are tested before anyone writes a test. */
/* test: slow timeout=600 */
#include "verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <cmocka.h>

#define MAX_RANKS 129

static const int rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 64, 127, 128, 129};
#define NCOUNTS (int)(sizeof(rank_counts) / sizeof(rank_counts[0]))

enum placement { ONE_HOST, TWO_ALIGNED, UNEVEN, ROUND_ROBIN, ONE_RANK_EACH, NPLACEMENTS };
static const char *const placement_names[] = {"one host", "two aligned hosts", "hosts of 3, 5, 1, ...", "round robin over hosts",
                                              "one rank per host"};

struct place {
    struct motet_shape shape;
    int host_first[MAX_RANKS + 1];
    int rank_at[MAX_RANKS];
};

/* Hosts of the given sizes, repeated; the last one takes what is left. */
static void place_by_sizes(struct place *place, int nranks, const int *sizes, int nsizes)
{
    int first = 0, hosts = 0;
    while (first < nranks) {
        place->host_first[hosts] = first;
        first += sizes[hosts % nsizes];
        hosts++;
    }
    place->host_first[hosts] = nranks;
    place->shape.nhosts = hosts;
}

static void place_ranks(struct place *place, int nranks, enum placement placement)
{
    place->shape = (struct motet_shape){.nranks = nranks, .host_first = place->host_first};
    for (int p = 0; p < nranks; p++)
        place->rank_at[p] = p;
    int half = 1, nhosts = nranks < 3 ? nranks : 3;
    while (2 * half < nranks)
        half *= 2;
    switch (placement) {
    case TWO_ALIGNED:
        place_by_sizes(place, nranks, &half, 1);
        break;
    case UNEVEN:
        place_by_sizes(place, nranks, (int[]){3, 5, 1}, 3);
        break;
    case ROUND_ROBIN:
        place->shape.nhosts = nhosts;
        for (int h = 0, p = 0; h < nhosts; h++) {
            place->host_first[h] = p;
            for (int rank = h; rank < nranks; rank += nhosts)
                place->rank_at[p++] = rank;
        }
        place->host_first[nhosts] = nranks;
        break;
    case ONE_RANK_EACH:
        place_by_sizes(place, nranks, (int[]){1}, 1);
        break;
    default:
        place_by_sizes(place, nranks, &nranks, 1);
        break;
    }
}

/* What went wrong, counted; the first sentences are shown. */
struct tally {
    int proofs, failures;
    int direct_ok, unbuffered_ok;
};

static void complain(struct tally *tally, const char *text)
{
    if (tally->failures++ < 20)
        print_error("%s\n", text);
}

static void prove(const struct motet_algorithm *algorithm, const struct motet_shape *shape, const int *rank_at, struct tally *tally)
{
    int nranks = shape->nranks;
    struct motet_verify_options options = {
        .seed = (uint64_t)(nranks * 1000 + shape->root * 10 + shape->nhosts),
        .interleavings = nranks <= MOTET_VERIFY_ALL_MIXES ? 1 << nranks
                         : nranks <= 17                   ? 3
                                                          : 1,
        .rank_at = rank_at,
    };
    struct motet_verdict verdict;
    assert_int_equal(motet_verify(algorithm, shape, &options, &verdict), motetSuccess);
    tally->proofs++;
    tally->direct_ok += verdict.direct_ok;
    tally->unbuffered_ok += verdict.unbuffered_ok;
    if (!verdict.ok)
        complain(tally, verdict.text);
    bool canonical = algorithm->order == MOTET_ORDER_CANONICAL, moves = algorithm->order == MOTET_ORDER_NONE;
    char text[200];
    if (verdict.ok && (moves != (verdict.order == MOTET_ORDER_NONE) ||
                       (canonical && shape->nhosts == 1 && verdict.order != MOTET_ORDER_CANONICAL))) {
        snprintf(text, sizeof(text), "%s %s, %d ranks, root %d: declared order %d, proved order %d",
                 motet_collective_name(algorithm->collective), algorithm->name, nranks, shape->root, algorithm->order,
                 verdict.order);
        complain(tally, text);
    }
    motet_verdict_free(&verdict);
}

/* All roots; above 33 ranks the first, second, middle and last. */
static void prove_roots(const struct motet_algorithm *algorithm, const struct place *place, struct tally *tally)
{
    struct motet_shape shape = place->shape;
    int nroots = motet_collective_has_root(algorithm->collective) ? shape.nranks : 1;
    for (int root = 0; root < nroots; root++) {
        if (shape.nranks > 33 && root > 1 && root != shape.nranks / 2 && root != shape.nranks - 1)
            continue;
        shape.root = root;
        if (!algorithm->fits || algorithm->fits(&shape))
            prove(algorithm, &shape, place->rank_at, tally);
    }
}

static void prove_all(enum placement placement)
{
    struct tally total = {0};
    struct place *place = malloc(sizeof(*place));
    assert_non_null(place);
    assert_true(motet_nalgorithms > 0);
    for (int a = 0; a < motet_nalgorithms; a++) {
        struct tally tally = {0};
        clock_t start = clock();
        for (int c = 0; c < NCOUNTS; c++) {
            place_ranks(place, rank_counts[c], placement);
            prove_roots(&motet_algorithms[a], place, &tally);
        }
        print_message("%-14s %-20s %-22s %5d proofs, direct in %5d, unbuffered in %5d, %5.2f s%s\n",
                      motet_collective_name(motet_algorithms[a].collective), motet_algorithms[a].name, placement_names[placement],
                      tally.proofs, tally.direct_ok, tally.unbuffered_ok, (double)(clock() - start) / CLOCKS_PER_SEC,
                      tally.failures ? "  FAILED" : "");
        total.failures += tally.failures;
    }
    free(place);
    assert_int_equal(total.failures, 0);
}

static void test_algorithms_on_one_host_are_right(void **state)
{
    (void)state;
    prove_all(ONE_HOST);
}

static void test_algorithms_on_two_aligned_hosts_are_right(void **state)
{
    (void)state;
    prove_all(TWO_ALIGNED);
}

static void test_algorithms_on_uneven_hosts_are_right(void **state)
{
    (void)state;
    prove_all(UNEVEN);
}

static void test_algorithms_with_ranks_dealt_round_robin_are_right(void **state)
{
    (void)state;
    prove_all(ROUND_ROBIN);
}

static void test_algorithms_with_one_rank_per_host_are_right(void **state)
{
    (void)state;
    prove_all(ONE_RANK_EACH);
}

/* ---- The table itself ---- */

static void test_table_has_a_row_that_fits_any_shape_for_every_collective(void **state)
{
    (void)state;
    struct place *place = malloc(sizeof(*place));
    assert_non_null(place);
    for (int collective = 0; collective < MOTET_NCOLLECTIVES; collective++) {
        for (int placement = 0; placement < NPLACEMENTS; placement++) {
            for (int c = 0; c < NCOUNTS; c++) {
                int fitting = 0, canonical = 0;
                place_ranks(place, rank_counts[c], placement);
                for (int a = 0; a < motet_nalgorithms; a++) {
                    const struct motet_algorithm *row = &motet_algorithms[a];
                    if ((int)row->collective != collective || (row->fits && !row->fits(&place->shape)))
                        continue;
                    fitting++;
                    canonical += row->order == MOTET_ORDER_CANONICAL;
                }
                assert_true(fitting > 0);
                assert_true(canonical > 0 || !motet_collective_reduces(collective));
            }
        }
    }
    free(place);
}

/* Each v-variant has a row: AllGatherV and ReduceScatterV know all counts, AlltoAllV, GatherV and ScatterV only their own. */
static void test_table_has_a_row_for_every_v_variant(void **state)
{
    (void)state;
    static const struct {
        enum motet_collective collective;
        enum motet_counts counts;
    } variants[] = {
        {MOTET_ALLGATHER, MOTET_COUNTS_ALL_KNOW},  {MOTET_REDUCESCATTER, MOTET_COUNTS_ALL_KNOW},
        {MOTET_ALLTOALL, MOTET_COUNTS_PAIR_KNOWS}, {MOTET_GATHER, MOTET_COUNTS_PAIR_KNOWS},
        {MOTET_SCATTER, MOTET_COUNTS_PAIR_KNOWS},
    };
    for (size_t v = 0; v < sizeof(variants) / sizeof(variants[0]); v++) {
        int found = 0;
        for (int a = 0; a < motet_nalgorithms; a++)
            found += motet_algorithms[a].collective == variants[v].collective && motet_algorithms[a].counts >= variants[v].counts;
        if (!found)
            fail_msg("%s has no row for its v-variant", motet_collective_name(variants[v].collective));
    }
}

static void test_table_rows_have_unique_names_and_are_found(void **state)
{
    (void)state;
    for (int a = 0; a < motet_nalgorithms; a++) {
        const struct motet_algorithm *row = &motet_algorithms[a];
        assert_ptr_equal(motet_algorithm_find(row->collective, row->name), row);
        assert_true(row->title && strlen(row->title) > 10);
        for (const char *c = row->name; *c; c++)
            assert_true((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') || *c == '_');
    }
}

/* ---- Volume ---- */

/* Chunks sent by all ranks together, as a multiple of the chunks of one plane; messages, as everywhere, count once per receiver. */
static double each_other(int n) /* all-gather, reduce-scatter, all-to-all, one broadcast or reduction */
{
    return n - 1;
}

static double twice_each_other(int n)
{
    return 2 * (n - 1);
}

static double everything_to_all(int n)
{
    return (double)n * (n - 1);
}

static double blocks_of_others(int n) /* gather and scatter straight: every block but the root's moves once */
{
    return (double)(n - 1) / n;
}

static double power_of_two_doubling(int n) /* every rank sends everything log2 n times */
{
    int rounds = 0;
    while (1 << rounds < n)
        rounds++;
    return 1 << rounds == n ? (double)n * rounds : -1;
}

static double power_of_two_twice(int n)
{
    return n & (n - 1) ? -1 : twice_each_other(n);
}

static double power_of_two_once(int n)
{
    return n & (n - 1) ? -1 : each_other(n);
}

static double reduced_then_gathered(int n)
{
    return each_other(n) + blocks_of_others(n);
}

static double bruck_blocks(int n) /* block i travels once per bit of i */
{
    double bits = 0;
    for (int i = 1; i < n; i++)
        bits += __builtin_popcount((unsigned)i);
    return bits;
}

static double binomial_blocks(int n) /* a block at distance d from the root is sent once per bit of d */
{
    return bruck_blocks(n) / n;
}

static const struct {
    enum motet_collective collective;
    const char *name;
    double (*total)(int n);
    bool balanced; /* every rank sends the same */
} volumes[] = {
    {MOTET_ALLREDUCE, "ring", twice_each_other, true},
    {MOTET_ALLREDUCE, "two_shot", twice_each_other, true},
    {MOTET_ALLREDUCE, "one_shot", everything_to_all, true},
    {MOTET_ALLREDUCE, "binary_tree", twice_each_other, false},
    {MOTET_ALLREDUCE, "double_binary_tree", twice_each_other, false},
    {MOTET_ALLREDUCE, "chain", twice_each_other, false},
    {MOTET_ALLREDUCE, "central", twice_each_other, false},
    {MOTET_ALLREDUCE, "recursive_doubling", power_of_two_doubling, true},
    {MOTET_ALLREDUCE, "rabenseifner", power_of_two_twice, true},
    {MOTET_ALLREDUCE, "hierarchical", twice_each_other, true},
    {MOTET_ALLREDUCE, "circulant", twice_each_other, true},
    {MOTET_REDUCE, "two_shot", reduced_then_gathered, false},
    {MOTET_BROADCAST, "scatter_allgather", each_other, false},
    {MOTET_BROADCAST, "hierarchical", each_other, false},
    {MOTET_ALLGATHER, "neighbor", each_other, true},
    {MOTET_ALLGATHER, "recursive_doubling", each_other, true},
    {MOTET_ALLGATHER, "hierarchical", each_other, true},
    {MOTET_REDUCESCATTER, "recursive_halving", power_of_two_once, true},
    {MOTET_REDUCESCATTER, "hierarchical", each_other, true},
    {MOTET_ALLTOALL, "hierarchical", each_other, true},
    {MOTET_ALLREDUCE, "torus2d", twice_each_other, true},
    {MOTET_REDUCE, "binomial", each_other, false},
    {MOTET_REDUCE, "chain", each_other, false},
    {MOTET_REDUCE, "direct", each_other, false},
    {MOTET_BROADCAST, "binomial", each_other, false},
    {MOTET_BROADCAST, "chain", each_other, false},
    {MOTET_BROADCAST, "direct", each_other, false},
    {MOTET_BROADCAST, "double_binary_tree", each_other, false},
    {MOTET_ALLGATHER, "ring", each_other, true},
    {MOTET_ALLGATHER, "bruck", each_other, true},
    {MOTET_ALLGATHER, "direct", each_other, true},
    {MOTET_ALLGATHER, "torus2d", each_other, true},
    {MOTET_REDUCESCATTER, "ring", each_other, true},
    {MOTET_REDUCESCATTER, "direct", each_other, true},
    {MOTET_REDUCESCATTER, "pairwise", each_other, true},
    {MOTET_REDUCESCATTER, "torus2d", each_other, true},
    {MOTET_ALLTOALL, "pairwise", each_other, true},
    {MOTET_ALLTOALL, "direct", each_other, true},
    {MOTET_ALLTOALL, "bruck", bruck_blocks, true},
    {MOTET_GATHER, "direct", blocks_of_others, false},
    {MOTET_GATHER, "binomial", binomial_blocks, false},
    {MOTET_SCATTER, "direct", blocks_of_others, false},
    {MOTET_SCATTER, "binomial", binomial_blocks, false},
};

static void check_volume(const struct motet_algorithm *algorithm, const struct motet_shape *shape, double expected, bool balanced)
{
    struct motet_verdict verdict;
    assert_int_equal(motet_verify(algorithm, shape, NULL, &verdict), motetSuccess);
    if (!verdict.ok)
        fail_msg("%s", verdict.text);
    double chunks = expected * verdict.nchunks;
    if (chunks - (double)verdict.chunks_total > 1e-6 || (double)verdict.chunks_total - chunks > 1e-6)
        fail_msg("%s %s, %d ranks: %lld chunks sent, the formula says %g", motet_collective_name(algorithm->collective),
                 algorithm->name, shape->nranks, (long long)verdict.chunks_total, chunks);
    for (int p = 0; p < shape->nranks && balanced; p++) {
        if (verdict.chunks_sent[p] * shape->nranks != verdict.chunks_total)
            fail_msg("%s %s, %d ranks: position %d sends %lld of %lld chunks", motet_collective_name(algorithm->collective),
                     algorithm->name, shape->nranks, p, (long long)verdict.chunks_sent[p], (long long)verdict.chunks_total);
    }
    motet_verdict_free(&verdict);
}

static void test_volume_equals_the_closed_formula(void **state)
{
    (void)state;
    struct place *place = malloc(sizeof(*place));
    assert_non_null(place);
    for (size_t v = 0; v < sizeof(volumes) / sizeof(volumes[0]); v++) {
        const struct motet_algorithm *algorithm = motet_algorithm_find(volumes[v].collective, volumes[v].name);
        if (!algorithm)
            fail_msg("%s has no row %s", motet_collective_name(volumes[v].collective), volumes[v].name);
        for (int n = 1; n <= 33; n++) {
            place_ranks(place, n, ONE_HOST);
            place->shape.root = motet_collective_has_root(algorithm->collective) ? n / 2 : 0;
            double expected = volumes[v].total(n);
            if (expected >= 0 && (!algorithm->fits || algorithm->fits(&place->shape)))
                check_volume(algorithm, &place->shape, expected, volumes[v].balanced);
        }
    }
    free(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_has_a_row_that_fits_any_shape_for_every_collective),
        cmocka_unit_test(test_table_has_a_row_for_every_v_variant),
        cmocka_unit_test(test_table_rows_have_unique_names_and_are_found),
        cmocka_unit_test(test_volume_equals_the_closed_formula),
        cmocka_unit_test(test_algorithms_on_one_host_are_right),
        cmocka_unit_test(test_algorithms_on_two_aligned_hosts_are_right),
        cmocka_unit_test(test_algorithms_on_uneven_hosts_are_right),
        cmocka_unit_test(test_algorithms_with_ranks_dealt_round_robin_are_right),
        cmocka_unit_test(test_algorithms_with_one_rank_per_host_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
