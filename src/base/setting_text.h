/* SPDX-License-Identifier: Apache-2.0
 * What settings look like as text, for the tools that show them: the written form of values and ranges, and the nearest name. */
#ifndef MOTET_BASE_SETTING_TEXT_H
#define MOTET_BASE_SETTING_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"

#define MOTET_SETTING_TEXT_MAX 64 /* long enough for any range */

/* A value as a user would write it: 1048576 is "1M", 1800000 ms is "30min". */
void motet_setting_format(const struct motet_setting_row *row, int64_t value, char *buf, size_t size);

/* What is accepted: "64K..1G", "NONE, VERSION, WARN, INFO, ABORT, TRACE"; "" where the setting's reader decides. */
void motet_setting_format_range(const struct motet_setting_row *row, char *buf, size_t size);

/* The setting whose name is most like `name`; NULL if none is close. */
const char *motet_setting_nearest(const char *name);

/* What is in force as it was written, fit to be shown: secrets are not. "" when unset. Valid for ever. The settings must have been
 * loaded, with whatever result. */
const char *motet_setting_shown(enum motet_setting id);

#endif
