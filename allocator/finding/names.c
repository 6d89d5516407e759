/* The kernel's name without return type, parameters and long template arguments. */
#include "finding.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_NAME 32 /* of template arguments; longer ones are abbreviated */

static const char anonymous[] = "(anonymous namespace)";

/* Returns the length up to the parameter list: up to the first '(' outside template arguments. */
static size_t name_length(const char *name)
{
    int depth = 0;
    for (size_t i = 0; name[i]; i++) {
        if (!strncmp(name + i, anonymous, sizeof anonymous - 1))
            i += sizeof anonymous - 2;
        else if (name[i] == '(' && !depth)
            return i;
        else
            depth += (name[i] == '<' || name[i] == '(') - ((name[i] == '>' && depth) || (name[i] == ')' && depth));
    }
    return strlen(name);
}

/* Returns the offset behind the return type, which demangled names of templates begin with. */
static size_t name_start(const char *name, size_t length)
{
    size_t start = 0;
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        if (!strncmp(name + i, anonymous, sizeof anonymous - 1))
            i += sizeof anonymous - 2;
        else if (name[i] == ' ' && !depth)
            start = i + 1;
        else
            depth += (name[i] == '<') - (name[i] == '>' && depth);
    }
    return start;
}

static void shorten(const char *name, char *out, size_t size)
{
    size_t length = name_length(name), start = name_start(name, length);
    const char *arguments = memchr(name + start, '<', length - start);
    if (arguments && (size_t)(name + length - arguments) > LONGEST_NAME)
        snprintf(out, size, "%.*s<...>", (int)(arguments - name - (ptrdiff_t)start), name + start);
    else
        snprintf(out, size, "%.*s", (int)(length - start), name + start);
}

void finding_kernel(const struct evidence_site *site, char *out, size_t size)
{
    shorten(site->kernel ? site->kernel : site->symbol ? site->symbol : "", out, size);
}

void finding_kernel_of(const char *mangled, char *out, size_t size)
{
    char *name = text_demangled(mangled);
    shorten(name ? name : mangled, out, size);
    free(name);
}
