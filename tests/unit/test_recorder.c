/* SPDX-License-Identifier: Apache-2.0
 * The flight recorder without a network: rings that wrap, times, what the board shows of a region, broken boards, dumps, and the JSON
 * that they are written in. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/os.h"
#include "call_text.h"
#include "dump_text.h"
#include "p2p.h"
#include "recorder.h"
#include "segment.h"
#include "status.h"

/* A communicator of which only what the recorder needs is there. */
static motetComm_t make_comm(int rank, size_t nrecords)
{
    struct motet_options options = {.nlanes = 1, .lane_bytes = 65536, .eager_bytes = 1024, .name = "unit"};
    motetComm_t comm = motet_comm_new(&options);
    void *region;
    assert_non_null(comm);
    comm->nranks = 3;
    comm->rank = rank;
    comm->layout = motet_layout_make(3, 1, options.lane_bytes, options.eager_bytes, nrecords);
    assert_int_equal(motet_segment_alloc(comm->layout.total, &region), motetSuccess);
    comm->region = region;
    comm->control = motet_region_control(region);
    struct motet_card *card = &comm->control->card;
    card->id = 0x1234;
    card->nranks = 3;
    card->rank = rank;
    card->nrecords = comm->layout.nrecords;
    card->records = comm->layout.records;
    card->messages = comm->layout.messages;
    snprintf(card->name, sizeof card->name, "unit");
    motet_board_post(comm->region);
    return comm;
}

static void free_comm(motetComm_t comm)
{
    motet_board_remove(comm->region);
    motet_segment_free(comm->region);
    free(comm);
}

static struct motet_record *call(motetComm_t comm, uint64_t count)
{
    struct motet_record description = {.count = count,
                                       .history = (uint32_t)count * 7,
                                       .collective = MOTET_ALLREDUCE,
                                       .dtype = motetFloat32,
                                       .op = motetSum,
                                       .state = MOTET_RECORD_STARTED,
                                       .algorithm = 0xffff};
    comm->seq++;
    return motet_record_call(comm, &description, description.history);
}

static uint64_t message(motetComm_t comm, uint64_t count, int peer)
{
    struct motet_record description = {.count = count,
                                       .counts_hash = (uint32_t)MOTET_UNTAGGED,
                                       .root = peer,
                                       .collective = MOTET_RECORD_SEND,
                                       .dtype = motetInt8,
                                       .op = 0xff,
                                       .state = MOTET_RECORD_STARTED,
                                       .algorithm = 0xffff};
    return motet_record_message(comm, &description);
}

struct seen {
    int n;
    struct motet_board_entry entry; /* of the last one visited */
};

static void see(void *context, const struct motet_board_entry *entry)
{
    struct seen *seen = context;
    seen->n++;
    seen->entry = *entry;
}

static struct seen look(void)
{
    struct seen seen = {0};
    motet_board_read(motet_segment_base(), motet_segment_len(), see, &seen);
    return seen;
}

static void test_recorder_ring_that_wraps_keeps_the_newest(void **state)
{
    (void)state;
    motetComm_t comm = make_comm(1, 64);
    struct motet_record record;
    for (uint64_t i = 1; i <= 200; i++)
        motet_record_end(comm, call(comm, i), MOTET_RECORD_DONE, 4 * i);
    struct seen seen = look();
    assert_int_equal(seen.n, 1);
    assert_int_equal(seen.entry.calls, 200);
    assert_int_equal(seen.entry.bytes, 4 * 200 * 201 / 2);
    for (uint64_t i = 1; i <= 201; i++) {
        assert_int_equal(motet_board_call(&seen.entry, i, &record), i > 136 && i <= 200);
        if (i > 136 && i <= 200) {
            assert_int_equal(record.count, i);
            assert_int_equal(record.history, i * 7);
            assert_int_equal(record.place, i - 1);
            assert_int_equal(record.state, MOTET_RECORD_DONE);
            assert_true(record.begin_ns > 0 && record.end_ns >= record.begin_ns);
        }
    }
    free_comm(comm);
}

static void test_recorder_message_whose_record_is_gone_ends_without_harm(void **state)
{
    (void)state;
    motetComm_t comm = make_comm(0, 64);
    struct motet_record record;
    uint64_t first = message(comm, 11, 2);
    for (int i = 0; i < 64; i++)
        message(comm, 5, 1);
    motet_record_message_end(comm, first, MOTET_RECORD_DONE, 11);
    struct seen seen = look();
    assert_int_equal(seen.entry.bytes, 0);
    assert_false(motet_board_message(&seen.entry, first, &record));
    assert_true(motet_board_message(&seen.entry, first + 64, &record));
    assert_int_equal(record.state, MOTET_RECORD_STARTED);
    motet_record_message_end(comm, first + 64, MOTET_RECORD_FAILED, 5);
    assert_true(motet_board_message(&seen.entry, first + 64, &record));
    assert_int_equal(record.state, MOTET_RECORD_FAILED);
    assert_int_equal(look().entry.bytes, 0);
    free_comm(comm);
}

static void test_recorder_times_without_the_service_thread_are_exact(void **state)
{
    (void)state;
    motetComm_t comm = make_comm(0, 64);
    uint64_t before = motet_now_ns();
    comm->queued_ns = before - 5000000;
    struct motet_record *record = call(comm, 1);
    uint64_t after = motet_now_ns();
    assert_in_range(record->begin_ns, before, after);
    assert_in_range(record->queued_us, 5000, 5000 + (after - before) / 1000 + 1);
    assert_int_equal(comm->queued_ns, 0);
    free_comm(comm);
}

