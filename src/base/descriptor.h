/* SPDX-License-Identifier: Apache-2.0
 * Descriptors of the library. None of them may be 0, 1 or 2, even where the program has closed those: its next printf would go into a
 * socket, and its next close would cut a connection. The long-lived ones are remembered, so that a forked child can close its copies: a copy
 * in a child keeps a connection open whose owner is dead. (Close-on-exec covers only exec.) */
#ifndef MOTET_BASE_DESCRIPTOR_H
#define MOTET_BASE_DESCRIPTOR_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>

/* Every descriptor passes here, on the line that opens it. One of 0 to 2 is closed and comes back as a higher one, with close-on-exec; -1 and
 * errno (EMFILE) when there is none. Others, and negative values (errno too), pass through. Any thread. */
int motet_descriptor_lift(int fd);

/* fopen for reading and opendir, with a lifted descriptor. NULL and errno: not possible. */
FILE *motet_descriptor_read(const char *path);
DIR *motet_descriptor_list(const char *path);

/* The first line of a small file into line, without its newline; false and "": there is none. */
bool motet_descriptor_read_line(const char *path, char *line, size_t size);

/* A whole file, malloced, not ended by a NUL: 0 or an errno. Regular files only, for a pipe would block: EISDIR or EINVAL for others, EFBIG
 * beyond `most` bytes. */
int motet_descriptor_read_file(const char *path, size_t most, char **text, size_t *len);

/* Writes all of it, 0 or an errno. A reader that went away and a limit of file sizes raise no signal; a descriptor that does not block and takes
 * nothing costs a tenth of a second. */
int motet_descriptor_write(int fd, const void *bytes, size_t len);

/* Lifts fd, remembers it and returns it; negative values pass through (errno too). Any thread. */
int motet_descriptor_keep(int fd);

/* Forgets and closes a descriptor that was kept (once: what a fork closed is left alone); negative values are ignored. errno is
 * preserved. Any thread. */
void motet_descriptor_close(int fd);

/* Forgets without closing: another owner has it. */
void motet_descriptor_forget(int fd);

/* In a forked child: closes every descriptor that is remembered. Async-signal-safe. */
void motet_descriptors_close_all(void);

#endif
