/* SPDX-License-Identifier: Apache-2.0
 * Texts of the environment: places, port ranges, interface lists and Slurm's node lists. The first byte chooses. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/interface.h"
#include "boot/launch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(const char *text)
{
    struct motet_interface all[3], chosen[3];
    int nchosen = 0;
    memset(all, 0, sizeof(all));
    for (int i = 0; i < 3; i++) {
        all[i] = (struct motet_interface){.name = {'e', 't', 'h', (char)('0' + i)}, .up = i != 1, .running = i != 2};
        all[i].address.in = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001u + (unsigned)i)};
    }
    motetResult_t result = motet_interfaces_filter(all, 3, text, "", NULL, chosen, &nchosen);
    if (nchosen < 0 || nchosen > 3 || (result == motetSuccess) != (nchosen > 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[600], host[256];
    uint16_t first, last;
    struct motet_place_name name;
    if (size == 0)
        return 0;
    size_t len = size - 1 < sizeof(text) - 1 ? size - 1 : sizeof(text) - 1;
    memcpy(text, data + 1, len);
    text[len] = '\0';
    switch (data[0] % 4) {
    case 0:
        if (motet_place_parse("fuzz", text, &name) == motetSuccess && (name.host[0] == '\0' || name.ports[0] == 0))
            abort();
        break;
    case 1:
        if (motet_port_range_parse(text, &first, &last) == motetSuccess && first > last)
            abort();
        break;
    case 2:
        choose(text);
        break;
    default:
        if (motet_launch_first_host(text, host, 1 + len % sizeof(host)) && strlen(host) > len % sizeof(host))
            abort();
    }
    return 0;
}
