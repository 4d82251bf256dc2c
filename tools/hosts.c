/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define SLOTS_MAX 65536 /* of one entry, and ranks of a job */

static bool add(struct hosts *hosts, const char *name, size_t len, int slots, char *error, int error_len)
{
    if (len >= 2 && name[0] == '[' && name[len - 1] == ']') {
        name++;
        len -= 2;
    }
    if (!len || name[0] == '-') {
        snprintf(error, (size_t)error_len, "\"%.*s\" is not the name of a host", (int)len, name);
        return false;
    }
    for (int i = 0; i < hosts->n; i++)
        if (strlen(hosts->items[i].name) == len && !strncmp(hosts->items[i].name, name, len)) {
            hosts->items[i].slots += slots < SLOTS_MAX - hosts->items[i].slots ? slots : SLOTS_MAX - hosts->items[i].slots;
            return true;
        }
    struct host *items = realloc(hosts->items, (size_t)(hosts->n + 1) * sizeof *items);
    char *copy = strndup(name, len);
    if (items)
        hosts->items = items;
    if (!items || !copy) {
        free(copy);
        snprintf(error, (size_t)error_len, "out of memory");
        return false;
    }
    items[hosts->n++] = (struct host){.name = copy, .slots = slots};
    return true;
}

/* "name" or "name:slots"; a name with more than one colon is an IPv6 address unless it is in brackets. */
static bool add_entry(struct hosts *hosts, const char *text, size_t len, char *error, int error_len)
{
    const char *close = memchr(text, ']', len);
    const char *search = close && text[0] == '[' ? close : text;
    const char *colon = memchr(search, ':', len - (size_t)(search - text));
    if (colon && search == text && memchr(colon + 1, ':', len - (size_t)(colon + 1 - text)))
        colon = NULL;
    if (!colon)
        return add(hosts, text, len, 0, error, error_len);
    char number[16];
    int64_t slots;
    snprintf(number, sizeof number, "%.*s", (int)(len - (size_t)(colon + 1 - text)), colon + 1);
    if (!options_parse_int(number, &slots) || slots < 1 || slots > SLOTS_MAX) {
        snprintf(error, (size_t)error_len, "\"%.*s\": \"%s\" is not a number of ranks", (int)len, text, number);
        return false;
    }
    return add(hosts, text, (size_t)(colon - text), (int)slots, error, error_len);
}

bool hosts_parse_list(struct hosts *hosts, const char *text, char *error, int error_len)
{
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        if (!add_entry(hosts, at, len, error, error_len))
            return false;
        if (!at[len])
            return true;
        at += len + 1;
    }
}

static bool add_line(struct hosts *hosts, char *line, char *error, int error_len)
{
    char *save;
    line[strcspn(line, "#\n")] = '\0';
    char *name = strtok_r(line, " \t\r", &save);
    char *slots_text = name ? strtok_r(NULL, " \t\r", &save) : NULL;
    if (!name)
        return true;
    if (!slots_text)
        return add_entry(hosts, name, strlen(name), error, error_len);
    if (!strncmp(slots_text, "slots=", 6))
        slots_text += 6;
    int64_t slots;
    if (!options_parse_int(slots_text, &slots) || slots < 1 || slots > SLOTS_MAX) {
        snprintf(error, (size_t)error_len, "%s: \"%s\" is not a number of ranks", name, slots_text);
        return false;
    }
    return add(hosts, name, strlen(name), (int)slots, error, error_len);
}

bool hosts_parse_file(struct hosts *hosts, const char *path, char *error, int error_len)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    bool ok = true;
    if (!file) {
        snprintf(error, (size_t)error_len, "%s: %s", path, strerror(errno));
        return false;
    }
    for (int number = 1; ok && getline(&line, &capacity, file) >= 0; number++) {
        char why[256];
        ok = add_line(hosts, line, why, sizeof why);
        if (!ok)
            snprintf(error, (size_t)error_len, "%s:%d: %s", path, number, why);
    }
    if (ok && !hosts->n) {
        snprintf(error, (size_t)error_len, "%s names no host", path);
        ok = false;
    }
    free(line);
    fclose(file);
    return ok;
}

int hosts_deal(struct hosts *hosts, int nranks, char *error, int error_len)
{
    bool written = false;
    int64_t total = 0;
    for (int i = 0; i < hosts->n; i++) {
        written |= hosts->items[i].slots > 0;
        total += hosts->items[i].slots > 0 ? hosts->items[i].slots : 1;
    }
    if (!nranks)
        nranks = total < SLOTS_MAX ? (int)total : SLOTS_MAX;
    if (written && nranks > total) {
        snprintf(error, (size_t)error_len, "%d ranks do not fit into the %lld slots of the hosts", nranks, (long long)total);
        return -1;
    }
    int left = nranks;
    for (int i = 0; i < hosts->n; i++) {
        struct host *host = &hosts->items[i];
        int share = written ? (host->slots > 0 ? host->slots : 1) : nranks / hosts->n + (i < nranks % hosts->n);
        host->first_rank = nranks - left;
        host->ranks = share < left ? share : left;
        left -= host->ranks;
    }
    return nranks;
}

void hosts_free(struct hosts *hosts)
{
    for (int i = 0; i < hosts->n; i++)
        free(hosts->items[i].name);
    free(hosts->items);
    *hosts = (struct hosts){0};
}
