/* An option's value as a user would write it: what a test compares, and parses again. */
#pragma once

#include "base/option_value.h"

#include <inttypes.h>
#include <string.h>

/* With the largest suffix that leaves no rest: "64M". */
static inline void bytes_text(uint64_t bytes, char *out, size_t size)
{
    static const char suffixes[] = "KMGT";
    int unit = 0;
    for (; unit < (int)strlen(suffixes) && bytes && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    snprintf(out, size, "%" PRIu64 "%.*s", bytes, unit > 0, unit ? suffixes + unit - 1 : "");
}

static inline void option_text(const struct options *options, const struct option_row *row, char *out, size_t size)
{
    const void *field = (const char *)options + row->offset;
    uint64_t number = 0;
    int choice = 0;

    switch (row->type) {
    case OPTION_CHOICE:
    case OPTION_SWITCH: {
        memcpy(&choice, field, sizeof choice);
        const char *at = row->allowed;
        for (int skip = row->type == OPTION_SWITCH ? !choice : choice; skip > 0; skip--)
            at = strstr(at, " | ") + strlen(" | ");
        snprintf(out, size, "%.*s", (int)strcspn(at, " ,"), at);
        return;
    }
    case OPTION_PATH:
    case OPTION_RULES:
    case OPTION_FILTER:
        snprintf(out, size, "%s", (const char *)field);
        return;
    case OPTION_ALIGN:
    case OPTION_FILL:
    case OPTION_BYTES:
    case OPTION_NUMBER:
        break;
    }
    memcpy(&number, field, sizeof number);
    if (row->type == OPTION_FILL)
        snprintf(out, size, number == FILL_OFF ? "off" : "0x%02" PRIx64, number);
    else if (row->type == OPTION_NUMBER)
        snprintf(out, size, "%" PRIu64, number);
    else if (row->type == OPTION_ALIGN && number == OPTION_ALIGN_AUTO)
        snprintf(out, size, "auto");
    else
        bytes_text(number, out, size);
}
