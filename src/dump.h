/* SPDX-License-Identifier: Apache-2.0
 * Writing what the flight recorder remembers, and the steps of a trace, to a file: one per process, all its ranks and communicators in it.
 * The format is described in docs/status.md. A file that cannot be written is said once and harms nothing. */
#ifndef MOTET_DUMP_H
#define MOTET_DUMP_H

#include "base/json.h"
#include "motet.h"

/* The communicator of the calling thread's rank has failed with that sentence: writes MOTET_DUMP_FILE, if set. Returns when a file that
 * was begun after the call is there. Not on the service thread. */
void motet_dump_failure(const char *reason);

/* On the service thread, which may not wait for a disk: a thread of its own writes. `reason` is copied. With `named` it is for somebody who
 * asked: without MOTET_DUMP_FILE the file is motet-dump-%h-%p.json in the working directory. */
void motet_dump_start(const char *reason, bool named);

/* Whether all dumps that were started are complete. Then *json gets a row {pid, host, file, error} about the last one. */
bool motet_dump_finished(struct motet_json *json);

/* MOTET_DUMP_SIGNAL came since the last call. */
bool motet_dump_signalled(void);

/* Writes a file beside its place and renames it: readers see all of it or what was there before; a failed write leaves nothing. A device is
 * written to. 0 or an errno. */
int motet_dump_replace(const char *path, const char *text, size_t len);

/* With the process: installs the signal's handler; waits for threads and writes the trace; takes the handler away. */
motetResult_t motet_dump_open(void);
void motet_dump_closing(void);
void motet_dump_close(void);

#endif
