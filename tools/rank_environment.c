/* SPDX-License-Identifier: Apache-2.0 */
#include "rank_environment.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"

struct block {
    char **items;
    int n, capacity;
    bool failed;
};

/* Adds or replaces NAME=VALUE; takes the malloced text. */
static void put(struct block *block, char *text)
{
    if (!text) {
        block->failed = true;
        return;
    }
    size_t name_len = strcspn(text, "=") + 1;
    for (int i = 0; i < block->n; i++)
        if (!strncmp(block->items[i], text, name_len)) {
            free(block->items[i]);
            block->items[i] = text;
            return;
        }
    if (block->n + 1 >= block->capacity) {
        int capacity = block->capacity ? 2 * block->capacity : 64;
        char **items = realloc(block->items, (size_t)capacity * sizeof *items);
        if (!items) {
            free(text);
            block->failed = true;
            return;
        }
        block->items = items;
        block->capacity = capacity;
    }
    block->items[block->n++] = text;
    block->items[block->n] = NULL;
}

static void __attribute__((format(printf, 2, 3))) put_format(struct block *block, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    put(block, text);
}

/* What torchrun gives its workers; programs written for it start unchanged. The store is not served here: rank 0 opens it. */
static void put_torchrun(struct block *block, const struct job *job, int node, int rank, int local_rank, int nlocal)
{
    put_format(block, "RANK=%d", rank);
    put_format(block, "WORLD_SIZE=%d", job->nranks);
    put_format(block, "LOCAL_RANK=%d", local_rank);
    put_format(block, "LOCAL_WORLD_SIZE=%d", nlocal);
    put_format(block, "GROUP_RANK=%d", node);
    put_format(block, "GROUP_WORLD_SIZE=%d", job->nnodes);
    put_format(block, "ROLE_RANK=%d", rank);
    put_format(block, "ROLE_WORLD_SIZE=%d", job->nranks);
    put_format(block, "ROLE_NAME=default");
    put_format(block, "MASTER_ADDR=%s", job->master_address);
    put_format(block, "MASTER_PORT=%d", job->master_port);
    put_format(block, "TORCHELASTIC_RUN_ID=%s", job->run_id);
    put_format(block, "TORCHELASTIC_RESTART_COUNT=%d", job->restart);
    put_format(block, "TORCHELASTIC_MAX_RESTARTS=%d", job->max_restarts);
    put_format(block, "TORCHELASTIC_USE_AGENT_STORE=False");
}

static void put_motet(struct block *block, const struct job *job, int rank, int local_rank, int nlocal)
{
    put_format(block, "MOTET_RANK=%d", rank);
    put_format(block, "MOTET_NRANKS=%d", job->nranks);
    put_format(block, "MOTET_LOCAL_RANK=%d", local_rank);
    put_format(block, "MOTET_LOCAL_NRANKS=%d", nlocal);
    put_format(block, "MOTET_ROOT=%s", job->root);
    put_format(block, "MOTET_SECRET=%s", job->secret);
    put_format(block, "MOTET_UNIQUE_ID=%s", job->unique_id);
}

char **rank_environment_make(const struct job *job, int node, int rank, int local_rank, int nlocal, int threads, int deaths_fd)
{
    struct block block = {0};
    for (char **at = environ; *at; at++)
        put(&block, strdup(*at));
    for (char **at = job->variables; at && *at; at++)
        put(&block, strdup(*at));
    put_torchrun(&block, job, node, rank, local_rank, nlocal);
    put_motet(&block, job, rank, local_rank, nlocal);
    put_format(&block, "MOTET_DEATHS_FD=%d", deaths_fd);
    put_format(&block, "OMP_NUM_THREADS=%d", threads);
    if (block.failed) {
        rank_environment_free(block.items);
        return NULL;
    }
    return block.items;
}

void rank_environment_free(char **environment)
{
    for (char **at = environment; at && *at; at++)
        free(*at);
    free(environment);
}

const char *rank_environment_get(const struct job *job, const char *name)
{
    size_t len = strlen(name);
    const char *found = getenv(name);
    for (char **at = job->variables; at && *at; at++)
        if (!strncmp(*at, name, len) && (*at)[len] == '=')
            found = *at + len + 1;
    return found;
}
