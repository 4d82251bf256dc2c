/* SPDX-License-Identifier: Apache-2.0
 * The first exchange over meeting points that know nothing of ranks (a store, a directory): who is there, and the job's secret. */
#ifndef MOTET_BOOT_MEETING_H
#define MOTET_BOOT_MEETING_H

#include "boot/boot.h"

#define MOTET_MEETING_NONCE_LEN 16

/* Every rank stores who it is; rank 0 reads all, checks them and stores the secret with everybody's nonce. A duplicate rank, another
 * size or protocol, and keys left over from an earlier job are errors that name both sides. Collective; boot->kind is set. */
motetResult_t motet_meeting_hold(struct motet_boot *boot);

/* Gets a key as kind->get does, and looks meanwhile for ranks that gave up. */
motetResult_t motet_boot_wait(struct motet_boot *boot, const char *key, void **value, size_t *len);

/* Fails with the ranks whose key `stage`.<rank>`suffix` is missing; the deadline has passed. Tells the others. */
motetResult_t motet_boot_timed_out(struct motet_boot *boot, const char *stage, const char *suffix);

/* Any length: cut into values of MOTET_BOOT_VALUE_MAX under keys prefix.0, prefix.1, ... */
motetResult_t motet_boot_put_long(struct motet_boot *boot, const char *prefix, const void *bytes, size_t len);
motetResult_t motet_boot_get_long(struct motet_boot *boot, const char *prefix, uint8_t **bytes, size_t *len);

/* Parses what rank 0 sends back in an all-gather (pure): one malloced block of pointers, lengths and blobs. False when malformed. */
bool motet_boot_unpack(const uint8_t *bytes, size_t len, int nranks, void ***all, size_t **lens);

#endif
