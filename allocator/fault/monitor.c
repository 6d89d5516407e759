#include "monitor.h"

#include "arming.h"
#include "error.h"
#include "json.h"
#include "kernels.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define DUMP_LIMIT (2ull << 30) /* a dump that is larger than this is not one of the lightweight kind */
#define SETTLE_MS 5000
/* The driver itself makes the error real 22 to 25 ms after a dump (H100, driver 580.159.04); a second fault takes 110 to 150.
 */
#define REAL_ERROR_MS 100
#define POISON_MS 500
/* The driver's own debugger goes on for a while after that; a process that ends meanwhile crashes in it (the same driver). */
#define SETTLING_MS 100
#define DEVICE_NAME 128
#define NO_MEMORY "cufence: a kernel has faulted, and the host has no memory for the report\n"
#define LATE_DUMP_MS 2000 /* one of eight processes that fault on one device at once has seen the error before its dump */
#define IDLE_FENCE_MS 1000
#define BUSY_FENCE_MS 300

static struct {
    pthread_mutex_t lock; /* guards what is not said to be otherwise; a leaf */
    pthread_cond_t change;
    int is_busy;      /* atomic: a dump is being read or explained; written under lock */
    uint64_t faults;  /* atomic; written under lock */
    uint64_t misuses; /* those of calls on the host, the same; no error of a context follows from them */
    char *last_report;
    char *last_json; /* the same fault's; NULL if the host had no memory for it */
    cufence_fault_handler handler;
    void *handler_user;
    int is_running; /* set by monitor_start(), cleared by monitor_stop() */

    /* Constant once the thread runs. */
    pthread_t thread;
    const struct options *options;
    const struct fault_sources *sources;
    int is_armed;
    struct dump_fifo fifo;
    char log[1024];
    char json[1024];
    int rank; /* in a distributed job, or -1 */
    int stop; /* eventfd */
    int peek; /* a reader of the FIFO that only looks: what was written and is not read yet counts as under way */
} monitor = {.lock = PTHREAD_MUTEX_INITIALIZER, .stop = -1, .peek = -1};

/* ---- from a dump to a report ---- */

static void write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t written = write(fd, text, size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        size -= (size_t)written;
    }
}

/* One write, which the system keeps whole: several processes may share the file. */
static void append_to_file(const char *name, const char *text)
{
    if (!name[0])
        return;
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) {
        fprintf(stderr, "cufence: cannot write the report to %s: %s\n", name, strerror(errno));
        return;
    }
    write_all(fd, text, strlen(text));
    close(fd);
}

static void publish(const char *text, const char *json)
{
    write_all(STDERR_FILENO, text, strlen(text));
    append_to_file(monitor.log, text);
    if (json)
        append_to_file(monitor.json, json);
}

static int is_ours(const struct evidence *evidence)
{
    for (size_t i = 0; i < evidence->site_count; i++) {
        if (!evidence->sites[i].symbol || strcmp(evidence->sites[i].symbol, POISON_KERNEL) != 0)
            return 0;
    }
    return evidence->site_count > 0;
}

static void give_to_handler(const cufence_fault *fault)
{
    pthread_mutex_lock(&monitor.lock);
    cufence_fault_handler handler = monitor.handler;
    void *user = monitor.handler_user;
    pthread_mutex_unlock(&monitor.lock);
    if (handler)
        handler(fault, user);
}

static void call_handler(const struct diagnosis *diagnosis, const char *text, int device)
{
    const struct evidence_site *site = diagnosis->site;
    cufence_fault fault = {.text = text,
                           .kind = fault_kind_name(diagnosis->kind),
                           .kernel = site ? site->kernel : NULL,
                           .file = site ? site->file : NULL,
                           .line = site ? site->line : 0,
                           .is_address_known = diagnosis->address_certainty != CERTAIN_NOT,
                           .address = diagnosis->address,
                           .buffer = diagnosis->owner,
                           .device = device};
    give_to_handler(&fault);
}

/* Counts the fault and keeps its texts, which it owns from then on. */
static void keep(char *text, char *json)
{
    pthread_mutex_lock(&monitor.lock);
    free(monitor.last_report);
    free(monitor.last_json);
    monitor.last_report = text;
    monitor.last_json = json;
    __atomic_add_fetch(&monitor.faults, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&monitor.lock);
}

static int wait_for_error(int device, int ms)
{
    for (int waited = 0; waited < ms && !kernels_have_failed(device); waited += 5)
        usleep(5000);
    return kernels_have_failed(device);
}

