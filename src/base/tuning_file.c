/* SPDX-License-Identifier: Apache-2.0 */
#include "base/tuning_file.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cache.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/settings.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct motet_tuning_file file;

static void load(void)
{
    const char *named = motet_setting_string(MOTET_SET_TUNER_FILE);
    file.is_named = *named != '\0';
    if (strcasecmp(named, "NONE") == 0)
        return;
    if (file.is_named)
        snprintf(file.name, sizeof(file.name), "%s", named);
    else if (!motet_cache_path("tuning.json", file.name, sizeof(file.name)))
        return;
    int error = motet_descriptor_read_file(file.name, MOTET_TUNING_FILE_MAX, &file.text, &file.len);
    file.error = file.is_named ? error : 0;
    if (file.text)
        file.digest = motet_hash_bytes(MOTET_HASH_SEED, file.text, file.len);
}

const struct motet_tuning_file *motet_tuning_file(void)
{
    pthread_once(&once, load);
    return &file;
}
