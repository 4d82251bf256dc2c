/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/loaded.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

struct symbol {
    const char *name;
    void *place; /* of the pointer */
};

struct library {
    const char *file, *package;
    const struct symbol *symbols;
    size_t nsymbols;
    bool loaded;
    char why[512];
};

static struct motet_hwloc hwloc_functions;
static struct motet_expat expat_functions;

#define SYMBOL(name) {#name, &hwloc_functions.name},
static const struct symbol hwloc_symbols[] = {MOTET_HWLOC_FUNCTIONS(SYMBOL)};
#undef SYMBOL
#define SYMBOL(name) {#name, &expat_functions.name},
static const struct symbol expat_symbols[] = {MOTET_EXPAT_FUNCTIONS(SYMBOL)};
#undef SYMBOL

static struct library hwloc_library = {
    "libhwloc.so.15", "libhwloc15", hwloc_symbols, sizeof hwloc_symbols / sizeof hwloc_symbols[0], false, ""};
static struct library expat_library = {"libexpat.so.1", "libexpat1", expat_symbols, sizeof expat_symbols / sizeof expat_symbols[0],
                                       false,           ""};

static void load(struct library *library)
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    library->loaded = handle != NULL;
    for (size_t i = 0; library->loaded && i < library->nsymbols; i++) {
        void *function = dlsym(handle, library->symbols[i].name);
        library->loaded = function != NULL;
        memcpy(library->symbols[i].place, &function, sizeof function);
    }
    if (!library->loaded)
        snprintf(library->why, sizeof library->why, "%s", dlerror());
}

static void load_hwloc(void)
{
    load(&hwloc_library);
}

static void load_expat(void)
{
    load(&expat_library);
}

static motetResult_t judge(const struct library *library)
{
    if (library->loaded)
        return motetSuccess;
    return motet_fail_quiet(motetSystemError, "topologies need %s, which cannot be loaded (Debian's package is %s): %s",
                            library->file, library->package, library->why);
}

motetResult_t motet_loaded_hwloc(const struct motet_hwloc **hwloc)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_hwloc);
    *hwloc = &hwloc_functions;
    return judge(&hwloc_library);
}

motetResult_t motet_loaded_expat(const struct motet_expat **expat)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_expat);
    *expat = &expat_functions;
    return judge(&expat_library);
}
