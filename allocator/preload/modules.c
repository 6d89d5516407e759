/* Modules and libraries. */
#include "launch/lens.h"
#include "launch/launch.h"

#include "internal.h" /* last: see hooks.h */

CUresult hook_cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult result = real.cuModuleLoad(module, path);
    if (LENS_WANTS(loaded_file) && result == CUDA_SUCCESS)
        lens->loaded_file(*module, 0, path);
    return result;
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadData(module, image);
    if (LENS_WANTS(loaded) && result == CUDA_SUCCESS)
        lens->loaded(*module, 0, image);
    return result;
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    CUresult result = real.cuModuleLoadDataEx(module, image, count, options, values);
    if (LENS_WANTS(loaded) && result == CUDA_SUCCESS)
        lens->loaded(*module, 0, image);
    return result;
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadFatBinary(module, image);
    if (LENS_WANTS(loaded) && result == CUDA_SUCCESS)
        lens->loaded(*module, 0, image);
    return result;
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit, void **jit_values, unsigned jit_count,
                                CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadData(library, image, jit, jit_values, jit_count, options, values, count);
    if (LENS_WANTS(loaded) && result == CUDA_SUCCESS)
        lens->loaded(*library, 1, image);
    return result;
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
                                    unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadFromFile(library, path, jit, jit_values, jit_count, options, values, count);
    if (LENS_WANTS(loaded_file) && result == CUDA_SUCCESS)
        lens->loaded_file(*library, 1, path);
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
        if (lens)                                                                                                              \
            lens->unloads(handle);                                                                                             \
        return real.symbol(handle);                                                                                            \
    }
UNLOAD(cuModuleUnload, CUmodule)
UNLOAD(cuLibraryUnload, CUlibrary)
