#include "libdw.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FUNCTIONS(X)                                                                                                           \
    X(dwfl_begin)                                                                                                              \
    X(dwfl_end)                                                                                                                \
    X(dwfl_report_end)                                                                                                         \
    X(dwfl_linux_proc_report)                                                                                                  \
    X(dwfl_linux_proc_find_elf)                                                                                                \
    X(dwfl_standard_find_debuginfo)                                                                                            \
    X(dwfl_build_id_find_debuginfo)                                                                                            \
    X(dwfl_attach_state)                                                                                                       \
    X(dwfl_getthread_frames)                                                                                                   \
    X(dwfl_frame_pc)                                                                                                           \
    X(dwfl_thread_state_registers)                                                                                             \
    X(dwfl_addrmodule)                                                                                                         \
    X(dwfl_module_addrinfo)                                                                                                    \
    X(dwfl_module_getsrc)                                                                                                      \
    X(dwfl_lineinfo)

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
    int is_attached;
    const struct stack *stack; /* that is being unwound */
    uint64_t *pcs;
    size_t count, max;
};

struct libdw_session *libdw_begin(const struct libdw *libdw)
{
    struct libdw_session *session = calloc(1, sizeof *session);
    if (!session)
        return NULL;
    session->libdw = libdw;
    session->callbacks.find_elf = libdw->dwfl_linux_proc_find_elf;
    /* The standard way asks debuginfod where one is named, and a report must not wait for a network. */
    session->callbacks.find_debuginfo =
        getenv("DEBUGINFOD_URLS") ? libdw->dwfl_build_id_find_debuginfo : libdw->dwfl_standard_find_debuginfo;
    session->dwfl = libdw->dwfl_begin(&session->callbacks);
    if (!session->dwfl || libdw->dwfl_linux_proc_report(session->dwfl, getpid()) != 0 ||
        libdw->dwfl_report_end(session->dwfl, NULL, NULL) != 0) {
        libdw_end(session);
        return NULL;
    }
    return session;
}

void libdw_end(struct libdw_session *session)
{
    if (session->dwfl)
        session->libdw->dwfl_end(session->dwfl);
    free(session);
}

static pid_t next_thread(Dwfl *dwfl, void *session, void **thread)
{
    (void)dwfl;
    if (*thread)
        return 0;
    *thread = session;
    return getpid();
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word, void *session)
{
    (void)dwfl;
    const struct stack *stack = ((struct libdw_session *)session)->stack;
    uint64_t offset = address - stack->sp;
    if (offset % sizeof(uint64_t) != 0 || offset / sizeof(uint64_t) >= stack->word_count)
        return false;
    *word = stack->words[offset / sizeof(uint64_t)];
    return true;
}

/* Numbers of registers: the System V ABI's for x86-64, figure 3.36; DWARF for the Arm 64-bit architecture, section 4.1. */
static bool set_registers(Dwfl_Thread *thread, void *argument)
{
    const struct libdw_session *session = argument;
    Dwarf_Word fp = session->stack->fp, sp = session->stack->sp, pc = session->stack->pc;
#if defined(__x86_64__)
    enum { FP = 6, SP = 7, PC = 16 };
#elif defined(__aarch64__)
    enum { FP = 29, SP = 31, PC = 30 };
#else
#error "which DWARF registers are frame pointer, stack pointer and program counter here?"
#endif
    return session->libdw->dwfl_thread_state_registers(thread, FP, 1, &fp) &&
           session->libdw->dwfl_thread_state_registers(thread, SP, 1, &sp) &&
           session->libdw->dwfl_thread_state_registers(thread, PC, 1, &pc);
}

static int add_frame(Dwfl_Frame *frame, void *argument)
{
    struct libdw_session *session = argument;
    Dwarf_Addr pc;
    if (session->count == session->max || !session->libdw->dwfl_frame_pc(frame, &pc, NULL) || pc == 0)
        return DWARF_CB_ABORT;
    session->pcs[session->count++] = pc;
    return DWARF_CB_OK;
}

size_t libdw_unwind(struct libdw_session *session, const struct stack *stack, uint64_t *pcs, size_t max)
{
    static const Dwfl_Thread_Callbacks callbacks = {
        .next_thread = next_thread, .memory_read = read_word, .set_initial_registers = set_registers};
    session->stack = stack;
    session->pcs = pcs;
    session->count = 0;
    session->max = max;
    if (!session->is_attached) {
        if (!session->libdw->dwfl_attach_state(session->dwfl, NULL, getpid(), &callbacks, session))
            return 0;
        session->is_attached = 1;
    }
    session->libdw->dwfl_getthread_frames(session->dwfl, getpid(), add_frame, session);
    return session->count;
}

void libdw_describe(struct libdw_session *session, uint64_t pc, struct stack_frame *frame)
{
    const struct libdw *libdw = session->libdw;
    Dwfl_Module *module = libdw->dwfl_addrmodule(session->dwfl, pc - 1);
    if (!module)
        return;
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name = libdw->dwfl_module_addrinfo(module, pc - 1, &offset, &symbol, NULL, NULL, NULL);
    if (name && (symbol.st_size == 0 || offset < symbol.st_size))
        snprintf(frame->function, sizeof frame->function, "%s", name);
    Dwfl_Line *line = libdw->dwfl_module_getsrc(module, pc - 1);
    const char *file = line ? libdw->dwfl_lineinfo(line, NULL, &frame->line, NULL, NULL, NULL) : NULL;
    if (file)
        snprintf(frame->file, sizeof frame->file, "%s", file);
}
