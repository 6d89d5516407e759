#include "names.h"

#include "base/lock.h"

#include "finding/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

enum { KEPT = 1 << 17, SLOTS = 2 * KEPT, STACKS = 1 << 16 };

/* A place of allocation or launch, or a label. Never freed. */
struct place {
    UT_hash_handle hh; /* by text */
    uint64_t used;     /* buffers of it that have a name */
    char text[];
};

struct named {
    uint64_t id; /* 0: empty */
    struct place *place;
    uint64_t number;
};

struct stream_name {
    UT_hash_handle hh; /* by key */
    struct {
        const struct stream *stream;
        uint64_t generation;
    } key;
    uint64_t number, events;
};

static struct {
    struct lock lock; /* guards the rest; a leaf */
    struct place *places;
    struct stream_name *streams;
    struct place *stacks[STACKS]; /* by the number of a Python stack: its place; NULL: not looked at */
    struct named *now, *before;   /* open addressing; `before` is what `now` was when it was full */
    size_t now_used;
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
    return place;
}

static struct place *intern(const char *text)
{
    lock_take(&names.lock);
    struct place *place = intern_locked(text);
    lock_release(&names.lock);
    return place;
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

/* ---- buffers ---- */

static struct named *slot_of(struct named *table, uint64_t id)
{
    size_t at = (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 40) & (SLOTS - 1);
    while (table[at].id && table[at].id != id)
        at = (at + 1) & (SLOTS - 1);
    return &table[at];
}

static const struct named *find_locked(uint64_t id)
{
    const struct named *found = names.now ? slot_of(names.now, id) : NULL;
    if ((!found || !found->id) && names.before)
        found = slot_of(names.before, id);
    return found && found->id ? found : NULL;
}

/* Makes room for one more name. Returns 0 if the host has no memory. */
static int make_room_locked(void)
{
    if (names.now && names.now_used < KEPT)
        return 1;
    struct named *old = names.before;
    names.before = names.now;
    names.now = old ? old : malloc(SLOTS * sizeof *names.now);
    names.now_used = 0;
    if (names.now)
        memset(names.now, 0, SLOTS * sizeof *names.now);
    return names.now != NULL;
}

/* A buffer that is used again stays among the latest. Returns whether it has a name. */
static int touch_locked(uint64_t id)
{
    const struct named *found = find_locked(id);
    if (!found)
        return 0;
    struct named copy = *found;
    if (slot_of(names.now, id)->id || !make_room_locked())
        return 1;
    *slot_of(names.now, id) = copy;
    names.now_used++;
    return 1;
}

static void add_locked(uint64_t id, struct place *place)
{
    if (!place || find_locked(id) || !make_room_locked())
        return;
    *slot_of(names.now, id) = (struct named){id, place, ++place->used};
    names.now_used++;
}

static int touch(uint64_t id)
{
    lock_take(&names.lock);
    int is_named = touch_locked(id);
    lock_release(&names.lock);
    return is_named;
}

static void name_buffer(const struct heap_range *range)
{
    cufence_description found;
    char size[32];
    if (touch(range->id))
        return;
    heap_describe(range->address, &found);
    int is_it = found.buffer.id == range->id;
    struct place *place = is_it && !found.buffer.label[0] ? place_of_stack(found.buffer.allocated_stack) : NULL;
    snprintf(size, sizeof size, "%" PRIu64 " bytes", range->size);
    lock_take(&names.lock);
    if (!place)
        place = intern_locked(is_it && found.buffer.label[0] ? found.buffer.label : size);
    add_locked(range->id, place);
    lock_release(&names.lock);
}

void names_buffer(uint64_t id, char out[NAME_BYTES])
{
    lock_take(&names.lock);
    const struct named *found = find_locked(id);
    if (found)
        snprintf(out, NAME_BYTES, "%s #%" PRIu64, found->place->text, found->number);
    else
        snprintf(out, NAME_BYTES, "?");
    lock_release(&names.lock);
}

/* ---- streams ---- */

static struct stream_name *find_stream_locked(const struct visit *visit)
{
    struct stream_name *found, wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.key.stream = visit->stream;
    wanted.key.generation = visit->stream_generation;
    HASH_FIND(hh, names.streams, &wanted.key, sizeof wanted.key, found);
    return found;
}

static void name_stream(const struct visit *visit)
{
    lock_take(&names.lock);
    struct stream_name *stream = find_stream_locked(visit);
    if (!stream && (stream = calloc(1, sizeof *stream)) != NULL) {
        stream->key.stream = visit->stream;
        stream->key.generation = visit->stream_generation;
        stream->number = HASH_COUNT(names.streams) + 1;
        HASH_ADD(hh, names.streams, key, sizeof stream->key, stream);
    }
    lock_release(&names.lock);
}

uint64_t names_stream(const struct visit *visit)
{
    lock_take(&names.lock);
    const struct stream_name *stream = find_stream_locked(visit);
    uint64_t number = stream ? stream->number : 0;
    lock_release(&names.lock);
    return number;
}

uint64_t names_count_event(const struct visit *visit)
{
    lock_take(&names.lock);
    struct stream_name *stream = find_stream_locked(visit);
    uint64_t count = stream ? ++stream->events : 0;
    lock_release(&names.lock);
    return count;
}

void names_note(const struct visit *visit)
{
    name_stream(visit);
    for (size_t i = 0; i < visit->reached_count; i++)
        name_buffer(&visit->reached[i].range);
}
