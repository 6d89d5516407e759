#include "trap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READER_SECONDS 10 /* a FIFO without a reader does not stop the device for longer than this */

static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct dump_settings global;                               /* under settings_lock */
/* Attributes set by the environment can't be changed. Written by cuInit() only. */
static int is_fixed[CU_COREDUMP_MAX];

void coredump_snapshot(struct dump_settings *settings)
{
    HOLD(&settings_lock);
    *settings = global;
}

static const char *fixed_by(const char *variable, CUcoredumpSettings attribute)
{
    const char *value = secure_getenv(variable);
    if (value != NULL)
        is_fixed[attribute] = 1;
    return value;
}

void coredump_load_environment(void)
{
    HOLD(&settings_lock);
    const char *enable = fixed_by("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", CU_COREDUMP_ENABLE_ON_EXCEPTION);
    const char *file = fixed_by("CUDA_COREDUMP_FILE", CU_COREDUMP_FILE);
    const char *trigger = fixed_by("CUDA_ENABLE_USER_TRIGGERED_COREDUMP", CU_COREDUMP_ENABLE_USER_TRIGGER);
    const char *lightweight = fixed_by("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", CU_COREDUMP_LIGHTWEIGHT);
    const char *host = fixed_by("CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION", CU_COREDUMP_TRIGGER_HOST);
    const char *flags = fixed_by("CUDA_COREDUMP_GENERATION_FLAGS", CU_COREDUMP_GENERATION_FLAGS);
    global.is_enabled = enable != NULL && atoi(enable) != 0;
    global.is_user_trigger_enabled = trigger != NULL && atoi(trigger) != 0;
    if (file != NULL)
        snprintf(global.file, sizeof global.file, "%s", file);
    if (lightweight != NULL && atoi(lightweight) != 0)
        global.flags |= CU_COREDUMP_LIGHTWEIGHT_FLAGS;
    if (host != NULL && atoi(host) == 0)
        global.flags |= CU_COREDUMP_SKIP_ABORT;
    if (flags != NULL) {
        global.flags |= strstr(flags, "skip_abort") != NULL ? CU_COREDUMP_SKIP_ABORT : 0; /* the others change no dump here */
        is_fixed[CU_COREDUMP_LIGHTWEIGHT] = is_fixed[CU_COREDUMP_TRIGGER_HOST] = 1;
    }
}

enum form { NONE, TRUTH, WITH_FLAGS, WITHOUT_FLAGS, NUMBER, TEXT };
static const size_t form_bytes[] = {0, 1, 1, 1, sizeof global.flags, sizeof global.file}; /* a truth is a C++ bool */

static const struct attribute {
    enum form form;
    size_t offset; /* in the settings */
    unsigned flags;
} attributes[CU_COREDUMP_MAX] = {
    [CU_COREDUMP_ENABLE_ON_EXCEPTION] = {TRUTH, offsetof(struct dump_settings, is_enabled), 0},
    [CU_COREDUMP_TRIGGER_HOST] = {WITHOUT_FLAGS, 0, CU_COREDUMP_SKIP_ABORT},
    [CU_COREDUMP_LIGHTWEIGHT] = {WITH_FLAGS, 0, CU_COREDUMP_LIGHTWEIGHT_FLAGS},
    [CU_COREDUMP_ENABLE_USER_TRIGGER] = {TRUTH, offsetof(struct dump_settings, is_user_trigger_enabled), 0},
    [CU_COREDUMP_FILE] = {TEXT, offsetof(struct dump_settings, file), 0},
    [CU_COREDUMP_GENERATION_FLAGS] = {NUMBER, offsetof(struct dump_settings, flags), 0},
};

/* Checks the arguments of both. Without a value, tells the size that it takes. */
static CUresult find_attribute(const struct attribute **out, CUcoredumpSettings attribute, const void *value, size_t *size)
{
    CALL_REFUSE(size == NULL || (unsigned)attribute >= CU_COREDUMP_MAX || attributes[attribute].form == NONE, INVALID_VALUE);
    *out = &attributes[attribute];
    if (value == NULL)
        *size = form_bytes[(*out)->form];
    return CUDA_SUCCESS;
}

