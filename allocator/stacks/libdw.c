#include "libdw.h"

#include "stack.h"
#include "base/lock.h"
#include "base/env.h"

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
    X(dwfl_module_getsrc)                                                                                                      \
    X(dwfl_lineinfo)                                                                                                           \
    X(dwfl_module_nextcu)                                                                                                      \
    X(dwfl_module_addrdie)                                                                                                     \
    X(dwarf_getscopes)                                                                                                         \
    X(dwarf_tag)                                                                                                               \
    X(dwarf_attr)                                                                                                              \
    X(dwarf_formudata)                                                                                                         \
    X(dwarf_getsrcfiles)                                                                                                       \
    X(dwarf_filesrc)                                                                                                           \
    X(dwarf_haspc)                                                                                                             \
    X(dwarf_getsrc_die)                                                                                                        \
    X(dwarf_linesrc)                                                                                                           \
    X(dwarf_lineno)

struct libdw {
#define X(function) __typeof__(function) *(function);
    FUNCTIONS(X)
#undef X
};

static struct libdw table; /* written once, by load() */
static int is_loaded;

static const struct entry {
    const char *name;
    size_t offset;
} entries[] = {
#define X(function) {#function, offsetof(struct libdw, function)},
    FUNCTIONS(X)
#undef X
};

static void load(void)
{
    void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        void *function = dlsym(library, entries[i].name);
        if (!function)
            return;
        memcpy((char *)&table + entries[i].offset, &function, sizeof function);
    }
    is_loaded = 1;
}

const struct libdw *libdw_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    return is_loaded ? &table : NULL;
}

struct libdw_session {
    const struct libdw *libdw;
    Dwfl *dwfl;
    Dwfl_Callbacks callbacks;
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
    return close_on_exec(table.dwfl_linux_proc_find_elf(module, data, name, base, file, elf));
}

/* The standard callback queries debuginfod if one is configured. A report must not wait for the network. */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base, const char *file,
                          const char *link, GElf_Word check, char **found)
{
    return close_on_exec((env_get("DEBUGINFOD_URLS") ? table.dwfl_build_id_find_debuginfo : table.dwfl_standard_find_debuginfo)(
        module, data, name, base, file, link, check, found));
}

static void close_session(struct libdw_session *session)
{
    if (session->dwfl)
        session->libdw->dwfl_end(session->dwfl);
    free(session);
}

static struct libdw_session *open_session(const struct libdw *libdw)
{
    struct libdw_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->libdw = libdw;
    session->callbacks.find_elf = find_elf;
    session->callbacks.find_debuginfo = find_debuginfo;
    session->dwfl = libdw->dwfl_begin(&session->callbacks);
    if (!session->dwfl || libdw->dwfl_linux_proc_report(session->dwfl, getpid()) != 0 ||
        libdw->dwfl_report_end(session->dwfl, NULL, NULL) != 0) {
        close_session(session);
        return NULL;
    }
    return session;
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

struct libdw_session *libdw_begin(const struct libdw *libdw)
{
    struct loaded now = {0, 0, 0};
    if (!lock_try(&kept_lock))
        return open_session(libdw);
    dl_iterate_phdr(read_loaded, &now);
    if (kept && (memcmp(&now, &kept_for, sizeof now) != 0 || kept->libdw != libdw)) {
        close_session(kept);
        kept = NULL;
    }
    if (!kept && (kept = open_session(libdw)))
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
    const struct libdw *libdw = session->libdw;
    Dwfl_Module *module = libdw->dwfl_addrmodule(session->dwfl, address);
    GElf_Off offset;
    GElf_Sym symbol;
    const char *found = module ? libdw->dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL) : NULL;
    if (found && (symbol.st_size == 0 || offset < symbol.st_size))
        snprintf(name, size, "%s", found);
}

/* libdw finds a unit by .debug_aranges, which clang and rustc do not write: looks at each unit's own ranges. */
static Dwarf_Die *find_unit(const struct libdw *libdw, Dwfl_Module *module, uint64_t address, Dwarf_Addr *bias)
{
    Dwarf_Die *unit = libdw->dwfl_module_addrdie(module, address, bias);
    if (unit)
        return unit;
    while ((unit = libdw->dwfl_module_nextcu(module, unit, bias)) != NULL)
        if (libdw->dwarf_haspc(unit, address - *bias) == 1)
            return unit;
    return NULL;
}

static const char *find_line(const struct libdw *libdw, Dwfl_Module *module, uint64_t address, int *line)
{
    Dwarf_Addr bias;
    Dwarf_Die *unit = find_unit(libdw, module, address, &bias);
    Dwarf_Line *found = unit ? libdw->dwarf_getsrc_die(unit, address - bias) : NULL;
    const char *source = found ? libdw->dwarf_linesrc(found, NULL, NULL) : NULL;
    return source && libdw->dwarf_lineno(found, line) == 0 ? source : NULL;
}

static int is_of_cudas_header(const char *source)
{
    const char *slash = strrchr(source, '/');
    return strncmp(slash ? slash + 1 : source, "cuda_runtime", strlen("cuda_runtime")) == 0;
}

/* The first place in a file of the program that an inlined function at the address is called at; NULL if there is none. */
static const char *find_call(const struct libdw *libdw, Dwfl_Module *module, uint64_t address, int *line)
{
    Dwarf_Addr bias;
    Dwarf_Die *scopes = NULL, *unit = find_unit(libdw, module, address, &bias);
    const char *source = NULL;
    Dwarf_Files *files;
    size_t file_count;
    if (!unit || libdw->dwarf_getsrcfiles(unit, &files, &file_count) != 0)
        return NULL;
    int count = libdw->dwarf_getscopes(unit, address - bias, &scopes);
    for (int i = 0; i < count && !source; i++) {
        Dwarf_Attribute attribute;
        Dwarf_Word file, at;
        if (libdw->dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine ||
            libdw->dwarf_formudata(libdw->dwarf_attr(&scopes[i], DW_AT_call_file, &attribute), &file) != 0 ||
            libdw->dwarf_formudata(libdw->dwarf_attr(&scopes[i], DW_AT_call_line, &attribute), &at) != 0)
            continue;
        source = libdw->dwarf_filesrc(files, (size_t)file, NULL, NULL);
        *line = (int)at;
        if (source && is_of_cudas_header(source))
            source = NULL;
    }
    free(scopes);
    return source;
}

void libdw_line(struct libdw_session *session, uint64_t address, int is_wrapped, char *file, size_t size, int *line)
{
    const struct libdw *libdw = session->libdw;
    Dwfl_Module *module = libdw->dwfl_addrmodule(session->dwfl, address);
    Dwfl_Line *found = module ? libdw->dwfl_module_getsrc(module, address) : NULL;
    const char *source = found ? libdw->dwfl_lineinfo(found, NULL, line, NULL, NULL, NULL) : NULL;
    if (module && !found)
        source = find_line(libdw, module, address, line);
    if (source && (is_wrapped || is_of_cudas_header(source))) {
        int called_at;
        const char *caller = find_call(libdw, module, address, &called_at);
        source = caller ? caller : source;
        *line = caller ? called_at : *line;
    }
    if (source)
        snprintf(file, size, "%s", source);
}
