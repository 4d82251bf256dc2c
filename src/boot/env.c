/* SPDX-License-Identifier: Apache-2.0
 * Meeting through the launcher's environment. A launcher may start several communicators one after the other: ranks that come back too
 * early are told by the root to try again. */
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/os.h"
#include "boot/launch.h"

motetResult_t motet_boot_open_env(struct motet_boot *boot, int *nranks, int *rank, uint64_t deadline_ns,
                                  const _Atomic(_Bool) *abort)
{
    struct motet_launch launch;
    struct motet_root_place place = {0};
    char text[320];
    *boot = (struct motet_boot){.deadline_ns = deadline_ns, .abort = abort, .opened_ns = motet_now_ns()};
    TRY(motet_launch_read(&launch));
    boot->rank = *rank = launch.rank;
    boot->nranks = *nranks = launch.nranks;
    if (launch.nranks == 1) {
        INFO(MOTET_LOG_BOOTSTRAP, "one rank (%s)", launch.launcher);
        return motet_random(boot->secret.bytes, sizeof(boot->secret.bytes));
    }
    if (launch.has_id) {
        TRY(motet_boot_open_id(boot, &launch.id, launch.nranks, launch.rank, deadline_ns, abort));
        boot->launched = true;
        return motetSuccess;
    }
    TRY(motet_launch_secret(launch.launcher, launch.identity, &place.secret));
    INFO(MOTET_LOG_BOOTSTRAP, "rank %d of %d (%s) meets at %s", launch.rank, launch.nranks, launch.launcher,
         motet_place_text(&launch.name, text));
    return motet_boot_open_place(boot, &place, &launch.name);
}
