/* SPDX-License-Identifier: Apache-2.0
 * The file of measured times of this process, as bytes: ranks tell each other its digest before anybody knows what it says. */
#ifndef MOTET_BASE_TUNING_FILE_H
#define MOTET_BASE_TUNING_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct motet_tuning_file {
    char name[4096];
    bool is_named; /* by MOTET_TUNER_FILE; else it lies in the cache directory */
    char *text;    /* NULL: there is none */
    size_t len;
    uint64_t digest; /* of the bytes; 0: no file */
    int error;       /* errno of a named file that could not be read */
};

#define MOTET_TUNING_FILE_MAX ((size_t)16 << 20)

/* Read once, valid for ever. Settings are loaded. Any thread. */
const struct motet_tuning_file *motet_tuning_file(void);

#endif
