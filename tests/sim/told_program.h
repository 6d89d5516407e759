/* A handler that allocates: nobody gets memory of a device that has been stopped, not even who is told of it first. */
#pragma once

#include "plain_program.h"

#include <cufence.h>

static inline void *of_cufence(const char *function)
{
    return dlsym(dlopen("libcufence.so.0", RTLD_NOLOAD | RTLD_NOW), function);
}

static inline void tell_and_allocate(const cufence_fault *fault, void *user)
{
    void *memory = NULL;
    (void)user;
    cufence_status status = ((__typeof__(&cufence_malloc))of_cufence("cufence_malloc"))(&memory, 100, fault->device, NULL);
    printf("told, and %s\n", status == CUFENCE_ERROR_FAULTED ? "refused" : "given memory");
}

static inline void allocate_when_told(void)
{
    ((__typeof__(&cufence_set_fault_handler))of_cufence("cufence_set_fault_handler"))(tell_and_allocate, NULL);
}
