/* SPDX-License-Identifier: Apache-2.0
 * Text that has to fit: formatting that never leaves half a character, and distances between names for "did you mean". */
#ifndef MOTET_BASE_TEXT_H
#define MOTET_BASE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* vsnprintf into buf of `size` bytes (at least 4). Text that does not fit is cut between UTF-8 characters and ends in "...".
 * Returns the length stored. */
size_t motet_text_format(char *buf, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));

/* Number of insertions, deletions, replacements and swaps of neighbours that turn a into b, upper and lower case alike. Texts longer
 * than 63 bytes are compared by their first 63. */
unsigned motet_text_distance(const char *a, const char *b);

#endif
