/* SPDX-License-Identifier: Apache-2.0
 * The ring of an ordered pair of ranks that share memory (src/p2p_ring.h, src/p2p_send.c, src/p2p.c) in Promela: a message's first piece is
 * written, then its header, then the count of what is written, then the header's stamp; more pieces are told by the count alone; the
 * receiver looks at the stamp, then at what the header says is there, and at the count only for what goes beyond. Proves for every
 * interleaving that each line read is the line sent, through several laps, and that nobody waits for ever (an invalid end state).
 *
 * Interleavings of single reads and writes are all that can happen: stamp, count and `taken` are release stores and acquire loads. The one
 * exception is in -DDIRECT: the receiver says that it copies from the sender's buffer by a plain store, which may stay in its CPU (`held`)
 * past its look at the fault, until the sender's membarrier.
 *
 * -DLINES=lines of the ring -DMESSAGES=n -DFIRST=position of the first (positions are modulo 256 here and wrap; in the library they never
 * do). -DABORT: a fault may strike at any time, and both must end. -DDIRECT: one message is read from the sender's buffer, which is gone
 * when its call ends; -DGIVE_UP: that may give up waiting for a receiver that was stopped. Mutants, in which an error must be found: -DLATE_COUNT (the count is shown after the stamp), -DEARLY_COUNT, -DEARLY_STAMP, -DNO_ROOM,
 * -DPLACE_STAMP (a stamp says the place instead of the position), -DEARLY_TAKEN; with DIRECT and ABORT: -DNO_AWAIT, -DNO_BARRIER; with GIVE_UP too:
 * -DNO_SECOND_LOOK. */

#ifndef LINES
#define LINES 4 /* a divisor of 256 */
#endif
#ifndef FIRST
#define FIRST 253
#endif
#ifndef MESSAGES
#define MESSAGES 5
#endif
#define TORN 255
#define NONE (-1)

#ifdef DIRECT
#define IS_DIRECT(m) (m == 1)
#else
#define IS_DIRECT(m) false
#endif
/* Lines of payload: some, none (all is in the header), more than the ring holds, one, some. */
#define SIZE(m)    (m == 0 -> 2 : (m == 1 -> 0 : (m == 2 -> LINES + 2 : (m == 3 -> 1 : 2))))
#define DATA(m, k) (m * 16 + k + 1)
#define AT(p)      ((p) % LINES)
#define BYTE(x)    ((x) & 255)
#ifdef PLACE_STAMP
#define STAMP(p) AT(p)
#else
#define STAMP(p) p
#endif

short stamp[LINES] = NONE;  /* by line of the ring: of a header; payload is never one by chance */
byte line[LINES] = TORN;    /* payload */
byte size[LINES], there[LINES]; /* a header */
byte written = FIRST, taken = FIRST;
bool fault;
bool copying, held; /* the receiver's word that it copies; the same while its CPU holds it back */
bool gone;          /* the sender's buffer */

/* Free lines as far as they have to be known. */
#ifdef NO_ROOM
#define LOOK_FOR_ROOM(wanted) free = LINES
#else
#define LOOK_FOR_ROOM(wanted)                                                        \
    free = LINES - BYTE(sent - taken_seen);                                          \
    if                                                                               \
    ::free < wanted -> taken_seen = taken; free = LINES - BYTE(sent - taken_seen)    \
    ::else->skip                                                                     \
    fi
#endif

/* The next piece, n lines, of `left` that begin at `where`, cut at the end of the ring. */
#define CUT(where, left, room)                         \
    n = LINES - AT(where);                             \
    n = (left <= room && left <= n -> left : (room < n -> room : n))

#define PUT(where)                                               \
    i = 0;                                                       \
    do                                                           \
    ::i < n -> d_step                                            \
    {                                                            \
        line[AT(where + i)] = TORN;                              \
        stamp[AT(where + i)] = NONE                              \
    }                                                            \
    line[AT(where + i)] = DATA(m, moved + i);                    \
    i++                                                          \
    ::else->break                                                \
    od;                                                          \
    moved = moved + n

