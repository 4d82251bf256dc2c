/* SPDX-License-Identifier: Apache-2.0 */
#include "frames.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEADER 9 /* type, number and length of 4 bytes each, most significant first */

static void put32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (24 - 8 * i));
}

static uint32_t get32(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

void frame_write(struct sink *sink, enum frame_type type, int number, const void *data, size_t len)
{
    unsigned char header[HEADER] = {(unsigned char)type};
    put32(header + 1, (uint32_t)number);
    put32(header + 5, (uint32_t)len);
    sink_write(sink, header, sizeof header);
    sink_write(sink, data, len);
}

bool frame_feed(struct frame_reader *reader, const void *data, size_t len)
{
    if (reader->used) {
        reader->len -= reader->used;
        memmove(reader->data, reader->data + reader->used, reader->len);
        reader->used = 0;
    }
    if (reader->len + len + 1 > reader->capacity) {
        size_t capacity = 2 * (reader->len + len + 1);
        char *larger = realloc(reader->data, capacity);
        if (!larger)
            return false;
        reader->data = larger;
        reader->capacity = capacity;
    }
    memcpy(reader->data + reader->len, data, len);
    reader->len += len;
    return true;
}

int frame_next(struct frame_reader *reader, struct frame *frame)
{
    const unsigned char *at = (const unsigned char *)reader->data + reader->used;
    size_t left = reader->len - reader->used;
    if (left < HEADER)
        return 0;
    size_t len = get32(at + 5);
    if (len > FRAME_DATA_MAX || !strchr("JSIQXHOREFD", at[0]) || !at[0])
        return -1;
    if (left < HEADER + len)
        return 0;
    *frame =
        (struct frame){.type = (enum frame_type)at[0], .number = (int)get32(at + 1), .data = (const char *)at + HEADER, .len = len};
    reader->used += HEADER + len;
    return 1;
}

bool frame_skip_greeting(struct frame_reader *reader)
{
    const char *found = reader->len ? memmem(reader->data, reader->len, FRAME_GREETING, strlen(FRAME_GREETING)) : NULL;
    if (!found)
        return false;
    reader->used = (size_t)(found - reader->data) + strlen(FRAME_GREETING);
    return true;
}

void frame_reader_free(struct frame_reader *reader)
{
    free(reader->data);
    *reader = (struct frame_reader){0};
}

static json_t *words_to_json(char **words)
{
    json_t *array = json_array();
    for (; words && *words; words++)
        json_array_append_new(array, json_string_nocheck(*words));
    return array;
}

static char **words_from_json(const json_t *array)
{
    size_t n = json_array_size(array);
    char **words = calloc(n + 1, sizeof *words);
    for (size_t i = 0; words && i < n; i++) {
        words[i] = (char *)(uintptr_t)json_string_value(json_array_get(array, i));
        if (!words[i]) {
            free(words);
            return NULL;
        }
    }
    return words;
}

char *job_to_text(const struct job_share *share)
{
    const struct job *job = &share->job;
    json_t *root = json_pack("{s:i s:i s:i s:b s:i s:i s:i s:i s:i s:i s:i}", "node", share->node, "first_rank", share->first_rank,
                             "n", share->n, "wants_stdin", share->wants_stdin, "grace_ms", share->grace_ms, "nranks", job->nranks,
                             "nnodes", job->nnodes, "master_port", job->master_port, "restart", job->restart, "max_restarts",
                             job->max_restarts, "binding", (int)job->binding);
    const struct {
        const char *key, *value;
    } texts[] = {{"directory", job->directory}, {"master_address", job->master_address}, {"root", job->root},
                 {"secret", job->secret},       {"unique_id", job->unique_id},           {"run_id", job->run_id}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        json_object_set_new(root, texts[i].key, json_string_nocheck(texts[i].value));
    json_object_set_new(root, "argv", words_to_json(job->argv));
    json_object_set_new(root, "variables", words_to_json(job->variables));
    char *text = json_dumps(root, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(root);
    return text;
}

bool job_from_text(const char *text, size_t len, struct job_share *share)
{
    int wants_stdin = 0, binding = 0;
    struct job *job = &share->job;
    json_t *argv, *variables;
    *share = (struct job_share){0};
    json_t *root = json_loadb(text, len, 0, NULL);
    if (!root)
        return false;
    int bad = json_unpack(root, "{s:i s:i s:i s:b s:i s:i s:i s:i s:i s:i s:i s:s s:s s:s s:s s:s s:s s:o s:o}", "node",
                          &share->node, "first_rank", &share->first_rank, "n", &share->n, "wants_stdin", &wants_stdin, "grace_ms",
                          &share->grace_ms, "nranks", &job->nranks, "nnodes", &job->nnodes, "master_port", &job->master_port,
                          "restart", &job->restart, "max_restarts", &job->max_restarts, "binding", &binding, "directory",
                          &job->directory, "master_address", &job->master_address, "root", &job->root, "secret", &job->secret,
                          "unique_id", &job->unique_id, "run_id", &job->run_id, "argv", &argv, "variables", &variables);
    share->owner = root;
    if (bad || share->n < 1 || share->first_rank < 0 || !json_array_size(argv) || binding < 0 || binding > BINDING_NUMA) {
        job_share_free(share);
        return false;
    }
    share->wants_stdin = wants_stdin;
    job->binding = (enum binding)binding;
    job->argv = words_from_json(argv);
    job->variables = words_from_json(variables);
    if (!job->argv || !job->variables) {
        job_share_free(share);
        return false;
    }
    return true;
}

void job_share_free(struct job_share *share)
{
    free(share->job.argv);
    free(share->job.variables);
    json_decref(share->owner);
    *share = (struct job_share){0};
}

char *death_to_text(const struct death *death)
{
    json_t *root = json_pack("{s:i s:i s:i s:i s:s s:s}", "rank", death->rank, "pid", (int)death->pid, "exit_code",
                             death->exit_code, "signal", death->signal_number, "host", death->host, "cause", death->cause);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    return text;
}

bool death_from_text(const char *text, size_t len, struct death *death)
{
    int pid;
    const char *host, *cause;
    json_t *root = json_loadb(text, len, 0, NULL);
    if (!root)
        return false;
    bool ok = !json_unpack(root, "{s:i s:i s:i s:i s:s s:s}", "rank", &death->rank, "pid", &pid, "exit_code", &death->exit_code,
                           "signal", &death->signal_number, "host", &host, "cause", &cause);
    if (ok) {
        death->pid = pid;
        snprintf(death->host, sizeof death->host, "%s", host);
        snprintf(death->cause, sizeof death->cause, "%s", cause);
    }
    json_decref(root);
    return ok;
}
