/* SPDX-License-Identifier: Apache-2.0
 * P2P/direct: ranks that are threads of this very process. There is nothing to connect; every address means the same to both. */
#include <string.h>

#include "transport/rows.h"

static bool direct_reach(const struct motet_process *me, const struct motet_process *peer)
{
    return memcmp(me->token, peer->token, sizeof(me->token)) == 0;
}

const struct motet_transport motet_direct_transport = {
    .name = "P2P/direct",
    .mapped = true,
    .reach = direct_reach,
};
