#include "slack_rerun.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/reader.h"
#include "contexts/contexts.h"
#include "driver/driver.h"
#include "launch/launch.h"
#include "launch/pinned_memory.h"
#include "rerun/rerun.h"
#include "rerun_source.h"
#include "vmm/arena.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE (UINT64_C(2) << 20)
#define MOST_KERNELS 4 /* that are tried */
/* The program goes on, and needs its memory: a context takes half a GiB, and the copies get a quarter of what is free. */
#define LEAST_FREE (UINT64_C(2) << 30)
#define MOST_COPIED (UINT64_C(4) << 30)

struct slack_rerun {
    struct slack_write *write;
    struct rerun rerun;
    uint64_t to;    /* where the buffer is in the other process */
    uint64_t align; /* of that address */
    uint64_t room;  /* bytes that may still be copied */
    char limit[40];
    struct rerun_launch launches[SLACK_LAUNCHES];
    size_t numbers[SLACK_LAUNCHES]; /* in write->launches */
    size_t count;
    int has_pinned, has_others; /* of these launches: pointers to pinned memory; others on other streams had the buffer, too */
    uint8_t *arguments[SLACK_LAUNCHES];
    struct span image;
};

/* Puts the copy at the end of the address space, which nothing else reaches: with its end at the end of a page, or with its
 * start at the start of one. Where the kernel needs it to be aligned, the last bytes are left out. */
static void place(struct slack_rerun *again, struct rerun_input *input)
{
    uint64_t size = again->write->buffer->size, edge = (input->bundle.arena_end - 2 * MOVED_ROOM) / PAGE * PAGE;
    int is_before = again->write->found.is_before;
    again->to = is_before ? (edge - size) / PAGE * PAGE : (edge - size + again->align - 1) / again->align * again->align;
    input->moved_from = again->write->buffer->address;
    input->moved_bytes = is_before ? size : edge - again->to;
    input->moved_to = again->to;
}

static int answer(void *user, const struct rerun_message *question, struct rerun_message *answer)
{
    struct slack_rerun *again = user;
    struct slot_export found;
    if (question->type != MESSAGE_NEED || arena_export(question->address, &found) != CUFENCE_OK)
        return -1;
    if (found.mapped > again->room) {
        close(found.fd);
        found.fd = -1;
        errno = ENOMEM;
    } else {
        again->room -= found.mapped;
    }
    *answer = (struct rerun_message){.type = MESSAGE_GIVE, .address = found.base, .bytes = found.mapped};
    return found.fd;
}

/* Returns 0 where the device has little memory left. */
static uint64_t room_on(int device)
{
    size_t left = 0, all;
    struct context *context = context_for_pool(device, NULL);
    if (!context)
        return 0;
    SCOPE scope = scope_visit(context);
    if (!scope.pushed || driver->cuMemGetInfo(&left, &all) != CUDA_SUCCESS || left < LEAST_FREE)
        left = 0;
    return left / 4 < MOST_COPIED ? left / 4 : MOST_COPIED;
}

/* Moves the pointers into the buffer and its slack. Returns their number. */
static unsigned move(const struct slack_rerun *again, uint8_t *arguments, size_t size)
{
    const cufence_buffer *buffer = again->write->buffer;
    unsigned moved = 0;
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        uint64_t word = load_u64(arguments + at);
        if (word < buffer->mapping_start || word > buffer->mapping_end)
            continue;
        word = word - buffer->address + again->to;
        memcpy(arguments + at, &word, sizeof word);
        moved++;
    }
    return moved;
}

static void add(struct slack_rerun *again, size_t number)
{
    const struct launch_entry *entry = again->write->launches[number].entry;
    uint8_t *bytes = entry->argument_bytes && entry->argument_bytes <= RERUN_ARGUMENTS ? malloc(entry->argument_bytes) : NULL;
    if (!bytes || launch_read_arguments(entry, bytes, entry->argument_bytes) != entry->argument_bytes ||
        !move(again, bytes, entry->argument_bytes)) {
        free(bytes);
        return;
    }
    for (size_t at = 0; at + sizeof(uint64_t) <= entry->argument_bytes; at += sizeof(uint64_t)) {
        struct pinned pinned;
        again->has_pinned |= pinned_find(load_u64(bytes + at), &pinned);
    }
    for (size_t i = 0; i < again->write->launch_count; i++)
        again->has_others |= again->write->launches[i].entry->stream != entry->stream;
    again->launches[again->count] = rerun_launch_of(entry, bytes);
    again->arguments[again->count] = bytes;
    again->numbers[again->count++] = number;
}

/* Whether an access of so many bytes in the other process reaches what was changed; *at: where, in this one. */
static int is_changed(const struct slack_rerun *again, uint64_t address, uint64_t bytes, uint64_t *at)
{
    const struct slack_found *found = &again->write->found;
    *at = address - again->to + again->write->buffer->address;
    return *at + bytes > found->address && *at < found->address + found->span;
}

static int fail(struct slack_write *write, const char *why)
{
    snprintf(write->untold, sizeof write->untold, "%s", why);
    return 0;
}

/* Whether a second launch has the state that the first one had. Pointers into the device heap that it lacks do no harm: only a
 * write beside the buffer counts. */
static int is_alike(const struct slack_rerun *again, int has_others)
{
    const char *lacks = rerun_source_lacks(again->image, again->rerun.input.bundle.symbol, again->has_pinned, has_others);
    if (*lacks)
        snprintf(again->write->untold, sizeof again->write->untold, RERUN_LACKS, lacks);
    return !*lacks;
}

