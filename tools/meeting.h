/* SPDX-License-Identifier: Apache-2.0
 * Where the ranks of one attempt meet: a unique id whose root thread lives in the launcher, a secret, and an id of the run. */
#ifndef MOTET_TOOLS_MEETING_H
#define MOTET_TOOLS_MEETING_H

#include <stdbool.h>
#include <stddef.h>

struct meeting {
    char unique_id[257]; /* hexadecimal of motetUniqueId */
    char secret[65];
    char run_id[33];
};

/* Makes a new one; on failure false and the library's sentence. */
bool meeting_open(struct meeting *meeting, char *error, size_t len);

/* Reads a unique id from hexadecimal text; false when it is none. */
bool meeting_parse_id(const char *text, void *bytes, size_t size);

/* Writes bytes as hexadecimal text, 2 * size + 1 characters. */
void meeting_format_id(const void *bytes, size_t size, char *text);

#endif
