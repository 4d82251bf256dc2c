/* SPDX-License-Identifier: Apache-2.0
 * Bootstrap: how ranks that share nothing yet exchange small blobs. A boot is a key-value meeting point; everything else
 * (all-gather, barrier) is built on put and get once, in boot.c. Used only inside init by the calling thread. */
#ifndef MOTET_BOOT_BOOT_H
#define MOTET_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/net.h"
#include "motet.h"

#define MOTET_BOOT_VALUE_MAX (64 * 1024) /* longest value of the portable stores; longer blobs are split by boot.c */

/* The job's secret: keys every authenticated connection (boot, unix, TCP). */
struct motet_secret {
    uint8_t bytes[32];
};

struct motet_boot;

/* One way to meet. Contract: called by one thread at a time; put and get may block, but never past `deadline_ns`
 * (monotonic, UINT64_MAX = never) and never after *abort becomes true. */
struct motet_boot_kind {
    const char *name; /* "tcp", "file", "store" */
    /* Stores a value once; a second put of a key by anybody is an error. Keys are NUL-terminated ASCII, at most 128 bytes. */
    motetResult_t (*put)(struct motet_boot *, const char *key, const void *value, size_t len, uint64_t deadline_ns);
    /* Waits until the key exists and copies its value to *value (malloced, caller frees), *len its length.
     * motetTimeout when the deadline passes: the caller adds which rank is missing. */
    motetResult_t (*get)(struct motet_boot *, const char *key, void **value, size_t *len, uint64_t deadline_ns);
    /* Tells all ranks at once that this one failed; may be NULL: boot.c then leaves a key that waiting ranks look for. */
    void (*give_up)(struct motet_boot *, motetResult_t code, const char *text);
    /* The failure that others told of, if one has arrived; does not wait. May be NULL. */
    motetResult_t (*check)(struct motet_boot *);
    /* Frees everything; accepts any state that open left. */
    void (*close)(struct motet_boot *);
};

struct motet_boot {
    const struct motet_boot_kind *kind;
    int rank, nranks;
    uint64_t deadline_ns;
    const _Atomic(_Bool) *abort; /* may be NULL */
    struct motet_secret secret;  /* agreed by all ranks when open returns */
    char where[128];             /* "10.0.0.1:4711", a directory, "the caller's store": for error texts */
    union motet_address root;    /* where the root answered: what the interface choice starts from; AF_UNSPEC for other kinds */
    uint64_t opened_ns;          /* when open began */
    uint64_t warn_ns;            /* who is missing is said then; 0: not yet known */
    bool gathers;                /* inside of an exchange */
    unsigned round;              /* collective exchanges so far: part of their keys */
    bool launched;               /* rank and nranks are the launcher's: whoever ended in its table cannot come any more */
    bool gave_up;                /* the others have been told */
    bool heard;                  /* another rank told of a failure: an error returned since then, of any code, is its */
    void *state;                 /* private to the kind */
};

/* Opens the meeting point of a unique id (TCP root). Connects and authenticates both ways; survives strangers, refused and reset
 * connections until the deadline. nranks and rank are checked against what others say (duplicate rank, different size). */
motetResult_t motet_boot_open_id(struct motet_boot *boot, const motetUniqueId *id, int nranks, int rank, uint64_t deadline_ns,
                                 const _Atomic(_Bool) *abort);

/* Same over the caller's store. The secret is made by rank 0 and handed through the store. */
motetResult_t motet_boot_open_store(struct motet_boot *boot, const motetStore_t *store, int nranks, int rank, uint64_t deadline_ns,
                                    const _Atomic(_Bool) *abort);

/* Same over a directory that all ranks can read and write; nothing is left in it after close by the last rank. */
motetResult_t motet_boot_open_file(struct motet_boot *boot, const char *directory, int nranks, int rank, uint64_t deadline_ns,
                                   const _Atomic(_Bool) *abort);

/* Reads rank, size and meeting point from the launcher's environment (motet run, torchrun, srun, mpirun of Open MPI, MPICH and
 * Intel MPI) and opens it: see motetCommInitEnv in motet.h for the rules. Fills *nranks and *rank. */
motetResult_t motet_boot_open_env(struct motet_boot *boot, int *nranks, int *rank, uint64_t deadline_ns,
                                  const _Atomic(_Bool) *abort);

/* Every rank contributes `len` bytes (may differ by rank); on success *all holds nranks blobs: blob of rank r starts at
 * (*all)[r] and is lens[r] long. One malloced block: free(*all) frees everything. Collective: same order on all ranks.
 * On timeout the sentence names the missing ranks, the ranks seen, and boot->where. */
motetResult_t motet_boot_allgather(struct motet_boot *boot, const void *blob, size_t len, void ***all, size_t **lens);

/* The failure that another rank told of, if one has arrived: for callers that wait for something else between two exchanges. Does
 * not wait. */
motetResult_t motet_boot_check(struct motet_boot *boot);

/* Says that this rank failed: ranks that wait in an exchange hear it as an error `code` that repeats `text` and names the rank. Call it before
 * close whenever init failed for a reason of this rank's own; a failed exchange has done so already. */
void motet_boot_give_up(struct motet_boot *boot, motetResult_t code, const char *text);

void motet_boot_close(struct motet_boot *boot);

/* Fills a unique id and starts the root thread that serves it; the thread ends by itself when all ranks have closed, or at the
 * init deadline. (motetGetUniqueId.) With MOTET_COMM_ID no thread starts here: rank 0 serves that address inside open. With
 * MOTET_ROOT_KEEP=1 (launchers) the thread serves one communicator after the other until its process ends. */
motetResult_t motet_boot_root_start(motetUniqueId *id);

/* Proves on a connected stream socket that both ends know the secret: HMAC-SHA256 challenge both ways, bound to `role`
 * ("boot", "unix", "tcp") and to both nonces. Blocking with deadline. Any short read, wrong magic or wrong answer is
 * motetRemoteError (quiet: strangers are expected). */
motetResult_t motet_handshake(int fd, const struct motet_secret *secret, const char *role, bool is_server, uint64_t deadline_ns);

#endif
