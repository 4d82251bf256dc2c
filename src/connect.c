/* SPDX-License-Identifier: Apache-2.0
 * Connecting as the service thread sees it: one start, one tick, one end. */
#include "connect.h"

#include "meeting.h"

pthread_cond_t motet_links_changed = PTHREAD_COND_INITIALIZER;
static _Atomic unsigned kicks;
static unsigned kicks_seen;

motetResult_t motet_connect_open(const struct motet_process *me)
{
    motet_attempts_open(me);
    return motet_meetings_open(me);
}

uint64_t motet_connect_tick(uint64_t now_ns)
{
    unsigned kicks_now = atomic_load(&kicks);
    bool kicked = kicks_now != kicks_seen;
    kicks_seen = kicks_now;
    motet_meetings_tick(now_ns, kicked);
    uint64_t attempts_ns = motet_attempts_tick(now_ns); /* makes meetings: ask them last */
    return motet_earlier(motet_meetings_wake_ns(), attempts_ns);
}

void motet_connect_kick(void)
{
    atomic_fetch_add(&kicks, 1);
    motet_service_wake();
}

void motet_connect_close(void)
{
    pthread_mutex_lock(&motet_links_lock);
    for (struct motet_link *link = motet_links; link; link = link->next)
        if (link->attempt)
            motet_attempt_end(link->attempt);
    pthread_mutex_unlock(&motet_links_lock);
    motet_meetings_close();
}