static void act(int device)
{
    if (monitor.options->on_fault == ON_FAULT_ABORT) {
        dumps_remove_fifo(&monitor.fifo);
        abort();
    }
    if (monitor.options->on_fault == ON_FAULT_ERROR) {
        monitor.sources->set_faulted(device);
        if (!wait_for_error(device, REAL_ERROR_MS)) {
            kernels_poison(device, monitor.sources->arena_start());
            wait_for_error(device, POISON_MS);
        }
        usleep(SETTLING_MS * 1000);
    }
}

/* `name` is where the driver's name for the device goes. */
static struct report_origin origin_of(int device, char name[DEVICE_NAME])
{
    CUdevice handle;
    name[0] = '\0';
    if (device >= 0 && driver->cuDeviceGet(&handle, device) == CUDA_SUCCESS)
        driver->cuDeviceGetName(name, DEVICE_NAME, handle);
    return (struct report_origin){(int)getpid(), monitor.rank, device, name[0] ? name : NULL};
}

static void report(const struct evidence *evidence)
{
    int device = evidence_device(evidence);
    struct surroundings *around = surroundings_of(monitor.sources, evidence, device);
    struct diagnosis diagnosis;
    char name[DEVICE_NAME], *text = NULL, *json = NULL;
    if (around) {
        fault_diagnose(evidence, &around->memory, &diagnosis);
        const struct report_origin origin = origin_of(device, name);
        text = fault_report_text(&diagnosis, &origin);
        json = fault_report_json(&diagnosis, &origin);
    }
    if (text) {
        publish(text, json);
        keep(text, json);
        call_handler(&diagnosis, text, device);
    } else {
        publish(NO_MEMORY, json);
        keep(strdup(NO_MEMORY), json);
    }
    free(around);
    act(device);
}

static void report_unexplained(size_t size)
{
    char reason[640], name[DEVICE_NAME];
    snprintf(reason, sizeof reason, "its core dump (%zu bytes) cannot be read: %s", size, error_detail());
    const struct report_origin origin = origin_of(-1, name);
    char *text = fault_unexplained_text(reason, &origin), *json = fault_unexplained_json(reason, &origin);
    if (!text)
        text = strdup(NO_MEMORY);
    publish(text ? text : NO_MEMORY, json);
    keep(text, json);
    give_to_handler(&(cufence_fault){.text = text ? text : NO_MEMORY, .kind = FAULT_UNEXPLAINED, .device = -1});
    act(-1);
}

static void explain(const void *bytes, size_t size)
{
    struct evidence *evidence = NULL;
    if (evidence_from_coredump(bytes, size, &evidence) != CUFENCE_OK)
        report_unexplained(size);
    else if (!is_ours(evidence))
        report(evidence);
    evidence_free(evidence);
}

/* ---- the thread ---- */

static int is_under_way(void)
{
    struct pollfd input = {.fd = monitor.peek, .events = POLLIN};
    int has_input = poll(&input, 1, 0) > 0 && (input.revents & POLLIN);
    return has_input ||
           __atomic_load_n(&monitor.is_busy, __ATOMIC_ACQUIRE); /* in this order: the thread says so before it reads */
}

static void set_busy(int is_busy)
{
    pthread_mutex_lock(&monitor.lock);
    __atomic_store_n(&monitor.is_busy, is_busy, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&monitor.change);
    pthread_mutex_unlock(&monitor.lock);
}

struct dump {
    char *bytes;
    size_t size, capacity;
    int is_cut; /* not all of it could be kept */
};

enum reading { READ_SOME, READ_END, READ_NOTHING_YET };

static enum reading read_some(int fd, struct dump *dump)
{
    if (dump->capacity - dump->size < 1 << 16) {
        size_t capacity = dump->capacity ? dump->capacity * 2 : 1 << 20;
        char *grown = capacity <= DUMP_LIMIT ? realloc(dump->bytes, capacity) : NULL;
        if (grown) {
            dump->bytes = grown;
            dump->capacity = capacity;
        } else {
            dump->is_cut = 1; /* the driver waits until somebody reads, so the rest is read and dropped */
            dump->size = 0;
        }
    }
    char dropped[4096];
    ssize_t got =
        dump->capacity ? read(fd, dump->bytes + dump->size, dump->capacity - dump->size) : read(fd, dropped, sizeof dropped);
    if (got > 0 && dump->capacity)
        dump->size += (size_t)got;
    if (got > 0 || (got < 0 && errno == EINTR))
        return READ_SOME;
    return got < 0 && errno == EAGAIN ? READ_NOTHING_YET : READ_END;
}

