#include "stuck.h"

#include "base/clock.h"
#include "descriptors.h"
#include "driver/driver.h"
#include "finding/report.h"
#include "kernels/kernels.h"
#include "launch/launch.h"
#include "launch/pinned_memory.h"
#include "tell.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define TURN_MS 250
#define LATE_MS 20000 /* for the first byte of a dump: a device that is full takes seconds */
#define READ_MS 200
#define NS_PER_SECOND (1000 * NS_PER_MS)

static struct {
    uint64_t wanted_ns;          /* stuck=; 0: on request only */
    uint64_t patience_ns;        /* the same, but doubled each time that not all threads wait; 0: there was a report */
    uint64_t launches, since_ns; /* since then there are as many */
    uint64_t asked_ns;           /* when a dump was asked for; 0: none is */
    char answer[HIDDEN_REQUEST]; /* the file for who has asked; "": nobody has */
} stuck;

void stuck_open(const struct options *options)
{
    stuck.wanted_ns = stuck.patience_ns = options->stuck * NS_PER_SECOND;
    stuck.since_ns = monotonic_ns();
}

int stuck_sleep_ms(void)
{
    return stuck.asked_ns || stuck.wanted_ns ? TURN_MS : -1;
}

int stuck_is_asked(void)
{
    return stuck.asked_ns != 0;
}

/* A byte 0 ends it. */
static void answer(const char *text)
{
    int file = stuck.answer[0] ? open(stuck.answer, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    stuck.answer[0] = '\0';
    if (file < 0)
        return;
    ssize_t sent = write(file, text, strlen(text) + 1); /* who has asked may have gone */
    (void)sent;
    close(file);
}

/* The driver's pipe may be the program's. */
static void ask(void)
{
    char name[1024] = "";
    size_t size = sizeof name;
    if (driver->cuCoredumpGetAttributeGlobal)
        driver->cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, name, &size);
    int pipe = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    stuck.asked_ns = pipe >= 0 && write(pipe, "1", 1) == 1 ? monotonic_ns() : 0;
    if (!stuck.asked_ns)
        answer("cufence: the driver takes no request for a dump\n");
    if (pipe >= 0)
        close(pipe);
}

static int is_idle(void)
{
    struct context *context = context_next(NULL);
    while (context && context_is_idle(context))
        context = context_next(context);
    return !context;
}

void stuck_turn(void)
{
    uint64_t launches = launch_total(), now = monotonic_ns();
    if (stuck.asked_ns && now - stuck.asked_ns > LATE_MS * NS_PER_MS) {
        stuck.asked_ns = 0;
        answer("cufence: no kernel is under way, or the driver does not answer\n");
    }
    if (!stuck.asked_ns && hidden_request(stuck.answer)) {
        stuck.answer[strcspn(stuck.answer, "\n")] = '\0';
        ask();
    }
    if (launches != stuck.launches) {
        stuck.launches = launches;
        stuck.since_ns = now;
        stuck.patience_ns = stuck.wanted_ns;
    } else if (stuck.patience_ns && !stuck.asked_ns && now - stuck.since_ns > stuck.patience_ns) {
        if (is_idle())
            stuck.since_ns = now;
        else
            ask();
    }
}

/* Reads what is polled as it is now. */
static void read_value(struct stuck_fact *fact, int device)
{
    struct pinned pinned;
    uint64_t address = fact->lane.address;
    uint32_t bytes = fact->stops[0].access_bytes;
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

/* Returns the text for who has asked, which the caller frees; NULL if nobody has. */
static char *report(const struct fault *fault, const struct standing *standing)
{
    struct stuck_fact *fact = calloc(1, sizeof *fact);
    struct surroundings *around = NULL;
    char *text = NULL;
    if (fact) {
        fact->standing = standing;
        stuck_evidence(fact, fault->evidence);
        around = surroundings_of(&fact->evidence, fault->device);
    }
    if (around) {
        read_value(fact, fault->device);
        fact->memory = &around->memory;
        fact->silent_ns = stuck.answer[0] ? 0 : monotonic_ns() - stuck.since_ns;
        text = tell_stuck(fact, fault->device, stuck.answer[0] != '\0');
    }
    free(around);
    free(fact);
    return text;
}

int stuck_take(const struct fault *fault)
{
    const struct standing_wishes all = {.places = SIZE_MAX};
    struct standing *standing = NULL;
    struct problem problem;
    char *text = NULL;
    if (!stuck.asked_ns)
        return 0;
    stuck.asked_ns = 0;
    if (standing_read(&fault->opened, &standing, &problem) == CUFENCE_OK) {
        int is_stuck = standing_is_stuck(standing);
        if (!stuck.answer[0])
            stuck.patience_ns = is_stuck ? 0 : stuck.patience_ns * 2;
        text = is_stuck ? report(fault, standing) : standing_text(standing, &all);
    }
    answer(text ? text : "cufence: the host has no memory for the report\n");
    free(text);
    standing_free(standing);
    return 1;
}
