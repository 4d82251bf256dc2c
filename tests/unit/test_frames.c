/* SPDX-License-Identifier: Apache-2.0
 * Frames between launcher and agent: whole, in pieces, behind a login shell's text, and bytes that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "frames.h"

/* What frame_write puts on a descriptor. */
static size_t written(unsigned char *bytes, size_t capacity)
{
    int fds[2];
    struct loop loop = {0};
    struct sink sink;
    assert_int_equal(pipe(fds), 0);
    assert_true(sink_open(&sink, &loop, fds[1]));
    frame_write(&sink, FRAME_STDOUT, 3, "hello\n", 6);
    frame_write(&sink, FRAME_SIGNAL, 15, "", 0);
    frame_write(&sink, FRAME_STDERR, 70000, "\0\xff", 2);
    sink_drain(&sink, 1000);
    sink_close(&sink);
    close(fds[1]);
    ssize_t n = read(fds[0], bytes, capacity);
    close(fds[0]);
    loop_free(&loop);
    assert_true(n > 0);
    return (size_t)n;
}

static void expect(struct frame_reader *reader, enum frame_type type, int number, const char *data, size_t len)
{
    struct frame frame;
    assert_int_equal(frame_next(reader, &frame), 1);
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.len, len);
    assert_memory_equal(frame.data, data, len);
}

static void test_frames_in_pieces_of_any_size_arrive_whole(void **state)
{
    unsigned char bytes[256];
    size_t n = written(bytes, sizeof bytes);
    (void)state;
    for (size_t piece = 1; piece <= n; piece++) {
        struct frame_reader reader = {0};
        struct frame frames[4];
        int got = 0;
        for (size_t at = 0; at < n; at += piece) {
            struct frame frame;
            assert_true(frame_feed(&reader, bytes + at, piece < n - at ? piece : n - at));
            while (frame_next(&reader, &frame) == 1)
                frames[got++] = frame;
        }
        assert_int_equal(got, 3);
        assert_int_equal(frames[2].number, 70000);
        frame_reader_free(&reader);
    }
    struct frame_reader reader = {0};
    assert_true(frame_feed(&reader, bytes, n));
    expect(&reader, FRAME_STDOUT, 3, "hello\n", 6);
    expect(&reader, FRAME_SIGNAL, 15, "", 0);
    expect(&reader, FRAME_STDERR, 70000, "\0\xff", 2);
    frame_reader_free(&reader);
}

static void test_frames_behind_a_login_message_are_found(void **state)
{
    struct frame_reader reader = {0};
    (void)state;
    assert_true(frame_feed(&reader, "Welcome!\nmotet-agent", 20));
    assert_false(frame_skip_greeting(&reader));
    assert_true(frame_feed(&reader, "-2\nD\0\0\0\0\0\0\0\0", 12));
    assert_true(frame_skip_greeting(&reader));
    expect(&reader, FRAME_DONE, 0, "", 0);
    frame_reader_free(&reader);
}

static void test_frames_of_other_bytes_are_refused(void **state)
{
    const char *const bad[] = {"XXXXXXXXX", "\0\0\0\0\0\0\0\0\0", "O\0\0\0\1\xff\xff\xff\xff"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct frame_reader reader = {0};
        struct frame frame;
        assert_true(frame_feed(&reader, bad[i], 9));
        assert_int_equal(frame_next(&reader, &frame), -1);
        frame_reader_free(&reader);
    }
}

static void test_job_as_text_and_back_is_the_same(void **state)
{
    char *argv[] = {(char[]){"./a b"}, (char[]){"-x\n\"quoted\""}, NULL}, *variables[] = {(char[]){"A=1"}, NULL};
    struct job_share share = {.node = 1, .first_rank = 4, .n = 2, .wants_stdin = true, .grace_ms = 700}, copy;
    (void)state;
    share.job = (struct job){.argv = argv,
                             .variables = variables,
                             .directory = "/tmp",
                             .nranks = 6,
                             .nnodes = 2,
                             .master_address = "h",
                             .master_port = 1234,
                             .root = "h:99",
                             .secret = "00",
                             .unique_id = "ff",
                             .run_id = "r",
                             .restart = 1,
                             .max_restarts = 3,
                             .binding = BINDING_NUMA};
    char *text = job_to_text(&share);
    assert_non_null(text);
    assert_true(job_from_text(text, strlen(text), &copy));
    assert_int_equal(copy.first_rank, 4);
    assert_int_equal(copy.grace_ms, 700);
    assert_true(copy.wants_stdin);
    assert_string_equal(copy.job.argv[1], argv[1]);
    assert_null(copy.job.argv[2]);
    assert_string_equal(copy.job.variables[0], "A=1");
    assert_int_equal(copy.job.binding, BINDING_NUMA);
    assert_string_equal(copy.job.root, "h:99");
    job_share_free(&copy);
    /* Cut anywhere it is refused, and nothing leaks or crashes. */
    for (size_t len = 0; len < strlen(text); len++)
        assert_false(job_from_text(text, len, &copy));
    free(text);
}

static void test_death_as_text_and_back_is_the_same(void **state)
{
    struct death death =
                     {.rank = 3, .pid = 77, .exit_code = 139, .signal_number = 11, .host = "h", .cause = "was killed by SIGSEGV"},
                 copy = {0};
    char *text = death_to_text(&death);
    (void)state;
    assert_true(death_from_text(text, strlen(text), &copy));
    assert_int_equal(copy.exit_code, 139);
    assert_string_equal(copy.cause, death.cause);
    assert_false(death_from_text("{}", 2, &copy));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_in_pieces_of_any_size_arrive_whole),
        cmocka_unit_test(test_frames_behind_a_login_message_are_found),
        cmocka_unit_test(test_frames_of_other_bytes_are_refused),
        cmocka_unit_test(test_job_as_text_and_back_is_the_same),
        cmocka_unit_test(test_death_as_text_and_back_is_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
