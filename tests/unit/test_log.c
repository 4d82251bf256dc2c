/* SPDX-License-Identifier: Apache-2.0
 * base/log: the shape of lines, levels and subsystems, files, repeated warnings, and that logging harms nobody: errno, signals, forks,
 * closed descriptors, full disks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "child.h"

static struct child child;
static char folder[] = "/tmp/motet-test-log-XXXXXX";

static void expect_match(const char *text, const char *pattern)
{
    regex_t regex;
    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    if (regexec(&regex, text, 0, NULL, 0) != 0)
        fail_msg("\"%s\" does not match %s", text, pattern);
    regfree(&regex);
}

static void read_file(const char *path, char *buf, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    buf[fread(buf, 1, size - 1, file)] = '\0';
    fclose(file);
}

static void say_one_of_each(void)
{
    motet_log(MOTET_LOG_VERSION, MOTET_LOG_ALL, "version %d.%d", 1, 2);
    WARN(MOTET_LOG_NET, "warned");
    motet_log_set_rank(3);
    INFO(MOTET_LOG_INIT, "informed of init");
    INFO(MOTET_LOG_NET, "informed of net");
    INFO(MOTET_LOG_NET | MOTET_LOG_INIT, "informed of both");
    motet_log(MOTET_LOG_ABORT, MOTET_LOG_INIT, "aborted");
    motet_log(MOTET_LOG_TRACE, MOTET_LOG_INIT, "traced");
    motet_log(MOTET_LOG_NONE, MOTET_LOG_ALL, "never");
}

static void test_log_lines_have_the_shape_of_nccl(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_DEBUG=trace", NULL};
    child_run(&child, environment, say_one_of_each);
    assert_int_equal(child.status, 0);
    char pattern[512];
    snprintf(pattern, sizeof(pattern),
             "^MOTET version 1\\.2\n"
             "\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\\] %1$s:[0-9]+:[0-9]+ \\[-\\] MOTET WARN warned\n"
             "%1$s:[0-9]+:[0-9]+ \\[3\\] MOTET INFO informed of init\n"
             "%1$s:[0-9]+:[0-9]+ \\[3\\] MOTET INFO informed of both\n"
             "%1$s:[0-9]+:[0-9]+ \\[3\\] MOTET ABORT aborted\n"
             "%1$s:[0-9]+:[0-9]+ \\[3\\] MOTET TRACE [0-9]+\\.[0-9]{3} traced\n$",
             motet_host_name());
    expect_match(child.output, pattern);
}

static void test_log_level_limits_what_is_said(void **state)
{
    (void)state;
    const struct {
        const char *setting;
        int lines;
    } cases[] = {{"MOTET_DEBUG=NONE", 0},  {"MOTET_DEBUG=VERSION", 1}, {"MOTET_DEBUG=WARN", 2},  {"MOTET_DEBUG=", 2},
                 {"MOTET_DEBUGX=INFO", 2}, {"MOTET_DEBUG=INFO", 4},    {"MOTET_DEBUG=ABORT", 5}, {"MOTET_DEBUG=TRACE", 6}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *environment[] = {cases[i].setting, NULL};
        child_run(&child, environment, say_one_of_each);
        assert_int_equal(child.status, 0);
        assert_int_equal(child_count(&child, "\n"), cases[i].lines);
    }
}

static void test_log_subsys_filters_info(void **state)
{
    (void)state;
    const struct {
        const char *setting;
        int init, net, both;
    } cases[] = {
        {"MOTET_DEBUG_SUBSYS=NET", 0, 1, 1},       {"MOTET_DEBUG_SUBSYS=init,net", 1, 1, 1}, {"MOTET_DEBUG_SUBSYS=^NET", 1, 0, 1},
        {"MOTET_DEBUG_SUBSYS=^INIT,NET", 0, 0, 0}, {"MOTET_DEBUG_SUBSYS=ALL", 1, 1, 1},      {"MOTET_DEBUG_SUBSYS=COLL", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *environment[] = {"MOTET_DEBUG=INFO", cases[i].setting, NULL};
        child_run(&child, environment, say_one_of_each);
        assert_int_equal(child.status, 0);
        assert_int_equal(child_count(&child, "informed of init"), cases[i].init);
        assert_int_equal(child_count(&child, "informed of net"), cases[i].net);
        assert_int_equal(child_count(&child, "informed of both"), cases[i].both);
        assert_int_equal(child_count(&child, "warned"), 1);
    }
}

static void test_log_parse_unknown_names_are_refused(void **state)
{
    (void)state;
    enum motet_log_level level = MOTET_LOG_ABORT;
    int mask = 77;
    assert_false(motet_log_parse_level("INF", &level));
    assert_false(motet_log_parse_level("", &level));
    assert_int_equal(level, MOTET_LOG_ABORT);
    assert_false(motet_log_parse_subsys("INIT,", &mask));
    assert_false(motet_log_parse_subsys("INIT,,NET", &mask));
    assert_false(motet_log_parse_subsys("^", &mask));
    assert_false(motet_log_parse_subsys("INIT^NET", &mask));
    assert_int_equal(mask, 77);
    assert_true(motet_log_parse_subsys("Init,PROXY", &mask));
    assert_int_equal(mask, MOTET_LOG_INIT | MOTET_LOG_PROXY);
    assert_true(motet_log_parse_subsys("INIT,NVLS,RAS,ALLOC_HOST", &mask)); /* as a program's NCCL settings may have it */
    assert_int_equal(mask, MOTET_LOG_INIT | MOTET_LOG_ALLOC);
}