/* Readers trust nothing: whatever stands in the list or a card, they end, inside the segment. */
static void test_board_that_makes_no_sense_is_read_without_harm(void **state)
{
    (void)state;
    motetComm_t a = make_comm(0, 64), b = make_comm(1, 64);
    struct motet_card *card = &b->control->card, good = *card;
    assert_int_equal(look().n, 2);
    const uint64_t bad[] = {1, 64, UINT64_MAX, UINT64_MAX - 63, motet_segment_len(), motet_segment_len() - 64};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        atomic_store(&card->next, bad[i]);
        assert_in_range(look().n, 0, 1);
    }
    atomic_store(&card->next, (uint64_t)(b->region - (char *)motet_segment_base())); /* a circle */
    assert_true(look().n > 1);
    *card = good;
    card->nrecords = 63;
    assert_int_equal(look().n, 1);
    *card = good;
    card->records = UINT64_MAX - 7;
    assert_int_equal(look().n, 1);
    *card = good;
    card->rank = 3;
    assert_int_equal(look().n, 1);
    *card = good;
    assert_int_equal(look().n, 2);
    free_comm(a);
    assert_int_equal(look().n, 1);
    free_comm(b);
    assert_int_equal(look().n, 0);
}

static void test_status_row_tells_current_and_last_call(void **state)
{
    (void)state;
    motetComm_t comm = make_comm(2, 64);
    struct motet_json json = {0};
    motet_record_end(comm, call(comm, 10), MOTET_RECORD_DONE, 40);
    message(comm, 7, 1);
    atomic_store(&comm->control->progress.wait_ns, motet_now_ns() - 3000000000u);
    atomic_store(&comm->control->progress.waits_for, 1 + 1);
    motet_status_rows(&json, motet_segment_base(), motet_segment_len());
    json_t *row = json_loads(json.text, 0, NULL);
    assert_non_null(row);
    json_t *current = json_object_get(row, "current"), *last = json_object_get(row, "last");
    assert_string_equal(json_string_value(json_object_get(current, "what")), "Send(7 x int8) to rank 1");
    assert_string_equal(json_string_value(json_object_get(last, "what")), "AllReduce(10 x float32, sum)");
    assert_int_equal(json_integer_value(json_object_get(last, "number")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "waits_for")), 1);
    assert_true(json_number_value(json_object_get(row, "waits_s")) >= 3);
    json_decref(row);
    motet_json_free(&json);
    json.limit = 100; /* too little for a row: it is left out whole */
    motet_status_rows(&json, motet_segment_base(), motet_segment_len());
    assert_int_equal(json.len, 0);
    motet_json_free(&json);
    free_comm(comm);
}

static void test_dump_has_calls_and_messages_in_their_order(void **state)
{
    (void)state;
    motetComm_t comm = make_comm(1, 64);
    struct motet_json json = {0};
    motet_record_end(comm, call(comm, 1), MOTET_RECORD_DONE, 4);
    motet_record_message_end(comm, message(comm, 2, 0), MOTET_RECORD_DONE, 2);
    motet_record_end(comm, call(comm, 3), MOTET_RECORD_FAILED, 0);
    motet_dump_text(&json, "a \"reason\"\n\x80");
    json_t *dump = json_loads(json.text, 0, NULL), *entries = json_object_get(dump, "entries");
    assert_non_null(dump);
    assert_string_equal(json_string_value(json_object_get(dump, "reason")), "a \"reason\"\n?");
    assert_int_equal(json_array_size(entries), 3);
    static const char *const names[] = {"motet:AllReduce", "motet:Send", "motet:AllReduce"};
    static const char *const states[] = {"completed", "completed", "failed"};
    for (size_t i = 0; i < 3; i++) {
        json_t *entry = json_array_get(entries, i);
        assert_string_equal(json_string_value(json_object_get(entry, "profiling_name")), names[i]);
        assert_string_equal(json_string_value(json_object_get(entry, "state")), states[i]);
        assert_int_equal(json_integer_value(json_object_get(entry, "record_id")), i);
    }
    json_decref(dump);
    motet_json_free(&json);
    free_comm(comm);
}

static void test_json_of_any_text_is_valid(void **state)
{
    (void)state;
    for (int seed = 0; seed < 500; seed++) {
        char text[17] = "";
        struct motet_json json = {0};
        for (int i = 0; i < 16; i++)
            text[i] = (char)((seed * 2654435761u >> (i % 24)) * 31u + (unsigned)(seed * i));
        motet_json_begin(&json, NULL, '[');
        motet_json_text(&json, NULL, text);
        motet_json_real(&json, NULL, (double)seed * 1.0005 - 200);
        motet_json_hex(&json, NULL, (uint64_t)seed << 50);
        motet_json_end(&json, ']');
        json_t *read = json_loads(json.text, 0, NULL);
        assert_non_null(read);
        assert_int_equal(json_array_size(read), 3);
        double difference = json_real_value(json_array_get(read, 1)) - ((double)seed * 1.0005 - 200);
        assert_true(difference < 0.0006 && difference > -0.0006);
        json_decref(read);
        motet_json_free(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorder_ring_that_wraps_keeps_the_newest),
        cmocka_unit_test(test_recorder_message_whose_record_is_gone_ends_without_harm),
        cmocka_unit_test(test_recorder_times_without_the_service_thread_are_exact),
        cmocka_unit_test(test_board_that_makes_no_sense_is_read_without_harm),
        cmocka_unit_test(test_status_row_tells_current_and_last_call),
        cmocka_unit_test(test_dump_has_calls_and_messages_in_their_order),
        cmocka_unit_test(test_json_of_any_text_is_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
