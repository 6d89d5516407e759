#include "program_dump.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/files.h"
#include "base/lock.h"
#include "base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_BYTES 1024 /* cuda.h: up to 1023 characters */
#define CONTEXTS 16
#define HIDDEN 16
#define PATIENCE_MS 2000
#define DEFAULT_NAME "core_%t_%h_%p.nvcudmp" /* CUDA-GDB's manual, "Naming of GPU core dump files" */

struct wishes {
    bool is_enabled;
    unsigned flags; /* CUCoredumpGenerationFlags */
    char file[FILE_BYTES];
};

static struct {
    struct lock lock; /* of everything here but has_trigger; a leaf */
    struct wishes all;
    struct {
        const struct context *context;
        uint64_t generation;
        struct wishes wishes;
    } own[CONTEXTS];  /* of contexts that have set something for themselves */
    unsigned fixed;   /* by variables: a bit for each attribute */
    int is_learned;   /* the driver was asked: later it has what cufence has set */
    int has_trigger;  /* atomic */
    unsigned hidings; /* in progress */
    char *hidden[HIDDEN];
} program = {.lock = LOCK(RANK_LEAF)};

/* ---- variables ---- */

/* In the order in which they add to the flags. */
static const struct {
    const char *name;
    CUcoredumpSettings attribute;
} variables[] = {{"CUDA_ENABLE_COREDUMP_ON_EXCEPTION", CU_COREDUMP_ENABLE_ON_EXCEPTION},
                 {"CUDA_COREDUMP_FILE", CU_COREDUMP_FILE},
                 {"CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", CU_COREDUMP_LIGHTWEIGHT},
                 {"CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", CU_COREDUMP_TRIGGER_HOST},
                 {"CUDA_COREDUMP_GENERATION_FLAGS", CU_COREDUMP_GENERATION_FLAGS}};
#define VARIABLES (sizeof variables / sizeof *variables)

static unsigned flags_of(const char *text)
{
    static const char *const names[] = {
        "skip_nonrelocated_elf_images", "skip_global_memory", "skip_shared_memory", "skip_local_memory", "skip_abort",
        "skip_constbank_memory"};
    unsigned flags = 0;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        flags |= strstr(text, names[i]) ? 1u << i : 0;
    return flags;
}

static void note_variable(CUcoredumpSettings attribute, const char *value)
{
    struct wishes *all = &program.all;
    int is_on = atoi(value) != 0;
    program.fixed |= 1u << attribute;
    if (attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION)
        all->is_enabled = is_on;
    else if (attribute == CU_COREDUMP_FILE)
        snprintf(all->file, sizeof all->file, "%s", value);
    else if (attribute == CU_COREDUMP_LIGHTWEIGHT)
        all->flags |= is_on ? CU_COREDUMP_LIGHTWEIGHT_FLAGS : 0;
    else if (attribute == CU_COREDUMP_TRIGGER_HOST)
        all->flags |= is_on ? 0 : CU_COREDUMP_SKIP_ABORT;
    else
        all->flags |= flags_of(value);
    if (attribute == CU_COREDUMP_GENERATION_FLAGS)
        program.fixed |= 1u << CU_COREDUMP_LIGHTWEIGHT | 1u << CU_COREDUMP_TRIGGER_HOST;
}

/* Other threads may read the environment at any time, and some C libraries let them without a lock: an entry is replaced where
 * it stands, and no array moves. */
static char placeholders[HIDDEN][32];

static void hide(const char *name, CUcoredumpSettings attribute)
{
    size_t length = strlen(name), at = 0;
    if (env_get(name))
        note_variable(attribute, env_get(name));
    for (char **entry = env_get(name) ? environ : NULL; entry && *entry; entry++) {
        if (strncmp(*entry, name, length) != 0 || (*entry)[length] != '=')
            continue;
        while (at < HIDDEN && program.hidden[at])
            at++;
        if (at == HIDDEN)
            return;
        snprintf(placeholders[at], sizeof placeholders[at], "_CUFENCE=%zu", at);
        program.hidden[at] = *entry;
        __atomic_store_n(entry, placeholders[at], __ATOMIC_RELEASE);
    }
}

static int are_set(void)
{
    size_t i = 0;
    while (i < VARIABLES && !env_get(variables[i].name))
        i++;
    return i < VARIABLES;
}

