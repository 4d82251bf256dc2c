/* SPDX-License-Identifier: Apache-2.0
 * The JSON writer. It escapes; it does not indent, sort or check nesting. */
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(struct motet_json *json, const char *bytes, size_t len)
{
    if (json->failed)
        return;
    if (json->limit && json->len + len > json->limit) {
        json->failed = true;
        return;
    }
    if (json->len + len + 1 > json->capacity) {
        size_t wanted = json->capacity ? json->capacity : 1024;
        while (wanted < json->len + len + 1)
            wanted *= 2;
        char *grown = realloc(json->text, wanted);
        if (!grown) {
            json->failed = true;
            return;
        }
        json->text = grown;
        json->capacity = wanted;
    }
    memcpy(json->text + json->len, bytes, len);
    json->len += len;
    json->text[json->len] = '\0';
}

/* Bytes of the UTF-8 character at `at`; 0 when it is none. */
static size_t character(const unsigned char *at)
{
    size_t n = at[0] < 0x80                    ? 1
               : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
               : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
               : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                               : 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool beyond = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return overlong || beyond ? 0 : n;
}

static void put_quoted(struct motet_json *json, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    char escape[8];
    put(json, "\"", 1);
    while (*at) {
        size_t n = character(at);
        if (n == 0)
            put(json, "?", 1);
        else if (*at == '"' || *at == '\\')
            put(json, (escape[0] = '\\', escape[1] = (char)*at, escape), 2);
        else if (*at < 0x20)
            put(json, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *at));
        else
            put(json, (const char *)at, n);
        at += n ? n : 1;
    }
    put(json, "\"", 1);
}

/* The comma before an element or member, unless it is the first. */
static void separate(struct motet_json *json)
{
    if (json->len > 0 && !strchr("{[:", json->text[json->len - 1]))
        put(json, ",", 1);
}

static void put_key(struct motet_json *json, const char *key)
{
    separate(json);
    if (!key)
        return;
    put_quoted(json, key);
    put(json, ":", 1);
}

void motet_json_begin(struct motet_json *json, const char *key, char bracket)
{
    put_key(json, key);
    put(json, &bracket, 1);
}

void motet_json_end(struct motet_json *json, char bracket)
{
    put(json, &bracket, 1);
}

void motet_json_text(struct motet_json *json, const char *key, const char *value)
{
    put_key(json, key);
    put_quoted(json, value);
}

void motet_json_int(struct motet_json *json, const char *key, int64_t value)
{
    char text[32];
    put_key(json, key);
    put(json, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

/* Thousandths as a whole number: printf would write the locale's decimal point. */
void motet_json_real(struct motet_json *json, const char *key, double value)
{
    char text[40];
    int64_t thousandths = value > -1e15 && value < 1e15 ? (int64_t)(value * 1000 + (value < 0 ? -0.5 : 0.5)) : 0;
    uint64_t size = (uint64_t)(thousandths < 0 ? -thousandths : thousandths);
    put_key(json, key);
    put(json, text,
        (size_t)snprintf(text, sizeof text, "%s%" PRIu64 ".%03u", thousandths < 0 ? "-" : "", size / 1000,
                         (unsigned)(size % 1000)));
}

void motet_json_bool(struct motet_json *json, const char *key, bool value)
{
    put_key(json, key);
    put(json, value ? "true" : "false", value ? 4 : 5);
}

void motet_json_hex(struct motet_json *json, const char *key, uint64_t value)
{
    char text[20];
    put_key(json, key);
    put(json, text, (size_t)snprintf(text, sizeof text, "\"%016" PRIx64 "\"", value));
}

void motet_json_splice(struct motet_json *json, const char *elements, size_t len)
{
    if (len == 0)
        return;
    separate(json);
    put(json, elements, len);
}

void motet_json_append(struct motet_json *json, const char *bytes, size_t len)
{
    put(json, bytes, len);
}

void motet_json_cut(struct motet_json *json, size_t len)
{
    json->failed = false;
    if (len >= json->len)
        return;
    json->len = len;
    json->text[len] = '\0';
}

void motet_json_free(struct motet_json *json)
{
    free(json->text);
    *json = (struct motet_json){0};
}
