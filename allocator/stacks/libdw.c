#include "libdw.h"

#include "stack.h"
#include "base/lock.h"
#include "base/env.h"
#include "base/text.h"

#include <dlfcn.h>
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                                                           \
    X(dwfl_begin)                                                                                                              \
    X(dwfl_end)                                                                                                                \
    X(dwfl_report_end)                                                                                                         \
    X(dwfl_linux_proc_report)                                                                                                  \
    X(dwfl_linux_proc_find_elf)                                                                                                \
    X(dwfl_standard_find_debuginfo)                                                                                            \
    X(dwfl_build_id_find_debuginfo)                                                                                            \
    X(dwfl_addrmodule)                                                                                                         \
    X(dwfl_module_addrinfo)                                                                                                    \
    X(dwfl_module_nextcu)                                                                                                      \
    X(dwfl_module_addrdie)                                                                                                     \
    X(dwarf_child)                                                                                                             \
    X(dwarf_siblingof)                                                                                                         \
    X(dwarf_tag)                                                                                                               \
    X(dwarf_attr)                                                                                                              \
    X(dwarf_formudata)                                                                                                         \
    X(dwarf_getsrcfiles)                                                                                                       \
    X(dwarf_filesrc)                                                                                                           \
    X(dwarf_haspc)                                                                                                             \
    X(dwarf_getsrc_die)                                                                                                        \
    X(dwarf_linesrc)                                                                                                           \
    X(dwarf_lineno)

/* Written once, by load(). */
static struct {
#define X(function) __typeof__(function) *(function);
    FUNCTIONS(X)
#undef X
} dw;
static int is_loaded;

static void load(void)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    is_loaded = library != NULL;
#define X(function) is_loaded = is_loaded && (*(void **)&dw.function = dlsym(library, #function)) != NULL;
    FUNCTIONS(X)
#undef X
}

int libdw_is_there(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded;
}

struct libdw_session {
    Dwfl *dwfl;
    int is_kept;
};

/* The library opens files without that, and a session keeps them open. */
static int close_on_exec(int file)
{
    if (file >= 0)
        fcntl(file, F_SETFD, FD_CLOEXEC);
    return file;
}

static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, char **file, Elf **elf)
{
    return close_on_exec(dw.dwfl_linux_proc_find_elf(module, data, name, base, file, elf));
}

/* The standard callback queries debuginfod if one is configured. A report must not wait for the network. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word check, char **found)
{
    return close_on_exec((env_get("DEBUGINFOD_URLS") ? dw.dwfl_build_id_find_debuginfo : dw.dwfl_standard_find_debuginfo)(
        module, data, name, base, file, link, check, found));
}

static void close_session(struct libdw_session *session)
{
    if (session->dwfl)
        dw.dwfl_end(session->dwfl);
    free(session);
}

static struct libdw_session *open_session(void)
{
    static const Dwfl_Callbacks callbacks = {.find_elf = find_elf, .find_debuginfo = find_debuginfo};
    struct libdw_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->dwfl = dw.dwfl_begin(&callbacks);
    if (session->dwfl && dw.dwfl_linux_proc_report(session->dwfl, getpid()) == 0 &&
        dw.dwfl_report_end(session->dwfl, NULL, NULL) == 0)
        return session;
    close_session(session);
    return NULL;
}

/* How often the loader has mapped and unmapped a module, and a sum over the states of the modules' files. */
struct loaded {
    unsigned long long mapped, unmapped;
    uint64_t files;
};

static void add(uint64_t *sum, uint64_t value)
{
    *sum = (*sum ^ value) * UINT64_C(0x100000001b3); /* FNV-1a's prime */
}

static int read_loaded(struct dl_phdr_info *info, size_t size, void *user)
{
    struct loaded *loaded = user;
    struct stat file;
    (void)size;
    loaded->mapped = info->dlpi_adds;
    loaded->unmapped = info->dlpi_subs;
    if (stat(info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe", &file) == 0) {
        add(&loaded->files, file.st_ino);
        add(&loaded->files, (uint64_t)file.st_size);
        add(&loaded->files, (uint64_t)file.st_mtim.tv_sec);
        add(&loaded->files, (uint64_t)file.st_mtim.tv_nsec);
    }
    return 0;
}

/* The last session, for as long as the same modules are loaded and their files are what they were: a report names several
 * stacks, and reading the line tables of a program takes most of the time. libdw maps the files; if one is overwritten in
 * place, by a build, reading on would end in a SIGBUS. Whoever finds the session in use opens one of their own. */
static struct libdw_session *kept; /* under the lock, which its user holds */
static struct loaded kept_for;
static struct lock kept_lock = LOCK(RANK_FRAMES);

struct libdw_session *libdw_begin(void)
{
    struct loaded now = {0, 0, 0};
    if (!lock_try(&kept_lock))
        return open_session();
    dl_iterate_phdr(read_loaded, &now);
    if (kept && memcmp(&now, &kept_for, sizeof now) != 0) {
        close_session(kept);
        kept = NULL;
    }
    if (!kept && (kept = open_session()))
        kept->is_kept = 1;
    kept_for = now;
    if (!kept)
        lock_release(&kept_lock);
    return kept;
}

void libdw_end(struct libdw_session *session)
{
    if (session->is_kept)
        lock_release(&kept_lock);
    else
        close_session(session);
}

/* Closes what libdw_end() keeps for the next session: files, sockets of debuginfod, memory. */
void stack_frames_done(void)
{
    if (!lock_try(&kept_lock))
        return;
    if (kept)
        close_session(kept);
    kept = NULL;
    lock_release(&kept_lock);
}

void libdw_name(struct libdw_session *session, uint64_t address, char *name, size_t size)
{
    Dwfl_Module *module = dw.dwfl_addrmodule(session->dwfl, address);
    GElf_Off offset;
    GElf_Sym symbol;
    const char *found = module ? dw.dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL) : NULL;
    if (found && (symbol.st_size == 0 || offset < symbol.st_size))
        snprintf(name, size, "%s", found);
}

