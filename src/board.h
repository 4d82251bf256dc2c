/* SPDX-License-Identifier: Apache-2.0
 * The board: a list, in each process's segment, of the regions of its communicators, so that whoever can map the segment finds them
 * without asking the process: its peers, and `motet status` when the process is stopped. Readers trust nothing that they find. */
#ifndef MOTET_BOARD_H
#define MOTET_BOARD_H

#include <stdbool.h>

#include "region.h"

/* Lists a region of the own segment; its card has been filled but for next and magic. Any thread. */
void motet_board_post(char *region);

/* Takes it off. Harmless when it is not there. When it returns no reader of this process looks at it. */
void motet_board_remove(char *region);

/* A copy of what one region says, made at once. */
struct motet_board_entry {
    const char *region; /* valid while it is listed: for motet_board_call and motet_board_message */
    struct motet_card card;
    uint64_t calls, messages, bytes, end_ns, wait_ns;
    uint32_t queued, state; /* state: enum motet_rank_state */
    int32_t waits_for;      /* rank, -1: nobody in particular */
    bool failed;
    int32_t fault_code;
    char fault[sizeof((struct motet_fault_record *)0)->text];
};

/* Calls `visit` for each region on the board of a segment that is mapped here. Entries that make no sense are passed over. With the own
 * segment nothing is taken off meanwhile, so `visit` must be quick and may not post or remove. */
void motet_board_read(const char *segment, size_t len, void (*visit)(void *context, const struct motet_board_entry *entry),
                      void *context);

/* Record of a call or message by number; false when it is not, or no longer, there. */
bool motet_board_call(const struct motet_board_entry *entry, uint64_t number, struct motet_record *out);
bool motet_board_message(const struct motet_board_entry *entry, uint64_t number, struct motet_record *out);

#endif
