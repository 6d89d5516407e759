#include "story.h"

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
