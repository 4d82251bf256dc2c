/* SPDX-License-Identifier: Apache-2.0
 * The process's one shared segment: a sparse memfd that local peers map once. Regions of communicators and motetMemAlloc memory are
 * carved from it; pages cost memory only when touched. Offsets, not addresses, cross process borders. */
#ifndef MOTET_SEGMENT_H
#define MOTET_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "motet.h"

/* Creates the segment on first use. Idempotent, thread safe. In a forked child it fails: the segment belongs to the parent. */
motetResult_t motet_segment_open(void);

/* The process needs it (from the first motet_process_open to the last close). It goes when neither this nor any allocation holds it. */
motetResult_t motet_segment_hold(void);
void motet_segment_drop(void);

/* Page-aligned, zero-filled, at least len bytes. Thread safe. Opens the segment when need be. Touches nothing: pages come when they are
 * first written, so memory that runs out then is the kernel's affair (the out-of-memory killer or the cgroup's), never a bus error,
 * since no file system limit applies. A failure says how much is used and what would lower it. */
motetResult_t motet_segment_alloc(size_t len, void **at);

/* Gives the pages back to the kernel (hole punched) and the range to the heap. NULL is fine, and so is an address that was not
 * allocated: it is ignored. */
void motet_segment_free(void *at);

/* As free, once all of holders[0..n) are 0 (bytes inside the allocation, cleared by peers): until then they may touch it. It does not hold
 * the segment meanwhile. Looked at when memory is allocated or freed. Returns a number for the two below; 0 when it was freed at once. */
uint64_t motet_segment_free_when_unused(void *at, _Atomic uint8_t *holders, int n);

/* Clears a holder of such an allocation, whose process is dead; harmless when it has been freed. */
void motet_segment_let_go(uint64_t number, int holder);

/* Whether it is still waiting for holders. */
bool motet_segment_lingers(uint64_t number);

/* Whether `at` is the start of an allocation. */
bool motet_segment_owns(const void *at);

/* Whether [at, at + len) lies in the segment, and where. */
bool motet_segment_offset(const void *at, size_t len, uint64_t *offset);

void *motet_segment_base(void);
size_t motet_segment_len(void);
int motet_segment_fd(void);

/* The first page holds a random token, by which a peer proves to itself that it mapped the right thing. */
#define MOTET_SEGMENT_TOKEN_BYTES 16
const uint8_t *motet_segment_token(void);

/* Maps another process's segment as a whole; quiet failure. Peers' pages are not copied to children of fork and not dumped. */
motetResult_t motet_segment_map(int fd, size_t len, void **base);

#endif
