/* SPDX-License-Identifier: Apache-2.0
 * How a rank ended, in words: exit code, signal, or the kernel's OOM killer where the control group says so. */
#ifndef MOTET_TOOLS_DEATH_H
#define MOTET_TOOLS_DEATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct death {
    int rank;
    pid_t pid;
    int exit_code;     /* what the launcher would exit with: the code, or 128 + signal */
    int signal_number; /* 0: it exited */
    char host[64];
    char cause[320]; /* "exited with code 3", "was killed by SIGSEGV (core dumped)", ... */
};

/* Counters of the OOM killer before the job; compared with later ones. */
struct oom_baseline {
    char group[512]; /* directory of this process's memory control group; "" unknown */
    int64_t kills;   /* in it */
    int64_t system_kills;
};

void oom_baseline_read(struct oom_baseline *baseline);

/* Fills exit_code, signal_number and cause from a wait status. Call while the process is still a zombie: its control group is
 * read. */
void death_describe(struct death *death, pid_t pid, int status, const struct oom_baseline *baseline);

/* "SIGSEGV"; "signal 40" where there is no name. */
const char *death_signal_name(int signal_number);

#endif
