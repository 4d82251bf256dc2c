/* SPDX-License-Identifier: Apache-2.0
 * The public view of the settings: motetParamCount, motetParamInfo, motetParamGet. Works without a communicator and also where the
 * environment is nonsense, because that is when people ask. */
#include <pthread.h>
#include <string.h>

#include "base/error.h"
#include "base/setting_text.h"
#include "base/settings.h"
#include "motet.h"

static char ranges[MOTET_NSETTINGS][MOTET_SETTING_TEXT_MAX];
static pthread_once_t ranges_once = PTHREAD_ONCE_INIT;

static void format_ranges(void)
{
    for (int id = 0; id < MOTET_NSETTINGS; id++)
        motet_setting_format_range(&motet_setting_rows[id], ranges[id], sizeof(ranges[id]));
}

motetResult_t motetParamCount(int *count)
{
    if (!count)
        return motet_fail(motetInvalidArgument, "motetParamCount: count is NULL");
    *count = MOTET_NSETTINGS;
    return motetSuccess;
}

motetResult_t motetParamInfo(int index, motetParamInfo_t *info)
{
    static const char *const types[] = {
        [MOTET_SETTING_BOOL] = "bool", [MOTET_SETTING_INT] = "int",       [MOTET_SETTING_SIZE] = "size",
        [MOTET_SETTING_TIME] = "time", [MOTET_SETTING_STRING] = "string",
    };
    if (!info)
        return motet_fail(motetInvalidArgument, "motetParamInfo: info is NULL");
    if (index < 0 || index >= MOTET_NSETTINGS)
        return motet_fail(motetInvalidArgument, "motetParamInfo: index %d is not in [0, %d)", index, MOTET_NSETTINGS);
    pthread_once(&ranges_once, format_ranges);

    const struct motet_setting_row *row = &motet_setting_rows[index];
    struct motet_setting_state state = motet_setting_state((enum motet_setting)index);
    *info = (motetParamInfo_t){
        .name = row->name,
        .type = types[row->type],
        .defaultValue = row->fallback,
        .unit = row->unit,
        .range = ranges[index],
        .sentence = row->sentence,
        .value = motet_setting_shown((enum motet_setting)index),
        .source = state.is_set ? "environment" : "default",
        .error = state.error,
    };
    return motetSuccess;
}

motetResult_t motetParamGet(const char *name, const char **value)
{
    if (!name || !value)
        return motet_fail(motetInvalidArgument, "motetParamGet: %s is NULL", name ? "value" : "name");
    for (int id = 0; id < MOTET_NSETTINGS; id++) {
        if (strcmp(motet_setting_rows[id].name, name) != 0)
            continue;
        motet_setting_state((enum motet_setting)id); /* loads */
        *value = motet_setting_shown((enum motet_setting)id);
        return motetSuccess;
    }
    const char *nearest = motet_setting_nearest(name);
    return motet_fail(motetInvalidArgument, "motetParamGet: there is no setting %s%s%s%s", name, nearest ? "; did you mean " : "",
                      nearest ? nearest : "", nearest ? "?" : "");
}
