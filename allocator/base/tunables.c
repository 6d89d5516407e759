#include "tunables.h"

#ifdef CUFENCE_TUNABLES
#include "env.h"

#include <stdio.h>
#include <string.h>

struct tunables tunables = {TUNABLES(TUNABLE_VALUE)};

/* What a test has misspelt ends it. */
void tunables_read(void)
{
    const char *text = env_get("CUFENCE_TUNABLES");
    for (int length = 0; text && *text; text += length + (text[length] == ',')) {
        char name[32];
        unsigned long long value = 0;
        uint64_t *figure = NULL;
        length = 0;
        sscanf(text, "%31[a-z_]=%llu%n", name, &value, &length);
#define TUNABLE_FIND(name_, value_)                                                                                            \
    if (length && !strcmp(name, #name_))                                                                                       \
        figure = &tunables.name_;
        TUNABLES(TUNABLE_FIND)
        if (!figure) {
            fprintf(stderr, "cufence: CUFENCE_TUNABLES: \"%s\" is no figure of base/tunables.h with a number\n", text);
            abort();
        }
        *figure = value;
    }
}
#endif
