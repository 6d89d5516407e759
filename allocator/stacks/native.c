#include "native.h"

#include "module.h"
#include "base/text.h"
#include "finding/short_name.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST_ARGUMENTS 72 /* of a template whose name has no room otherwise */
#define NAME_BYTES 4096      /* for a mangled name: templates make them long, and a truncated one can't be demangled */

/* Looks in the module's own symbol tables first, then in separate debug info. */
static void find_name(struct libdw_session *session, uint64_t pc, const struct module *module, char *name, size_t size)
{
    Dl_info info;
    name[0] = '\0';
    if (dladdr((void *)(uintptr_t)(pc - 1), &info) && info.dli_sname)
        snprintf(name, size, "%s", info.dli_sname);
    else
        symbols_name(module, pc - 1, name, size);
    if (!name[0] && session)
        libdw_name(session, pc - 1, name, size);
}

/* Cuts off what gcc and clang append to the name of a copy that they made of a function. */
static void cut_clone(char *name)
{
    static const char *const marks[] = {" [clone ", ".constprop.", ".isra.", ".part.", ".cold", ".llvm."};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        char *mark = strstr(name, marks[i]), end = mark ? mark[strlen(marks[i])] : '\0';
        int is_whole = strchr(". [", marks[i][strlen(marks[i]) - 1]) || !end || end == '.' || end == ' ';
        if (mark && mark > name && is_whole)
            *mark = '\0';
    }
}

static void put_demangled(const char *name, char *out, size_t size)
{
    char *demangled = text_demangled(name);
    if (demangled && strlen(demangled) >= size)
        short_name(demangled, LONGEST_ARGUMENTS, out, size);
    else
        text_format(out, size, "%s", demangled ? demangled : name);
    free(demangled);
    cut_clone(out);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int is_of_cuda(const struct module *module)
{
    const char *name = base_name(module->path);
    return text_starts_with(name, "libcuda.so") || text_starts_with(name, "libcudart.so") ||
           text_starts_with(name, "libcudart-"); /* some wheels rename it */
}

/* The name behind the length in a mangled name that is not nested: "stat" in _ZL4statPfi. NULL: it is another kind of name. */
static const char *plain_name(const char *mangled, size_t *length)
{
    char *name;
    if (!text_starts_with(mangled, "_Z"))
        return NULL;
    mangled += strlen("_Z") + (mangled[strlen("_Z")] == 'L');
    *length = strtoul(mangled, &name, 10);
    return name != mangled && *length <= strlen(name) ? name : NULL;
}

#define STUB "__device_stub_" /* and __wrapper__device_stub_ of a template */

/* Function names of libcudart_static.a as nm lists them for CUDA 13.0: launches, allocations, frees, and the internals that
 * they call; cufence's own in a program that it is linked into; functions of CUDA's C++ headers; and what nvcc makes for each
 * kernel, to launch it. */
static int is_linked_in(const char *function)
{
    static const char *const starts[] = {"libcudart_static_", "cudaLaunch",   "__cudaLaunch",     "cudaGraphLaunch",
                                         "cudaMalloc",        "cudaFree",     "heap_allocate",    "heap_free",
                                         "cufence_malloc",    "cufence_free", "passed_or_guarded"};
    static const char *const headers[] = {"__cudaLaunchKernel_helper",   "cudaLaunchKernel",  "cudaLaunchKernelEx",
                                          "cudaLaunchCooperativeKernel", "cudaMalloc",        "cudaMallocAsync",
                                          "cudaMallocFromPoolAsync",     "cudaMallocManaged", "cudaMallocPitch"};
    size_t length = 0;
    const char *name = plain_name(function, &length);
    for (size_t i = 0; name && i < sizeof headers / sizeof headers[0]; i++) {
        if (strlen(headers[i]) == length && strncmp(name, headers[i], length) == 0)
            return 1;
    }
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        if (text_starts_with(function, starts[i]))
            return 1;
    }
    return strstr(function, STUB) != NULL;
}

/* A return address to describe. */
struct located {
    uint64_t pc;
    int is_gone; /* its module is not mapped there any more */
    struct module module;
};

/* Returns 0 if the address is in no module, and never was in one that is known. */
static int locate(const struct native_place *place, struct located *out)
{
    out->pc = place->pc;
    int is_there = module_of(place->pc - 1, &out->module);
    out->is_gone = place->path && (!is_there || out->module.offset != place->offset ||
                                   strncmp(out->module.path, place->path, NATIVE_PATH_MOST) != 0);
    if (!out->is_gone || !place->path[0])
        return is_there && !out->is_gone;
    out->module = (struct module){.offset = place->offset};
    snprintf(out->module.path, sizeof out->module.path, "%s", place->path);
    return 1;
}

/* All but the source line. */
static void describe(struct libdw_session *session, const struct located *at, struct stack_frame *frame)
{
    char name[NAME_BYTES];
    *frame = (struct stack_frame){.offset = at->module.offset + 1};
    text_format(frame->module, sizeof frame->module, "%s", base_name(at->module.path));
    if (at->is_gone)
        return;
    find_name(session, at->pc, &at->module, name, sizeof name);
    put_demangled(name, frame->function, sizeof frame->function);
}

/* Leaves out frames of cufence, frames in no module, and what comes before main(). Writes the return address of each frame, 0
 * if its module is gone. */
