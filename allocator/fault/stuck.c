#include "stuck.h"

#include "arming.h"
#include "base/clock.h"
#include "descriptors.h"
#include "base/error.h"
#include "base/output.h"
#include "driver/driver.h"
#include "finding/report_common.h"
#include "kernels/kernels.h"
#include "launch/host_waits.h"
#include "launch/launch.h"
#include "launch/device_progress.h"
#include "launch/pinned_memory.h"
#include "tell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TURN_MS 250
#define LATE_MS 30000 /* for the first byte of a dump: a device that is full takes seconds, and so do others' dumps */
#define READ_MS 200

static struct {
    uint64_t patience_ns;        /* stuck=; 0: on request only */
    uint64_t turned_ns;          /* when it was last looked */
    uint64_t launches, since_ns; /* since then there are as many, none has ended, and the device is not idle */
    uint64_t late_ns;            /* when the dump that was asked for is late; 0: none is awaited */
    int is_asked, has_asker;     /* for a dump, which may come late; `cufence stuck` waits for an answer */
    int has_ended;               /* atomic */
} stuck;
static struct waiting_facts waiting; /* when it was asked last */

void stuck_open(const struct options *options)
{
    stuck.patience_ns = options->stuck * NS_PER_S;
    if (options->stuck)
        progress_open();
    stuck.since_ns = stuck.turned_ns = monotonic_ns();
}

int stuck_sleep_ms(void)
{
    return stuck.late_ns || stuck.patience_ns ? TURN_MS : -1;
}

int stuck_has_ended(void)
{
    return __atomic_load_n(&stuck.has_ended, __ATOMIC_RELAXED);
}

int stuck_is_asked(void)
{
    return stuck.late_ns || stuck_has_ended();
}

static void answer(const char *text)
{
    if (stuck.has_asker)
        hidden_answer(text);
    stuck.has_asker = 0;
}

/* Says why there is no report. */
static void excuse(const char *why)
{
    char text[512];
    if (!stuck.has_asker)
        output_note("%s", why);
    snprintf(text, sizeof text, "%ccufence: %s\n", HIDDEN_FAILED, why);
    answer(text);
}

static int is_busy(void)
{
    struct context *context = context_next(NULL);
    while (context && !context_is_busy(context))
        context = context_next(context);
    return context != NULL;
}

static void find_waiting(void)
{
    static struct host_wait waits[HOST_WAITS];
    size_t i = 0;
    for (waiting.total = host_waits_read(waits); i < waiting.total && i < WAITING_SHOWN; i++) {
        struct waiting_fact *fact = &waiting.list[i];
        fact->call = waits[i].call;
        fact->tid = waits[i].tid;
        fact->since_ns = waits[i].since_ns;
        fact->frame_count = stack_frames(&waits[i].stack, fact->frames, STACK_READ);
    }
    waiting.count = i;
}

/* What is known without a dump: the newest launches, and which threads wait. */
static void tell_launches(void)
{
    enum { SHOWN = 8 };
    static struct launch_entry entries[SHOWN];
    static struct stack stacks[SHOWN];
    struct stack_frame frames[STACK_READ];
    struct report report;
    char kernel[256];
    const struct launch_query all = {.device = -1, .has_graphs = 1};
    size_t count = launch_read(&all, entries, stacks, SHOWN);
    find_waiting();
    if (!report_open(&report, (int)getpid()))
        return;
    report_line(&report, NULL, NULL, CERTAIN_NOT, "cufence: %s",
                is_busy() ? "work is under way" : "no stream is known to work");
    report_sentence(&report, "note",
                    "only a dump tells where threads stand, and with it the driver ends all work of the process "
                    "on the GPU: cufence stuck --kill",
                    CERTAIN_NOT);
    for (size_t i = 0; i < count; i++) {
        report_begin(&report, i ? "" : "launches", NULL);
        finding_kernel_of(entries[i].function ? entries[i].function->name : "", kernel, sizeof kernel);
        report_put(&report, "%s%s", kernel[0] ? kernel : "a graph ", grid_of(entries[i].grid, entries[i].block).text);
        report_end(&report, CERTAIN_NOT);
        report_when_line(&report, "launched", monotonic_ns(), entries[i].time_ns, entries[i].tid, entries[i].stream);
        report_frame_lines(&report, "", "at", NULL, CERTAIN_NOT, frames, stack_frames(&stacks[i], frames, STACK_READ));
    }
    report_waiting_lines(&report, &waiting, monotonic_ns());
    char *text = report_close(&report);
    answer(text ? text : "");
    free(text);
}