/* Whether the driver is yet to read its variables, and can be armed without them. */
static int is_in_time(void)
{
    CUresult (*ask)(int *) = (CUresult(*)(int *))driver_symbol("cuDeviceGetCount");
    int devices;
    return driver_symbol("cuCoredumpSetAttributeGlobal") && ask && ask(&devices) == CUDA_ERROR_NOT_INITIALIZED;
}

void program_dump_hide(void)
{
    int hides = are_set() && is_in_time();
    HOLD(&program.lock);
    if (program.hidings++ || program.is_learned)
        return;
    program.all = (struct wishes){0}; /* of a start that has failed */
    program.fixed = 0;
    for (size_t i = 0; hides && i < VARIABLES; i++)
        hide(variables[i].name, variables[i].attribute);
}

/* One that was set anew meanwhile stays as it is. */
void program_dump_show(void)
{
    HOLD(&program.lock);
    if (--program.hidings)
        return;
    for (size_t i = HIDDEN; i-- > 0;) {
        char name[64] = "";
        if (!program.hidden[i])
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(program.hidden[i], "="), program.hidden[i]);
        for (char **entry = env_get(name) ? NULL : environ; entry && *entry; entry++)
            if (*entry == placeholders[i])
                __atomic_store_n(entry, program.hidden[i], __ATOMIC_RELEASE);
        program.hidden[i] = NULL;
    }
}

const char *program_dump_variable(void)
{
    HOLD(&program.lock);
    for (size_t i = 0; i < VARIABLES; i++)
        if (program.fixed >> variables[i].attribute & 1 || env_get(variables[i].name))
            return variables[i].name;
    return NULL;
}

/* ---- the driver ---- */

static int ask(CUcoredumpSettings attribute, void *value, size_t size)
{
    return driver->cuCoredumpGetAttributeGlobal(attribute, value, &size) == CUDA_SUCCESS;
}

void program_dump_learn(void)
{
    struct wishes found = {0};
    bool has_trigger = false;
    char file[FILE_BYTES + 1] = "";
    int has_file = ask(CU_COREDUMP_FILE, file, FILE_BYTES);
    int has_flags = ask(CU_COREDUMP_GENERATION_FLAGS, &found.flags, sizeof found.flags);
    ask(CU_COREDUMP_ENABLE_ON_EXCEPTION, &found.is_enabled, sizeof found.is_enabled);
    ask(CU_COREDUMP_ENABLE_USER_TRIGGER, &has_trigger, sizeof has_trigger);
    program_dump_triggers(has_trigger);
    HOLD(&program.lock);
    if (program.is_learned)
        return;
    program.is_learned = 1;
    if (!(program.fixed >> CU_COREDUMP_ENABLE_ON_EXCEPTION & 1))
        program.all.is_enabled = found.is_enabled;
    if (has_file && !(program.fixed >> CU_COREDUMP_FILE & 1))
        snprintf(program.all.file, sizeof program.all.file, "%.*s", FILE_BYTES - 1, file);
    if (has_flags)
        program.all.flags |= found.flags;
}

void program_dump_hand_back(void)
{
    lock_take(&program.lock);
    struct wishes all = program.all;
    int is_asked = program.fixed || program.is_learned;
    lock_release(&program.lock);
    size_t file = strlen(all.file) + 1, flags = sizeof all.flags, enabled = sizeof all.is_enabled;
    if (!is_asked || !driver || !driver->cuCoredumpSetAttributeGlobal)
        return;
    if (all.file[0])
        driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_FILE, all.file, &file);
    driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_GENERATION_FLAGS, &all.flags, &flags);
    driver->cuCoredumpSetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &all.is_enabled, &enabled);
}

/* ---- attributes ---- */

int program_dump_has(CUcoredumpSettings attribute)
{
    return attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION || attribute == CU_COREDUMP_TRIGGER_HOST ||
           attribute == CU_COREDUMP_LIGHTWEIGHT || attribute == CU_COREDUMP_FILE || attribute == CU_COREDUMP_GENERATION_FLAGS;
}

