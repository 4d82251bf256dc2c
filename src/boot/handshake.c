/* SPDX-License-Identifier: Apache-2.0
 * Both ends of a connection prove that they know the job's secret without showing it. Strangers are expected: every refusal is quiet. */
#include "boot/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#include "base/error.h"
#include "base/os.h"

#define ROLE_MAX 16

static const uint8_t magic[8] = {'m', 'o', 't', 'e', 't', 'h', 's', '1'};

void motet_handshake_keep_libcrypto(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static motetResult_t hmac(const void *key, size_t key_len, const void *data, size_t len, uint8_t proof[32])
{
    unsigned proof_len = 0;
    motet_handshake_keep_libcrypto();
    if (!HMAC(EVP_sha256(), key, (int)key_len, data, len, proof, &proof_len) || proof_len != 32)
        return motet_fail(motetInternalError, "HMAC-SHA256 is not available from libcrypto");
    return motetSuccess;
}

/* label is 's' for the server's proof and 'c' for the client's. */
static motetResult_t prove(const struct motet_handshake_nonces *nonces, const struct motet_secret *secret, const char *role,
                           char label, uint8_t proof[32])
{
    struct {
        uint8_t magic[8];
        char label, role[ROLE_MAX];
        uint8_t client[MOTET_NONCE_LEN], server[MOTET_NONCE_LEN];
    } message = {.label = label};
    _Static_assert(sizeof(message) == 8 + 1 + ROLE_MAX + 2 * MOTET_NONCE_LEN, "no padding in what is signed");
    memcpy(message.magic, magic, sizeof(magic));
    memcpy(message.role, role, strnlen(role, ROLE_MAX));
    memcpy(message.client, nonces->client, MOTET_NONCE_LEN);
    memcpy(message.server, nonces->server, MOTET_NONCE_LEN);
    return hmac(secret->bytes, sizeof(secret->bytes), &message, sizeof(message), proof);
}

motetResult_t motet_handshake_open(struct motet_handshake_nonces *nonces, uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN])
{
    TRY(motet_random(nonces->client, MOTET_NONCE_LEN));
    memcpy(opening, magic, sizeof(magic));
    memcpy(opening + sizeof(magic), nonces->client, MOTET_NONCE_LEN);
    return motetSuccess;
}

bool motet_handshake_may_open(const uint8_t *bytes, size_t len)
{
    return memcmp(bytes, magic, len < sizeof(magic) ? len : sizeof(magic)) == 0;
}

motetResult_t motet_handshake_reply(struct motet_handshake_nonces *nonces, const struct motet_secret *secret, const char *role,
                                    const uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], uint8_t reply[MOTET_HANDSHAKE_REPLY_LEN])
{
    if (memcmp(opening, magic, sizeof(magic)) != 0)
        return motet_fail_quiet(motetRemoteError, "the first bytes are not motet's");
    memcpy(nonces->client, opening + sizeof(magic), MOTET_NONCE_LEN);
    TRY(motet_random(nonces->server, MOTET_NONCE_LEN));
    memcpy(reply, nonces->server, MOTET_NONCE_LEN);
    return prove(nonces, secret, role, 's', reply + MOTET_NONCE_LEN);
}

motetResult_t motet_handshake_prove(struct motet_handshake_nonces *nonces, const struct motet_secret *secret, const char *role,
                                    const uint8_t reply[MOTET_HANDSHAKE_REPLY_LEN], uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN])
{
    uint8_t expected[32];
    memcpy(nonces->server, reply, MOTET_NONCE_LEN);
    TRY(prove(nonces, secret, role, 's', expected));
    if (CRYPTO_memcmp(expected, reply + MOTET_NONCE_LEN, sizeof(expected)) != 0)
        return motet_fail_quiet(motetRemoteError, "the other side does not know this job's secret: another job or program");
    return prove(nonces, secret, role, 'c', proof);
}

motetResult_t motet_handshake_check(const struct motet_handshake_nonces *nonces, const struct motet_secret *secret,
                                    const char *role, const uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN])
{
    uint8_t expected[32];
    TRY(prove(nonces, secret, role, 'c', expected));
    if (CRYPTO_memcmp(expected, proof, sizeof(expected)) != 0)
        return motet_fail_quiet(motetRemoteError, "it does not know this job's secret");
    return motetSuccess;
}

motetResult_t motet_secret_derive(const char *passphrase, const char *identity, struct motet_secret *secret)
{
    return hmac(passphrase, strlen(passphrase), identity, strlen(identity), secret->bytes);
}

static motetResult_t serve(int fd, const struct motet_secret *secret, const char *role, uint64_t deadline_ns)
{
    struct motet_handshake_nonces nonces;
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN], proof[MOTET_HANDSHAKE_PROOF_LEN];
    TRY(motet_net_read(fd, opening, sizeof(opening), deadline_ns, NULL));
    TRY(motet_handshake_reply(&nonces, secret, role, opening, reply));
    TRY(motet_net_write(fd, reply, sizeof(reply), deadline_ns, NULL));
    TRY(motet_net_read(fd, proof, sizeof(proof), deadline_ns, NULL));
    return motet_handshake_check(&nonces, secret, role, proof);
}

static motetResult_t join(int fd, const struct motet_secret *secret, const char *role, uint64_t deadline_ns)
{
    struct motet_handshake_nonces nonces;
    uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], reply[MOTET_HANDSHAKE_REPLY_LEN], proof[MOTET_HANDSHAKE_PROOF_LEN];
    TRY(motet_handshake_open(&nonces, opening));
    TRY(motet_net_write(fd, opening, sizeof(opening), deadline_ns, NULL));
    TRY(motet_net_read(fd, reply, sizeof(reply), deadline_ns, NULL));
    TRY(motet_handshake_prove(&nonces, secret, role, reply, proof));
    return motet_net_write(fd, proof, sizeof(proof), deadline_ns, NULL);
}

motetResult_t motet_handshake(int fd, const struct motet_secret *secret, const char *role, bool is_server, uint64_t deadline_ns)
{
    motetResult_t result = is_server ? serve(fd, secret, role, deadline_ns) : join(fd, secret, role, deadline_ns);
    /* A silent stranger is refused as any other; the sentence keeps the difference. */
    return result == motetTimeout ? motet_fail_quiet(motetRemoteError, "no answer to the handshake in time") : result;
}
