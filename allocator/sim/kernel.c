#include "kernel.h"
#include "capture.h"
#include "trap.h"
#include "virtual_memory.h"

#include <dlfcn.h>

#define CODE_BASE UINT64_C(0x7f0000000000)
#define CODE_STRIDE UINT64_C(0x10000)

/* Also a library, of which a handle is the same but for its type. */
struct CUmod_st {
    CUcontext context; /* NULL: a library */
    unsigned image;    /* 0: contains every kernel */
};

static pthread_mutex_t kernels_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct CUfunc_st *functions;                              /* newest first, under kernels_lock */
static uint64_t next_entry = CODE_BASE;                          /* under kernels_lock */

static struct CUfunc_st *create(const cusim_kernel *kernel)
{
    size_t count = kernel->argument_count, *offsets, end = 0;
    struct CUfunc_st *function = handle_create(HANDLE_FUNCTION, sizeof *function, NULL);
    function->kernel = *kernel;
    function->kernel.name = memory_copy(kernel->name, strlen(kernel->name));
    function->kernel.file = kernel->file == NULL ? NULL : memory_copy(kernel->file, strlen(kernel->file));
    function->kernel.argument_bytes = memory_copy(kernel->argument_bytes, count * sizeof *offsets);
    function->argument_offsets = offsets = memory_copy(kernel->argument_bytes, count * sizeof *offsets);
    for (size_t i = 0; i < count; i++) {
        size_t alignment = (kernel->argument_bytes[i] | 16) & -(kernel->argument_bytes[i] | 16); /* of its size, at most 16 */
        offsets[i] = (end + alignment - 1) / alignment * alignment;
        end = offsets[i] + kernel->argument_bytes[i];
    }
    function->parameter_bytes = end;
    function->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = SIM_SHARED_BYTES;
    return function;
}

static void add_locked(struct CUfunc_st *function, uint64_t code_bytes)
{
    function->entry = next_entry;
    next_entry += (code_bytes / CODE_STRIDE + 1) * CODE_STRIDE;
    LL_PREPEND(functions, function);
}

SIM_API void cusim_register_kernel(const cusim_kernel *kernel)
{
    HOLD(&kernels_lock);
    add_locked(create(kernel), 0);
}

__attribute__((constructor)) static void register_builtins(void)
{
    for (size_t i = 0; i < builtin_kernel_count; i++)
        cusim_register_kernel(&builtin_kernels[i]);
}

/* Returns the newest kernel of that name, or NULL. */
static CUfunction kernel_find(const char *name)
{
    HOLD(&kernels_lock);
    struct CUfunc_st *function = functions;
    while (function != NULL && (function->of != NULL || strcmp(function->kernel.name, name) != 0))
        function = function->next;
    return function;
}

/* Returns what has that code or belongs to that context, and else is like a kernel: the same one each time. */
static CUfunction variant(CUfunction of, const struct code *code, unsigned long long context_id)
{
    HOLD(&kernels_lock);
    struct CUfunc_st *function = functions;
    while (function != NULL && (function->of != of || function->code != code || function->context_id != context_id))
        function = function->next;
    if (function != NULL)
        return function;
    function = handle_create(HANDLE_FUNCTION, sizeof *function, NULL);
    memcpy((void *)function, of, sizeof *function);
    function->of = of;
    function->context_id = context_id;
    function->code = code;
    add_locked(function, code == NULL ? 0 : code->size);
    if (code == of->code)
        function->entry = of->entry;
    return function;
}

CUresult kernel_load_library(void)
{
    void (*of_program)(void (*)(const cusim_kernel *));
    *(void **)&of_program = dlsym(RTLD_DEFAULT, "cusim_program_kernels");
    if (of_program != NULL)
        of_program(cusim_register_kernel);
    const char *path = secure_getenv("CUSIM_KERNELS");
    if (path == NULL || path[0] == '\0' || dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL)
        return CUDA_SUCCESS;
    fprintf(stderr, "cufence_sim: CUSIM_KERNELS: %s\n", dlerror());
    return CUDA_ERROR_INVALID_VALUE;
}

/* Finds a kernel in an image; 0 stands for one that contains every kernel. Errors: NOT_FOUND. */
static CUresult find_in(unsigned image, const char *name, CUfunction *out)
{
    const struct code *code = image_find(image, name);
    CUfunction kernel = kernel_find(name);
    CALL_REFUSE(kernel == NULL || (image != 0 && code == NULL), NOT_FOUND);
    *out = code == NULL ? kernel : variant(kernel, code, 0);
    return CUDA_SUCCESS;
}

