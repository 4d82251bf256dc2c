/* SPDX-License-Identifier: Apache-2.0
 * Unique ids: making one (and the root behind it), and meeting through one. With MOTET_COMM_ID every process makes the same id and rank
 * 0 serves it, as NCCL does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/interface.h"
#include "base/log.h"
#include "base/os.h"
#include "base/settings.h"
#include "boot/launch.h"
#include "boot/root.h"
#include "boot/tcp.h"

/* The id that MOTET_COMM_ID stands for: the same in all processes, since nothing in it is random. */
static motetResult_t make_named_id(motetUniqueId *id)
{
    struct motet_place_name name;
    struct motet_root_place place = {0};
    const char *text = motet_setting_string(MOTET_SET_COMM_ID);
    TRY(motet_place_parse("MOTET_COMM_ID", text, &name));
    TRY(motet_launch_secret("MOTET_COMM_ID", text, &place.secret));
    /* A name that does not resolve here, or only to loopback, is looked up again in open; the id needs some address. */
    if (motet_place_resolve(&name, &place) != motetSuccess) {
        place.addresses[0].in = (struct sockaddr_in){.sin_family = AF_INET};
        motet_address_set_port(&place.addresses[0], name.ports[0]);
        place.naddresses = 1;
    }
    return motet_unique_id_encode(&place, id);
}

motetResult_t motet_boot_root_start(motetUniqueId *id)
{
    struct motet_interface *interfaces = NULL;
    struct motet_root_place place = {.listens = true};
    int ninterfaces = 0;
    TRY(motet_settings_load());
    if (motet_setting_string(MOTET_SET_COMM_ID)[0] != '\0')
        return make_named_id(id);
    TRY(motet_random(place.secret.bytes, sizeof(place.secret.bytes)));
    TRY(motet_interfaces_choose(NULL, &interfaces, &ninterfaces));
    for (int i = 0; i < ninterfaces && place.naddresses < MOTET_ROOT_ADDRESSES_MAX; i++)
        place.addresses[place.naddresses++] = interfaces[i].address;
    free(interfaces);
    struct motet_root_options options = {.listen = MOTET_ROOT_EVERYWHERE,
                                         .keep = motet_setting_int(MOTET_SET_ROOT_KEEP),
                                         .deadline_ns = motet_deadline_ns(motet_setting_int(MOTET_SET_INIT_TIMEOUT))};
    TRY(motet_root_start(&place, &options, NULL));
    return motet_unique_id_encode(&place, id);
}

/* Whether the id was made under this process's MOTET_COMM_ID: then the name says more than the addresses in it. */
static bool is_named(const struct motet_root_place *place, struct motet_place_name *name)
{
    struct motet_secret secret;
    const char *text = motet_setting_string(MOTET_SET_COMM_ID);
    return text[0] != '\0' && motet_place_parse("MOTET_COMM_ID", text, name) == motetSuccess &&
           motet_launch_secret("MOTET_COMM_ID", text, &secret) == motetSuccess &&
           memcmp(&secret, &place->secret, sizeof(secret)) == 0;
}

/* Rank 0 of an id that nobody serves yet. */
static motetResult_t serve_id(struct motet_root_place *place, struct motet_place_name *name, bool named, uint64_t deadline_ns,
                              const _Atomic(_Bool) *abort)
{
    if (named) {
        name->exact = true;
        return motet_place_serve(name, place, deadline_ns, abort);
    }
    struct motet_root_options options = {.listen = MOTET_ROOT_FIRST, .deadline_ns = deadline_ns};
    return motet_root_start(place, &options, abort);
}

motetResult_t motet_boot_open_place(struct motet_boot *boot, struct motet_root_place *place, struct motet_place_name *name)
{
    if (boot->rank == 0 && !place->listens)
        TRY(serve_id(place, name, name != NULL, boot->deadline_ns, boot->abort));
    else if (name)
        place->naddresses = 0;
    return motet_tcp_open(boot, place, boot->rank == 0 && !place->listens ? NULL : name);
}

motetResult_t motet_boot_open_id(struct motet_boot *boot, const motetUniqueId *id, int nranks, int rank, uint64_t deadline_ns,
                                 const _Atomic(_Bool) *abort)
{
    struct motet_root_place place;
    struct motet_place_name name;
    *boot = (struct motet_boot){
        .rank = rank, .nranks = nranks, .deadline_ns = deadline_ns, .abort = abort, .opened_ns = motet_now_ns()};
    TRY(motet_settings_load());
    TRY(motet_unique_id_decode(id, &place));
    return motet_boot_open_place(boot, &place, !place.listens && is_named(&place, &name) ? &name : NULL);
}