static void *run(void *unused)
{
    (void)unused;
    struct dump dump = {0};
    pthread_setname_np(pthread_self(), "cufence-monitor");
    int fd = open(monitor.fifo.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    while (fd >= 0) {
        struct pollfd wait[] = {{.fd = fd, .events = POLLIN}, {.fd = monitor.stop, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 && errno != EINTR)
            break;
        if (wait[1].revents)
            break;
        if (!(wait[0].revents & (POLLIN | POLLHUP)))
            continue;
        if (!monitor.is_busy)
            set_busy(1);
        /* To the end, because poll() does not tell of the end of a writer that was gone before the FIFO was opened. */
        enum reading reading;
        do
            reading = read_some(fd, &dump);
        while (reading == READ_SOME);
        if (reading == READ_NOTHING_YET)
            continue;
        if (dump.is_cut)
            explain("", 0);
        else if (dump.size)
            explain(dump.bytes, dump.size);
        free(dump.bytes);
        dump = (struct dump){0};
        /* A FIFO tells of its last writer's end until it is opened anew; anew first, so that a writer in between stays whole.
         */
        int again = open(monitor.fifo.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        close(fd);
        fd = again;
        set_busy(0);
    }
    if (fd >= 0)
        close(fd);
    free(dump.bytes);
    set_busy(0);
    return NULL;
}

static void close_files(void)
{
    if (monitor.stop >= 0)
        close(monitor.stop);
    if (monitor.peek >= 0)
        close(monitor.peek);
    monitor.stop = monitor.peek = -1;
}

static void init_change(void)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monitor.change, &attributes);
    pthread_condattr_destroy(&attributes);
}

cufence_status monitor_start(const struct options *options, const struct fault_sources *sources)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_change);
    monitor.options = options;
    monitor.sources = sources;
    monitor.rank = report_rank();
    cufence_status status = options_expand_path(options->log, monitor.log, sizeof monitor.log);
    if (status == CUFENCE_OK)
        status = options_expand_path(options->json, monitor.json, sizeof monitor.json);
    if (status != CUFENCE_OK)
        return status;
    if (!options->coredump)
        return CUFENCE_OK;
    if (dumps_arm(&monitor.fifo) != CUFENCE_OK) {
        fprintf(stderr, "cufence: faults will be caught but not explained: %s\n", error_detail());
        return CUFENCE_OK;
    }
    monitor.stop = eventfd(0, EFD_CLOEXEC);
    monitor.peek = open(monitor.fifo.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int failed = monitor.stop < 0 || monitor.peek < 0 ? errno : pthread_create(&monitor.thread, NULL, run, NULL);
    if (failed) {
        dumps_disarm();
        dumps_remove_fifo(&monitor.fifo);
        close_files();
        return error_set(CUFENCE_ERROR_SYSTEM, "cannot start the thread that reads core dumps: %s", strerror(failed));
    }
    monitor.is_armed = 1;
    monitor.is_running = 1;
    return CUFENCE_OK;
}

void monitor_cancel(void)
{
    if (monitor.is_armed)
        dumps_disarm();
    monitor_stop(0);
    close_files();
    monitor.is_armed = 0;
}

void monitor_add_context(CUcontext context, int device)
{
    if (monitor.is_armed)
        kernels_prepare(context, device);
}

void monitor_forget_context(CUcontext context)
{
    kernels_forget(context);
}

void monitor_misuse(const struct misuse *misuse)
{
    const cufence_buffer *buffer = misuse->place->buffer.id ? &misuse->place->buffer : NULL;
    char name[DEVICE_NAME];
    const struct report_origin origin = origin_of(buffer ? buffer->device : -1, name);
    char *text = misuse_text(misuse, &origin);
    if (text) {
        char *json = fault_misuse_json(misuse, &origin);
        publish(text, json);
        give_to_handler(&(cufence_fault){.text = text,
                                         .kind = misuse->kind,
                                         .is_address_known = 1,
                                         .address = misuse->address,
                                         .buffer = buffer,
                                         .device = origin.device});
        __atomic_add_fetch(&monitor.misuses, 1, __ATOMIC_RELEASE);
        keep(text, json);
    }
    if (monitor.options->on_fault == ON_FAULT_ABORT) {
        dumps_remove_fifo(&monitor.fifo);
        abort();
    }
}

void monitor_stop(unsigned timeout_ms)
{
    if (!monitor.is_running)
        return;
    if (timeout_ms)
        monitor_flush(timeout_ms);
    uint64_t one = 1;
    write_all(monitor.stop, (const char *)&one, sizeof one);
    pthread_join(monitor.thread, NULL);
    monitor.is_running = 0;
    dumps_remove_fifo(&monitor.fifo);
}

void monitor_set_handler(cufence_fault_handler handler, void *user)
{
    pthread_mutex_lock(&monitor.lock);
    monitor.handler = handler;
    monitor.handler_user = user;
    pthread_mutex_unlock(&monitor.lock);
}

