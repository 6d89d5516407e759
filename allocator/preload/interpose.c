/*
 * libcufence_preload.so: the library for LD_PRELOAD. It depends on the C library only, and does nothing until the program uses
 * the CUDA driver: through dlsym, which it interposes, or by calling a driver function that the program was linked with. Then
 * it opens libcufence.so from its own folder and hands out its hooks. A program that is linked with PyTorch has it from the
 * start, for PyTorch's allocator.
 *
 * dlsym identifies its caller by the return address (for RTLD_NEXT and RTLD_DEFAULT). So other lookups must be forwarded by a
 * jump, not a call: this file is compiled with sibling calls (see CMakeLists.txt).
 */
#include "hooks.h"

#include "base/env.h"
#include "base/tally.h"
#include "base/thread.h"

#include <cufence.h>
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FILE_NAME "libcufence.so"

typedef void *(*dlsym_function)(void *, const char *);

/* Each is found once; two threads that search at the same time find the same. All atomic. */
static dlsym_function real_dlsym;
static void *(*hook_for)(const char *symbol, const void *found);
static void (*before_exit)(int is_killed);
static int has_no_library;

/* Descriptor 2 before main(): by the time libcufence.so is opened, the program may have closed it and reused the number. */
static struct stat standard_error;
static int had_standard_error, has_looked;

/* Constructors of other libraries may use the driver before ours has run. */
__attribute__((constructor)) static void look_at_standard_error(void)
{
    if (!has_looked)
        had_standard_error = fstat(STDERR_FILENO, &standard_error) == 0;
    has_looked = 1;
}

static dlsym_function find_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    dlsym_function found = __atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE);
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++)
        found = (dlsym_function)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    if (!found) {
        static const char sorry[] = "cufence: the C library's dlsym was not found; this is not a glibc that cufence knows\n";
        fputs(sorry, stderr);
        abort();
    }
    __atomic_store_n(&real_dlsym, found, __ATOMIC_RELEASE);
    return found;
}

static void tell_of_standard_error(void *library)
{
    void (*tell)(const struct stat *) = (void (*)(const struct stat *))find_dlsym()(library, "cufence_output_began_with");
    look_at_standard_error();
    if (tell)
        tell(had_standard_error ? &standard_error : NULL);
}

/* Returns the function that the program would have called without us. */
static void *next_of(const char *symbol)
{
    return find_dlsym()(RTLD_NEXT, symbol);
}

/* The one that the program is linked with, if it is: two would not share a device. An installed one's name has a version. */
static void *linked_library(void)
{
    void *library = dlopen(FILE_NAME "." SOVERSION, RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        library = dlopen(FILE_NAME, RTLD_NOW | RTLD_NOLOAD);
    return library && find_dlsym()(library, "cufence_preload_hook") ? library : NULL;
}

/* Opens libcufence.so beside this library, unless there is one. */
static void *open_library(void)
{
    char *path = NULL;
    Dl_info info;
    const char *slash = dladdr((void *)&open_library, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    int folder = slash ? (int)(slash - info.dli_fname) + 1 : 0;
    void *library = linked_library();
    if (!library && asprintf(&path, "%.*s%s", folder, slash ? info.dli_fname : "", FILE_NAME) >= 0) {
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        free(path);
    }
    if (!library) {
        tally_note(TALLY_UNGUARDED);
        fprintf(stderr, "cufence: this process runs unguarded: %s\n", dlerror());
    }
    return library;
}

static int is_named(struct dl_phdr_info *library, size_t size, void *name)
{
    (void)size;
    return strstr(library->dlpi_name, name) != NULL;
}

/* PyTorch in a program that is linked with it: its allocator has to be ours before it is first asked. */
__attribute__((constructor)) static void adopt_torch(void)
{
    void *library = dl_iterate_phdr(is_named, (char[]){"/libc10_cuda.so"}) ? open_library() : NULL;
    int (*adopt)(const char *) = library ? (int (*)(const char *))find_dlsym()(library, "cufence_torch_adopt_or_say") : NULL;
    if (!adopt)
        return;
    tell_of_standard_error(library);
    adopt(NULL);
}

static void *hook_of(const char *symbol, const void *found)
{
    void *(*ask)(const char *, const void *) = __atomic_load_n(&hook_for, __ATOMIC_ACQUIRE);
    if (!ask && !__atomic_load_n(&has_no_library, __ATOMIC_RELAXED)) {
        void *library = open_library();
        ask = library ? (void *(*)(const char *, const void *))find_dlsym()(library, "cufence_preload_hook") : NULL;
        if (ask) {
            tell_of_standard_error(library);
            __atomic_store_n(&before_exit, (void (*)(int))find_dlsym()(library, "cufence_preload_before_exit"),
                             __ATOMIC_RELEASE);
            __atomic_store_n(&hook_for, ask, __ATOMIC_RELEASE);
        } else {
            __atomic_store_n(&has_no_library, 1, __ATOMIC_RELAXED);
        }
    }
    return ask ? ask(symbol, found) : NULL;
}

static int is_of_interest(const char *name)
{
    static const char *const names[] = {
#define NAME(symbol, base, version, thread, how, check, parameters, arguments) #symbol,
        PRELOAD_HOOKS(NAME)
#undef NAME
    };
    if (name[0] != 'c' || name[1] != 'u')
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0)
            return 1;
    }
    return 0;
}

