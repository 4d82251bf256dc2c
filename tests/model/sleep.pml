/* SPDX-License-Identifier: Apache-2.0
 * Sleeping and waking (src/wait.c, src/doorbell.c) in Promela: publishers store, then look whether anybody sleeps; sleepers announce
 * themselves, make every CPU pass a barrier, look again, and sleep until they are rung. There is no look-around after 100 ms here, so a
 * lost wake-up is a state in which a sleeper sleeps and nobody will ring it: an invalid end state.
 *
 * A publisher's store may become visible after its later load (store buffers; loads that go first): it is held back in `held` until the CPU
 * drains it at any time, an atomic exchange of the publisher drains it, or somebody's membarrier does.
 *
 * -DABORT: one rank aborts meanwhile: it raises the flag and rings everybody, announced or not. Mutants, in which an error must be found:
 * -DNO_BARRIER, -DNO_SECOND_LOOK, -DNO_TICKET. */

#define PUBLISHERS 2
#define SLEEPERS   2

bool slot[PUBLISHERS], held[PUBLISHERS]; /* published values; stores that are not visible yet */
bool bits[SLEEPERS];                     /* the sleepers word */
byte rings[SLEEPERS];                    /* of each sleeper's process */
bool raised;                             /* the fault or abort flag that every sleeper looks at */

#define DRAIN(p)               \
    if                         \
    ::held[p] -> slot[p] = true; \
    held[p] = false            \
    ::else->skip               \
    fi

proctype Publisher(byte me)
{
    bool seen[SLEEPERS], any;
    held[me] = true; /* the store, on its way */
    d_step {
        any = bits[0] || bits[1]; /* the relaxed load; what the CPU holds back it holds back past this */
    }
    if
    ::any -> atomic {
            DRAIN(me); /* the exchange is sequentially consistent: the store is visible before the bits are taken */
            seen[0] = bits[0];
            seen[1] = bits[1];
            bits[0] = false;
            bits[1] = false
        }
        if
        ::seen[0] -> rings[0]++
        ::else->skip
        fi;
        if
        ::seen[1] -> rings[1]++
        ::else->skip
        fi
    ::else->skip
    fi
}

/* The CPUs drain what they hold back, at any time; in the end at the latest. */
active [PUBLISHERS] proctype Cpu()
{
    end:
    do
    ::atomic { held[_pid] -> slot[_pid] = true; held[_pid] = false }
    od
}

#define ALL_THERE (slot[0] && slot[1])

proctype Sleeper(byte me)
{
    byte ticket;
    do
    ::ALL_THERE || raised -> break
    ::else->
        ticket = rings[me];
        bits[me] = true;
#ifndef NO_BARRIER
        atomic
        {
            DRAIN(0);
            DRAIN(1)
        }
#endif
        if
#ifndef NO_SECOND_LOOK
        ::ALL_THERE || raised -> bits[me] = false;
        break
#endif
        ::else->skip
        fi;
#ifdef NO_TICKET
        ticket = rings[me];
#endif
        rings[me] != ticket; /* asleep */
        bits[me] = false
    od
}

#ifdef ABORT
proctype Abort()
{
    raised = true;
    rings[0]++;
    rings[1]++
}
#endif

init
{
    atomic
    {
        run Publisher(0);
        run Publisher(1);
        run Sleeper(0);
        run Sleeper(1);
#ifdef ABORT
        run Abort()
#endif
    }
}
