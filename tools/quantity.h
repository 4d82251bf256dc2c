/* SPDX-License-Identifier: Apache-2.0
 * Numbers with units, for people: bytes, times, speeds and latencies, read and written. */
#ifndef MOTET_TOOLS_QUANTITY_H
#define MOTET_TOOLS_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>

#define QUANTITY_MAX 32

/* "1.75 MiB", "512 B". Four digits at most. Returns text, as the others do. */
char *quantity_bytes(double bytes, char text[QUANTITY_MAX]);

/* "14 GB": powers of 1000. */
char *quantity_decimal_bytes(double bytes, char text[QUANTITY_MAX]);

/* "12.3 us", from nanoseconds. */
char *quantity_time(double ns, char text[QUANTITY_MAX]);

/* "12.5", "12.5GB/s", "100Gb/s", "100Gbit/s", "800MB/s" as 10^9 bytes per second; false on anything else and on 0. */
bool quantity_parse_speed(const char *text, double *gbs);

/* "5us", "150ns", "1ms", "2s", bare: us. False on anything else. */
bool quantity_parse_latency(const char *text, double *us);

/* "7B", "25.6M", "1.5e9": a number of parameters or operations; K, M, B or G, T are powers of 1000. False on anything else and below 0. */
bool quantity_parse_count(const char *text, double *count);

#endif