static size_t describe_all(struct libdw_session *session, const struct native_place *places, size_t count,
                           struct stack_frame *out, uint64_t *pcs, size_t max)
{
    struct located at;
    size_t written = 0;
    for (size_t i = 0; i < count && written < max; i++) {
        if (!locate(&places[i], &at) || module_is_cufence(at.module.path))
            continue;
        describe(session, &at, &out[written]);
        pcs[written++] = at.is_gone ? 0 : at.pc;
        if (at.module.is_program && strcmp(out[written - 1].function, "main") == 0)
            break;
    }
    return written;
}

/* Returns how many leading frames are not the program's own (CUDA's or cufence's); 0 if all of them are. */
static size_t count_leading_internal(struct libdw_session *session, const struct native_place *places, size_t count)
{
    struct located at;
    char name[NAME_BYTES];
    for (size_t i = 0; i < count; i++) {
        if (!locate(&places[i], &at) || module_is_cufence(at.module.path) || is_of_cuda(&at.module))
            continue;
        if (at.is_gone)
            return i;
        find_name(session, at.pc, &at.module, name, sizeof name);
        if (!is_linked_in(name))
            return i;
    }
    return 0;
}

/* The demangled name of the kernel that a stub's symbol is made for; NULL: it is no stub of nvcc's. *is_second: a template's
 * second one, whose parameters differ. */
static char *kernel_of(const char *stub, int *is_second)
{
    static const char second[] = "__wrapper" STUB;
    size_t length = 0;
    char *demangled = text_demangled(stub), *mark = demangled ? strstr(demangled, second) : NULL;
    *is_second = mark != NULL;
    if (mark) {
        memmove(mark, mark + strlen(second), strlen(mark + strlen(second)) + 1);
        return demangled;
    }
    free(demangled);
    const char *name = plain_name(stub, &length);
    if (!name || !text_starts_with(name, STUB) || length <= strlen(STUB))
        return NULL;
    char *mangled = strndup(name + strlen(STUB), length - strlen(STUB));
    demangled = mangled ? text_demangled(mangled) : NULL;
    free(mangled);
    return demangled;
}

/* The length of a demangled name without its parameters. */
static size_t without_parameters(const char *name)
{
    size_t length = strlen(name), at = length, depth = 0;
    while (at && (depth || at == length)) {
        at--;
        depth += (size_t)(name[at] == ')') - (size_t)(name[at] == '(');
    }
    return depth == 0 && name[at] == '(' ? at : length;
}

/* nvcc makes two functions for a kernel: a stub that launches it, and the wrapper that the program calls, which is inlined or
 * has a frame, and is named like the kernel. Of a template, a second stub calls the first one. Returns whether the next frame
 * is that of the wrapper. *is_wrapped: there is a stub. */
static int is_wrapper(struct libdw_session *session, const struct native_place *stub, const struct native_place *next,
                      int *is_wrapped)
{
    struct located at;
    char name[NAME_BYTES];
    int is_second;
    *is_wrapped = 0;
    if (!locate(stub, &at) || at.is_gone)
        return 0;
    find_name(session, at.pc, &at.module, name, sizeof name);
    char *kernel = kernel_of(name, &is_second), *demangled = NULL;
    *is_wrapped = strstr(name, STUB) != NULL;
    if (!kernel || !locate(next, &at) || at.is_gone) {
        free(kernel);
        return 0;
    }
    find_name(session, at.pc, &at.module, name, sizeof name);
    demangled = text_demangled(name);
    char *wrapper = demangled ? demangled : name; /* of an extern "C" kernel it has no parameters */
    cut_clone(wrapper);
    size_t length = without_parameters(kernel), own = without_parameters(wrapper);
    int is_it = length == own && strncmp(kernel, wrapper, own) == 0 &&
                (is_second || !wrapper[own] || strcmp(kernel + own, wrapper + own) == 0);
    free(demangled);
    free(kernel);
    return is_it;
}

/* Whether the frame is of the C library's code that calls main() or a thread's function. */
static int is_start(const struct stack_frame *frame)
{
    static const char *const names[] = {
        "_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "start_thread", "clone",
        "clone3", "__clone3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(frame->function, names[i]))
            return 1;
    return 0;
}

size_t native_frames_at(const struct native_place *places, size_t count, int has_libdw, struct stack_frame *out, size_t max)
{
    uint64_t pcs[STACK_READ];
    struct libdw_session *session = has_libdw ? libdw_begin() : NULL;
    size_t skipped = count_leading_internal(session, places, count);
    int is_wrapped = 0;
    if (skipped && skipped + 1 < count &&
        (is_wrapper(session, &places[skipped - 1], &places[skipped], &is_wrapped) ||
         (session && libdw_is_wrapper(session, places[skipped].pc - 1)))) {
        skipped++;
        is_wrapped = 0;
    }
    size_t written = describe_all(session, places + skipped, count - skipped, out, pcs, max < STACK_READ ? max : STACK_READ);
    while (written > 1 && is_start(&out[written - 1])) /* tells a reader nothing */
        written--;
    /* Lines come last: those of the C library may take 0.03 s to read, from the separate debug info of a distribution. */
    for (size_t i = 0; i < written && session; i++) {
        if (pcs[i])
            libdw_line(session, pcs[i] - 1, is_wrapped && i == 0, out[i].file, sizeof out[i].file, &out[i].line);
    }
    if (session)
        libdw_end(session);
    return written;
}

size_t native_frames(const struct stack *stack, int has_libdw, struct stack_frame *out, size_t max)
{
    struct native_place places[STACK_READ];
    if (!stack->count || max == 0)
        return 0;
    for (size_t i = 0; i < stack->count; i++)
        places[i] = (struct native_place){.pc = stack->pcs[i]};
    return native_frames_at(places, stack->count, has_libdw, out, max);
}