/* A driver that the program has loaded with dlmopen() is another one than ours, with contexts of its own. */
static int is_of_other_namespace(void *library)
{
    Lmid_t space;
    return library != RTLD_DEFAULT && dlinfo(library, RTLD_DI_LMID, &space) == 0 && space != LM_ID_BASE;
}

/* Looks up a driver function in a library. Returns our hook, unless the symbol is this library's own stub, or no driver's. */
static void *symbol_in(void *library, const char *name)
{
    Dl_info found, own;
    void *symbol = find_dlsym()(library, name);
    if (!symbol || is_of_other_namespace(library) ||
        (dladdr(symbol, &found) && dladdr((void *)&symbol_in, &own) && found.dli_fbase == own.dli_fbase))
        return symbol;
    void *hook = hook_of(name, symbol);
    return hook ? hook : symbol;
}

/* Under another C name: for `dlsym` itself the compiler assumes that `name` is never NULL. */
EXPORT void *interposed_dlsym(void *library, const char *name) __asm__("dlsym");
EXPORT void *interposed_dlsym(void *library, const char *name)
{
    if (library != RTLD_NEXT && name && is_of_interest(name))
        return symbol_in(library, name);
    dlsym_function function = __atomic_load_n(&real_dlsym, __ATOMIC_ACQUIRE);
    if (!function)
        function = find_dlsym();
    return function(library, name);
}

/* ---- process exit ---- */

/* The driver writes core dumps with libcudadebugger.so, on a thread that runs until the driver itself shuts down. That library
 * registers its static objects for destruction before that, so a program that exits soon after a fault crashes in it (driver
 * 580.159.04: 9 of 9 that exited 10, 20 and 80 ms after). The fix: don't register them. The process is ending, so the objects
 * may stay.
 *
 * Static objects of all C++ libraries are registered through here: 100,000 and more when PyTorch is imported. So the list of
 * libraries is searched only after it has changed; otherwise a registration only reads the loader's change counters (20 ns).
 * dladdr() would be too slow: it searches a library's symbols, and waits while another thread's dlopen() runs constructors. */
struct debugger {
    unsigned long long changes; /* libraries loaded plus unloaded at the last search; 0: never searched */
    uintptr_t start, end;       /* both 0: not loaded */
};
static HOT_TLS struct debugger debugger;

