/* SPDX-License-Identifier: Apache-2.0 */
#include "base/machine.h"

#include <pthread.h>
#include <stdio.h>
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

static void describe(void)
{
    char model[128], caches[80] = "";
    struct utsname names;
    read_model(model, sizeof(model));
    for (int i = 0; i < CACHES; i++) {
        char path[80], size[16];
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        (void)motet_descriptor_read_line(path, size, sizeof(size));
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

uint64_t motet_machine_fingerprint(void)
{
    uint64_t hash = motet_hash_bytes(MOTET_HASH_SEED, motet_machine_text(), strlen(motet_machine_text()));
    return hash ? hash : 1;
}
