/* SPDX-License-Identifier: Apache-2.0
 * The environment of one rank: the launcher's own, --env, torchrun's variables and motet's. */
#ifndef MOTET_TOOLS_RANK_ENVIRONMENT_H
#define MOTET_TOOLS_RANK_ENVIRONMENT_H

struct job;

/* Malloced array for exec, NULL when memory is short. deaths_fd: where the rank finds the table of deaths, -1: nowhere. */
char **rank_environment_make(const struct job *job, int node, int rank, int local_rank, int nlocal, int threads, int deaths_fd);
void rank_environment_free(char **environment);

/* What a rank would see for a variable before the launcher's own additions; NULL: unset. */
const char *rank_environment_get(const struct job *job, const char *name);

#endif
