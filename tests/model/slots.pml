/* SPDX-License-Identifier: Apache-2.0
 * Slots and done words (src/engine.c, src/step.c) in Promela: ranks run calls of several tiles, two tiles in flight, each message in the slot
 * of its lane. Proves for every interleaving that a reader gets the message that it expects, and that nobody waits for ever: a state in which
 * ranks wait and none can go on is an invalid end state. Numbers are small, so that call numbers and turns wrap inside the model.
 *
 * Interleavings of single reads and writes are all that can happen: data are ordered by release stores and acquire loads of the words, in
 * both directions (filled: writer to reader; done: reader to writer).
 *
 * -DRANKS=2|3 -DOPS=calls -DFIRST=number -DFEW: of them, and of tiles   -DCHAIN: a rank sends a tile on when it has come from the one before; -DMIXED: broadcasts
 * and gathers between calls in which everybody reads from everybody; otherwise these alone.
 * -DABORT: a fault may strike at any time, and all must end. Mutants, in which an error must be found: -DNO_CREDIT, -DNO_TURN, -DNO_WRAP,
 * -DOWN_READERS (with MIXED). */

#ifndef RANKS
#define RANKS 2
#endif
#ifndef OPS
#define OPS 4
#endif
#ifndef FIRST
#define FIRST 6 /* call numbers are modulo 8: 6, 7, 0, 1 */
#endif
#define ALL   7 /* all tiles */
#define EMPTY 255

#ifdef FEW
#define TILES(op) (op == 1 -> 2 : 1)
#else
#define TILES(op) (op == 1 -> 5 : (op == 2 -> 2 : 1)) /* five tiles: a lane has three turns */
#endif
#define LANE(seq, tile) ((seq + tile) % 2)

/* Who reads from whom in a call, who writes at all, and when. */
#ifdef CHAIN
#define READS(op, me, from) (from + 1 == me)
#define MAY_WRITE(L) (me == 0 || got[L] != 0)
#define WRITES(op) (me + 1 < RANKS)
#elif defined(MIXED)
/* by turns: all with all, rank 0 to all (a broadcast), all to rank 1 (a gather), all with all */
#define READS(op, me, from) (from != me && (op == 1 -> from == 0 : (op == 2 -> me == 1 : true)))
#define MAY_WRITE(L) true
#define WRITES(op) (op == 1 -> me == 0 : (op == 2 -> me != 1 : true))
#else
#define READS(op, me, from) (from != me)
#define MAY_WRITE(L) true
#define WRITES(op) true
#endif
#define WANTED ((READS(op, me, 0) -> 1 : 0) | (READS(op, me, 1) -> 2 : 0) | (RANKS > 2 && READS(op, me, 2) -> 4 : 0))

/* turns are modulo 2 here, modulo 256 in the library */
#ifdef NO_TURN
#define WORD(seq, tile) (seq * 2)
#else
#define WORD(seq, tile) (seq * 2 + (tile / 2) % 2)
#endif

/* done and need are {seq, tiles}; their difference is signed. */
#ifdef NO_WRAP
#define NOT_BEFORE(done, need) (done >= need)
#else
#define NOT_BEFORE(done, need) (((done - need) & 63) < 32)
#endif
#ifdef OWN_READERS /* those of the call that begins, instead of those of the lane's last use */
#define USED_BY(L) op
#else
#define USED_BY(L) used_by[L]
#endif
#define READER_DONE(r, L) (r >= RANKS || !READS(USED_BY(L), r, me) || NOT_BEFORE(done_word[r % RANKS], need[L]))
#ifdef NO_CREDIT
#define READERS_DONE(L) true
#else
#define READERS_DONE(L) (READER_DONE(0, L) && READER_DONE(1, L) && READER_DONE(2, L))
#endif

byte word[RANKS * 2], data[RANKS * 2]; /* by rank and lane */
byte done_word[RANKS];
bool fault;

#define MINE(L)     (me * 2 + L)
#define DATA(op, t) (op * 8 + t)

#define TAKE(P, L)                                                                                             \
    ::op < OPS && P < RANKS && READS(op, me, P) && busy[L] && !(got[L] & (1 << P)) && word[(P % RANKS) * 2 + L] == WORD(seq, tile[L]) -> \
    assert(data[(P % RANKS) * 2 + L] == DATA(op, tile[L])); /* a step of its own: the writer may have gone on meanwhile */ \
    got[L] = got[L] | (1 << P)

#define WRITE(L)                                                                      \
    ::op < OPS && WRITES(op) && busy[L] && !written[L] && MAY_WRITE(L) -> data[MINE(L)] = EMPTY; \
    data[MINE(L)] = DATA(op, tile[L]);                                                \
    d_step {                                                                          \
        word[MINE(L)] = WORD(seq, tile[L]);                                           \
        written[L] = true                                                             \
    }

#define BEGIN(L)                                                                                                              \
    ::op < OPS && next < TILES(op) && LANE(seq, next) == L && !busy[L] && (!used[L] || READERS_DONE(L)) -> d_step     \
    {                                                                                                                         \
        busy[L] = true;                                                                                                     \
        used[L] = true;                                                                                                       \
        used_by[L] = op;                                                                                                      \
        written[L] = !WRITES(op);                                                                                                 \
        got[L] = 0;                                                                                                           \
        tile[L] = next;                                                                                                       \
        next++;                                                                                                               \
        need[L] = seq * 8 + next                                                                                              \
    }

/* The lane is through; done says how many tiles are, all before included. */
#define END(L)                                                                              \
    ::op < OPS && busy[L] && written[L] && got[L] == WANTED && tile[L] == finished -> d_step { \
        busy[L] = false;                                                                  \
        finished++;                                                                         \
        done_word[me] = seq * 8 + (finished == TILES(op) -> ALL : finished);                     \
        if                                                                                  \
        ::finished == TILES(op) -> op++;                                                    \
        seq = (seq + 1) % 8;                                                                \
        next = 0;                                                                           \
        finished = 0                                                                        \
        ::else->skip                                                                        \
        fi                                                                                  \
    }

proctype Rank(byte me)
{
    byte op, next, finished, seq = FIRST;
    byte tile[2], need[2], got[2], used_by[2];
    bool busy[2], written[2], used[2];
    do
    ::op == OPS -> break
    ::fault->break
    BEGIN(0)
    BEGIN(1)
    WRITE(0)
    WRITE(1)
    TAKE(0, 0)
    TAKE(0, 1)
    TAKE(1, 0)
    TAKE(1, 1)
    TAKE(2, 0)
    TAKE(2, 1)
    END(0)
    END(1)
    od
}

init
{
    byte i;
    atomic
    {
        for (i : 0 .. RANKS - 1) {
            word[i * 2] = EMPTY;
            word[i * 2 + 1] = EMPTY;
            done_word[i] = ((FIRST + 7) % 8) * 8 + ALL; /* the call before */
        }
        for (i : 0 .. RANKS - 1) {
            run Rank(i)
        }
    }
#ifdef ABORT
    fault = true
#endif
}