void stuck_give_up(const char *why)
{
    if (stuck.late_ns)
        excuse(why);
    stuck.late_ns = 0;
}

static void ask(void)
{
    find_waiting(); /* first: the dump ends them */
    int is_asked = dumps_ask();
    stuck.is_asked |= is_asked;
    stuck.late_ns = is_asked ? monotonic_ns() + LATE_MS * NS_PER_MS : 0;
    if (!is_asked)
        excuse(error_detail());
}

static void take_request(char request)
{
    stuck.has_asker = 1;
    if (request != 'k')
        tell_launches();
    else if (!stuck.late_ns)
        ask();
}

/* Has the device's work ended. That is in vain where a host function is waited for: then it takes longer until the next time.
 */
static void lose_patience(uint64_t now)
{
    if (!is_busy()) {
        stuck.since_ns = now;
    } else if (!contexts_are_watched()) {
        output_note("stuck= is off: it sees no launches without the preload library (cufence run)");
        stuck.patience_ns = 0;
    } else {
        output_note(
            "for %s nothing was launched and nothing has ended, and work is under way: asking for a dump, which ends that",
            age_of(now - stuck.since_ns).text);
        ask();
        stuck.patience_ns = 2 * (monotonic_ns() - stuck.since_ns);
    }
}

void stuck_turn(void)
{
    uint64_t launches = launch_total(), now = monotonic_ns();
    char request = hidden_request();
    if (now > stuck.late_ns)
        stuck_give_up("no kernel is under way, or the driver does not answer");
    if (request)
        take_request(request);
    if ((stuck.patience_ns && progress_was_made()) || launches != stuck.launches)
        stuck.since_ns = now;
    else if (now - stuck.turned_ns > 2 * TURN_MS * NS_PER_MS) /* the process was stopped, or a dump was read */
        stuck.since_ns += now - stuck.turned_ns;
    stuck.launches = launches;
    stuck.turned_ns = now;
    if (stuck.patience_ns && !stuck.late_ns && now - stuck.since_ns > stuck.patience_ns)
        lose_patience(now);
}

/* ---- the dump ---- */

/* Reads what is polled as it is now. */
static void read_value(struct stuck_fact *fact, int device)
{
    struct pinned pinned;
    uint64_t address = fact->lane.address;
    uint32_t bytes = fact->stop.access_bytes;
    struct kernels_piece piece = {.address = address, .to = (uint8_t *)&fact->value, .bytes = bytes};
    const struct iovec to = {&fact->value, bytes}, from = {(void *)(uintptr_t)address, bytes}; /* NOLINT */
    if (!address || !bytes || bytes > sizeof fact->value)
        return;
    if (!pinned_find(address, &pinned)) {
        fact->has_value = kernels_read(device, &piece, 1, READ_MS) == 1;
        return;
    }
    fact->host = pinned.address;
    fact->host_bytes = pinned.bytes;
    fact->has_value = pinned.kind != PINNED_DEVICE && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

static void report_stuck(const struct fault *fault, const struct standing *standing)
{
    static struct stuck_fact fact;
    memset(&fact, 0, sizeof fact);
    fact.standing = standing;
    fact.waiting = waiting;
    stuck_evidence(&fact, fault->evidence);
    read_value(&fact, fault->device);                              /* first: the context ends soon, */
    contexts_set_faulted(fault->device, CUDA_ERROR_LAUNCH_FAILED); /* and who is told gets no memory */
    struct surroundings *around = surroundings_of(&fact.evidence, fault->device);
    if (around) {
        fact.memory = &around->memory;
        fact.silent_ns = stuck.has_asker ? 0 : monotonic_ns() - stuck.since_ns;
        char *text = tell_stuck(&fact, fault->device);
        answer(text ? text : "");
        free(text);
    }
    free(around);
}

int stuck_take(const struct fault *fault)
{
    struct standing *standing = NULL;
    struct problem problem;
    if (!stuck.is_asked)
        return 0;
    stuck.late_ns = stuck.patience_ns = 0;
    __atomic_store_n(&stuck.has_ended, !driver->is_sim, __ATOMIC_RELAXED);
    stuck.is_asked = !driver->is_sim; /* there may be one for each device */
    if (standing_read(&fault->opened, &standing, &problem) == CUFENCE_OK && standing->place_count)
        report_stuck(fault, standing);
    else
        excuse("no thread is in the driver's dump, which has ended the work on the GPU");
    contexts_set_faulted(fault->device, CUDA_ERROR_LAUNCH_FAILED);
    answer("");
    standing_free(standing);
    return 1;
}
