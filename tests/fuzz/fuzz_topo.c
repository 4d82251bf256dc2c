/* SPDX-License-Identifier: Apache-2.0
 * Topologies as XML: a complaint names the file and a line; what is accepted answers every question, is written, and read again is the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "motet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(motetTopo_t topo)
{
    int n = 0, found = 0;
    motetTopoPath_t path;
    char *list;
    if (motetTopoCount(topo, &n) != motetSuccess || n < 1 || motetTopoFindingCount(topo, &found) != motetSuccess)
        abort();
    for (int i = 0; i < n && i < 40; i++) {
        if (motetTopoCpus(topo, i, &list) != motetSuccess)
            abort();
        free(list);
        for (int k = 0; k < n && k < 40; k++)
            if (motetTopoPath(topo, i, k, &path) != motetSuccess || (unsigned)path >= MOTET_TOPO_PATHS ||
                (path == motetTopoSelf) != (i == k))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    motetTopo_t topo, again;
    char *first = NULL, *second = NULL;
    if (motetTopoParse("file", (const char *)data, size, &topo) != motetSuccess) {
        const char *why = motetGetLastError(NULL);
        if (topo || strncmp(why, "file:", 5) != 0 || (atoi(why + 5) < 1 && !strstr(why, "more than")))
            abort();
        return 0;
    }
    ask(topo);
    if (motetTopoPrint(topo, &first) != motetSuccess || motetTopoParse("file", first, strlen(first), &again) != motetSuccess ||
        motetTopoPrint(again, &second) != motetSuccess || strcmp(first, second) != 0)
        abort();
    free(first);
    free(second);
    motetTopoFree(again);
    motetTopoFree(topo);
    return 0;
}
