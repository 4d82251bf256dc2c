/* SPDX-License-Identifier: Apache-2.0
 * Greeting and the registry of secrets. A secret is named on the wire by the start of a one-way hash, so that a process with several
 * jobs finds the right one; proofs are made and checked by boot/handshake.c. */
#include "greeting.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "boot/handshake.h"

#define ROLE "endpoint"

struct known_secret {
    struct motet_secret secret;
    uint64_t id;
    int users;
    struct known_secret *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct known_secret *known;

/* ---- secrets ---- */

static motetResult_t secret_id(const struct motet_secret *secret, uint64_t *id)
{
    static const char label[] = "motet secret id";
    uint8_t text[sizeof(label) + sizeof(secret->bytes)], hash[32];
    unsigned len = 0;
    motet_handshake_keep_libcrypto();
    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), secret->bytes, sizeof(secret->bytes));
    int made = EVP_Digest(text, sizeof(text), hash, &len, EVP_sha256(), NULL);
    OPENSSL_cleanse(text, sizeof(text));
    if (!made || len != sizeof(hash))
        return motet_fail(motetInternalError, "SHA-256 is not available from libcrypto");
    memcpy(id, hash, sizeof(*id));
    *id += *id == 0;
    return motetSuccess;
}

static struct known_secret *find_secret(uint64_t id)
{
    struct known_secret *entry = known;
    while (entry && entry->id != id)
        entry = entry->next;
    return entry;
}

motetResult_t motet_secret_add(const struct motet_secret *secret)
{
    uint64_t id = 0;
    TRY(secret_id(secret, &id));
    pthread_mutex_lock(&lock);
    struct known_secret *entry = find_secret(id);
    if (!entry && (entry = calloc(1, sizeof(*entry)))) {
        *entry = (struct known_secret){.secret = *secret, .id = id, .next = known};
        known = entry;
    }
    if (entry)
        entry->users++;
    pthread_mutex_unlock(&lock);
    return entry ? motetSuccess : motet_fail(motetSystemError, "out of memory");
}

void motet_secret_remove(const struct motet_secret *secret)
{
    pthread_mutex_lock(&lock);
    for (struct known_secret **at = &known; *at; at = &(*at)->next) {
        struct known_secret *entry = *at;
        if (memcmp(entry->secret.bytes, secret->bytes, sizeof(secret->bytes)) != 0)
            continue;
        if (--entry->users == 0) {
            *at = entry->next;
            OPENSSL_cleanse(entry, sizeof(*entry));
            free(entry);
        }
        break;
    }
    pthread_mutex_unlock(&lock);
}

