/* SPDX-License-Identifier: Apache-2.0
 * The grammar of settings. The first byte picks a row, the rest is the text. Whatever is accepted must be in range and must be read
 * back from its written form; whatever is refused must leave the value alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/setting_text.h"
#include "base/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const struct motet_setting_row *row = &motet_setting_rows[data[0] % MOTET_NSETTINGS];
    char *text = malloc(size), written[MOTET_SETTING_TEXT_MAX];
    int64_t value = -1, back = -1;
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';

    bool accepted = motet_setting_parse(row, text, &value) == motetSuccess;
    if (accepted && row->type != MOTET_SETTING_STRING) {
        if (row->type != MOTET_SETTING_BOOL && (value < row->min || value > row->max))
            abort();
        motet_setting_format(row, value, written, sizeof(written));
        if (motet_setting_parse(row, written, &back) != motetSuccess || back != value)
            abort();
    } else if (value != -1) {
        abort();
    }
    motet_setting_nearest(text);
    free(text);
    return 0;
}
