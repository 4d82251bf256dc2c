/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/settings.h"

bool motet_cache_path(const char *name, char *path, size_t len)
{
    const char *own = motet_setting_string(MOTET_SET_CACHE_DIR), *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (*own)
        n = snprintf(path, len, "%s/%s", own, name);
    else if (base && *base == '/') /* a relative one does not count, says the standard */
        n = snprintf(path, len, "%s/motet/%s", base, name);
    else if (home && *home == '/')
        n = snprintf(path, len, "%s/.cache/motet/%s", home, name);
    return n > 0 && (size_t)n < len;
}

bool motet_cache_prepare(const char *path)
{
    char folder[4096];
    if (strlen(path) >= sizeof(folder))
        return false;
    strcpy(folder, path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return true;
}
