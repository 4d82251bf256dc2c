/* SPDX-License-Identifier: Apache-2.0
 * Formatting with a limit and the distance between two names. Knows nothing of who prints. */
#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define DISTANCE_MAX_LEN 63

size_t motet_text_format(char *buf, size_t size, const char *format, va_list args)
{
    int len = vsnprintf(buf, size, format, args);
    if (len < 0) {
        buf[0] = '\0';
        return 0;
    }
    if ((size_t)len < size)
        return (size_t)len;
    size_t end = size - 4;
    while (end > 0 && ((unsigned char)buf[end] & 0xc0) == 0x80)
        end--;
    memcpy(buf + end, "...", 4);
    return end + 3;
}

static unsigned smaller(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned motet_text_distance(const char *a, const char *b)
{
    size_t a_len = strnlen(a, DISTANCE_MAX_LEN), b_len = strnlen(b, DISTANCE_MAX_LEN);
    unsigned rows[3][DISTANCE_MAX_LEN + 1]; /* two rows back, one row back, this row: by i modulo 3 */

    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            int x = toupper((unsigned char)a[i - 1]), y = toupper((unsigned char)b[j - 1]);
            row[j] = smaller(smaller(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == toupper((unsigned char)b[j - 2]) && y == toupper((unsigned char)a[i - 2]))
                row[j] = smaller(row[j], two_above[j - 2] + 1);
        }
    }
    return rows[a_len % 3][b_len];
}