static CUresult get(const struct dump_settings *settings, CUcoredumpSettings number, void *value, size_t *size)
{
    const struct attribute *attribute;
    CALL_TRY(find_attribute(&attribute, number, value, size));
    if (value == NULL)
        return CUDA_SUCCESS;
    const char *source = (const char *)settings + attribute->offset;
    size_t used = attribute->form == TEXT ? strlen(source) + 1 : form_bytes[attribute->form];
    unsigned char truth = (settings->flags & attribute->flags) == attribute->flags;
    CALL_REFUSE(*size < used, INVALID_VALUE);
    if (attribute->form == WITHOUT_FLAGS)
        truth = !truth;
    memcpy(value, attribute->form == WITH_FLAGS || attribute->form == WITHOUT_FLAGS ? (const void *)&truth : source, used);
    *size = used;
    return CUDA_SUCCESS;
}

static CUresult set_locked(struct dump_settings *to, CUcoredumpSettings number, const void *value, size_t *size)
{
    const struct attribute *attribute;
    CALL_TRY(find_attribute(&attribute, number, value, size));
    if (value == NULL)
        return CUDA_SUCCESS;
    CALL_REFUSE(is_fixed[number], NOT_PERMITTED);
    char *out = (char *)to + attribute->offset;
    size_t length = attribute->form == TEXT ? strnlen(value, *size) : form_bytes[attribute->form];
    if (attribute->form == TEXT ? length >= form_bytes[TEXT] : *size < length)
        return CUDA_ERROR_INVALID_VALUE;
    CALL_REFUSE(attribute->form == WITH_FLAGS || attribute->form == WITHOUT_FLAGS, NOT_SUPPORTED);
    memcpy(out, value, length);
    if (attribute->form == TEXT)
        out[length] = '\0';
    return CUDA_SUCCESS;
}

DRIVER(cuCoredumpGetAttributeGlobal, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size))
{
    struct dump_settings settings;
    coredump_snapshot(&settings);
    return get(&settings, attrib, value, size);
}

DRIVER(cuCoredumpSetAttributeGlobal, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size))
{
    HOLD(&settings_lock);
    return set_locked(&global, attrib, value, size);
}

DRIVER(cuCoredumpGetAttribute, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size))
{
    CONTEXT_CURRENT(context);
    HOLD(&settings_lock);
    return get(&context->home->dump, attrib, value, size);
}

/* Measured (580.159): a context for which dumps were not on when it was created writes none. */
DRIVER(cuCoredumpSetAttribute, 12010, (CUcoredumpSettings, attrib, void *, value, size_t *, size))
{
    CONTEXT_CURRENT(context);
    HOLD(&settings_lock);
    return set_locked(&context->home->dump, attrib, value, size);
}

/* Expands %p and %t. Without a name: core_TIME_PID.nvcudmp in the working folder. */
static void expand_name(const char *name, char *out, size_t capacity)
{
    size_t used = 0;
    for (name = name[0] == '\0' ? "core_%t_%p.nvcudmp" : name; *name != '\0' && used + 24 < capacity; name++) {
        if (name[0] != '%' || (name[1] != 'p' && name[1] != 't'))
            out[used++] = *name;
        else
            used += (size_t)snprintf(out + used, 24, "%lld", *++name == 'p' ? (long long)getpid() : (long long)time(NULL));
    }
    out[used] = '\0';
}

/* Returns a non-blocking descriptor, or -1. For a FIFO, waits for a reader. */
static int open_file(const char *name)
{
    struct stat status;
    if (stat(name, &status) != 0 || !S_ISFIFO(status.st_mode))
        return open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int file = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    for (int waited = 0; file < 0 && errno == ENXIO && waited < READER_SECONDS * 1000; waited++) {
        usleep(1000);
        file = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    }
    return file;
}

static int write_all(int file, const unsigned char *bytes, size_t size)
{
    while (size != 0) {
        ssize_t written = write(file, bytes, size);
        if (written > 0) {
            bytes += written;
            size -= (size_t)written;
            continue;
        }
        struct pollfd wait = {.fd = file, .events = POLLOUT};
        if (written < 0 && errno == EAGAIN && poll(&wait, 1, READER_SECONDS * 1000) == 1)
            continue;
        if (written >= 0 || errno != EINTR)
            return -1;
    }
    return 0;
}

void coredump_write(const struct fault_site *site, const struct dump_settings *settings)
{
    char name[2048];
    size_t size;
    unsigned char *bytes = dump_create(site, &size);
    expand_name(settings->file, name, sizeof name);
    int file = open_file(name);
    if (file < 0 || write_all(file, bytes, size) != 0)
        fprintf(stderr, "cufence_sim: the core dump could not be written to '%s': %s\n", name, strerror(errno));
    if (file >= 0)
        close(file);
    free(bytes);
}
