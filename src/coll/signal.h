/* SPDX-License-Identifier: Apache-2.0
 * Signals: messages of no chunks, of which barriers are made. What is waited for and what is sent after it belong to different
 * rounds. */
#ifndef MOTET_COLL_SIGNAL_H
#define MOTET_COLL_SIGNAL_H

#include "coll/coll.h"

/* Signals `to`. */
static inline void motet_signal(struct motet_schedule *schedule, struct motet_peers to)
{
    motet_schedule_append(schedule)->to = to;
}

/* Waits for a signal of each of `from`. */
static inline void motet_await(struct motet_schedule *schedule, struct motet_peers from)
{
    motet_schedule_append(schedule)->from = from;
}

#endif