/* Returns the context's own, or with `make`, some for it; else those of all. Caller holds the lock. */
static struct wishes *wishes_of(const struct context *context, int make)
{
    size_t unused = CONTEXTS;
    for (size_t i = 0; context && i < CONTEXTS; i++) {
        const struct context *owner = program.own[i].context;
        int is_there = owner && context_is_alive(owner) &&
                       __atomic_load_n(&owner->generation, __ATOMIC_ACQUIRE) == program.own[i].generation;
        if (is_there && owner == context)
            return &program.own[i].wishes;
        if (!is_there)
            unused = i;
    }
    if (!context || !make || unused == CONTEXTS)
        return &program.all;
    program.own[unused].context = context;
    program.own[unused].generation = __atomic_load_n(&context->generation, __ATOMIC_ACQUIRE);
    program.own[unused].wishes = program.all;
    return &program.own[unused].wishes;
}

static void set_flags(struct wishes *wishes, unsigned flags, int is_set)
{
    wishes->flags = is_set ? wishes->flags | flags : wishes->flags & ~flags;
}

CUresult program_dump_set(const struct context *context, CUcoredumpSettings attribute, const void *value, size_t size)
{
    size_t length = attribute == CU_COREDUMP_FILE ? strnlen(value, size) : 0;
    if (size < (attribute == CU_COREDUMP_GENERATION_FLAGS ? sizeof(unsigned) : 1) || length >= FILE_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    HOLD(&program.lock);
    if (program.fixed >> attribute & 1)
        return CUDA_ERROR_NOT_PERMITTED;
    struct wishes *wishes = wishes_of(context, 1);
    if (attribute == CU_COREDUMP_FILE)
        snprintf(wishes->file, sizeof wishes->file, "%.*s", (int)length, (const char *)value);
    else if (attribute == CU_COREDUMP_GENERATION_FLAGS)
        memcpy(&wishes->flags, value, sizeof wishes->flags);
    else if (attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION)
        wishes->is_enabled = *(const unsigned char *)value != 0;
    else if (attribute == CU_COREDUMP_LIGHTWEIGHT)
        set_flags(wishes, CU_COREDUMP_LIGHTWEIGHT_FLAGS, *(const unsigned char *)value != 0);
    else
        set_flags(wishes, CU_COREDUMP_SKIP_ABORT, *(const unsigned char *)value == 0);
    return CUDA_SUCCESS;
}

static int is_lightweight(const struct wishes *wishes)
{
    return (wishes->flags & CU_COREDUMP_LIGHTWEIGHT_FLAGS) == CU_COREDUMP_LIGHTWEIGHT_FLAGS;
}

CUresult program_dump_get(const struct context *context, CUcoredumpSettings attribute, void *value, size_t *size)
{
    HOLD(&program.lock);
    const struct wishes *wishes = wishes_of(context, 0);
    bool truth = attribute == CU_COREDUMP_ENABLE_ON_EXCEPTION ? wishes->is_enabled
                 : attribute == CU_COREDUMP_LIGHTWEIGHT       ? is_lightweight(wishes)
                                                              : !(wishes->flags & CU_COREDUMP_SKIP_ABORT);
    const void *from = &truth;
    size_t length = sizeof truth;
    if (attribute == CU_COREDUMP_FILE) {
        from = wishes->file;
        length = strlen(wishes->file) + 1;
    } else if (attribute == CU_COREDUMP_GENERATION_FLAGS) {
        from = &wishes->flags;
        length = sizeof wishes->flags;
    }
    if (*size < length)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, from, length);
    *size = length;
    return CUDA_SUCCESS;
}

void program_dump_triggers(int is_on)
{
    __atomic_store_n(&program.has_trigger, is_on, __ATOMIC_RELAXED);
}

int program_dump_has_trigger(void)
{
    return __atomic_load_n(&program.has_trigger, __ATOMIC_RELAXED);
}

/* ---- the file ---- */

static const char nobody_reads[] = "nobody reads it";

static void expand(const char *name, char *to, size_t room)
{
    char host[256] = "";
    size_t used = 0;
    gethostname(host, sizeof host - 1);
    for (; *name && used + 1 < room; name++) {
        char part[256] = {*name};
        const char kind = *name == '%' ? name[1] : 0;
        if (kind == 'h')
            memcpy(part, host, sizeof part);
        else if (kind == 'p')
            snprintf(part, sizeof part, "%d", (int)getpid());
        else if (kind == 't')
            snprintf(part, sizeof part, "%llu", (unsigned long long)(clock_ns(CLOCK_REALTIME) / 1000000000u));
        name += kind == 'h' || kind == 'p' || kind == 't';
        used += (size_t)snprintf(to + used, room - used, "%s", part);
    }
    to[used < room ? used : room - 1] = '\0';
}