/* Returns the unit that has the code at an address, which becomes that in its file. libdw finds a unit by .debug_aranges, which
 * clang and rustc do not write: looks at each unit's own ranges. */
static Dwarf_Die *find_unit(const struct libdw_session *session, uint64_t *address)
{
    Dwarf_Addr bias = 0;
    Dwfl_Module *module = dw.dwfl_addrmodule(session->dwfl, *address);
    Dwarf_Die *unit = module ? dw.dwfl_module_addrdie(module, *address, &bias) : NULL;
    if (module && !unit)
        while ((unit = dw.dwfl_module_nextcu(module, unit, &bias)) != NULL && dw.dwarf_haspc(unit, *address - bias) != 1)
            ;
    *address -= bias;
    return unit;
}

static const char *find_line(Dwarf_Die *unit, uint64_t address, int *line)
{
    Dwarf_Line *found = unit ? dw.dwarf_getsrc_die(unit, address) : NULL;
    const char *source = found ? dw.dwarf_linesrc(found, NULL, NULL) : NULL;
    return source && dw.dwarf_lineno(found, line) == 0 ? source : NULL;
}

static int is_nvccs_stub(const char *source)
{
    static const char end[] = ".cudafe1.stub.c";
    size_t length = strlen(source);
    return length >= sizeof end - 1 && strcmp(source + length - (sizeof end - 1), end) == 0;
}

/* CUDA's headers through which a program launches and allocates, and what nvcc writes. */
static int is_of_cuda(const char *source)
{
    const char *slash = strrchr(source, '/');
    return strncmp(slash ? slash + 1 : source, "cuda_runtime", strlen("cuda_runtime")) == 0 ||
           strstr(source, "/crt/device_functions.h") || is_nvccs_stub(source);
}

#define INLINED_MOST 32

/* Collects the inlined functions that an address lies in, outermost first. dwarf_getscopes() leaves out the callers of the
 * innermost one, and what clang defines inside a namespace. */
static size_t find_inlined(Dwarf_Die *within, uint64_t address, Dwarf_Die *out, size_t count)
{
    Dwarf_Die child;
    for (int end = dw.dwarf_child(within, &child); end == 0; end = dw.dwarf_siblingof(&child, &child)) {
        int tag = dw.dwarf_tag(&child), is_inlined = tag == DW_TAG_inlined_subroutine;
        int is_code = is_inlined || tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block;
        if (is_code ? dw.dwarf_haspc(&child, address) != 1 : tag != DW_TAG_namespace)
            continue;
        if (is_inlined && count < INLINED_MOST)
            out[count++] = child;
        size_t more = find_inlined(&child, address, out, count);
        if (is_code || more > count)
            return more;
    }
    return count;
}

static const char *call_of(Dwarf_Die *inlined, Dwarf_Files *files, int *line)
{
    Dwarf_Attribute attribute;
    Dwarf_Word file, at;
    if (dw.dwarf_formudata(dw.dwarf_attr(inlined, DW_AT_call_file, &attribute), &file) != 0 ||
        dw.dwarf_formudata(dw.dwarf_attr(inlined, DW_AT_call_line, &attribute), &at) != 0)
        return NULL;
    *line = (int)at;
    return dw.dwarf_filesrc(files, (size_t)file, NULL, NULL);
}

/* The first place in the program that an inlined function at the address is called at; NULL if there is none. `source`: that of
 * the address. What calls nvcc's stub is nvcc's wrapper, whose own line is that of the kernel: the place is where that is
 * called. *is_wrapper: that is not inlined, so it is the function of the frame. */
static const char *find_call(Dwarf_Die *unit, uint64_t address, const char *source, int *line, int *is_wrapper)
{
    Dwarf_Die inlined[INLINED_MOST];
    Dwarf_Files *files;
    size_t file_count;
    *is_wrapper = 0;
    if (dw.dwarf_getsrcfiles(unit, &files, &file_count) != 0)
        return NULL;
    int is_stub = is_nvccs_stub(source);
    source = NULL;
    for (size_t i = find_inlined(unit, address, inlined, 0); i > 0 && !source; i--) {
        source = call_of(&inlined[i - 1], files, line);
        if (!source)
            continue;
        *is_wrapper = is_stub && !is_of_cuda(source);
        if (is_of_cuda(source) || *is_wrapper) {
            is_stub = is_nvccs_stub(source);
            source = NULL;
        }
    }
    return source;
}

int libdw_is_wrapper(struct libdw_session *session, uint64_t address)
{
    int line, is_wrapper = 0;
    Dwarf_Die *unit = find_unit(session, &address);
    const char *source = find_line(unit, address, &line);
    if (source && is_of_cuda(source))
        find_call(unit, address, source, &line, &is_wrapper);
    return is_wrapper;
}

void libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line)
{
    Dwarf_Die *unit = find_unit(session, &address);
    const char *source = find_line(unit, address, line);
    if (source && (is_wrapped || is_of_cuda(source))) {
        int called_at, is_wrapper;
        const char *caller = find_call(unit, address, source, &called_at, &is_wrapper);
        source = caller ? caller : source;
        *line = caller ? called_at : *line;
    }
    if (source)
        text_format(file, size, "%s", source);
}
