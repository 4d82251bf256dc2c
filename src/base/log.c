/* SPDX-License-Identifier: Apache-2.0
 * Log lines, in NCCL's shape, each by one write. It reads its three variables from the environment by itself, because the
 * settings' own warnings come through here. Nothing here may fail, block for long, change errno or raise a signal. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os.h"
#include "base/text.h"

#define LINE_MAX_BYTES      (MOTET_ERROR_TEXT_MAX + 512)
#define REPEAT_WINDOW_NS    10000000000u
#define REMEMBERED_WARNINGS 32

struct name {
    const char *text;
    int value;
};

static const struct name level_names[] = {
    {"NONE", MOTET_LOG_NONE}, {"VERSION", MOTET_LOG_VERSION}, {"WARN", MOTET_LOG_WARN},
    {"INFO", MOTET_LOG_INFO}, {"ABORT", MOTET_LOG_ABORT},     {"TRACE", MOTET_LOG_TRACE},
};

static const struct name subsys_names[] = {
    {"INIT", MOTET_LOG_INIT},
    {"COLL", MOTET_LOG_COLL},
    {"P2P", MOTET_LOG_P2P},
    {"SHM", MOTET_LOG_SHM},
    {"NET", MOTET_LOG_NET},
    {"GRAPH", MOTET_LOG_GRAPH},
    {"TUNING", MOTET_LOG_TUNING},
    {"ENV", MOTET_LOG_ENV},
    {"ALLOC", MOTET_LOG_ALLOC},
    {"CALL", MOTET_LOG_CALL},
    {"PROXY", MOTET_LOG_PROXY},
    {"BOOTSTRAP", MOTET_LOG_BOOTSTRAP},
    {"REG", MOTET_LOG_REG},
    {"PROFILE", MOTET_LOG_PROFILE},
    {"DESTROY", MOTET_LOG_DESTROY},
    {"ALL", MOTET_LOG_ALL},
    /* NCCL's, for lines that are not written here, or under another name */
    {"ALLOC_HOST", MOTET_LOG_ALLOC},
    {"NVLS", 0},
    {"RAS", 0},
};

/* A warning said lately: the same text is said again only after the window, with the number of times it was swallowed. */
struct warning {
    uint64_t hash, since_ns;
    unsigned swallowed;
};

static pthread_once_t configured_once = PTHREAD_ONCE_INIT;
static atomic_int configured_level = -1; /* -1 until configure() ran */
static int configured_subsys;
static uint64_t start_ns;
static _Thread_local int thread_rank = -1;

/* Guards what follows. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = STDERR_FILENO;
static dev_t log_device; /* which file log_fd was when it was opened: a program may close it under us */
static ino_t log_inode;
static char log_path[4096];
static struct warning warnings[REMEMBERED_WARNINGS];

static const struct name *find_name(const struct name *names, size_t count, const char *text, size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i].text) == len && strncasecmp(names[i].text, text, len) == 0)
            return &names[i];
    return NULL;
}

bool motet_log_parse_level(const char *text, enum motet_log_level *level)
{
    const struct name *name = find_name(level_names, sizeof(level_names) / sizeof(level_names[0]), text, strlen(text));
    if (name)
        *level = (enum motet_log_level)name->value;
    return name != NULL;
}

