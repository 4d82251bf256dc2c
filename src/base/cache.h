/* SPDX-License-Identifier: Apache-2.0
 * The cache directory: MOTET_CACHE_DIR, else motet in XDG_CACHE_HOME, else in ~/.cache. */
#ifndef MOTET_BASE_CACHE_H
#define MOTET_BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>

/* Path of a file there; false: there is no such directory, or no room. Nothing is made. */
bool motet_cache_path(const char *name, char *path, size_t len);

/* Makes the folders in which the file lies, readable by this user only. false: that failed. */
bool motet_cache_prepare(const char *path);

#endif
