/* SPDX-License-Identifier: Apache-2.0
 * base/error: the sentence of a thread, TRY, logging of failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "child.h"

static struct child child;

static motetResult_t pass_on(motetResult_t inner, int *reached)
{
    TRY(inner);
    *reached = 1;
    return motetSuccess;
}

static void test_try_error_returns_at_once(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(pass_on(motetSystemError, &reached), motetSystemError);
    assert_int_equal(reached, 0);
    assert_int_equal(pass_on(motetSuccess, &reached), motetSuccess);
    assert_int_equal(reached, 1);
}

static void test_fail_quiet_stores_sentence_and_keeps_errno(void **state)
{
    (void)state;
    errno = EMFILE;
    assert_int_equal(motet_fail_quiet(motetRemoteError, "rank %d: %s", 3, "gone"), motetRemoteError);
    assert_int_equal(errno, EMFILE);
    assert_string_equal(motet_error_text(), "rank 3: gone");
    motet_fail_quiet(motetRemoteError, "%s, so rank 0 stops", motet_error_text());
    assert_string_equal(motet_error_text(), "rank 3: gone, so rank 0 stops");
    motet_error_clear();
    assert_string_equal(motet_error_text(), "");
}

static void test_fail_long_sentence_is_cut(void **state)
{
    (void)state;
    static char text[MOTET_ERROR_TEXT_MAX + 100];
    for (size_t len = MOTET_ERROR_TEXT_MAX - 2; len <= MOTET_ERROR_TEXT_MAX + 1; len++) {
        memset(text, 'a', len);
        text[len] = '\0';
        motet_fail_quiet(motetInternalError, "%s", text);
        size_t kept = len < MOTET_ERROR_TEXT_MAX ? len : MOTET_ERROR_TEXT_MAX - 1;
        assert_int_equal(strlen(motet_error_text()), kept);
        assert_int_equal(strcmp(motet_error_text() + kept - 3, "...") == 0, len >= MOTET_ERROR_TEXT_MAX);
    }
}

static void *fail_in_thread(void *arg)
{
    const char *before = motet_error_text();
    int empty = before[0] == '\0';
    motet_fail_quiet(motetInternalError, "sentence of thread %d", *(int *)arg);
    return (void *)(intptr_t)empty;
}

static void test_fail_in_another_thread_leaves_ours(void **state)
{
    (void)state;
    pthread_t thread;
    void *was_empty;
    int number = 7;
    motet_fail_quiet(motetInternalError, "ours");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &number), 0);
    assert_int_equal(pthread_join(thread, &was_empty), 0);
    assert_non_null(was_empty);
    assert_string_equal(motet_error_text(), "ours");
}

static void fail_loud_and_quiet(void)
{
    errno = ENOSPC;
    CHILD_CHECK(motet_fail(motetSystemError, "loud %d", 1) == motetSystemError);
    CHILD_CHECK(errno == ENOSPC);
    CHILD_CHECK(strcmp(motet_error_text(), "loud 1") == 0);
    motet_fail_quiet(motetSystemError, "quiet %d", 2);
}

static void test_fail_is_logged_and_fail_quiet_is_not(void **state)
{
    (void)state;
    child_run(&child, NULL, fail_loud_and_quiet);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET WARN loud 1\n"), 1);
    assert_int_equal(child_count(&child, "quiet"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try_error_returns_at_once),
        cmocka_unit_test(test_fail_quiet_stores_sentence_and_keeps_errno),
        cmocka_unit_test(test_fail_long_sentence_is_cut),
        cmocka_unit_test(test_fail_in_another_thread_leaves_ours),
        cmocka_unit_test(test_fail_is_logged_and_fail_quiet_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