static void say_to_file(void)
{
    WARN(MOTET_LOG_NET, "to the file");
    errno = EMFILE;
    INFO(MOTET_LOG_INIT, "and on");
    CHILD_CHECK(errno == EMFILE);
}

static void test_log_file_name_is_expanded_and_own_file_overwritten(void **state)
{
    (void)state;
    char setting[256], path[256], text[1024], expected[256];
    snprintf(setting, sizeof(setting), "MOTET_DEBUG_FILE=%s/log.%%h.%%%%.%%x", folder);
    const char *shared[] = {"MOTET_DEBUG=INFO", setting, NULL};
    child_run(&child, shared, say_to_file);
    assert_int_equal(child.status, 0);
    assert_int_equal(child.len, 0);
    child_run(&child, shared, say_to_file);
    snprintf(path, sizeof(path), "%s/log.%s.%%.%%x", folder, motet_host_name());
    read_file(path, text, sizeof(text));
    snprintf(expected, sizeof(expected), "to the file\n.*and on\n.*to the file\n.*and on\n$");
    expect_match(text, expected);
    unlink(path);
}

static void say_to_own_file(void)
{
    char path[256], text[1024];
    snprintf(path, sizeof(path), "%s/own.%d", folder, (int)getpid());
    FILE *file = fopen(path, "w");
    CHILD_CHECK(file && fputs("old text\n", file) >= 0 && fclose(file) == 0);
    WARN(MOTET_LOG_NET, "new text");
    file = fopen(path, "r");
    CHILD_CHECK(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    CHILD_CHECK(!strstr(text, "old text") && strstr(text, "MOTET WARN new text\n"));
    fclose(file);
    unlink(path);
}

static void test_log_file_of_one_process_is_overwritten(void **state)
{
    (void)state;
    char setting[256];
    snprintf(setting, sizeof(setting), "MOTET_DEBUG_FILE=%s/own.%%p", folder);
    const char *environment[] = {setting, NULL};
    child_run(&child, environment, say_to_own_file);
    assert_int_equal(child.status, 0);
    assert_int_equal(child.len, 0);
}

static void test_log_unwritable_file_is_said_once_and_lines_go_to_stderr(void **state)
{
    (void)state;
    const char *settings[] = {"MOTET_DEBUG_FILE=/nonexistent/folder/log", "MOTET_DEBUG_FILE=/dev/full"};
    for (size_t i = 0; i < 2; i++) {
        const char *environment[] = {"MOTET_DEBUG=INFO", settings[i], NULL};
        child_run(&child, environment, say_to_file);
        assert_int_equal(child.status, 0);
        assert_int_equal(child_count(&child, "cannot be written"), 1);
        assert_int_equal(child_count(&child, i == 0 ? "(No such file or directory)" : "(No space left on device)"), 1);
        assert_int_equal(child_count(&child, "MOTET WARN to the file\n"), 1);
        assert_int_equal(child_count(&child, "MOTET INFO and on\n"), 1);
    }
}

static void close_every_descriptor(void)
{
    char path[256], text[64] = "";
    WARN(MOTET_LOG_NET, "first");
    for (int fd = 3; fd < 100; fd++)
        close(fd);
    snprintf(path, sizeof(path), "%s/precious", folder);
    for (int i = 0; i < 8; i++)
        CHILD_CHECK(open(path, O_RDWR | O_CREAT, 0600) >= 0);
    WARN(MOTET_LOG_NET, "second");
    int fd = open(path, O_RDONLY);
    CHILD_CHECK(read(fd, text, sizeof(text)) == 0);
    unlink(path);
}

static void test_log_file_closed_by_the_program_does_not_reach_its_new_files(void **state)
{
    (void)state;
    char setting[256], path[256];
    snprintf(setting, sizeof(setting), "MOTET_DEBUG_FILE=%s/closed", folder);
    snprintf(path, sizeof(path), "%s/closed", folder);
    const char *environment[] = {setting, NULL};
    child_run(&child, environment, close_every_descriptor);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "MOTET WARN second\n"), 1);
    assert_int_equal(child_count(&child, "first"), 0);
    unlink(path);
}