/* Finds the first of the ids that is known here. */
static bool pick_secret(const uint64_t *ids, int n, struct motet_secret *secret, uint64_t *id)
{
    bool found = false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n && !found; i++) {
        struct known_secret *entry = ids[i] ? find_secret(ids[i]) : NULL;
        if (entry) {
            *secret = entry->secret;
            *id = entry->id;
            found = true;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void list_secrets(uint64_t ids[MOTET_GREETING_SECRETS])
{
    int n = 0;
    memset(ids, 0, MOTET_GREETING_SECRETS * sizeof(*ids));
    pthread_mutex_lock(&lock);
    for (struct known_secret *entry = known; entry && n < MOTET_GREETING_SECRETS; entry = entry->next)
        ids[n++] = entry->id;
    pthread_mutex_unlock(&lock);
}

/* ---- dialing side ---- */

int motet_greeting_begin(struct motet_greeting *greeting)
{
    struct motet_hello_message *hello = &greeting->hello;
    hello->order = MOTET_GREETING_ORDER;
    hello->version = MOTET_WIRE_VERSION;
    list_secrets(hello->secrets);
    if (motet_handshake_open(&greeting->nonces, hello->opening) != motetSuccess)
        return -EIO;
    greeting->stage = MOTET_AWAITS_REPLY;
    return motet_mailbox_send(&greeting->box, MOTET_GREETING_HELLO, 0, hello, sizeof(*hello), NULL, 0);
}

bool motet_greeting_is_stale(const struct motet_greeting *greeting)
{
    uint64_t ids[MOTET_GREETING_SECRETS];
    list_secrets(ids);
    for (int i = 0; i < MOTET_GREETING_SECRETS && ids[i]; i++) {
        bool listed = false;
        for (int k = 0; k < MOTET_GREETING_SECRETS; k++)
            listed = listed || greeting->hello.secrets[k] == ids[i];
        if (!listed)
            return true;
    }
    return false;
}

static int take_reply(struct motet_greeting *greeting)
{
    struct motet_reply_message message;
    struct motet_secret secret;
    uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN];
    uint64_t id;
    if (greeting->box.message.kind != MOTET_GREETING_REPLY || greeting->box.message.len != sizeof(message))
        return -EPROTO;
    memcpy(&message, greeting->box.body, sizeof(message));
    if (!pick_secret(&message.secret, 1, &secret, &id))
        return -EACCES;
    motetResult_t result = motet_handshake_prove(&greeting->nonces, &secret, ROLE, message.reply, proof);
    OPENSSL_cleanse(&secret, sizeof(secret));
    if (result != motetSuccess)
        return -EACCES;
    greeting->stage = MOTET_KNOWN;
    int error = motet_mailbox_send(&greeting->box, MOTET_GREETING_PROOF, 0, proof, sizeof(proof), NULL, 0);
    return error < 0 ? error : 1;
}

/* ---- accepting side ---- */

int motet_greeting_answer(struct motet_greeting *greeting)
{
    struct motet_reply_message message;
    if (!pick_secret(greeting->hello.secrets, MOTET_GREETING_SECRETS, &greeting->secret, &message.secret))
        return -EAGAIN;
    if (motet_handshake_reply(&greeting->nonces, &greeting->secret, ROLE, greeting->hello.opening, message.reply) != motetSuccess)
        return -EPROTO;
    greeting->stage = MOTET_AWAITS_PROOF;
    return motet_mailbox_send(&greeting->box, MOTET_GREETING_REPLY, 0, &message, sizeof(message), NULL, 0);
}

static int take_hello(struct motet_greeting *greeting)
{
    struct motet_hello_message *hello = &greeting->hello;
    if (greeting->box.message.kind != MOTET_GREETING_HELLO || greeting->box.message.len != sizeof(*hello))
        return -EPROTO;
    memcpy(hello, greeting->box.body, sizeof(*hello));
    hello->transport[sizeof(hello->transport) - 1] = '\0';
    if (hello->order != MOTET_GREETING_ORDER || hello->version != MOTET_WIRE_VERSION || hello->lane > MOTET_LANES_MAX)
        return -EPROTO;
    greeting->stage = MOTET_HELD;
    return 0;
}

static int take_proof(struct motet_greeting *greeting)
{
    if (greeting->box.message.kind != MOTET_GREETING_PROOF || greeting->box.message.len != MOTET_HANDSHAKE_PROOF_LEN)
        return -EPROTO;
    motetResult_t result = motet_handshake_check(&greeting->nonces, &greeting->secret, ROLE, greeting->box.body);
    OPENSSL_cleanse(&greeting->secret, sizeof(greeting->secret));
    if (result != motetSuccess)
        return -EACCES;
    greeting->stage = MOTET_KNOWN;
    return 1;
}

int motet_greeting_step(struct motet_greeting *greeting)
{
    switch (greeting->stage) {
    case MOTET_AWAITS_HELLO:
        return take_hello(greeting);
    case MOTET_AWAITS_REPLY:
        return take_reply(greeting);
    case MOTET_AWAITS_PROOF:
        return take_proof(greeting);
    case MOTET_HELD:
    case MOTET_KNOWN:
        break;
    }
    return -EPROTO;
}
