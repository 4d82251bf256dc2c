/* SPDX-License-Identifier: Apache-2.0
 * What a stranger may say to a listener, and what the description of a process from elsewhere may hold: messages and greeting on the
 * accepting side (the first byte chooses the side), and the records of transports in 512 arbitrary bytes. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "greeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_description(const uint8_t *data, size_t size)
{
    struct motet_process process = {.pid = 1};
    size_t len = 0;
    memcpy(process.addresses, data, size < sizeof(process.addresses) ? size : sizeof(process.addresses));
    for (int i = 0; motet_transports[i]; i++) {
        const uint8_t *bytes = motet_address_find(&process, motet_transports[i]->name, &len);
        if (bytes && (bytes < process.addresses || len > (size_t)(process.addresses + sizeof(process.addresses) - bytes)))
            abort();
    }
    motet_address_record(&process, "fuzz", data, size < 64 ? size : 64);
}

static void greet(const uint8_t *data, size_t size, bool dials)
{
    int wires[2];
    struct motet_greeting greeting = {.stage = MOTET_AWAITS_HELLO};
    struct motet_secret secret = {{1, 2, 3}};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, wires) != 0 || motet_secret_add(&secret) != motetSuccess)
        abort();
    motet_mailbox_open(&greeting.box, wires[0]);
    if (dials && motet_greeting_begin(&greeting) < 0)
        abort();
    if (send(wires[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && size > 0)
        abort();
    shutdown(wires[1], SHUT_WR);
    int result;
    while ((result = motet_mailbox_read(&greeting.box, true)) == 1) {
        if (greeting.box.message.len > MOTET_MESSAGE_BODY_MAX)
            abort();
        if (greeting.stage != MOTET_KNOWN)
            result = motet_greeting_step(&greeting);
        if (result == 0 && greeting.stage == MOTET_HELD)
            result = motet_greeting_answer(&greeting);
        if (greeting.stage == MOTET_KNOWN) /* nobody guesses a proof */
            abort();
        if (result < 0 && result != -EAGAIN)
            break;
    }
    greeting.box.fd = -1;
    motet_mailbox_close(&greeting.box);
    close(wires[0]);
    close(wires[1]);
    motet_secret_remove(&secret);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size > 64 * 1024)
        return 0;
    read_description(data + 1, size - 1);
    greet(data + 1, size - 1, data[0] & 1);
    return 0;
}
