/* SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/hash.h"

#define CACHES 8

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char text[400];

/* Model of the processor: as x86 says it, or the numbers that arm64 gives instead. */
static void read_model(char *model, size_t len)
{
    char line[256];
    FILE *file = motet_descriptor_read("/proc/cpuinfo");
    snprintf(model, len, "?");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');
        if (!value || (strncmp(line, "model name", 10) != 0 && strncmp(line, "CPU part", 8) != 0))
            continue;
        value += 1 + strspn(value + 1, " ");
        value[strcspn(value, "\n")] = '\0';
        snprintf(model, len, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

static double cache_of_level[4]; /* 2: of a core. 3: shared */

/* "32K" as the kernel writes it. */
static double read_size(const char *size)
{
    char *end;
    double bytes = strtod(size, &end);
    return *end == 'K' ? bytes * 1024 : *end == 'M' ? bytes * 1024 * 1024 : bytes;
}

static void read_cache(int index, char size[16])
{
    char path[80], level[16];
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    (void)motet_descriptor_read_line(path, size, 16);
    snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
    (void)motet_descriptor_read_line(path, level, sizeof(level));
    if (size[0] && (level[0] == '2' || level[0] == '3'))
        cache_of_level[level[0] - '0'] = read_size(size);
}

static void describe(void)
{
    char model[128], caches[80] = "";
    struct utsname names;
    read_model(model, sizeof(model));
    for (int i = 0; i < CACHES; i++) {
        char size[16];
        read_cache(i, size);
        size_t used = strlen(caches);
        if (size[0])
            snprintf(caches + used, sizeof(caches) - used, " %s", size);
    }
    if (uname(&names) != 0)
        memset(&names, 0, sizeof(names));
    snprintf(text, sizeof(text), "%s; %ld CPUs; caches%s; %.32s %.64s; %.32s", model, sysconf(_SC_NPROCESSORS_CONF),
             caches[0] ? caches : " unknown", names.sysname, names.release, names.machine);
}

const char *motet_machine_text(void)
{
    pthread_once(&once, describe);
    return text;
}

void motet_machine_caches(double *own, double *shared)
{
    pthread_once(&once, describe);
    *own = cache_of_level[2];
    *shared = cache_of_level[3];
}

uint64_t motet_machine_fingerprint(void)
{
    uint64_t hash = motet_hash_bytes(MOTET_HASH_SEED, motet_machine_text(), strlen(motet_machine_text()));
    return hash ? hash : 1;
}
