/* SPDX-License-Identifier: Apache-2.0
 * Logging in NCCL's shape ("host:pid:tid [rank] MOTET INFO text"), so that users' greps work. Whole lines by one write,
 * to stderr or MOTET_DEBUG_FILE, never to stdout. Levels and subsystems come from MOTET_DEBUG and MOTET_DEBUG_SUBSYS. */
#ifndef MOTET_BASE_LOG_H
#define MOTET_BASE_LOG_H

#include <stdbool.h>

enum motet_log_level { MOTET_LOG_NONE, MOTET_LOG_VERSION, MOTET_LOG_WARN, MOTET_LOG_INFO, MOTET_LOG_ABORT, MOTET_LOG_TRACE };

/* Bit masks; names as in NCCL's SUBSYS list. */
enum motet_log_subsys {
    MOTET_LOG_INIT = 1 << 0,
    MOTET_LOG_COLL = 1 << 1,
    MOTET_LOG_P2P = 1 << 2,
    MOTET_LOG_SHM = 1 << 3,
    MOTET_LOG_NET = 1 << 4,
    MOTET_LOG_GRAPH = 1 << 5,
    MOTET_LOG_TUNING = 1 << 6,
    MOTET_LOG_ENV = 1 << 7,
    MOTET_LOG_ALLOC = 1 << 8,
    MOTET_LOG_CALL = 1 << 9,
    MOTET_LOG_PROXY = 1 << 10, /* the progress and service threads */
    MOTET_LOG_BOOTSTRAP = 1 << 11,
    MOTET_LOG_REG = 1 << 12,
    MOTET_LOG_PROFILE = 1 << 13,
    MOTET_LOG_DESTROY = 1 << 14,
    MOTET_LOG_ALL = ~0,
};

/* Whether a line of this level and subsystem would be printed; a load and a compare, usable on warm paths. */
bool motet_log_on(enum motet_log_level level, int subsys);

/* Prints one line if it is on. Thread safe; errno is preserved; no signal is raised. A WARN line that this rank said within the
 * last 10 s is counted instead of printed. Control characters become spaces, a line that is too long is cut and ends in "...". */
void motet_log(enum motet_log_level level, int subsys, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define WARN(subsys, ...) motet_log(MOTET_LOG_WARN, (subsys), __VA_ARGS__)
#define INFO(subsys, ...)                                     \
    do {                                                      \
        if (motet_log_on(MOTET_LOG_INFO, (subsys)))           \
            motet_log(MOTET_LOG_INFO, (subsys), __VA_ARGS__); \
    } while (0)

/* Read "INFO" and "INIT,NET" or "^COLL", in any case; false if a name is unknown, and then nothing is stored. */
bool motet_log_parse_level(const char *text, enum motet_log_level *level);
bool motet_log_parse_subsys(const char *text, int *mask);

/* The rank shown in brackets in this thread's lines; -1 prints "[-]". */
void motet_log_set_rank(int rank);

#endif