static void repeat(void)
{
    for (int i = 0; i < 100; i++)
        WARN(MOTET_LOG_NET, "again");
    for (int i = 0; i < 5; i++)
        WARN(MOTET_LOG_NET, "number %d", i);
    motet_log_set_rank(1);
    WARN(MOTET_LOG_NET, "again");
    for (int i = 0; i < 3; i++)
        INFO(MOTET_LOG_INIT, "information");
}

static void test_log_repeated_warning_is_said_once_per_rank(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_DEBUG=INFO", NULL};
    child_run(&child, environment, repeat);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "again"), 2);
    assert_int_equal(child_count(&child, "[1] MOTET WARN again"), 1);
    assert_int_equal(child_count(&child, "number"), 5);
    assert_int_equal(child_count(&child, "information"), 3);
}

static void say_strange_text(void)
{
    char text[3 * MOTET_ERROR_TEXT_MAX];
    WARN(MOTET_LOG_NET, "%s", "stranger\nhost:1:1 [0] MOTET WARN forged\r\x1b[2J\x7f");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    WARN(MOTET_LOG_NET, "%s", text);
}

static void test_log_strange_text_stays_one_line(void **state)
{
    (void)state;
    child_run(&child, NULL, say_strange_text);
    assert_int_equal(child.status, 0);
    assert_int_equal(child_count(&child, "\n"), 2);
    assert_int_equal(child_count(&child, "stranger host:1:1 [0] MOTET WARN forged  [2J \n"), 1);
    assert_int_equal(child_count(&child, "x...\n"), 1);
    assert_true(child.len < 3 * MOTET_ERROR_TEXT_MAX);
}

static atomic_int signals_seen;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

