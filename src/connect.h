/* SPDX-License-Identifier: Apache-2.0
 * Making links on the service thread: accepting, dialing, greeting. The process with the smaller token dials, the other accepts; the
 * dialing side decides which transport is used. */
#ifndef MOTET_CONNECT_H
#define MOTET_CONNECT_H

#include "link.h"

/* Starts to accept; `me` stays valid until the close. */
motetResult_t motet_connect_open(const struct motet_process *me);
void motet_connect_close(void);

/* Starts, repeats and gives up attempts. Returns when to look again. */
uint64_t motet_connect_tick(uint64_t now_ns);

/* Any thread: links or secrets were added, so that held greetings may go on. */
void motet_connect_kick(void);

/* Under motet_links_lock: a link became READY or FAILED. */
extern pthread_cond_t motet_links_changed;

#endif
