/* The libraries of unwind_code.h. Include test.h first. */
#pragma once

#include "unwind_code.h"

#include <dlfcn.h>

static void *library; /* that was loaded last */

static inline unwind_library_outer *library_function(const char *path)
{
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    unwind_library_outer *outer;
    *(void **)&outer = dlsym(library, "library_outer");
    assert_non_null(outer);
    return outer;
}
