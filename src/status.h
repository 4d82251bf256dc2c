/* SPDX-License-Identifier: Apache-2.0
 * What the ranks of a job are doing, as JSON: rows made from regions (status_row.c), and the service thread's answers to questions from
 * `motet status` and from other processes of the job (status.c). It looks at shared memory only, never at a communicator, so that it
 * answers whatever the program's threads are stuck in. The format is described with motetStatus in motet.h. */
#ifndef MOTET_STATUS_H
#define MOTET_STATUS_H

#include "base/json.h"
#include "board.h"

#define MOTET_STATUS_ROWS_MAX \
    (256 * 1024) /* bytes of rows that one process tells another: more would clog the control connection */

/* How a client asks on the Unix socket: one line "status 2000\n" or "dump 2000\n", milliseconds; the answer ends with the stream. */
#define MOTET_STATUS_LINE_MAX 64

/* Appends one row per region on the board of a segment. */
void motet_status_rows(struct motet_json *json, const char *segment, size_t len);

/* Name of the abstract Unix socket of a segment's owner, without the leading NUL. */
#define MOTET_STATUS_NAME_MAX 64
void motet_status_socket_name(const uint8_t *token, char name[MOTET_STATUS_NAME_MAX]);

/* Start of a process in ticks since boot, and its state letter ('T': stopped); false when /proc does not tell. */
bool motet_status_process(int pid, uint64_t *start_ticks, char *state);

/* "%h" host name, "%p" process id, "%%". False when it does not fit. */
bool motet_status_expand(const char *pattern, char *path, size_t size);

#endif