/* Our threads block the signals that a write may raise. The descriptor does not block. */
static const char *put(int fd, const struct dump *dump)
{
    for (size_t at = 0; at < dump->size;) {
        ssize_t written = write(fd, dump->bytes + at, dump->size - at);
        struct pollfd full = {.fd = fd, .events = POLLOUT};
        if (written > 0)
            at += (size_t)written;
        else if (written < 0 && errno == EAGAIN && poll(&full, 1, PATIENCE_MS) == 0)
            return nobody_reads;
        else if (!written || (errno != EAGAIN && errno != EINTR))
            return strerror(errno);
    }
    return NULL;
}

static const char *put_in_file(const char *name, const struct dump *dump)
{
    uint64_t until = monotonic_ms() + PATIENCE_MS;
    int fd;
    while ((fd = files_open_named(name, O_TRUNC)) < 0 && errno == ENXIO && monotonic_ms() < until)
        aside_sleep(1000); /* a FIFO */
    if (fd < 0)
        return errno == ENXIO ? nobody_reads : strerror(errno);
    const char *reason = put(fd, dump);
    return close(fd) == 0 || reason ? reason : strerror(errno);
}

/* Starts the shell. Returns 0 or an errno value. */
static int start(const char *command, int input, pid_t *shell)
{
    char sh[] = "sh", option[] = "-c";
    char *const arguments[] = {sh, option, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none); /* our threads block most */
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    int error = posix_spawn(shell, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Waits for the command's end, so that its file is there when the fault is told; the program may have waited for it instead. */
static const char *await(pid_t shell)
{
    int status = 0;
    pid_t ended;
    for (int waited = 0; (ended = waitpid(shell, &status, WNOHANG)) == 0 && waited < PATIENCE_MS; waited++)
        aside_sleep(1000);
    return ended == 0 ? "the command does not end" : ended > 0 && status ? "the command failed" : NULL;
}

static const char *put_in_command(const char *command, const struct dump *dump)
{
    int ends[2];
    pid_t shell;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return strerror(errno);
    int error = start(command, ends[0], &shell);
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const char *reason = error ? strerror(error) : put(ends[1], dump);
    close(ends[1]);
    return reason || error ? reason : await(shell);
}

/* Writes a dump as the driver would: to a file, with %h, %p and %t in its name; to a FIFO; or to a shell's command, "|
 * command". Gives up where a pipe's reader takes nothing for seconds. "": the driver's default name. to: gets the name, cut to
 * fit. Returns NULL, or why it failed; static, or until the next call. */
static const char *write_where(const char *name, const struct dump *dump, char *to, size_t room)
{
    if (*name == '|') /* without specifiers */
        snprintf(to, room, "%s", name);
    else
        expand(*name ? name : DEFAULT_NAME, to, room);
    if (!dump_is_complete(dump))
        return "the host has no memory for all of it";
    return *name == '|' ? put_in_command(name + 1, dump) : put_in_file(to, dump);
}

/* Returns those of a context on the device that wants a dump; if none does, those of all. */
static struct wishes wishes_on(int device)
{
    HOLD(&program.lock);
    for (size_t i = 0; i < CONTEXTS; i++) {
        const struct context *context = program.own[i].context;
        const struct wishes *wishes = context && context->device == device ? wishes_of(context, 0) : &program.all;
        if (wishes != &program.all && wishes->is_enabled)
            return *wishes;
    }
    return program.all;
}

void program_dump_write(const struct dump *dump, int device, int is_triggered)
{
    struct wishes wishes = wishes_on(device);
    char to[FILE_BYTES + 64];
    if (!wishes.is_enabled && !is_triggered)
        return;
    const char *reason = write_where(wishes.file, dump, to, sizeof to);
    if (reason)
        output_note("the program's own core dump could not be written to %s: %s", to, reason);
    else
        output_note("the program's own core dump: %s%s", to,
                    is_lightweight(&wishes) ? "" : " (without memory, which it asked for: cufence takes lightweight dumps)");
}
