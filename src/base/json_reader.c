/* SPDX-License-Identifier: Apache-2.0
 * The JSON reader. It never looks beyond `end`, and keeps nothing of the text but the path to the element at hand. */
#include "base/json_reader.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MOST 40 /* characters */

void motet_json_reader_begin(struct motet_json_reader *reader, const char *text, size_t len)
{
    *reader = (struct motet_json_reader){.at = text, .end = text + len, .line = 1};
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        reader->at += 3;
}

bool motet_json_reader_fail(struct motet_json_reader *reader, const char *what)
{
    if (reader->failed)
        return false;
    reader->failed = true;
    snprintf(reader->why, sizeof(reader->why), "%d: %s%s%s", reader->line, reader->element, reader->element_len ? ": " : "", what);
    return false;
}

static bool skip_space(struct motet_json_reader *reader)
{
    for (; reader->at < reader->end && strchr(" \t\r\n", *reader->at) && *reader->at; reader->at++)
        reader->line += *reader->at == '\n';
    return reader->at < reader->end || motet_json_reader_fail(reader, "the text ends here");
}

static bool comes(struct motet_json_reader *reader, char wanted, const char *complaint)
{
    if (reader->failed || !skip_space(reader))
        return false;
    if (*reader->at != wanted)
        return motet_json_reader_fail(reader, complaint);
    reader->at++;
    return true;
}

static void name_element(struct motet_json_reader *reader, const char *text)
{
    size_t room = sizeof(reader->element) - reader->element_len, len = strlen(text);
    len = len < room ? len : room - 1;
    memcpy(reader->element + reader->element_len, text, len);
    reader->element_len += len;
    reader->element[reader->element_len] = '\0';
}

static void cut_element(struct motet_json_reader *reader, size_t len)
{
    reader->element_len = len;
    reader->element[len] = '\0';
}

bool motet_json_enter(struct motet_json_reader *reader, char bracket)
{
    if (!comes(reader, bracket, bracket == '{' ? "an object in braces is expected" : "a list in brackets is expected"))
        return false;
    if (reader->depth == MOTET_JSON_DEPTH)
        return motet_json_reader_fail(reader, "too deep");
    reader->levels[reader->depth++] = (struct motet_json_level){.bracket = bracket, .element_len = reader->element_len};
    return true;
}

/* Past the comma or the end of the level. False: it ended, or the reader failed. */
static bool go_on(struct motet_json_reader *reader)
{
    if (reader->failed || reader->depth == 0)
        return motet_json_reader_fail(reader, "nothing was entered");
    struct motet_json_level *level = &reader->levels[reader->depth - 1];
    cut_element(reader, level->element_len);
    if (!skip_space(reader))
        return false;
    if (*reader->at == (level->bracket == '{' ? '}' : ']')) {
        reader->at++;
        reader->depth--;
        return false;
    }
    return level->index++ == 0 || comes(reader, ',', "a comma or the end is expected");
}

/* The character behind a backslash; -1: there is no such escape. */
static int read_escape(struct motet_json_reader *reader)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *found = reader->at < reader->end && *reader->at ? strchr(names, *reader->at) : NULL;
    if (found) {
        reader->at++;
        return values[found - names];
    }
    if (reader->at >= reader->end || *reader->at != 'u' || reader->end - reader->at < 5)
        return -1;
    unsigned value = 0;
    for (int i = 1; i <= 4; i++) {
        char digit = reader->at[i], lower = (char)(digit | 0x20);
        if (!((digit >= '0' && digit <= '9') || (lower >= 'a' && lower <= 'f')))
            return -1;
        value = value * 16 + (unsigned)(digit <= '9' ? digit - '0' : lower - 'a' + 10);
    }
    reader->at += 5;
    return value > 0 && value < 128 ? (int)value : '?';
}

/* *cut: it did not fit. */
static bool read_string(struct motet_json_reader *reader, char *text, size_t room, bool *cut)
{
    size_t len = 0;
    *cut = false;
    if (!comes(reader, '"', "a text in quotes is expected"))
        return false;
    while (reader->at < reader->end && *reader->at != '"') {
        int character = (unsigned char)*reader->at++;
        if (character < 0x20)
            return motet_json_reader_fail(reader, "a text contains a control character");
        if (character == '\\' && (character = read_escape(reader)) < 0)
            return motet_json_reader_fail(reader, "a text contains a wrong escape");
        if (len + 1 < room)
            text[len++] = (char)character;
        else
            *cut = true;
    }
    text[len] = '\0';
    if (reader->at == reader->end)
        return motet_json_reader_fail(reader, "a text has no end");
    reader->at++;
    return true;
}

