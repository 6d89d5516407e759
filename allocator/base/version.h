/* The version as text, "0.2.0". */
#ifndef CUFENCE_BASE_VERSION_H
#define CUFENCE_BASE_VERSION_H

#include <cufence.h>

#define VERSION_STRING_(x) #x
#define VERSION_STRING(x) VERSION_STRING_(x)
#define VERSION_TEXT                                                                                                           \
    VERSION_STRING(CUFENCE_VERSION_MAJOR) "." VERSION_STRING(CUFENCE_VERSION_MINOR) "." VERSION_STRING(CUFENCE_VERSION_PATCH)

#endif
