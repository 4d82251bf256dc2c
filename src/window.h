/* SPDX-License-Identifier: Apache-2.0
 * The windows of this process by key: the memory that remote writes may touch, and the handlers of control messages. Opening and
 * closing are in endpoint.h; this header is what the readers of connections need. Knows nothing of connections. */
#ifndef MOTET_WINDOW_H
#define MOTET_WINDOW_H

#include "endpoint.h"

/* Memory of an open window, NULL when the key is not open or has no memory. While it is held (until the drop, which is due exactly when
 * the result is not NULL) closing it waits. */
char *motet_window_hold(uint64_t key, size_t *len);
void motet_window_drop(void);

/* Calls the handler of the key, if it is open. */
void motet_window_deliver(uint64_t key, struct motet_endpoint *from, enum motet_control kind, const void *bytes, size_t len);

/* Tells all handlers that listed the endpoint that it is dead. */
void motet_windows_announce_death(struct motet_endpoint *endpoint);

#endif
