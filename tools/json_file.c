/* SPDX-License-Identifier: Apache-2.0 */
#include "json_file.h"

#include <errno.h>
#include <stdio.h>

#define FILE_MOST ((size_t)16 << 20)

char *json_file_load(const char *name, size_t *len, char *why, size_t why_len)
{
    FILE *in = fopen(name, "re");
    char *text = in ? malloc(FILE_MOST + 1) : NULL;
    *len = 0;
    if (!text) {
        snprintf(why, why_len, "%s: %s", name, in ? "out of memory" : strerror(errno));
        if (in)
            fclose(in);
        return NULL;
    }
    *len = fread(text, 1, FILE_MOST + 1, in);
    bool bad = ferror(in) || *len > FILE_MOST;
    if (bad)
        snprintf(why, why_len, "%s: %s", name, *len > FILE_MOST ? "more than 16 MB" : strerror(errno));
    fclose(in);
    if (!bad)
        return text;
    free(text);
    return NULL;
}

json_t *json_file_parse(const char *name, const char *text, size_t len, char *why, size_t why_len)
{
    json_error_t error;
    json_t *value = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    if (value && json_is_object(value))
        return value;
    if (value)
        snprintf(why, why_len, "%s:1: must be an object in braces", name);
    else
        snprintf(why, why_len, "%s:%d: %s", name, error.line > 0 ? error.line : 1, error.text);
    json_decref(value);
    return NULL;
}

/* The line of the first "key" with its quotes; 1 where it is written with escapes. */
static int line_of(const char *text, size_t len, const char *key)
{
    size_t key_len = strlen(key);
    int line = 1;
    for (size_t i = 0; i + key_len + 2 <= len; i++) {
        line += text[i] == '\n';
        if (text[i] == '"' && memcmp(text + i + 1, key, key_len) == 0 && text[i + 1 + key_len] == '"')
            return line;
    }
    return 1;
}

void json_file_complain(const char *name, const char *text, size_t len, const char *key, const char *problem, char *why,
                        size_t why_len)
{
    snprintf(why, why_len, "%s:%d: %.64s %s", name, line_of(text, len, key), key, problem);
}