active proctype Sender()
{
    byte m, sent = FIRST, taken_seen = FIRST, moved, free, n, i, at;
    do
    ::m == MESSAGES || fault -> break
    ::m < MESSAGES && !fault ->
        moved = 0;
        LOOK_FOR_ROOM(1 + SIZE(m));
        if
        ::free == 0 -> (taken != taken_seen || fault); goto again
        ::else->skip
        fi;
        at = sent;
        CUT(at + 1, SIZE(m), (free - 1));
#ifdef EARLY_STAMP
        d_step { size[AT(at)] = SIZE(m); there[AT(at)] = n }
        stamp[AT(at)] = STAMP(at);
#endif
        PUT((at + 1));
#ifndef EARLY_STAMP
        d_step { size[AT(at)] = TORN; there[AT(at)] = TORN; line[AT(at)] = TORN; }
        d_step { size[AT(at)] = SIZE(m); there[AT(at)] = n }
#endif
        sent = BYTE(at + 1 + n);
#ifdef LATE_COUNT
        stamp[AT(at)] = STAMP(at);
        written = sent;
#else
        written = sent;
#ifndef EARLY_STAMP
        stamp[AT(at)] = STAMP(at);
#endif
#endif
        do
        ::moved == SIZE(m) || fault -> break
        ::moved < SIZE(m) && !fault ->
            LOOK_FOR_ROOM(SIZE(m) - moved);
            CUT(sent, (SIZE(m) - moved), free);
            if
            ::n == 0 -> (taken != taken_seen || fault)
            ::else->
#ifdef EARLY_COUNT
                written = BYTE(sent + n);
#endif
                at = sent;
                PUT(at);
                sent = BYTE(sent + n);
                written = sent
            fi
        od;
        if
        ::IS_DIRECT(m) -> (taken == sent || fault); /* all before has been taken, and the buffer was read */
#ifndef NO_AWAIT
            if
            ::taken != sent ->
#ifndef NO_BARRIER
                atomic { copying = copying || held; held = false }
#endif
                if
                ::!copying -> skip
#ifdef GIVE_UP
                ::true -> skip
#endif
                fi
            ::else->skip
            fi;
#endif
            gone = true /* the caller may free the buffer */
        ::else->skip
        fi;
        m++;
        again: skip
    od
}

#ifdef DIRECT
/* The receiver's CPU lets its store go, at any time. */
active proctype Cpu()
{
    end:
    do
    ::atomic { held -> copying = true; held = false }
    od
}
#endif

active proctype Receiver()
{
    byte m, consumed = FIRST, seen = FIRST, total, got, n, i;
    bool good;
    do
    ::m == MESSAGES || fault -> break
    ::m < MESSAGES && stamp[AT(consumed)] == STAMP(consumed) ->
        assert(size[AT(consumed)] == SIZE(m));
        total = size[AT(consumed)];
        seen = BYTE(consumed + 1 + there[AT(consumed)]);
        consumed = BYTE(consumed + 1);
        got = 0;
        if
        ::IS_DIRECT(m) ->
            held = true;
            if
            ::fault -> skip
            ::!fault -> good = !gone; /* reads */
#ifndef GIVE_UP
                assert(good);
#endif
                if
#ifndef NO_SECOND_LOOK
                ::fault -> skip /* what was read is thrown away */
#endif
                ::else->assert(good)
                fi
            fi;
            atomic { held = false; copying = false }
        ::else->skip
        fi;
        do
        ::got == total || fault -> break
        ::got < total && !fault ->
            if
            ::BYTE(seen - consumed) < total - got -> seen = written
            ::else->skip
            fi;
            n = LINES - AT(consumed);
            n = (total - got < n -> total - got : n);
            n = (BYTE(seen - consumed) < n -> BYTE(seen - consumed) : n);
            if
            ::n == 0 -> (written != seen || fault)
            ::else->
#ifdef EARLY_TAKEN
                taken = BYTE(consumed + n);
#endif
                i = 0;
                do
                ::i < n -> assert(line[AT(consumed + i)] == DATA(m, got + i)); i++
                ::else->break
                od;
                got = got + n;
                consumed = BYTE(consumed + n);
                taken = consumed
            fi
        od;
        taken = consumed;
        m++
    od
}

#ifdef ABORT
active proctype Abort()
{
    fault = true
}
#endif
