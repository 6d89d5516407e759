#include "names.h"

#include "types.h"

#include "base/lock.h"
#include "base/hash.h"

#include "finding/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 200000, STACKS = 1 << 16 };

/* A place of allocation or launch, or a label. Never freed. */
struct place {
    UT_hash_handle hh; /* by text */
    uint64_t used;     /* buffers of it that have a name */
    char text[];
};

/* A buffer. */
struct named {
    UT_hash_handle hh; /* by id */
    uint64_t id;
    const struct place *place;
    uint64_t number;
};

struct stream_name {
    UT_hash_handle hh; /* by key: it has no padding */
    struct stream_ref key;
    uint64_t number;
};

static struct {
    struct lock lock; /* guards the rest; a leaf */
    struct place *places;
    struct stream_name *streams;
    struct place *stacks[STACKS]; /* by the number of a Python stack: its place; NULL: not looked at */
    struct named *buffers;        /* the one used last is the last one */
} names = {.lock = LOCK(RANK_LEAF)};

/* ---- places ---- */

/* Returns NULL if out of host memory. */
static struct place *intern_locked(const char *text)
{
    struct place *place;
    size_t length = strlen(text);
    HASH_FIND(hh, names.places, text, length, place);
    if (place || !(place = calloc(1, sizeof *place + length + 1)))
        return place;
    memcpy(place->text, text, length + 1);
    HASH_ADD_KEYPTR(hh, names.places, place->text, length, place);
    return HASH_KEPT(place);
}

static struct place *intern(const char *text)
{
    HOLD(&names.lock);
    return intern_locked(text);
}

/* Files of the program without their folder, which may differ from run to run; those of packages as Python imports them. */
static const char *file_of(const struct stack_frame *frame)
{
    const char *file = frames_file(frame), *slash = strrchr(frame->file, '/');
    return file == frame->file && slash ? slash + 1 : file;
}

/* Whether the frame belongs to what every launch of a CUDA program goes through. */
static int is_of_runtime(const struct stack_frame *frame)
{
    static const char *const functions[] = {"cuda", "__cuda", "__device_stub", "cuLaunch", "cuMem"};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (!strncmp(frame->function, functions[i], strlen(functions[i])))
            return 1;
    return !strncmp(frame->module, "libcudart", strlen("libcudart")) || (!frame->function[0] && !frame->file[0]);
}

/* The innermost frame of the program's own code. */
static const struct stack_frame *choose(const struct stack_frame *frames, size_t count)
{
    const struct stack_frame *own = frames_own(frames, count);
    for (size_t i = 0; i < count && !own->is_python; i++)
        if (!is_of_runtime(&frames[i]))
            return &frames[i];
    return own;
}

static void describe(const struct stack_frame *frames, size_t count, char out[NAME_BYTES])
{
    out[0] = '\0';
    if (!count)
        return;
    const struct stack_frame *frame = choose(frames, count);
    if (frame->file[0] && frame->function[0])
        snprintf(out, NAME_BYTES - 24, "%s:%d in %s", file_of(frame), frame->line, frame->function);
    else if (frame->file[0])
        snprintf(out, NAME_BYTES - 24, "%s:%d", file_of(frame), frame->line);
    else if (frame->function[0])
        snprintf(out, NAME_BYTES - 24, "%.160s (%.60s)", frame->function, frame->module);
    else if (frame->module[0])
        snprintf(out, NAME_BYTES - 24, "%s+0x%" PRIx64, frame->module, frame->offset);
}

static struct place *known_stack(uint32_t number)
{
    return number < STACKS ? __atomic_load_n(&names.stacks[number], __ATOMIC_ACQUIRE) : NULL;
}

/* Reads the frames of a Python stack once. NULL: they are not known, or out of host memory. */
static struct place *place_of_stack(uint32_t number)
{
    struct stack_frame frames[STACK_READ];
    char text[NAME_BYTES];
    struct place *place = number ? known_stack(number) : NULL;
    if (place || !number)
        return place;
    describe(frames, stack_interned_frames(number, frames, STACK_READ), text);
    place = text[0] ? intern(text) : NULL;
    if (place && number < STACKS)
        __atomic_store_n(&names.stacks[number], place, __ATOMIC_RELEASE);
    return place;
}

const char *names_place(const struct visit *visit)
{
    struct stack_frame frames[STACK_READ];
    char text[NAME_BYTES];
    struct place *place = place_of_stack(visit->stack.python);
    if (!place) {
        describe(frames, stack_frames(&visit->stack, frames, STACK_READ), text);
        place = text[0] ? intern(text) : NULL;
    }
    return place ? place->text : "";
}