/* Takes the first thread that writes there. Returns 0 if the dump has none. */
static int take(struct slack_rerun *again)
{
    const struct evidence *evidence = again->rerun.result.outcome == RERUN_FAULTED ? again->rerun.evidence : NULL;
    struct slack_again *found = &again->write->again;
    for (size_t i = 0; evidence && i < evidence->stop_count; i++) {
        const struct evidence_stop *stop = &evidence->stops[i];
        size_t threads = found->threads;
        if (stop->exception.class == CLASS_MISALIGNED && stop->access_bytes > again->align)
            again->align = stop->access_bytes;
        for (size_t k = 0; stop->is_warp_alive && stop->access != ACCESS_READ && k < stop->lane_count; k++) {
            uint64_t at;
            if (stop->lanes[k].certainty == CERTAIN_NOT ||
                !is_changed(again, stop->lanes[k].address, stop->access_bytes ?: 1, &at))
                continue;
            if (!found->stop || at < found->address)
                *found = (struct slack_again){stop, &stop->lanes[k], at, found->threads, found->warps, 0};
            found->threads++;
        }
        found->warps += found->threads > threads;
    }
    if (found->stop)
        return 1;
    return fail(again->write,
                again->rerun.result.outcome == RERUN_FAILED ? again->rerun.result.reason : "no thread wrote there");
}

static void forget(struct slack_rerun *again)
{
    rerun_end(&again->rerun);
    for (size_t i = 0; i < again->count; i++)
        free(again->arguments[i]);
    free((void *)(uintptr_t)again->image.bytes);
    *again = (struct slack_rerun){.write = again->write, .align = again->align};
}

/* Launches those of one kernel again. Returns 1 if one of them did it. */
static int try_kernel(struct slack_rerun *again, const struct options *options, const struct launch_function *function,
                      kernel_code code)
{
    struct slack_write *write = again->write;
    struct rerun *rerun = &again->rerun;
    struct rerun_input *input = &rerun->input;
    again->image = code(function->name, write->buffer->device);
    input->bundle.symbol = function->name;
    if (!again->image.bytes)
        return fail(write, "the code of the kernel is not known");
    if (rerun_source_device(rerun, write->buffer->device) != CUFENCE_OK)
        return fail(write, error_detail());
    place(again, input);
    for (size_t i = 0; i < write->launch_count; i++)
        if (write->launches[i].entry->function == function)
            add(again, i);
    again->room = room_on(write->buffer->device);
    if (!again->count)
        return fail(write, "none of its arguments points to the buffer");
    if (!is_alike(again, 0)) /* whatever it did would show nothing */
        return 0;
    if (again->room < write->buffer->size)
        return fail(write, "the device has little memory left");
    again->room -= write->buffer->size; /* it is there twice */
    snprintf(again->limit, sizeof again->limit, "wait_ms=%llu", (unsigned long long)options->rerun_ms);
    input->mode = RERUN_BARE;
    input->image = again->image.bytes;
    input->image_bytes = again->image.size;
    input->bundle.launches = again->launches;
    input->bundle.launch_count = again->count;
    rerun->holds_stores = 1;
    rerun->is_verbose = options->say == SAY_VERBOSE;
    rerun->limit_ms = options->rerun_ms;
    rerun->limit = again->limit;
    rerun->begin_ns = monotonic_ns();
    rerun->answer = answer;
    rerun->user = again;
    if (rerun_begin(rerun) == CUFENCE_OK)
        rerun_finish(rerun);
    int is_found = take(again);
    if (!is_found)
        is_alike(again, again->has_others);
    return is_found;
}

/* Puts the launch in front of the others. */
static void choose(struct slack_write *write, size_t number)
{
    const struct fault_launch chosen = write->launches[number];
    memmove(&write->launches[1], &write->launches[0], number * sizeof chosen);
    write->launches[0] = chosen;
    write->again.later = number;
    write->graphs = write->apart = 0;
    write->is_incomplete = 0;
}

static int is_tried(const struct slack_write *write, size_t number)
{
    for (size_t i = 0; i < number; i++)
        if (write->launches[i].entry->function == write->launches[number].entry->function)
            return 1;
    return 0;
}

struct slack_rerun *slack_rerun(const struct options *options, struct slack_write *write, kernel_code code)
{
    unsigned tried = 0;
    if (!code || !rerun_source_is_wanted(options) || !write->buffer->size || write->found.buffers > 1)
        return NULL;
    struct slack_rerun *again = calloc(1, sizeof *again);
    for (size_t i = 0; again && i < write->launch_count && tried < MOST_KERNELS; i++) {
        const struct launch_function *function = write->launches[i].entry->function;
        if (!function || !function->name[0] || is_tried(write, i))
            continue;
        tried++;
        again->write = write;
        again->align = 1;
        int is_found = try_kernel(again, options, function, code);
        if (!is_found && again->align > 1) {
            forget(again);
            is_found = try_kernel(again, options, function, code);
        }
        if (is_found) {
            choose(write, again->numbers[again->rerun.number]);
            return again;
        }
        forget(again);
    }
    free(again);
    return NULL;
}

void slack_rerun_free(struct slack_rerun *again)
{
    if (!again)
        return;
    forget(again);
    free(again);
}
