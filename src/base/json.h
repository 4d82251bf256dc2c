/* SPDX-License-Identifier: Apache-2.0
 * Writing JSON into memory that grows up to a limit. Commas are put by looking at what stands before, so that parts written elsewhere
 * can be spliced in. Nothing fails on the way: when memory or room is short the text is marked and stays a prefix. */
#ifndef MOTET_BASE_JSON_H
#define MOTET_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct motet_json {
    char *text; /* NUL-terminated; NULL before the first byte */
    size_t len, capacity;
    size_t limit; /* 0: none */
    bool failed;  /* no memory, or beyond the limit */
};

/* Begins an object ('{') or an array ('['), ends it ('}', ']'). key NULL: an element of an array, or the whole. */
void motet_json_begin(struct motet_json *json, const char *key, char bracket);
void motet_json_end(struct motet_json *json, char bracket);

/* Members. Bytes that are not UTF-8 and control characters are escaped or replaced, so the text is always valid. */
void motet_json_text(struct motet_json *json, const char *key, const char *value);
void motet_json_int(struct motet_json *json, const char *key, int64_t value);
void motet_json_real(struct motet_json *json, const char *key, double value); /* three digits behind the point */
void motet_json_bool(struct motet_json *json, const char *key, bool value);
void motet_json_hex(struct motet_json *json, const char *key, uint64_t value); /* a string of 16 digits */

/* Elements that are written already, without brackets; "" is none. */
void motet_json_splice(struct motet_json *json, const char *elements, size_t len);

/* Bytes as they are. */
void motet_json_append(struct motet_json *json, const char *bytes, size_t len);

/* Takes back what was written after the text had `len` bytes, and the mark of failure. */
void motet_json_cut(struct motet_json *json, size_t len);

void motet_json_free(struct motet_json *json);

#endif