void names_kernels(const struct visit *visit, char *out, size_t room)
{
    size_t count = visit->function ? 1 : visit->graph_function_count, used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++) {
        const struct kernel_names *known = types_names(visit->function ? visit->function : visit->graph_functions[i]);
        int length = snprintf(out + used, room - used, "%s%s", used ? ", " : "", known ? known->plain : "a kernel");
        used += length > 0 ? (size_t)length : 0;
    }
}

void names_launched(const struct visit *visit, struct launched_fact *out, struct stack_frame frames[STACK_READ], char *plain,
                    size_t room)
{
    const struct kernel_names *known = visit->function ? types_names(visit->function) : NULL;
    names_kernels(visit, plain, room);
    *out = (struct launched_fact){.kernel = known ? known->demangled : NULL,
                                  .symbol = known ? known->mangled : NULL,
                                  .graph_kernels = known ? NULL : plain,
                                  .plain = plain,
                                  .launch = visit->number,
                                  .stream = (uint64_t)(uintptr_t)visit->handle,
                                  .tid = visit->tid,
                                  .frames = frames,
                                  .frame_count = stack_frames(&visit->stack, frames, STACK_READ)};
    memcpy(out->grid, visit->grid, sizeof out->grid);
    memcpy(out->block, visit->block, sizeof out->block);
}

/* ---- buffers ---- */

static struct named *find_locked(uint64_t id)
{
    struct named *found;
    lock_expect(RANK_LEAF);
    HASH_FIND(hh, names.buffers, &id, sizeof id, found);
    return found;
}

static void put_locked(struct named *named)
{
    HASH_ADD(hh, names.buffers, id, sizeof named->id, named);
    HASH_KEPT(named);
}

/* A buffer that is used again stays among the latest. Returns whether it has a name. */
static int touch(uint64_t id)
{
    HOLD(&names.lock);
    struct named *found = find_locked(id);
    if (found) {
        HASH_DEL(names.buffers, found);
        put_locked(found);
    }
    return found != NULL;
}

/* Without host memory, the buffer used longest ago makes room. */
static void add_locked(uint64_t id, struct place *place)
{
    lock_expect(RANK_LEAF);
    struct named *made = HASH_COUNT(names.buffers) < KEPT ? malloc(sizeof *made) : NULL, *oldest = names.buffers;
    if (!place || find_locked(id) || !(made || oldest)) {
        free(made);
        return;
    }
    if (!made) {
        HASH_DEL(names.buffers, oldest);
        made = oldest;
    }
    made->id = id;
    made->place = place;
    made->number = ++place->used;
    put_locked(made);
}

static void name_buffer(const struct heap_range *range)
{
    cufence_buffer buffer;
    char size[32];
    if (touch(range->id))
        return;
    int is_there = arguments_describe(range, &buffer), has_label = is_there && buffer.label[0];
    struct place *place = is_there && !has_label ? place_of_stack(buffer.allocated_stack) : NULL;
    snprintf(size, sizeof size, "%" PRIu64 " bytes", range->size);
    HOLD(&names.lock);
    if (!place)
        place = intern_locked(has_label ? buffer.label : size);
    add_locked(range->id, place);
}

void names_buffer(uint64_t id, char out[NAME_BYTES])
{
    HOLD(&names.lock);
    const struct named *found = find_locked(id);
    if (found)
        snprintf(out, NAME_BYTES, "%s #%" PRIu64, found->place->text, found->number);
    else
        snprintf(out, NAME_BYTES, "?");
}

/* ---- streams ---- */

static struct stream_name *find_stream_locked(const struct visit *visit)
{
    struct stream_name *found;
    HASH_FIND(hh, names.streams, &visit->stream, sizeof visit->stream, found);
    return found;
}

static void name_stream(const struct visit *visit)
{
    HOLD(&names.lock);
    struct stream_name *stream = find_stream_locked(visit);
    if (!stream && (stream = calloc(1, sizeof *stream)) != NULL) {
        stream->key = visit->stream;
        stream->number = HASH_COUNT(names.streams) + 1;
        HASH_ADD(hh, names.streams, key, sizeof stream->key, stream);
        HASH_KEPT(stream);
    }
}

uint64_t names_stream(const struct visit *visit)
{
    HOLD(&names.lock);
    const struct stream_name *stream = find_stream_locked(visit);
    return stream ? stream->number : 0;
}

void names_note(const struct visit *visit)
{
    name_stream(visit);
    for (size_t i = 0; i < visit->reached_count; i++)
        name_buffer(&visit->reached[i].range);
}
