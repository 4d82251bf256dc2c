/* SPDX-License-Identifier: Apache-2.0
 * Small JSON files that people write: loading, and complaints that name file, line and element. */
#ifndef MOTET_TOOLS_JSON_FILE_H
#define MOTET_TOOLS_JSON_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The whole file, malloced; NULL: why is "FILE: reason". Files of more than 16 MB are refused. */
char *json_file_load(const char *name, size_t *len, char *why, size_t why_len);

/* One object; NULL: why is "FILE:LINE: reason". */
json_t *json_file_parse(const char *name, const char *text, size_t len, char *why, size_t why_len);

/* "FILE:LINE: KEY PROBLEM", with the line in which the key stands first. */
void json_file_complain(const char *name, const char *text, size_t len, const char *key, const char *problem, char *why,
                        size_t why_len);

#endif
