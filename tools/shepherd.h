/* SPDX-License-Identifier: Apache-2.0
 * Two processes watch over a job, so that nothing of it survives either of them. The front one is what the user sees: it passes on
 * signals and the terminal's input. The one behind, in a process group of its own, does the work and is the parent of the ranks.
 * When the front one is killed, the one behind ends the job; when the one behind is killed, the front one does. */
#ifndef MOTET_TOOLS_SHEPHERD_H
#define MOTET_TOOLS_SHEPHERD_H

/* Runs body(context, lifeline) in the process behind and returns its exit code. Descriptor `lifeline` becomes readable (end of
 * file) when the front process is gone. SIGCHLD and the signals of shepherd_signals are blocked in the body: it reads them from a
 * signalfd. */
int shepherd_run(int (*body)(void *context, int lifeline), void *context);

/* A signalfd of everything that the front process passes on, and SIGCHLD. */
int shepherd_signalfd(void);

#endif
