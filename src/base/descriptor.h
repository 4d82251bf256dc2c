/* SPDX-License-Identifier: Apache-2.0
 * The long-lived descriptors of the library, so that a forked child can close its copies: a copy in a child keeps a connection open
 * whose owner is dead. (Close-on-exec covers only exec.) */
#ifndef MOTET_BASE_DESCRIPTOR_H
#define MOTET_BASE_DESCRIPTOR_H

/* Remembers fd and returns it; negative values pass through (errno too). Any thread. */
int motet_descriptor_keep(int fd);

/* Forgets and closes a descriptor that was kept (once: what a fork closed is left alone); negative values are ignored. errno is
 * preserved. Any thread. */
void motet_descriptor_close(int fd);

/* Forgets without closing: another owner has it. */
void motet_descriptor_forget(int fd);

/* In a forked child: closes every descriptor that is remembered. Async-signal-safe. */
void motet_descriptors_close_all(void);

#endif
