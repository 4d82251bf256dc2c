/* SPDX-License-Identifier: Apache-2.0
 * When a dump is written, by whom and where. What is in it: dump_text.c. A dump is asked for by a failure (the thread that learned of it
 * writes), by a signal or a question (a thread of its own writes, since the service thread may not wait for a disk), and by the end of a
 * traced process. Requests are counted, so that many ranks that fail at once write one file. */
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "dump_text.h"
#include "service.h"
#include "status.h"
#include "steps.h"

#define DEFAULT_NAME "motet-dump-%h-%p.json"

/* One file is written at a time; guards the counts of requests too. */
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t wanted; /* requests by failures so far */
static uint64_t written;        /* of these, covered by the last file */

/* The thread that writes for the service thread. */
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread, running, again;
    char reason[512];
    char path[4096], error[256]; /* of the last file */
} worker = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(_Bool) signalled;
static int handled_signal;
static pid_t trace_owner; /* the process that writes MOTET_TRACE; 0: none */

/* ---- Files ---- */

/* A pipe or a device takes the text; it must not be replaced. */
static int write_device(const char *path, const char *text, size_t len)
{
    int fd = motet_descriptor_lift(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    int error = fd < 0 ? errno : motet_descriptor_write(fd, text, len);
    if (fd >= 0)
        close(fd);
    return error;
}

int motet_dump_replace(const char *path, const char *text, size_t len)
{
    char draft[4096 + 32];
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return write_device(path, text, len);
    snprintf(draft, sizeof draft, "%s.%d.part", path, (int)getpid());
    int fd = motet_descriptor_lift(open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (fd < 0)
        return errno;
    int error = motet_descriptor_write(fd, text, len);
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && rename(draft, path) != 0)
        error = errno;
    if (error)
        unlink(draft);
    return error;
}

/* Said once per process: a disk that is full stays full for a while. */
static void complain(const char *path, int error)
{
    static _Atomic(_Bool) said;
    if (!atomic_exchange(&said, true))
        WARN(MOTET_LOG_ALL, "the record of calls could not be written to %s: %s (said once)", path, strerror(error));
}

/* Writes one file; the lock `writing` is held. path gets its name. Returns an errno. */
static int write_file(const char *pattern, const char *reason, char path[4096])
{
    struct motet_json json = {0};
    int error = motet_status_expand(pattern, path, 4096) ? 0 : ENAMETOOLONG;
    if (!error)
        motet_dump_text(&json, reason);
    if (!error)
        error = json.failed ? ENOMEM : motet_dump_replace(path, json.text, json.len);
    motet_json_free(&json);
    if (error)
        complain(path, error);
    else
        INFO(MOTET_LOG_ALL, "the record of calls was written to %s (%s)", path, reason);
    return error;
}

void motet_dump_failure(const char *reason)
{
    char path[4096];
    const char *pattern = motet_setting_string(MOTET_SET_DUMP_FILE);
    if (!pattern[0])
        return;
    uint64_t mine = atomic_fetch_add(&wanted, 1) + 1;
    pthread_mutex_lock(&writing);
    if (written < mine) { /* else another thread began a file after this failure, and it is there */
        uint64_t covers = atomic_load(&wanted);
        write_file(pattern, reason, path);
        written = covers;
    }
    pthread_mutex_unlock(&writing);
}

/* ---- The thread that writes for others ---- */

static void *work(void *unused)
{
    (void)unused;
    char path[4096], reason[sizeof worker.reason];
    pthread_mutex_lock(&worker.lock);
    do {
        const char *pattern = motet_setting_string(MOTET_SET_DUMP_FILE);
        if (!pattern[0])
            pattern = DEFAULT_NAME;
        worker.again = false;
        memcpy(reason, worker.reason, sizeof reason);
        pthread_mutex_unlock(&worker.lock);
        pthread_mutex_lock(&writing);
        int error = write_file(pattern, reason, path);
        pthread_mutex_unlock(&writing);
        pthread_mutex_lock(&worker.lock);
        memcpy(worker.path, path, sizeof path);
        snprintf(worker.error, sizeof worker.error, "%s", error ? strerror(error) : "");
    } while (worker.again);
    worker.running = false;
    pthread_mutex_unlock(&worker.lock);
    motet_service_wake();
    return NULL;
}

void motet_dump_start(const char *reason, bool named)
{
    if (!named && !motet_setting_string(MOTET_SET_DUMP_FILE)[0])
        return;
    pthread_mutex_lock(&worker.lock);
    snprintf(worker.reason, sizeof worker.reason, "%s", reason);
    worker.again = worker.running;
    if (!worker.running && worker.has_thread)
        pthread_join(worker.thread, NULL); /* it has nothing left to do */
    if (!worker.running) {
        int error = pthread_create(&worker.thread, NULL, work, NULL); /* inherits the service thread's blocked signals */
        worker.has_thread = worker.running = error == 0;
        if (error)
            snprintf(worker.error, sizeof worker.error, "no thread to write it: %s", strerror(error));
    }
    pthread_mutex_unlock(&worker.lock);
}

bool motet_dump_finished(struct motet_json *json)
{
    pthread_mutex_lock(&worker.lock);
    bool finished = !worker.running;
    if (finished) {
        motet_json_begin(json, NULL, '{');
        motet_json_int(json, "pid", getpid());
        motet_json_text(json, "host", motet_host_name());
        motet_json_text(json, "file", worker.path);
        motet_json_text(json, "error", worker.error);
        char *directory = worker.path[0] == '/' ? NULL : getcwd(NULL, 0);
        motet_json_text(json, "directory", directory ? directory : "");
        free(directory);
        motet_json_end(json, '}');
    }
    pthread_mutex_unlock(&worker.lock);
    return finished;
}

/* ---- The signal ---- */

static void handle_signal(int signal_number)
{
    (void)signal_number;
    atomic_store(&signalled, true);
    motet_service_wake();
}

bool motet_dump_signalled(void)
{
    return atomic_load_explicit(&signalled, memory_order_relaxed) && atomic_exchange(&signalled, false);
}

static motetResult_t open_signal(void)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"WINCH", SIGWINCH}};
    const char *name = motet_setting_string(MOTET_SET_DUMP_SIGNAL);
    struct sigaction action = {.sa_handler = handle_signal, .sa_flags = SA_RESTART}, before;
    size_t i = 0;
    if (!name[0])
        return motetSuccess;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    while (i < sizeof signals / sizeof signals[0] && strcmp(signals[i].name, name) != 0)
        i++;
    if (i == sizeof signals / sizeof signals[0])
        return motet_fail(motetInvalidArgument, "MOTET_DUMP_SIGNAL=%s: not one of USR1, USR2, HUP, QUIT, WINCH", name);
    sigemptyset(&action.sa_mask);
    if (sigaction(signals[i].number, NULL, &before) != 0 || before.sa_handler != SIG_DFL) {
        WARN(MOTET_LOG_INIT, "MOTET_DUMP_SIGNAL=%s has no effect: the program handles that signal itself", name);
        return motetSuccess;
    }
    handled_signal = sigaction(signals[i].number, &action, NULL) == 0 ? signals[i].number : 0;
    return motetSuccess;
}

