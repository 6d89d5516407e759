#include "story.h"

#include <string.h>

#include "kernels/source.h"
#ifndef CUFENCE_NO_KERNELS
#include "kernels/kernels.h"
#endif

const void *kernels_image(void)
{
#ifdef CUFENCE_NO_KERNELS
    return NULL;
#else
    return kernels_fatbin;
#endif
}

int kernels_line(const char *kernel)
{
    char wanted[128];
    int length = snprintf(wanted, sizeof wanted, "fault: %s\n", kernel), line = 1;
    for (size_t i = 0; i + (size_t)length <= sizeof kernels_source; i++) {
        if (memcmp(&kernels_source[i], wanted, (size_t)length) == 0)
            return line;
        line += kernels_source[i] == '\n';
    }
    return 0;
}