bool motet_log_parse_subsys(const char *text, int *mask)
{
    bool invert = text[0] == '^';
    int named = 0;
    if (invert)
        text++;
    for (;;) {
        size_t len = strcspn(text, ",");
        const struct name *name = find_name(subsys_names, sizeof(subsys_names) / sizeof(subsys_names[0]), text, len);
        if (!name)
            return false;
        named |= name->value;
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
    *mask = invert ? ~named : named;
    return true;
}

/* Expands %h, %p and %% of MOTET_DEBUG_FILE. *is_own: the name carries the process id. */
static void expand_path(const char *pattern, char *path, size_t size, bool *is_own)
{
    size_t len = 0;
    *is_own = false;
    for (const char *at = pattern; *at && len + 1 < size; at++) {
        if (at[0] != '%' || !at[1] || !strchr("hp%", at[1])) {
            path[len++] = *at;
            continue;
        }
        at++;
        int added = *at == 'h'   ? snprintf(path + len, size - len, "%s", motet_host_name())
                    : *at == 'p' ? snprintf(path + len, size - len, "%d", (int)getpid())
                                 : snprintf(path + len, size - len, "%%");
        *is_own = *is_own || *at == 'p';
        len += (size_t)added < size - len ? (size_t)added : size - len - 1;
    }
    path[len] = '\0';
}

static size_t add_prefix(char *line, size_t size, const char *level, bool with_time)
{
    char stamp[32] = "", rank[16] = "-";
    if (with_time) {
        struct tm parts;
        time_t now = time(NULL);
        if (localtime_r(&now, &parts))
            strftime(stamp, sizeof(stamp), "[%F %T] ", &parts);
    }
    if (thread_rank >= 0)
        snprintf(rank, sizeof(rank), "%d", thread_rank);
    int len = snprintf(line, size, "%s%s:%d:%d [%s] MOTET %s ", stamp, motet_host_name(), (int)getpid(), (int)motet_thread_id(),
                       rank, level);
    return len < 0 ? 0 : (size_t)len;
}

/* Said when a file cannot be used; from then on lines go to stderr. Called with the lock held, or before any thread logs. */
static void give_up_file(const char *path, int cause)
{
    char line[sizeof(log_path) + 256];
    log_fd = STDERR_FILENO;
    size_t len = add_prefix(line, sizeof(line), "WARN", true);
    int more = snprintf(line + len, sizeof(line) - len, "MOTET_DEBUG_FILE %s cannot be written (%s): logging to stderr instead\n",
                        path, strerror(cause));
    if (more > 0 && (size_t)more < sizeof(line) - len)
        motet_descriptor_write(STDERR_FILENO, line, len + (size_t)more);
}

/* A file of one process is overwritten as NCCL's is; one that several processes share is appended to, so that none is lost. */
static void open_file(const char *pattern)
{
    struct stat file;
    bool is_own;
    expand_path(pattern, log_path, sizeof(log_path), &is_own);
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | (is_own ? O_TRUNC : 0);
    int fd = motet_descriptor_lift(open(log_path, flags, 0644));
    if (fd < 0 || fstat(fd, &file) != 0) {
        int cause = errno;
        if (fd >= 0)
            close(fd);
        give_up_file(log_path, cause);
        return;
    }
    log_device = file.st_dev;
    log_inode = file.st_ino;
    log_fd = fd;
}

static void lock_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void configure(void)
{
    /* A child made while another thread was logging must still be able to log. */
    pthread_atfork(lock_before_fork, unlock_after_fork, unlock_after_fork);
    enum motet_log_level level = MOTET_LOG_WARN;
    const char *text = getenv("MOTET_DEBUG");
    if (text && text[0])
        motet_log_parse_level(text, &level);
    configured_subsys = MOTET_LOG_INIT | MOTET_LOG_BOOTSTRAP | MOTET_LOG_ENV;
    text = getenv("MOTET_DEBUG_SUBSYS");
    if (text && text[0])
        motet_log_parse_subsys(text, &configured_subsys);
    start_ns = motet_now_ns();
    text = getenv("MOTET_DEBUG_FILE");
    if (text && text[0] && level > MOTET_LOG_VERSION)
        open_file(text);
    /* Release: who sees the level also sees the mask. */
    atomic_store_explicit(&configured_level, (int)level, memory_order_release);
}

bool motet_log_on(enum motet_log_level level, int subsys)
{
    int limit = atomic_load_explicit(&configured_level, memory_order_acquire);
    if (__builtin_expect(limit < 0, 0)) {
        pthread_once(&configured_once, configure);
        limit = atomic_load_explicit(&configured_level, memory_order_acquire);
    }
    if ((int)level > limit || level == MOTET_LOG_NONE)
        return false;
    return level <= MOTET_LOG_WARN || (subsys & configured_subsys) != 0;
}

void motet_log_set_rank(int rank)
{
    thread_rank = rank;
}

/* Whether this warning was said within the window. *swallowed: how often it was kept back before, to be said with it now. */
static bool said_lately(const char *text, unsigned *swallowed)
{
    uint64_t hash = motet_hash_bytes(MOTET_HASH_SEED ^ (uint64_t)(thread_rank + 1), text, strlen(text)), now = motet_now_ns();

    struct warning *place = &warnings[0];
    for (size_t i = 0; i < REMEMBERED_WARNINGS; i++) {
        if (warnings[i].hash == hash && warnings[i].since_ns) {
            place = &warnings[i];
            break;
        }
        if (warnings[i].since_ns < place->since_ns)
            place = &warnings[i];
    }
    *swallowed = 0;
    if (place->hash == hash && place->since_ns) {
        if (now - place->since_ns < REPEAT_WINDOW_NS) {
            place->swallowed++;
            return true;
        }
        *swallowed = place->swallowed;
    }
    *place = (struct warning){.hash = hash, .since_ns = now};
    return false;
}

/* One line must stay one line, whatever bytes a stranger sent us. */
static void clean(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
}

/* Called with the lock held. */
static void put_line(const char *line, size_t len)
{
    struct stat file;
    if (log_fd == STDERR_FILENO) {
        motet_descriptor_write(STDERR_FILENO, line, len);
        return;
    }
    int cause = fstat(log_fd, &file) != 0 || file.st_dev != log_device || file.st_ino != log_inode ? EBADF : 0;
    if (!cause)
        cause = motet_descriptor_write(log_fd, line, len);
    if (cause) {
        if (cause != EBADF)
            close(log_fd);
        give_up_file(log_path, cause);
        motet_descriptor_write(STDERR_FILENO, line, len);
    }
}

void motet_log(enum motet_log_level level, int subsys, const char *format, ...)
{
    if (!motet_log_on(level, subsys))
        return;
    int saved_errno = errno;
    char line[LINE_MAX_BYTES + 64], tag[32];
    size_t len = 0;
    unsigned swallowed = 0;

    if (level == MOTET_LOG_TRACE)
        snprintf(tag, sizeof(tag), "TRACE %.3f", (double)(motet_now_ns() - start_ns) / 1e6);
    if (level == MOTET_LOG_VERSION)
        len = (size_t)snprintf(line, sizeof(line), "MOTET ");
    else
        len = add_prefix(line, LINE_MAX_BYTES, level == MOTET_LOG_TRACE ? tag : level_names[level].text, level == MOTET_LOG_WARN);
    char *text = line + len;
    va_list args;
    va_start(args, format);
    len += motet_text_format(text, LINE_MAX_BYTES - len, format, args);
    va_end(args);
    clean(text);

    pthread_mutex_lock(&lock);
    if (level != MOTET_LOG_WARN || !said_lately(text, &swallowed)) {
        if (swallowed)
            len += (size_t)snprintf(line + len, 63, " (and %u times since it was last said)", swallowed);
        line[len++] = '\n';
        put_line(line, len);
    }
    pthread_mutex_unlock(&lock);
    errno = saved_errno;
}
