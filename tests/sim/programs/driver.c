#include "driver.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver cu;

static void *library(void)
{
    static void *opened;
    if (opened == NULL)
        opened = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        fprintf(stderr, "program: %s\n", dlerror());
        exit(3);
    }
    return opened;
}

#ifdef LOOKUP_PROC
static void *ask(const char *base_name, int version)
{
    const char *how = getenv("LOOKUP");
    if (how == NULL)
        how = "v2";
    cuuint64_t flags = strstr(how, "ptds") ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    void *function = NULL;
    if (strncmp(how, "v1", 2) == 0) {
        CUresult (*get)(const char *, void **, int, cuuint64_t);
        *(void **)&get = dlsym(library(), "cuGetProcAddress");
        return get(base_name, &function, version, flags) == CUDA_SUCCESS ? function : NULL;
    }
    CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *(void **)&get = dlsym(library(), "cuGetProcAddress_v2");
    CUresult result = get(base_name, &function, version, flags, &status);
    return result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS ? function : NULL;
}
#endif

void *driver_function(const char *base_name, const char *abi_name, int version)
{
#ifdef LOOKUP_PROC
    return ask(base_name, version);
#else
    return dlsym(library(), abi_name);
#endif
}

#ifndef LOOKUP_LINKED
static void *need(const char *base_name, const char *abi_name)
{
    /* From CUDA 13 on cuCtxSynchronize takes a context, which is not what cuda.h calls by that name. */
    void *function = driver_function(base_name, abi_name, 12080);
    if (function == NULL) {
        fprintf(stderr, "program: no %s\n", abi_name);
        exit(3);
    }
    return function;
}
#endif

void driver_find(void)
{
#define TEXT(name) TEXT_EXPANDED(name)
#define TEXT_EXPANDED(name) #name
#ifdef LOOKUP_LINKED
#define X(name) cu.name = name;
#else
#define X(name) *(void **)&cu.name = need(#name, TEXT(name));
#endif
#include "driver_functions.h"
#undef X
}

void *driver_of_sim(const char *name)
{
    return dlsym(library(), name);
}

void driver_register_kernel(const cusim_kernel *kernel)
{
    void (*add)(const cusim_kernel *);
    *(void **)&add = driver_of_sim("cusim_register_kernel");
    if (add != NULL)
        add(kernel);
}

static int is_cufence(struct dl_phdr_info *info, size_t size, void *path)
{
    if (strstr(info->dlpi_name, "/libcufence.so") == NULL)
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

void *driver_of_cufence(const char *name)
{
    const char *path = NULL;
    dl_iterate_phdr(is_cufence, &path);
    void *opened = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    return opened != NULL ? dlsym(opened, name) : NULL;
}
