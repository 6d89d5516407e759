/* Modules and libraries: what they were loaded from, and that their kernels are gone. */
#include "internal.h"

#include "launch/images.h"
#include "launch/launch.h"
#include "values/values.h"

/* Notes the image of a module that was loaded. */
static CUresult loaded(CUresult result, const void *handle, const void *image)
{
    if (images_are_kept && result == CUDA_SUCCESS)
        images_loaded(handle, image, 0);
    return result;
}

static CUresult loaded_file(CUresult result, const void *handle, const char *path)
{
    if (images_are_kept && result == CUDA_SUCCESS)
        images_loaded_file(handle, path);
    return result;
}

CUresult hook_cuModuleLoad(CUmodule *module, const char *path)
{
    CUresult result = real.cuModuleLoad(module, path);
    return loaded_file(result, result == CUDA_SUCCESS ? *module : NULL, path);
}

CUresult hook_cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadData(module, image);
    return loaded(result, result == CUDA_SUCCESS ? *module : NULL, image);
}

CUresult hook_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options, void **values)
{
    CUresult result = real.cuModuleLoadDataEx(module, image, count, options, values);
    return loaded(result, result == CUDA_SUCCESS ? *module : NULL, image);
}

CUresult hook_cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
    CUresult result = real.cuModuleLoadFatBinary(module, image);
    return loaded(result, result == CUDA_SUCCESS ? *module : NULL, image);
}

CUresult hook_cuLibraryLoadData(CUlibrary *library, const void *image, CUjit_option *jit_options, void **jit_values,
                                unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadData(library, image, jit_options, jit_values, jit_count, options, values, count);
    int is_preserved = 0;
    for (unsigned i = 0; options && i < count; i++)
        is_preserved |= options[i] == CU_LIBRARY_BINARY_IS_PRESERVED && (!values || values[i]);
    if (images_are_kept && result == CUDA_SUCCESS)
        images_loaded(*library, image, is_preserved);
    return result;
}

CUresult hook_cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values,
                                    unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    CUresult result = real.cuLibraryLoadFromFile(library, path, jit_options, jit_values, jit_count, options, values, count);
    return loaded_file(result, result == CUDA_SUCCESS ? *library : NULL, path);
}

static void gone(const void *handle)
{
    launch_forget_functions();
    values_module_gone(handle);
}

/* Fails after a fault: the driver's own debugger may still read the modules, and crashes if one is unloaded (driver
 * 580.159.04). */
CUresult hook_cuModuleUnload(CUmodule module)
{
    if (failure() != CUDA_SUCCESS)
        return failure();
    if (is_active())
        gone(module);
    return real.cuModuleUnload(module);
}

CUresult hook_cuLibraryUnload(CUlibrary library)
{
    if (failure() != CUDA_SUCCESS)
        return failure();
    if (is_active())
        gone(library);
    return real.cuLibraryUnload(library);
}