static void take_range(const struct dl_phdr_info *library)
{
    debugger.start = UINTPTR_MAX;
    debugger.end = 0;
    for (unsigned i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        uintptr_t start = library->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        if (start < debugger.start)
            debugger.start = start;
        if (start + segment->p_memsz > debugger.end)
            debugger.end = start + segment->p_memsz;
    }
}

/* Stops at once if nothing has changed. All visits of one walk see the same counters, since the loader holds its lock. */
static int visit(struct dl_phdr_info *library, size_t size, void *is_first)
{
    unsigned long long changes = library->dlpi_adds + library->dlpi_subs;
    (void)size;
    if (*(int *)is_first && debugger.changes == changes)
        return 1;
    if (*(int *)is_first)
        debugger = (struct debugger){.changes = changes};
    *(int *)is_first = 0;
    if (!strstr(library->dlpi_name, "/libcudadebugger.so"))
        return 0;
    take_range(library);
    return 1;
}

static int is_of_debugger(const void *object)
{
    int is_first = 1;
    if (!object)
        return 0;
    dl_iterate_phdr(visit, &is_first);
    return (uintptr_t)object >= debugger.start && (uintptr_t)object < debugger.end;
}

EXPORT int interposed_cxa_atexit(void (*function)(void *), void *argument, void *object) __asm__("__cxa_atexit");
EXPORT int interposed_cxa_atexit(void (*function)(void *), void *argument, void *object)
{
    static int (*real)(void (*)(void *), void *, void *); /* atomic */
    if (__atomic_load_n(&hook_for, __ATOMIC_ACQUIRE) && is_of_debugger(object))
        return 0;
    int (*next)(void (*)(void *), void *, void *) = __atomic_load_n(&real, __ATOMIC_ACQUIRE);
    if (!next) {
        *(void **)&next = next_of("__cxa_atexit");
        __atomic_store_n(&real, next, __ATOMIC_RELEASE);
    }
    return next(function, argument, object);
}

/* ---- ends without exit handlers ---- */

static void (*real_abort)(void); /* atomic */

/* A signal handler may call abort() while another thread holds the loader's lock. */
__attribute__((constructor)) static void find_abort(void)
{
    __atomic_store_n(&real_abort, (void (*)(void))next_of("abort"), __ATOMIC_RELEASE);
}

/* A program may end at once when it gets the error of a fault, while the report is being made: os._exit() in a child of
 * Python's multiprocessing, abort() behind an exception that nobody catches, execv() to start anew. */
static void await_report(int is_killed)
{
    void (*await)(int) = __atomic_load_n(&before_exit, __ATOMIC_ACQUIRE);
    if (await)
        await(is_killed);
}

/* The tally's descriptor if this process is the one to speak, else -1. Its environment may have changed by the end. */
static int tally_fd = -1;
static struct tally at_start; /* for a program that closes what it has inherited: some process may not have told all */
static pid_t speaker;

__attribute__((constructor)) static void look_for_tally(void)
{
    const char *path = env_get(TALLY_VARIABLE);
    int process, fd;
    if (path && sscanf(path, "/proc/%d/fd/%d", &process, &fd) == 2 && process == getpid()) {
        tally_fd = fd;
        speaker = process;
        at_start.counts[TALLY_BLIND] = at_start.counts[TALLY_GUARDED] = (unsigned)tally_read(fd, &at_start);
    }
}

static int is_silent(const struct tally *tally)
{
    return tally->counts[TALLY_TORCH] && !tally->counts[TALLY_STARTED] && !dl_iterate_phdr(is_named, (char[]){"/libtorch"});
}

static int is_as_it_was(void)
{
    struct stat now;
    return had_standard_error && fstat(STDERR_FILENO, &now) == 0 && now.st_dev == standard_error.st_dev &&
           now.st_ino == standard_error.st_ino;
}

/* The last word of a program that `cufence run` has become: its first process, which the tally names, says once whether
 * anything was guarded. Returns the status that it ends with. */
