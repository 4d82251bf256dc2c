/* SPDX-License-Identifier: Apache-2.0
 * Reading JSON value by value, as the caller expects it: no tree is built. What is wrong is kept with its line and its element
 * ("shapes[0].points[3].bytes"); after that every call fails. Memory and depth are bounded whatever the text is. */
#ifndef MOTET_BASE_JSON_READER_H
#define MOTET_BASE_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>

#define MOTET_JSON_DEPTH 16

struct motet_json_level {
    char bracket;       /* '{' or '[' */
    size_t element_len; /* of the path to the object or array itself */
    int index;          /* members or elements begun */
};

struct motet_json_reader {
    const char *at, *end;
    int line;
    struct motet_json_level levels[MOTET_JSON_DEPTH];
    int depth;
    char element[160];
    size_t element_len;
    bool failed;
    char why[320]; /* "LINE: ELEMENT: what is wrong" */
};

void motet_json_reader_begin(struct motet_json_reader *reader, const char *text, size_t len);

/* Marks the reader as failed, unless it has failed before. Returns false. */
bool motet_json_reader_fail(struct motet_json_reader *reader, const char *what);

/* Enters the object ('{') or array ('[') that comes next. */
bool motet_json_enter(struct motet_json_reader *reader, char bracket);

/* Goes on to the next member or element of what was entered last; its value is to be read then. False: there is none (it has been left
 * then), or the reader has failed. Keys longer than the room are cut. */
bool motet_json_next_member(struct motet_json_reader *reader, char *key, size_t room);
bool motet_json_next_element(struct motet_json_reader *reader);

bool motet_json_read_number(struct motet_json_reader *reader, double *value);
/* Texts that do not fit fail; characters beyond ASCII that are written as escapes become '?'. */
bool motet_json_read_text(struct motet_json_reader *reader, char *text, size_t room);
bool motet_json_read_bool(struct motet_json_reader *reader, bool *value);
bool motet_json_skip(struct motet_json_reader *reader);

/* Nothing but space follows, and nothing has failed. */
bool motet_json_reader_finish(struct motet_json_reader *reader);

#endif