static void say_to_nobody(void)
{
    int ends[2];
    sigset_t pending;
    CHILD_CHECK(pipe(ends) == 0 && close(ends[0]) == 0 && dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    signal(SIGPIPE, count_signal);
    errno = ENOENT;
    WARN(MOTET_LOG_NET, "to nobody");
    CHILD_CHECK(errno == ENOENT);
    sigpending(&pending);
    CHILD_CHECK(atomic_load(&signals_seen) == 0 && !sigismember(&pending, SIGPIPE));
    /* A signal that somebody else left pending is not eaten. */
    sigset_t pipe_signal;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(SIG_BLOCK, &pipe_signal, NULL);
    raise(SIGPIPE);
    WARN(MOTET_LOG_NET, "to nobody either");
    sigpending(&pending);
    CHILD_CHECK(sigismember(&pending, SIGPIPE));
}

static void test_log_closed_stderr_raises_no_signal(void **state)
{
    (void)state;
    child_run(&child, NULL, say_to_nobody);
    assert_int_equal(child.status, 0);
}

static void say_to_a_full_pipe(void)
{
    int ends[2];
    char block[4096] = {0};
    CHILD_CHECK(pipe2(ends, O_NONBLOCK) == 0);
    while (write(ends[1], block, sizeof(block)) > 0)
        ;
    CHILD_CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    uint64_t before = motet_now_ns();
    WARN(MOTET_LOG_NET, "no room");
    CHILD_CHECK(motet_now_ns() - before < 5000000000u);
}

static void test_log_full_nonblocking_stderr_drops_the_line(void **state)
{
    (void)state;
    child_run(&child, NULL, say_to_a_full_pipe);
    assert_int_equal(child.status, 0);
}

#define THREADS 4
#define LINES   200

static void *say_many(void *arg)
{
    int rank = (int)(intptr_t)arg;
    motet_log_set_rank(rank);
    for (int i = 0; i < LINES; i++)
        INFO(MOTET_LOG_INIT, "begin %d %d %0*d end", rank, i, 1 + i % 50, i);
    return NULL;
}

static void say_from_threads(void)
{
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, say_many, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
}

static void test_log_lines_of_many_threads_stay_whole(void **state)
{
    (void)state;
    const char *environment[] = {"MOTET_DEBUG=INFO", NULL};
    int next[THREADS] = {0}, lines = 0;
    child_run(&child, environment, say_from_threads);
    assert_int_equal(child.status, 0);
    for (char *line = strtok(child.output, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        int shown, rank, number, padded;
        char word[8];
        const char *at = strchr(line, '[');
        assert_non_null(at);
        assert_int_equal(sscanf(at, "[%d] MOTET INFO begin %d %d %d %7s", &shown, &rank, &number, &padded, word), 5);
        assert_true(rank >= 0 && rank < THREADS && shown == rank);
        assert_string_equal(word, "end");
        assert_int_equal(number, next[rank]++);
        assert_int_equal(padded, number);
    }
    assert_int_equal(lines, THREADS * LINES);
}

static atomic_bool stop;

static void *say_until_stopped(void *arg)
{
    (void)arg;
    while (!atomic_load(&stop))
        INFO(MOTET_LOG_INIT, "busy");
    return NULL;
}

/* Children made while another thread holds the log's lock must not hang; the deadline of child_run is the judge. */
static void fork_while_logging(void)
{
    pthread_t thread;
    pid_t parent_thread = motet_thread_id();
    CHILD_CHECK(pthread_create(&thread, NULL, say_until_stopped, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            INFO(MOTET_LOG_INIT, "child");
            _exit(motet_thread_id() == getpid() && motet_thread_id() != parent_thread ? 0 : 1);
        }
        CHILD_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    }
    atomic_store(&stop, true);
    CHILD_CHECK(pthread_join(thread, NULL) == 0);
}

static void test_log_in_a_forked_child_does_not_hang(void **state)
{
    (void)state;
    char setting[256], path[256];
    if (CHILD_UNDER_TSAN)
        skip();
    snprintf(setting, sizeof(setting), "MOTET_DEBUG_FILE=%s/forked", folder);
    snprintf(path, sizeof(path), "%s/forked", folder);
    const char *environment[] = {"MOTET_DEBUG=INFO", setting, NULL};
    child_run(&child, environment, fork_while_logging);
    assert_int_equal(child.status, 0);

    int children = 0;
    char line[512];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file))
        children += strstr(line, "MOTET INFO child\n") != NULL;
    fclose(file);
    unlink(path);
    assert_int_equal(children, 50);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_lines_have_the_shape_of_nccl),
        cmocka_unit_test(test_log_level_limits_what_is_said),
        cmocka_unit_test(test_log_subsys_filters_info),
        cmocka_unit_test(test_log_parse_unknown_names_are_refused),
        cmocka_unit_test(test_log_file_name_is_expanded_and_own_file_overwritten),
        cmocka_unit_test(test_log_file_of_one_process_is_overwritten),
        cmocka_unit_test(test_log_unwritable_file_is_said_once_and_lines_go_to_stderr),
        cmocka_unit_test(test_log_file_closed_by_the_program_does_not_reach_its_new_files),
        cmocka_unit_test(test_log_repeated_warning_is_said_once_per_rank),
        cmocka_unit_test(test_log_strange_text_stays_one_line),
        cmocka_unit_test(test_log_closed_stderr_raises_no_signal),
        cmocka_unit_test(test_log_full_nonblocking_stderr_drops_the_line),
        cmocka_unit_test(test_log_lines_of_many_threads_stay_whole),
        cmocka_unit_test(test_log_in_a_forked_child_does_not_hang),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
