#include "text.h"

#include <stdlib.h>
#include <string.h>

/* Returns the length of the UTF-8 character at `at`, of which `left` bytes remain; 0 if no valid one starts there. */
static size_t character_length(const char *at, size_t left)
{
    for (size_t length = 1; length <= 4 && length <= left; length++) {
        json_t *character = json_stringn(at, length);
        json_decref(character);
        if (character)
            return length;
    }
    return 0;
}

static json_t *repaired_string(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd";
    size_t left = strlen(text), used = 0;
    char *clean = malloc(left * (sizeof replacement - 1) + 1);
    while (clean && left) {
        size_t length = character_length(text, left);
        memcpy(clean + used, length ? text : replacement, length ? length : sizeof replacement - 1);
        used += length ? length : sizeof replacement - 1;
        text += length ? length : 1;
        left -= length ? length : 1;
    }
    json_t *string = clean ? json_stringn(clean, used) : NULL;
    free(clean);
    return string;
}

json_t *text_to_json(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : repaired_string(text);
}
