#include "stuck.h"

#include "base/clock.h"
#include "base/output.h"
#include "finding/report.h"
#include "descriptors.h"
#include "driver/driver.h"
#include "kernels/kernels.h"
#include "launch/launch.h"
#include "launch/pinned_memory.h"
#include "tell.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TURN_MS 250
#define LATE_MS 20000 /* for the first byte of a dump: a device that is full takes seconds */
#define READ_MS 200

static struct {
    const struct options *options;
    char answer[HIDDEN_REQUEST]; /* a file that gets the report too; "": nobody has asked from outside */
    uint64_t asked_ns;           /* 0: no dump is asked for */
    uint64_t launches, since_ns; /* when there was another number of launches, or the device was idle */
    uint64_t patience_ns;        /* how long that may be; doubles each time that not all of them wait */
} stuck;

void stuck_open(const struct options *options)
{
    stuck.options = options;
    stuck.patience_ns = options->stuck * 1000 * NS_PER_MS;
    stuck.since_ns = monotonic_ns();
}

int stuck_sleep_ms(void)
{
    return stuck.asked_ns || stuck.options->stuck ? TURN_MS : -1;
}

int stuck_is_asked(void)
{
    return stuck.asked_ns != 0;
}

/* ---- asking ---- */

/* With its end: a byte 0. */
static void answer(const char *text)
{
    int file = stuck.answer[0] ? open(stuck.answer, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (file >= 0 && write(file, text, strlen(text) + 1) < 0)
        output_note("%s does not take the answer", stuck.answer);
    if (file >= 0)
        close(file);
    stuck.answer[0] = '\0';
}

/* By the driver's pipe, which may be the program's. */
static void ask(void)
{
    char name[1024] = "";
    size_t size = sizeof name;
    if (driver->cuCoredumpGetAttributeGlobal)
        driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, name, &size);
    int pipe = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (pipe >= 0 && write(pipe, "1", 1) == 1)
        stuck.asked_ns = monotonic_ns();
    else
        answer("cufence: the driver takes no request for a dump\n");
    if (pipe >= 0)
        close(pipe);
}

static int is_idle(void)
{
    for (struct context *context = context_next(NULL); context; context = context_next(context))
        if (!context_is_idle(context))
            return 0;
    return 1;
}

void stuck_turn(void)
{
    uint64_t launches = launch_total(), now = monotonic_ns();
    char request[HIDDEN_REQUEST];
    if (stuck.asked_ns && now - stuck.asked_ns > LATE_MS * NS_PER_MS) {
        stuck.asked_ns = 0;
        answer("cufence: no dump has come: the driver has no kernel under way, or does not answer\n");
    }
    if (hidden_request(request)) {
        request[strcspn(request, "\n")] = '\0';
        memcpy(stuck.answer, request, sizeof request);
        ask();
    }
    if (launches != stuck.launches) {
        stuck.launches = launches;
        stuck.since_ns = now;
        stuck.patience_ns = stuck.options->stuck * 1000 * NS_PER_MS;
    } else if (stuck.patience_ns && !stuck.asked_ns && now - stuck.since_ns > stuck.patience_ns) {
        stuck.since_ns = is_idle() ? now : stuck.since_ns;
        if (stuck.since_ns != now)
            ask();
    }
}

/* ---- the dump ---- */

/* Reads what is polled as it is now. */
static void read_value(struct stuck_fact *fact, int device)
{
    struct pinned pinned;
    uint32_t bytes = fact->stops[0].access_bytes;
    if (!fact->lane.address || !bytes || bytes > sizeof fact->value)
        return;
    if (pinned_find(fact->lane.address, &pinned)) {
        const struct iovec to = {&fact->value, bytes}, from = {(void *)(uintptr_t)fact->lane.address, bytes}; /* NOLINT */
        fact->host = pinned.address;
        fact->host_bytes = pinned.bytes;
        fact->has_value = pinned.kind != PINNED_DEVICE && process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)bytes;
        return;
    }
    struct kernels_piece piece = {.address = fact->lane.address, .to = (uint8_t *)&fact->value, .bytes = bytes};
    fact->has_value = kernels_read(device, &piece, 1, READ_MS) == 1;
}

static void report(const struct fault *fault, const struct standing *standing)
{
    struct stuck_fact *fact = calloc(1, sizeof *fact);
    if (!fact)
        return;
    fact->standing = standing;
    stuck_evidence(fact, fault->evidence);
    struct surroundings *around = surroundings_of(&fact->evidence, fault->device);
    if (around) {
        read_value(fact, fault->device);
        fact->memory = &around->memory;
        fact->silent_ns = stuck.answer[0] ? 0 : monotonic_ns() - stuck.since_ns;
        char *text = tell_stuck(fact, fault->device, stuck.answer[0] != '\0');
        answer(text ? text : "cufence: the host has no memory for the report\n");
        free(text);
    }
    free(around);
    free(fact);
}

int stuck_take(const struct fault *fault)
{
    struct standing *standing = NULL;
    struct problem problem;
    if (!stuck.asked_ns)
        return 0;
    stuck.asked_ns = 0;
    if (standing_read(&fault->opened, &standing, &problem) != CUFENCE_OK) {
        answer(problem.text);
    } else if (standing_is_stuck(standing)) {
        report(fault, standing);
        stuck.patience_ns = 0; /* until there is another launch */
    } else {
        const struct standing_wishes wishes = {.places = SIZE_MAX};
        char *text = stuck.answer[0] ? standing_text(standing, &wishes) : NULL;
        answer(text ? text : "");
        free(text);
        stuck.patience_ns *= 2;
    }
    standing_free(standing);
    return 1;
}
