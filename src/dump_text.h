/* SPDX-License-Identifier: Apache-2.0
 * What is in a dump: every region on this process's board, those of a traced process that are gone, and the steps of the trace. */
#ifndef MOTET_DUMP_TEXT_H
#define MOTET_DUMP_TEXT_H

#include "base/json.h"

/* The whole file. Any thread; one at a time. */
void motet_dump_text(struct motet_json *json, const char *reason);

/* A communicator of a traced process goes: its records are kept for the file that is written at the end. Nothing without MOTET_TRACE. */
void motet_dump_keep(const char *region);

#endif
