/* SPDX-License-Identifier: Apache-2.0
 * No peer: ranks are started by `motet run`, whose environment says who they are. */
#include <motet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"

static motetComm_t world;
static int rank_here;

static void must(motetResult_t result)
{
    if (result == motetSuccess)
        return;
    fprintf(stderr, "motet: %s: %s\n", motetGetErrorString(result), motetGetLastError(world));
    exit(1);
}

void launch(int *argc, char ***argv, int *rank, int *nranks)
{
    (void)argc;
    (void)argv;
    must(motetCommInitEnv(&world, NULL));
    must(motetCommUserRank(world, rank));
    must(motetCommCount(world, nranks));
    rank_here = *rank;
}

void launch_end(void)
{
    must(motetCommDestroy(world));
}

void launch_broadcast(void *bytes, int len)
{
    must(motetBroadcast(bytes, bytes, (size_t)len, motetInt8, 0, world, NULL));
}

const struct contender launch_peer = {.name = NULL};
