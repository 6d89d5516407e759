/* The kernel's short name. */
#include "finding.h"

#include "short_name.h"

#include "base/text.h"

#include <stdlib.h>

#define LONGEST_NAME 32 /* of template arguments; longer ones are abbreviated */

void finding_kernel(const struct evidence_site *site, char *out, size_t size)
{
    short_name(site->kernel ? site->kernel : site->symbol ? site->symbol : "", LONGEST_NAME, out, size);
}

void finding_kernel_of(const char *mangled, char *out, size_t size)
{
    char *name = text_demangled(mangled);
    short_name(name ? name : mangled, LONGEST_NAME, out, size);
    free(name);
}