uint64_t monitor_fault_count(void)
{
    return __atomic_load_n(&monitor.faults, __ATOMIC_ACQUIRE);
}

int monitor_is_armed(void)
{
    return monitor.is_armed;
}

/* `kept` is monitor.last_report or monitor.last_json. */
static size_t copy_kept(char *const *kept, char *buffer, size_t size)
{
    pthread_mutex_lock(&monitor.lock);
    size_t length = *kept ? strlen(*kept) + 1 : 0;
    if (length && size)
        snprintf(buffer, size, "%s", *kept);
    pthread_mutex_unlock(&monitor.lock);
    return length;
}

size_t monitor_last_report(char *buffer, size_t size)
{
    return copy_kept(&monitor.last_report, buffer, size);
}

size_t monitor_last_json(char *buffer, size_t size)
{
    return copy_kept(&monitor.last_json, buffer, size);
}

static struct timespec after(struct timespec time, unsigned ms)
{
    time.tv_sec += ms / 1000;
    time.tv_nsec += (long)(ms % 1000) * 1000000l;
    time.tv_sec += time.tv_nsec / 1000000000l;
    time.tv_nsec %= 1000000000l;
    return time;
}

cufence_status monitor_wait(unsigned timeout_ms)
{
    struct timespec until, soon, now;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until = after(until, timeout_ms);
    int is_late = 0;
    while (is_under_way() && !is_late) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        is_late = now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec);
        soon = after(now, 1); /* nobody tells of bytes that lie in the FIFO */
        pthread_mutex_lock(&monitor.lock);
        pthread_cond_timedwait(&monitor.change, &monitor.lock, monitor.is_busy ? &until : &soon);
        pthread_mutex_unlock(&monitor.lock);
    }
    return is_late ? error_set(CUFENCE_ERROR_TIMEOUT, "a core dump was still being written after %u ms", timeout_ms)
                   : CUFENCE_OK;
}

struct patience {
    struct timespec until;
    int is_out; /* the time has passed, and no dump has begun */
};

static int has_kernel_fault(void)
{
    return monitor_fault_count() > __atomic_load_n(&monitor.misuses, __ATOMIC_ACQUIRE);
}

void monitor_await_dump(void)
{
    static int is_in_vain; /* atomic */
    if (!monitor.is_armed || __atomic_load_n(&is_in_vain, __ATOMIC_RELAXED))
        return;
    for (int waited = 0; waited < LATE_DUMP_MS; waited++) {
        if (has_kernel_fault() || is_under_way())
            return;
        usleep(1000);
    }
    __atomic_store_n(&is_in_vain, 1, __ATOMIC_RELAXED);
}

static int has_lost_patience(void *user)
{
    struct patience *patience = user;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (is_under_way())
        return 1;
    patience->is_out =
        now.tv_sec > patience->until.tv_sec || (now.tv_sec == patience->until.tv_sec && now.tv_nsec >= patience->until.tv_nsec);
    return patience->is_out;
}

/* Lets a fault that the host cannot see yet come to light. Returns 0 if the device was too busy to tell within `ms`. */
static int fence(CUcontext context, unsigned ms)
{
    struct patience patience = {0};
    clock_gettime(CLOCK_MONOTONIC, &patience.until);
    patience.until = after(patience.until, ms);
    kernels_fence(context, has_lost_patience, &patience);
    return !patience.is_out;
}

cufence_status monitor_flush(unsigned timeout_ms)
{
    if (monitor.is_armed && !has_kernel_fault())
        fence(NULL, timeout_ms);
    return monitor_wait(timeout_ms);
}

void fault_learn(int is_device_idle)
{
    static int is_usually_busy; /* atomic: other streams keep the device so full that a fence tells nothing but costs time */
    CUcontext context = NULL;
    if (monitor.is_armed && !has_kernel_fault() && driver->cuCtxGetCurrent(&context) == CUDA_SUCCESS && context) {
        if (is_device_idle)
            fence(context, IDLE_FENCE_MS);
        else if (!__atomic_load_n(&is_usually_busy, __ATOMIC_RELAXED) && !fence(context, BUSY_FENCE_MS))
            __atomic_store_n(&is_usually_busy, 1, __ATOMIC_RELAXED);
    }
    monitor_wait(SETTLE_MS);
}

cufence_status fault_settle(int is_device_idle)
{
    fault_learn(is_device_idle);
    if (!has_kernel_fault() || monitor.options->on_fault != ON_FAULT_ERROR)
        return CUFENCE_OK;
    for (int waited = 0; waited < SETTLE_MS && !kernels_have_failed(-1); waited++)
        usleep(1000);
    return error_set(CUFENCE_ERROR_FAULTED, "a kernel has faulted; the report tells which");
}
