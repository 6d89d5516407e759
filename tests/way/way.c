/*
 * Preloaded into a program built with -finstrument-functions: writes what runs from the entry of one function until its return,
 * on whichever thread, to the file that WAY_FILE names: "+ADDRESS" for an entry, "-" for a return, each with the thread's ID.
 * The function is the one whose offset in the file WAY_MODULE is WAY_OFFSET (hexadecimal).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNTOUCHED __attribute__((no_instrument_function))

static FILE *out;
static uintptr_t root; /* 0: not known yet; 1: there is none */
static int is_within;  /* atomic */

void __cyg_profile_func_enter(void *function, void *caller) UNTOUCHED;
void __cyg_profile_func_exit(void *function, void *caller) UNTOUCHED;

static UNTOUCHED uintptr_t find_root(void *function)
{
    const char *module = getenv("WAY_MODULE"), *offset = getenv("WAY_OFFSET"), *file = getenv("WAY_FILE");
    Dl_info info;
    if (!module || !offset || !file || !dladdr(function, &info) || !info.dli_fname || !strstr(info.dli_fname, module))
        return 0;
    return (uintptr_t)info.dli_fbase + strtoull(offset, NULL, 16);
}

void __cyg_profile_func_enter(void *function, void *caller)
{
    Dl_info info;
    (void)caller;
    if (!root)
        root = find_root(function);
    if ((uintptr_t)function == root && !out) {
        out = fopen(getenv("WAY_FILE"), "w");
        __atomic_store_n(&is_within, out != NULL, __ATOMIC_RELEASE);
    }
    if (__atomic_load_n(&is_within, __ATOMIC_ACQUIRE) && dladdr(function, &info))
        fprintf(out, "%ld + %s %" PRIxPTR "\n", syscall(SYS_gettid), info.dli_fname,
                (uintptr_t)function - (uintptr_t)info.dli_fbase);
}

void __cyg_profile_func_exit(void *function, void *caller)
{
    (void)caller;
    if (!__atomic_load_n(&is_within, __ATOMIC_ACQUIRE))
        return;
    fprintf(out, "%ld -\n", syscall(SYS_gettid));
    if ((uintptr_t)function == root) {
        __atomic_store_n(&is_within, 0, __ATOMIC_RELEASE);
        fflush(out);
    }
}