static int say_last_word(int status)
{
    static int is_done; /* atomic */
    struct tally tally;
    char lines[1200];
    if (tally_fd < 0 || getpid() != speaker || __atomic_exchange_n(&is_done, 1, __ATOMIC_RELAXED))
        return status;
    int is_open = tally_read(tally_fd, &tally);
    if (!is_open)
        tally = at_start;
    /* not without /proc, or with a new environment: its children could not write */
    int is_quiet = !is_open || !tally_is_kept() || is_silent(&tally), is_heard = is_as_it_was();
    if (status == 0 && is_open && tally.counts[TALLY_REQUIRED])
        tally_await(tally_fd, is_quiet, is_heard);
    status = tally_judge(&tally, status, 0, is_quiet, lines, sizeof lines);
    if (lines[0] && is_heard)
        (void)!write(STDERR_FILENO, lines, strlen(lines));
    return status;
}

/* Behind all other exit handlers and destructors, for it is registered before main(): those of libcufence.so say what was
 * guarded. */
static void at_end(int status, void *unused)
{
    (void)unused;
    fcloseall(); /* as exit() does behind us: another program may take this one's place */
    int last = say_last_word(status);
    if (last != status)
        exit(last);
}

EXPORT void interposed_exit(int status) __asm__("_exit");
EXPORT void interposed_exit(int status)
{
    await_report(0);
    status = say_last_word(status);
    for (;;)
        syscall(SYS_exit_group, status);
}

EXPORT void interposed_C_exit(int status) __asm__("_Exit");
EXPORT void interposed_C_exit(int status)
{
    interposed_exit(status);
}

EXPORT void interposed_abort(void) __asm__("abort");
EXPORT void interposed_abort(void)
{
    await_report(1);
    if (!__atomic_load_n(&real_abort, __ATOMIC_ACQUIRE)) /* the constructor of another library */
        find_abort();
    __atomic_load_n(&real_abort, __ATOMIC_ACQUIRE)();
}

/* quick_exit() calls no _exit() that could be replaced. Its first handler is called last. */
static int quick_status;

static void at_quick_end(void)
{
    await_report(0);
    int last = say_last_word(quick_status);
    if (last != quick_status)
        interposed_exit(last);
}

EXPORT void interposed_quick_exit(int status) __asm__("quick_exit");
EXPORT void interposed_quick_exit(int status)
{
    quick_status = status;
    ((void (*)(int))next_of("quick_exit"))(status);
    __builtin_unreachable();
}

__attribute__((constructor)) static void watch_exits(void)
{
    on_exit(at_end, NULL);
    at_quick_exit(at_quick_end);
}

/* ---- another program in place of this one ---- */