int kernel_is_valid(const void *function)
{
    return handle_is_valid(HANDLE_FUNCTION, function);
}

/* A real driver compiles PTX on the caller's stack. This takes more of it than a fibre has. */
static __attribute__((noinline)) void compile(void)
{
    volatile unsigned char frames[96 << 10];
    for (size_t i = 0; i < sizeof frames; i += 64)
        frames[i] = (unsigned char)i;
}

static CUresult load(CUmodule *module, const void *image, CUcontext context)
{
    unsigned number;
    CALL_TRY(image_read(&number, image));
    CUmodule loaded = handle_create(context == NULL ? HANDLE_LIBRARY : HANDLE_MODULE, sizeof *loaded, context);
    loaded->context = context;
    loaded->image = number;
    *module = loaded;
    return CUDA_SUCCESS;
}

struct kernel_variable kernel_variable;

SIM_API void cusim_declare_variable(const char *name)
{
    kernel_variable.name = name;
}

SIM_API void *cusim_variable(void)
{
    return (void *)(uintptr_t)kernel_variable.address;
}

static CUresult make_variable(CUcontext context)
{
    HOLD(&kernels_lock);
    if (kernel_variable.name == NULL || kernel_variable.address != 0)
        return CUDA_SUCCESS;
    CALL_TRY(space_allocate(&kernel_variable.address, sizeof(uint64_t), context->home, context->device));
    memset(cusim_variable(), 0, sizeof(uint64_t));
    return CUDA_SUCCESS;
}

DRIVER(cuModuleLoadData, 2000, (CUmodule *, module, const void *, image))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(module == NULL || image == NULL, INVALID_VALUE);
    CALL_TRY(capture_check_unsafe());
    CALL_TRY(make_variable(context));
    if (strstr(image, ".version"))
        compile();
    return load(module, image, context->home);
}

DRIVER_IS(cuModuleUnload, 2000, (CUmodule, hmod),
          handle_destroy(HANDLE_MODULE, hmod) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE)

DRIVER(cuModuleGetGlobal, 3020, (CUdeviceptr *, dptr, size_t *, bytes, CUmodule, hmod, const char *, name))
{
    CALL_REFUSE(name == NULL, INVALID_VALUE);
    CALL_REFUSE(!handle_is_valid(HANDLE_MODULE, hmod), INVALID_HANDLE);
    CALL_REFUSE(kernel_variable.name == NULL || strcmp(kernel_variable.name, name) != 0, NOT_FOUND);
    if (dptr != NULL)
        *dptr = kernel_variable.address;
    if (bytes != NULL)
        *bytes = sizeof(uint64_t);
    return CUDA_SUCCESS;
}

DRIVER(cuModuleGetFunction, 2000, (CUfunction *, hfunc, CUmodule, hmod, const char *, name))
{
    CONTEXT_CURRENT(context);
    CALL_REFUSE(hfunc == NULL || name == NULL, INVALID_VALUE);
    CALL_REFUSE(!handle_is_valid(HANDLE_MODULE, hmod), INVALID_HANDLE);
    CUfunction kernel;
    CALL_TRY(find_in(hmod->image, name, &kernel));
    CUfunction function = variant(kernel, kernel->code, hmod->context->id);
    atomic_store(&function->owner, hmod);
    *hfunc = function;
    return CUDA_SUCCESS;
}

/* What it was last looked up in. */
static CUresult get_owner(void *out, const void *handle, int is_function)
{
    const struct CUfunc_st *function = handle;
    CALL_REFUSE(out == NULL, INVALID_VALUE);
    CALL_REFUSE(!kernel_is_valid(handle) || (function->context_id != 0) != is_function, INVALID_HANDLE);
    const void *owner = atomic_load(&function->owner);
    memcpy(out, &owner, sizeof owner);
    return CUDA_SUCCESS;
}

DRIVER_IS(cuFuncGetModule, 11000, (CUmodule *, hmod, CUfunction, hfunc), get_owner(hmod, hfunc, 1))
DRIVER_IS(cuKernelGetLibrary, 12050, (CUlibrary *, pLib, CUkernel, kernel), get_owner(pLib, kernel, 0))

