/* SPDX-License-Identifier: Apache-2.0
 * The handshake's three messages as pure functions, for a server that cannot block. Client: opening; server: reply (its nonce and its
 * proof); client: proof. A proof is HMAC-SHA256 over a label of its direction, the role and both nonces, so none can be replayed,
 * reflected or used in another role. motet_handshake (boot.h) runs them over a blocking socket. */
#ifndef MOTET_BOOT_HANDSHAKE_H
#define MOTET_BOOT_HANDSHAKE_H

#include "boot/boot.h"

#define MOTET_NONCE_LEN             32
#define MOTET_HANDSHAKE_OPENING_LEN (8 + MOTET_NONCE_LEN)  /* magic, client's nonce */
#define MOTET_HANDSHAKE_REPLY_LEN   (MOTET_NONCE_LEN + 32) /* server's nonce, server's proof */
#define MOTET_HANDSHAKE_PROOF_LEN   32                     /* client's proof */

struct motet_handshake_nonces {
    uint8_t client[MOTET_NONCE_LEN], server[MOTET_NONCE_LEN];
};

/* To be called before any use of libcrypto. A program may exit while other threads use it, and libcrypto would free what they need. */
void motet_handshake_keep_libcrypto(void);

/* Client, first message. */
motetResult_t motet_handshake_open(struct motet_handshake_nonces *nonces, uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN]);

/* Whether bytes that have arrived so far may become an opening. */
bool motet_handshake_may_open(const uint8_t *bytes, size_t len);

/* Server, answer to the first message. Quiet motetRemoteError when it is not one. */
motetResult_t motet_handshake_reply(struct motet_handshake_nonces *nonces, const struct motet_secret *secret, const char *role,
                                    const uint8_t opening[MOTET_HANDSHAKE_OPENING_LEN], uint8_t reply[MOTET_HANDSHAKE_REPLY_LEN]);

/* Client, checks the server's proof and makes its own. Quiet motetRemoteError when the server does not know the secret. */
motetResult_t motet_handshake_prove(struct motet_handshake_nonces *nonces, const struct motet_secret *secret, const char *role,
                                    const uint8_t reply[MOTET_HANDSHAKE_REPLY_LEN], uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN]);

/* Server, checks the client's proof. Quiet motetRemoteError when the client does not know the secret. */
motetResult_t motet_handshake_check(const struct motet_handshake_nonces *nonces, const struct motet_secret *secret,
                                    const char *role, const uint8_t proof[MOTET_HANDSHAKE_PROOF_LEN]);

/* Secret of a job whose ranks share only texts: HMAC-SHA256 of identity under passphrase. */
motetResult_t motet_secret_derive(const char *passphrase, const char *identity, struct motet_secret *secret);

#endif