/* The C library's own calls of execve() cannot be replaced, so each function is. A child of vfork() does not wait (start.c). */
#define EXEC(name, parameters, arguments)                                                                                      \
    static int(*real_##name) parameters; /* atomic */                                                                          \
    __attribute__((constructor)) static void find_##name(void)                                                                 \
    {                                                                                                                          \
        __atomic_store_n(&real_##name, (int(*) parameters)next_of(#name), __ATOMIC_RELEASE);                                   \
    }                                                                                                                          \
    EXPORT int interposed_##name parameters __asm__(#name);                                                                    \
    EXPORT int interposed_##name parameters                                                                                    \
    {                                                                                                                          \
        await_report(0);                                                                                                       \
        if (!__atomic_load_n(&real_##name, __ATOMIC_ACQUIRE))                                                                  \
            find_##name();                                                                                                     \
        int failed = __atomic_load_n(&real_##name, __ATOMIC_ACQUIRE) arguments;                                                \
        await_report(-1);                                                                                                      \
        return failed;                                                                                                         \
    }
EXEC(execve, (const char *path, char *const *list, char *const *environment), (path, list, environment))
EXEC(execvpe, (const char *name, char *const *list, char *const *environment), (name, list, environment))
EXEC(fexecve, (int fd, char *const *list, char *const *environment), (fd, list, environment))
EXEC(execv, (const char *path, char *const *list), (path, list))
EXEC(execvp, (const char *name, char *const *list), (name, list))

/* The arguments that follow `first` up to NULL, and the environment behind them, if there is one. */
static int exec_list(int (*execute)(const char *, char *const *, char *const *), const char *path, const char *first,
                     int has_environment, va_list rest)
{
    size_t count = first != NULL;
    va_list counted;
    va_copy(counted, rest);
    while (count && va_arg(counted, char *))
        count++;
    va_end(counted);
    char *list[count + 1];
    list[0] = (char *)first;
    for (size_t i = 1; i <= count; i++)
        list[i] = va_arg(rest, char *);
    return execute(path, list, has_environment ? va_arg(rest, char *const *) : environ);
}

#define EXEC_LIST(name, execute, has_environment)                                                                              \
    EXPORT int interposed_##name(const char *path, const char *first, ...) __asm__(#name);                                     \
    EXPORT int interposed_##name(const char *path, const char *first, ...)                                                     \
    {                                                                                                                          \
        va_list rest;                                                                                                          \
        va_start(rest, first);                                                                                                 \
        int result = exec_list(execute, path, first, has_environment, rest);                                                   \
        va_end(rest);                                                                                                          \
        return result;                                                                                                         \
    }
EXEC_LIST(execl, interposed_execve, 0)
EXEC_LIST(execle, interposed_execve, 1)
EXEC_LIST(execlp, interposed_execvpe, 0)

/* ---- the functions that a program may declare weak (cufence.h) ---- */

/* Before the program has used the driver, it has no buffer either. */
#define WEAK(name)                                                                                                             \
    EXPORT cufence_status name(const void *pointer, size_t bytes, cufence_stream stream)                                       \
    {                                                                                                                          \
        static cufence_status (*real)(const void *, size_t, cufence_stream); /* atomic */                                      \
        cufence_status (*next)(const void *, size_t, cufence_stream) = __atomic_load_n(&real, __ATOMIC_ACQUIRE);               \
        void *library = next ? NULL : linked_library();                                                                        \
        if (library) {                                                                                                         \
            *(void **)&next = find_dlsym()(library, #name);                                                                    \
            __atomic_store_n(&real, next, __ATOMIC_RELEASE);                                                                   \
        }                                                                                                                      \
        return next ? next(pointer, bytes, stream) : CUFENCE_ERROR_NOT_INITIALIZED;                                            \
    }
WEAK(cufence_poison)
WEAK(cufence_unpoison)

/* ---- for programs linked with libcuda ---- */

/* Returns what a program that calls `symbol` by name would have called: of the libraries behind this one, or if none of them
 * has it, of those that the calling library is linked with. */
static void *linked_with(const char *symbol, const void *caller)
{
    Dl_info info;
    void *found = next_of(symbol), *library = NULL;
    if (!found && dladdr(caller, &info) && info.dli_fname)
        library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        found = find_dlsym()(library, symbol);
        dlclose(library);
    }
    return found;
}

#define STUB(symbol, base, version, thread, how, check, parameters, arguments)                                                 \
    EXPORT CUresult symbol parameters;                                                                                         \
    EXPORT CUresult symbol parameters                                                                                          \
    {                                                                                                                          \
        static CUresult(*target) parameters; /* atomic */                                                                      \
        CUresult(*function) parameters = __atomic_load_n(&target, __ATOMIC_ACQUIRE);                                           \
        if (!function) {                                                                                                       \
            void *found = linked_with(#symbol, __builtin_return_address(0)), *hook = hook_of(#symbol, found);                  \
            function = (CUresult(*) parameters)(hook ? hook : found);                                                          \
            if (!function)                                                                                                     \
                return CUDA_ERROR_NOT_FOUND;                                                                                   \
            __atomic_store_n(&target, function, __ATOMIC_RELEASE);                                                             \
        }                                                                                                                      \
        return function arguments;                                                                                             \
    }
PRELOAD_HOOKS(STUB)