DRIVER(cuLibraryLoadData, 12000,
       (CUlibrary *, library, const void *, code, CUjit_option *, jitOptions, void **, jitOptionsValues, unsigned int,
        numJitOptions, CUlibraryOption *, libraryOptions, void **, libraryOptionValues, unsigned int, numLibraryOptions))
{
    if (library == NULL || code == NULL || (numJitOptions != 0 && (jitOptions == NULL || jitOptionsValues == NULL)) ||
        (numLibraryOptions != 0 && (libraryOptions == NULL || libraryOptionValues == NULL)))
        return CUDA_ERROR_INVALID_VALUE;
    return load((CUmodule *)library, code, NULL);
}

DRIVER_IS(cuLibraryUnload, 12000, (CUlibrary, library),
          handle_destroy(HANDLE_LIBRARY, library) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE)

DRIVER(cuLibraryGetKernel, 12000, (CUkernel *, pKernel, CUlibrary, library, const char *, name))
{
    CALL_REFUSE(pKernel == NULL || name == NULL, INVALID_VALUE);
    CALL_REFUSE(!handle_is_valid(HANDLE_LIBRARY, library), INVALID_HANDLE);
    CUfunction kernel;
    CALL_TRY(find_in(((CUmodule)library)->image, name, &kernel));
    atomic_store(&kernel->owner, library);
    *pKernel = (CUkernel)kernel;
    return CUDA_SUCCESS;
}

DRIVER(cuKernelGetFunction, 12000, (CUfunction *, pFunc, CUkernel, kernel))
{
    CONTEXT_CURRENT(context);
    if (pFunc == NULL || !kernel_is_valid(kernel))
        return pFunc == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *pFunc = variant((CUfunction)kernel, ((CUfunction)kernel)->code, context->home->id);
    return CUDA_SUCCESS;
}

static CUresult get_name(const char **name, const void *function)
{
    if (name == NULL || !kernel_is_valid(function))
        return name == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    *name = ((const struct CUfunc_st *)function)->kernel.name;
    return CUDA_SUCCESS;
}

DRIVER_IS(cuFuncGetName, 12030, (const char **, name, CUfunction, hfunc), get_name(name, hfunc))

DRIVER_IS(cuKernelGetName, 12030, (const char **, name, CUkernel, hfunc), get_name(name, hfunc))

DRIVER(cuFuncGetAttribute, 2020, (int *, pi, CUfunction_attribute, attrib, CUfunction, hfunc))
{
    CALL_REFUSE(pi == NULL || (unsigned)attrib >= CU_FUNC_ATTRIBUTE_MAX, INVALID_VALUE);
    CALL_REFUSE(!kernel_is_valid(hfunc), INVALID_HANDLE);
    *pi = atomic_load(&hfunc->attributes[attrib]);
    return CUDA_SUCCESS;
}

DRIVER(cuFuncSetAttribute, 9000, (CUfunction, hfunc, CUfunction_attribute, attrib, int, value))
{
    CALL_TRY(context_check());
    CALL_REFUSE(!kernel_is_valid(hfunc), INVALID_HANDLE);
    int is_shared = attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CALL_REFUSE(!is_shared && attrib != CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, INVALID_VALUE);
    CALL_REFUSE(value < 0 || value > (is_shared ? SIM_SHARED_BYTES_OPTIN : 1), INVALID_VALUE);
    atomic_store(&hfunc->attributes[attrib], value);
    return CUDA_SUCCESS;
}

static CUresult get_parameter(const void *handle, size_t index, size_t *offset, size_t *size)
{
    if (offset == NULL || !kernel_is_valid(handle))
        return offset == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    const struct CUfunc_st *function = handle;
    CALL_REFUSE(index >= function->kernel.argument_count, INVALID_VALUE);
    *offset = function->argument_offsets[index];
    if (size != NULL)
        *size = function->kernel.argument_bytes[index];
    return CUDA_SUCCESS;
}

DRIVER_IS(cuFuncGetParamInfo, 12040, (CUfunction, func, size_t, paramIndex, size_t *, paramOffset, size_t *, paramSize),
          get_parameter(func, paramIndex, paramOffset, paramSize))

DRIVER_IS(cuKernelGetParamInfo, 12040, (CUkernel, kernel, size_t, paramIndex, size_t *, paramOffset, size_t *, paramSize),
          get_parameter(kernel, paramIndex, paramOffset, paramSize))
