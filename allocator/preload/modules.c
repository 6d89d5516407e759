/* Modules and libraries. */
#include "launch/code.h"
#include "launch/launch.h"
#include "lens/lens.h"

#include "internal.h" /* last: see hooks.h */

CUresult hook_cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult result = real.cuModuleLoad(module, path);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded_file(*module, NULL, path);
    return result;
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadData(module, image);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded(*module, image);
    return result;
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    CUresult result = real.cuModuleLoadDataEx(module, image, count, options, values);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded(*module, image);
    return result;
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadFatBinary(module, image);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded(*module, image);
    return result;
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,
                                CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadData(library, image, jit, jit_values, jit_count, options, values, count);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded_library(*library, image);
    return result;
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
                                    unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadFromFile(library, path, jit, jit_values, jit_count, options, values, count);
    if (code_is_kept && result == CUDA_SUCCESS)
        code_loaded_file(NULL, *library, path);
    return result;
}

/* Fail after a fault: the driver's own debugger may still read the modules, and crashes if one is unloaded (driver
 * 580.159.04). */
#define UNLOAD(symbol, handle_type)                                                                                            \
    CUresult hook_##symbol(handle_type handle)                                                                                 \
    {                                                                                                                          \
        if (failure() != CUDA_SUCCESS)                                                                                         \
            return failure();                                                                                                  \
        if (is_active())                                                                                                       \
            launch_forget_functions();                                                                                         \
        if (code_is_kept) {                                                                                                    \
            code_unloaded(handle);                                                                                             \
            values_module_gone(handle);                                                                                        \
        }                                                                                                                      \
        return real.symbol(handle);                                                                                            \
    }
UNLOAD(cuModuleUnload, CUmodule)
UNLOAD(cuLibraryUnload, CUlibrary)