/* The program may have put its own handler there meanwhile: that one stays. */
static void close_signal(void)
{
    struct sigaction now;
    if (handled_signal && sigaction(handled_signal, NULL, &now) == 0 && now.sa_handler == handle_signal)
        signal(handled_signal, SIG_DFL);
    handled_signal = 0;
}

/* ---- The trace ---- */

static void write_trace(void)
{
    char path[4096];
    if (trace_owner != getpid())
        return;
    pthread_mutex_lock(&writing);
    write_file(motet_setting_string(MOTET_SET_TRACE), "trace", path);
    pthread_mutex_unlock(&writing);
}

motetResult_t motet_dump_open(void)
{
    static _Atomic(_Bool) registered;
    if (motet_setting_string(MOTET_SET_TRACE)[0]) {
        if (!motet_steps_start((size_t)motet_setting_int(MOTET_SET_TRACE_STEPS)))
            return motet_fail(motetSystemError, "out of memory for MOTET_TRACE_STEPS=%lld steps",
                              (long long)motet_setting_int(MOTET_SET_TRACE_STEPS));
        trace_owner = getpid();
        if (!atomic_exchange(&registered, true))
            atexit(write_trace); /* for programs that never destroy their communicators */
    }
    return open_signal();
}

void motet_dump_closing(void)
{
    bool join;
    pthread_mutex_lock(&worker.lock);
    join = worker.has_thread;
    worker.has_thread = false;
    pthread_mutex_unlock(&worker.lock);
    if (join)
        pthread_join(worker.thread, NULL);
    write_trace();
}

void motet_dump_close(void)
{
    close_signal();
}
