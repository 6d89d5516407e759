#include "env.h"

#include <stdlib.h>
#include <sys/auxv.h>

const char *env_get(const char *name)
{
    return getauxval(AT_SECURE) ? NULL : getenv(name);
}