bool motet_json_next_member(struct motet_json_reader *reader, char *key, size_t room)
{
    bool cut;
    if (!go_on(reader) || !skip_space(reader) || !read_string(reader, key, room, &cut))
        return false;
    if (reader->element_len)
        name_element(reader, ".");
    name_element(reader, key);
    return comes(reader, ':', "a colon is expected");
}

bool motet_json_next_element(struct motet_json_reader *reader)
{
    char number[24];
    if (!go_on(reader))
        return false;
    snprintf(number, sizeof(number), "[%d]", reader->levels[reader->depth - 1].index - 1);
    name_element(reader, number);
    return true;
}

static size_t digits(const char *text)
{
    return strspn(text, "0123456789");
}

/* JSON's numbers are fewer than strtod's. Returns the length, 0: it is none. */
static size_t number_length(const char *text)
{
    size_t at = text[0] == '-', n = digits(text + at);
    if (n == 0 || (n > 1 && text[at] == '0'))
        return 0;
    at += n;
    if (text[at] == '.') {
        n = digits(text + at + 1);
        if (n == 0)
            return 0;
        at += 1 + n;
    }
    if (text[at] == 'e' || text[at] == 'E') {
        size_t sign = text[at + 1] == '+' || text[at + 1] == '-';
        n = digits(text + at + 1 + sign);
        if (n == 0)
            return 0;
        at += 1 + sign + n;
    }
    return at;
}

/* strtod of the C locale, whatever the program's own is. */
static double number_of(const char *text)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(text, NULL, c) : HUGE_VAL;
    if (c)
        freelocale(c);
    return value;
}

bool motet_json_read_number(struct motet_json_reader *reader, double *value)
{
    char text[NUMBER_MOST + 1];
    if (reader->failed || !skip_space(reader))
        return false;
    size_t left = (size_t)(reader->end - reader->at), room = left < NUMBER_MOST ? left : NUMBER_MOST;
    memcpy(text, reader->at, room);
    text[room] = '\0';
    size_t len = number_length(text);
    if (len == 0 || len == NUMBER_MOST)
        return motet_json_reader_fail(reader, len ? "a number has too many digits" : "a number is expected");
    text[len] = '\0';
    *value = number_of(text);
    if (!isfinite(*value))
        return motet_json_reader_fail(reader, "a number is too large");
    reader->at += len;
    return true;
}

bool motet_json_read_text(struct motet_json_reader *reader, char *text, size_t room)
{
    bool cut;
    return read_string(reader, text, room, &cut) && (!cut || motet_json_reader_fail(reader, "the text is too long"));
}

static bool read_word(struct motet_json_reader *reader, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
        return false;
    reader->at += len;
    return true;
}

bool motet_json_read_bool(struct motet_json_reader *reader, bool *value)
{
    if (reader->failed || !skip_space(reader))
        return false;
    *value = read_word(reader, "true");
    return *value || read_word(reader, "false") || motet_json_reader_fail(reader, "true or false is expected");
}

bool motet_json_skip(struct motet_json_reader *reader)
{
    char text[64];
    double number;
    bool cut;
    if (reader->failed || !skip_space(reader))
        return false;
    switch (*reader->at) {
    case '"':
        return read_string(reader, text, sizeof(text), &cut);
    case '{':
        for (motet_json_enter(reader, '{'); motet_json_next_member(reader, text, sizeof(text));)
            motet_json_skip(reader);
        return !reader->failed;
    case '[':
        for (motet_json_enter(reader, '['); motet_json_next_element(reader);)
            motet_json_skip(reader);
        return !reader->failed;
    default:
        return read_word(reader, "true") || read_word(reader, "false") || read_word(reader, "null") ||
               motet_json_read_number(reader, &number);
    }
}

bool motet_json_reader_finish(struct motet_json_reader *reader)
{
    while (!reader->failed && reader->at < reader->end && *reader->at && strchr(" \t\r\n", *reader->at))
        reader->line += *reader->at++ == '\n';
    if (!reader->failed && reader->at < reader->end)
        return motet_json_reader_fail(reader, "something follows the end");
    return !reader->failed;
}
