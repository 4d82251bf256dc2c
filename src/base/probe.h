/* SPDX-License-Identifier: Apache-2.0
 * Probes for perf, bpftrace, gdb and SystemTap: a no-operation instruction in the code, and a note in the library that says where it is and
 * where its arguments lie (the format of SystemTap's "stapsdt" notes, version 3). Nobody looks: one instruction, and no work is done for
 * the arguments. A probe with a semaphore is reached only while somebody looks: tools count themselves in there. */
#ifndef MOTET_BASE_PROBE_H
#define MOTET_BASE_PROBE_H

#include <stdint.h>

/* Tools increment it; written from outside, so it is read as volatile. */
#define MOTET_PROBE_SEMAPHORE(name)   __attribute__((section(".probes"), used)) volatile uint16_t motet_semaphore_##name
#define MOTET_PROBE_WANTED(semaphore) __builtin_expect((semaphore) != 0, 0)

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(__GNUC__)

/* Size of an argument as the note says it: negative for signed ones. */
#define MOTET_PROBE_SIZE(value) (_Generic((value), int : -4, default : (int)sizeof(value)))

#define MOTET_PROBE_NOTE(name, semaphore, arguments)                        \
    "990: nop\n"                                                            \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n"                           \
    ".balign 4\n"                                                           \
    ".4byte 992f-991f, 994f-993f, 3\n"                                      \
    "991: .asciz \"stapsdt\"\n"                                             \
    "992: .balign 4\n"                                                      \
    "993: .8byte 990b\n"                                                    \
    ".8byte _.stapsdt.base\n"                                               \
    ".8byte " semaphore "\n"                                                \
    ".asciz \"motet\"\n"                                                    \
    ".asciz \"" name "\"\n"                                                 \
    ".asciz \"" arguments "\"\n"                                            \
    "994: .balign 4\n"                                                      \
    ".popsection\n"                                                         \
    ".ifndef _.stapsdt.base\n"                                              \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n" \
    ".weak _.stapsdt.base\n"                                                \
    ".hidden _.stapsdt.base\n"                                              \
    "_.stapsdt.base: .space 1\n"                                            \
    ".size _.stapsdt.base, 1\n"                                             \
    ".popsection\n"                                                         \
    ".endif\n"

/* Where they lie is the compiler's choice, if it chooses well: clang would copy them to the stack first. */
#if defined(__clang__)
#define MOTET_PROBE_PLACE "r"
#else
#define MOTET_PROBE_PLACE "or"
#endif
#define MOTET_PROBE_OPERAND(n, value) [s##n] "i"(MOTET_PROBE_SIZE(value)), [a##n] MOTET_PROBE_PLACE(value)

/* Eight arguments: integers of 4 or 8 bytes, and pointers; never as constants, which not every tool understands. semaphore: its symbol as a string, "0": none. */
#define MOTET_PROBE8(name, semaphore, v1, v2, v3, v4, v5, v6, v7, v8)                                      \
    __asm__ volatile(MOTET_PROBE_NOTE(#name, semaphore,                                                    \
                                      "%c[s1]@%[a1] %c[s2]@%[a2] %c[s3]@%[a3] %c[s4]@%[a4] "               \
                                      "%c[s5]@%[a5] %c[s6]@%[a6] %c[s7]@%[a7] %c[s8]@%[a8]")               \
                     :                                                                                     \
                     : MOTET_PROBE_OPERAND(1, v1), MOTET_PROBE_OPERAND(2, v2), MOTET_PROBE_OPERAND(3, v3), \
                       MOTET_PROBE_OPERAND(4, v4), MOTET_PROBE_OPERAND(5, v5), MOTET_PROBE_OPERAND(6, v6), \
                       MOTET_PROBE_OPERAND(7, v7), MOTET_PROBE_OPERAND(8, v8))

/* Five arguments. */
#define MOTET_PROBE5(name, semaphore, v1, v2, v3, v4, v5)                                                                   \
    __asm__ volatile(MOTET_PROBE_NOTE(#name, semaphore, "%c[s1]@%[a1] %c[s2]@%[a2] %c[s3]@%[a3] %c[s4]@%[a4] %c[s5]@%[a5]") \
                     :                                                                                                      \
                     : MOTET_PROBE_OPERAND(1, v1), MOTET_PROBE_OPERAND(2, v2), MOTET_PROBE_OPERAND(3, v3),                  \
                       MOTET_PROBE_OPERAND(4, v4), MOTET_PROBE_OPERAND(5, v5))

#else

#define MOTET_PROBE8(name, semaphore, v1, v2, v3, v4, v5, v6, v7, v8) \
    ((void)(v1), (void)(v2), (void)(v3), (void)(v4), (void)(v5), (void)(v6), (void)(v7), (void)(v8))
#define MOTET_PROBE5(name, semaphore, v1, v2, v3, v4, v5) ((void)(v1), (void)(v2), (void)(v3), (void)(v4), (void)(v5))

#endif

#endif
