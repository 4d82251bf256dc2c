/* SPDX-License-Identifier: Apache-2.0
 * Merging dumps: clocks of hosts, the first call that differs, who is behind, who is late. The dumps are written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace.h"

#define MS 1000000ll

/* One rank's dump of calls that begin at begin_ms[i] (of true time) and end at end_ms[i]; 0: it has not ended. */
struct rank_dump {
    int rank, nranks, ncalls;
    const char *host;
    int64_t clock_ms;     /* how far the host's clock is ahead */
    const char *whats[6]; /* NULL: AllReduce(1 x float32, sum) */
    int64_t begin_ms[6], end_ms[6];
};

static void add(struct trace *trace, const struct rank_dump *dump)
{
    char *text = NULL, why[256] = "";
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    fprintf(out, "{\"host\":\"%s\",\"host_id\":\"%s\",\"pid\":%d,\"clock\":{\"error_ns\":0},", dump->host, dump->host,
            100 + dump->rank);
    fprintf(out, "\"pg_config\":{\"0\":{\"name\":\"aa\",\"desc\":\"world\",\"rank\":%d,\"nranks\":%d}},\"entries\":[", dump->rank,
            dump->nranks);
    for (int i = 0; i < dump->ncalls; i++) {
        const char *what = dump->whats[i] ? dump->whats[i] : "AllReduce(1 x float32, sum)";
        int64_t end = dump->end_ms[i] ? (dump->end_ms[i] + dump->clock_ms) * MS : 0;
        fprintf(out,
                "%s{\"pg_id\":0,\"is_p2p\":false,\"collective_seq_id\":%d,\"profiling_name\":\"motet:%.*s\",\"what\":\"%s\","
                "\"history\":%zu,\"state\":\"%s\",\"time_discovered_started_ns\":%lld,\"time_discovered_completed_ns\":%lld}",
                i ? "," : "", i + 1, (int)strcspn(what, "("), what, what, strlen(what), end ? "completed" : "started",
                (long long)((dump->begin_ms[i] + dump->clock_ms) * MS), (long long)end);
    }
    fputs("]}", out);
    fclose(out);
    if (!trace_add(trace, dump->host, text, len, why, sizeof why))
        fail_msg("%s in %s", why, text);
    free(text);
}

/* The findings of the only communicator, one per line. */
static const char *judge(struct trace *trace)
{
    static char text[4096];
    json_t *comms = json_array();
    text[0] = '\0';
    trace_sort(trace);
    assert_int_equal(trace_align(trace), 0);
    trace_analyse(trace, comms);
    assert_int_equal(json_array_size(comms), 1);
    json_t *findings = json_object_get(json_array_get(comms, 0), "findings");
    for (size_t i = 0; i < json_array_size(findings); i++) {
        strcat(text, json_string_value(json_array_get(findings, i)));
        strcat(text, "\n");
    }
    json_decref(comms);
    return text;
}

static void test_trace_of_matching_calls_finds_nothing(void **state)
{
    (void)state;
    struct trace trace = {0};
    for (int r = 0; r < 3; r++)
        add(&trace,
            &(struct rank_dump){.rank = r, .nranks = 3, .ncalls = 2, .host = "a", .begin_ms = {10, 20}, .end_ms = {12, 22}});
    assert_string_equal(judge(&trace), "");
    trace_free(&trace);
}

static void test_trace_of_clocks_that_disagree_is_aligned(void **state)
{
    (void)state;
    const int64_t offsets[] = {-7000, -3, 3, 86400000};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct trace trace = {0};
        add(&trace, &(struct rank_dump){.nranks = 2, .ncalls = 3, .host = "a", .begin_ms = {10, 20, 31}, .end_ms = {12, 22, 32}});
        add(&trace, &(struct rank_dump){.rank = 1,
                                        .nranks = 2,
                                        .ncalls = 3,
                                        .host = "b",
                                        .clock_ms = offsets[i],
                                        .begin_ms = {11, 20, 30},
                                        .end_ms = {12, 21, 32}});
        judge(&trace);
        int64_t error = trace.files[1].offset_ns - offsets[i] * MS;
        assert_true(error <= 1 * MS && error >= -1 * MS);
        const struct trace_entry *entry = trace_find(&trace, 1, false, 1);
        assert_true(entry->begin_ns >= 10 * MS && entry->begin_ns <= 12 * MS);
        trace_free(&trace);
    }
}

static void test_trace_of_calls_that_differ_names_the_first(void **state)
{
    (void)state;
    struct trace trace = {0};
    for (int r = 0; r < 5; r++)
        add(&trace,
            &(struct rank_dump){.rank = r,
                                .nranks = 5,
                                .ncalls = 4,
                                .host = "a",
                                .whats = {NULL, NULL, r == 3 ? "Barrier()" : NULL, r == 1 ? "Broadcast(2 x int8, root 0)" : NULL},
                                .begin_ms = {10, 20, 30, 40},
                                .end_ms = {11, 21, 0, 0}});
    assert_string_equal(judge(&trace),
                        "the first call that differs is #3: ranks 0-2, 4 called AllReduce(1 x float32, sum), rank 3 called "
                        "Barrier()\n");
    trace_free(&trace);
}

static void test_trace_of_a_rank_that_is_behind_names_it(void **state)
{
    (void)state;
    struct trace trace = {0};
    for (int r = 0; r < 4; r++)
        add(&trace,
            &(struct rank_dump){
                .rank = r, .nranks = 4, .ncalls = r == 2 ? 2 : 3, .host = "a", .begin_ms = {10, 20, 30}, .end_ms = {11, 21, 0}});
    assert_string_equal(judge(&trace),
                        "rank 2 (pid 102, host a) has not called AllReduce #3, in which ranks 0-1, 3 wait; its last call is "
                        "AllReduce(1 x float32, sum)\n");
    trace_free(&trace);
}

static void test_trace_of_a_rank_that_is_late_says_how_often_and_by_how_much(void **state)
{
    (void)state;
    struct trace trace = {0};
    for (int r = 0; r < 3; r++) {
        int64_t late = r == 1 ? 4 : 0;
        add(&trace, &(struct rank_dump){.rank = r,
                                        .nranks = 3,
                                        .ncalls = 4,
                                        .host = "a",
                                        .begin_ms = {10 + late, 20 + late, 30 + 2 * late, 41 - late / 4},
                                        .end_ms = {15, 25, 39, 45}});
    }
    const char *text = judge(&trace);
    assert_non_null(
        strstr(text, "rank 1 (host a) began last in 3 of 4 calls, 5333 us after the others on average, 8000 us at most"));
    trace_free(&trace);
}

static void test_trace_of_files_that_are_no_dumps_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "[]", "{\"entries\":[]}", "{\"pg_config\":{},\"entries\":{}}", "nonsense"};
    struct trace trace = {0};
    char why[256];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        why[0] = '\0';
        assert_false(trace_add(&trace, "file", texts[i], strlen(texts[i]), why, sizeof why));
        assert_true(why[0]);
    }
    assert_int_equal(trace.nfiles, 0);
    trace_free(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace_of_matching_calls_finds_nothing),
        cmocka_unit_test(test_trace_of_clocks_that_disagree_is_aligned),
        cmocka_unit_test(test_trace_of_calls_that_differ_names_the_first),
        cmocka_unit_test(test_trace_of_a_rank_that_is_behind_names_it),
        cmocka_unit_test(test_trace_of_a_rank_that_is_late_says_how_often_and_by_how_much),
        cmocka_unit_test(test_trace_of_files_that_are_no_dumps_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
