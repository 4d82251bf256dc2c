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

/* Replaces a variable of this process; what it was before is malloced, NULL when it was unset. */
static char *swap_variable(const char *name, const char *value)
{
    const char *given = getenv(name);
    char *before = given ? strdup(given) : NULL;
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    return before;
}

/* The root waits as long as the program takes to come to its init, hours if need be, and serves one communicator after the other:
 * it ends with the launcher. The ranks see the user's own settings. */
static motetResult_t get_lasting_id(motetUniqueId *id)
{
    static const char *const names[] = {"MOTET_INIT_TIMEOUT", "MOTET_ROOT_KEEP"}, *const values[] = {"0", "1"};
    char *before[2];
    for (int i = 0; i < 2; i++)
        before[i] = swap_variable(names[i], values[i]);
    motetResult_t result = motetGetUniqueId(id);
    for (int i = 0; i < 2; i++) {
        free(swap_variable(names[i], before[i]));
        free(before[i]);
    }
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
    if (get_lasting_id(&id) != motetSuccess) {
        snprintf(error, len, "cannot open a meeting point for the ranks: %s", motetGetLastError(NULL));
        return false;
    }
    meeting_format_id(&id, sizeof id, meeting->unique_id);
    return true;
}
