/* SPDX-License-Identifier: Apache-2.0 */
#include "meeting.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "motet.h"

void meeting_format_id(const void *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[at[i] >> 4];
        text[2 * i + 1] = digits[at[i] & 15];
    }
    text[2 * size] = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool meeting_parse_id(const char *text, void *bytes, size_t size)
{
    unsigned char *at = bytes;
    if (strlen(text) != 2 * size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        at[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* The root must wait as long as the program takes to come to its init, hours if need be: its thread ends with the launcher. */
static motetResult_t get_patient_id(motetUniqueId *id)
{
    static const char name[] = "MOTET_INIT_TIMEOUT";
    const char *given = getenv(name);
    char *saved = given ? strdup(given) : NULL;
    setenv(name, "0", 1);
    motetResult_t result = motetGetUniqueId(id);
    if (saved)
        setenv(name, saved, 1);
    else
        unsetenv(name);
    free(saved);
    return result;
}

bool meeting_open(struct meeting *meeting, char *error, size_t len)
{
    unsigned char random[48];
    motetUniqueId id;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
        snprintf(error, len, "the system has no random bytes");
        return false;
    }
    meeting_format_id(random, 32, meeting->secret);
    meeting_format_id(random + 32, 16, meeting->run_id);
    if (get_patient_id(&id) != motetSuccess) {
        snprintf(error, len, "cannot open a meeting point for the ranks: %s", motetGetLastError(NULL));
        return false;
    }
    meeting_format_id(&id, sizeof id, meeting->unique_id);
    return true;
}
