#include "python.h"

#include "python_layout.h"
#include "base/lock.h"
#include "base/aside.h"
#include "base/output.h"
#include "base/thread.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* From the end of an object's head. */
#define TYPE_BEFORE 8        /* in every object, before that end: the type */
#define HASH_OFFSET 8        /* in str, after the length: the hash, -1 until first computed; names are interned, so theirs is */
#define STATE_OFFSET 16      /* in str: kind and form */
#define ASCII_OFFSET 24      /* in str, if ASCII: the characters */
#define ASCII_OFFSET_3_11 32 /* up to 3.11 */
#define BYTES_OFFSET 16      /* in bytes, after the length and the hash: the data */
#define TABLE_MOST (1u << 22) /* bytes of a line table; a longer one is taken for garbage */
#define VISITED_MOST 256      /* frames */

/* State of the walk from a frame to its callers. */
struct walk {
    uint64_t frame; /* the next one */
    unsigned visited;
};

typedef uint64_t hasher(const struct python_frame_layout *layout, const void *code_type, struct walk walk);

/* Written once, under the lock, before is_known is set. */
static struct interpreter {
    struct python_layout layout;
    hasher *hash;
    struct python_types types;
    void *(*thread_state)(void); /* returns the calling thread's state, with or without the GIL; NULL if it has none */
} interpreter;
static int is_known;  /* atomic; -1: there is one, but its layout is unknown */
static int is_proven; /* atomic; set once the layout was checked against a thread with frames */
static struct lock lock = LOCK(RANK_LEAF);

/* Reads at any offset: some are in the middle of a text. */
static inline uint64_t load_word(uint64_t object, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, (const char *)(uintptr_t)object + offset, sizeof word);
    return word;
}

static inline uint64_t type_of(const struct python_frame_layout *layout, uint64_t object)
{
    return load_word(object, layout->head - (uint64_t)TYPE_BEFORE);
}

static inline int load_int(uint64_t object, uint64_t offset)
{
    return *(const int *)(uintptr_t)(object + offset);
}

static inline int is_pointer(uint64_t value)
{
    return value != 0 && value % sizeof(uint64_t) == 0;
}

/* ---- frames ---- */

/* From 3.12 on, the interpreter inserts frames of its own around calls. They own no code of the program. */
static inline int is_shim(const struct python_frame_layout *layout, uint64_t frame)
{
    enum { OWNED_BY_INTERPRETER = 3 };
    return layout->frame_owner != NO_FIELD &&
           *(const unsigned char *)(uintptr_t)(frame + layout->frame_owner) >= OWNED_BY_INTERPRETER;
}

/* Identifies code objects that have no version, from everything that shows in a report. Of the file's name, whose hash is
 * seldom computed, it takes the length and the last 16 bytes (if it is ASCII). Of the line table it takes only the length and
 * the words at both ends: reading all of it at each capture would take longer than everything else. Addresses alone are not
 * enough: programs that compile and drop code get the same ones again and again. */
static inline uint64_t fingerprint(const struct python_frame_layout *layout, uint64_t code)
{
    uint64_t filename = load_word(code, layout->code_filename), name = load_word(code, layout->code_name);
    uint64_t table = load_word(code, layout->code_linetable), table_size = load_word(table, layout->head);
    uint64_t bytes = table + layout->head + BYTES_OFFSET;
    uint64_t first = load_word(bytes, 0), last = load_word(bytes - sizeof(uint64_t), table_size);
    uint64_t filename_size = load_word(filename, layout->head);
    uint64_t end =
        filename + layout->head + (layout->code_version == NO_FIELD ? ASCII_OFFSET_3_11 : ASCII_OFFSET) + filename_size;
    uint64_t texts = load_word(name, layout->head + HASH_OFFSET) + name + filename_size;
    return code + texts + ((uint64_t)load_int(code, layout->code_first_line) << 40) +
           (filename + first + (table_size << 48) + load_word(end - 8, 0)) * 0xbf58476d1ce4e5b9u +
           (table + last + load_word(end - 16, 0)) * 0x94d049bb133111ebu;
}

/* Versions are per (sub-)interpreter. The first line distinguishes code of two interpreters with the same version number. */
static inline uint64_t identify(const struct python_frame_layout *layout, uint64_t code)
{
    uint64_t version = layout->code_version == NO_FIELD ? 0 : (uint32_t)load_int(code, layout->code_version);
    if (__builtin_expect(version == 0, layout->code_version == NO_FIELD))
        return fingerprint(layout, code);
    return version << 32 | (uint32_t)load_int(code, layout->code_first_line);
}

static inline uint64_t instruction_of(const struct python_frame_layout *layout, uint64_t frame, uint64_t code)
{
    if (layout->position_scale)
        return code + (uint64_t)load_int(frame, layout->frame_position) * layout->position_scale;
    return load_word(frame, layout->frame_position);
}

static inline struct walk begin(const struct python_layout *layout, const void *thread_state)
{
    uint64_t frame = load_word((uint64_t)(uintptr_t)thread_state, layout->thread_frame);
    if (layout->holder_frame != NO_FIELD)
        frame = is_pointer(frame) ? load_word(frame, layout->holder_frame) : 0;
    return (struct walk){.frame = frame};
}

/* Returns 0 after the last frame. */
static inline __attribute__((always_inline)) int next(const struct python_frame_layout *layout, const void *code_type,
                                                      struct walk *walk, struct interned_frame *out)
{
    enum { TAGS = 7 }; /* tag bits of an object reference, from 3.14 on */
    while (is_pointer(walk->frame) && walk->visited++ < VISITED_MOST) {
        uint64_t frame = walk->frame, code = load_word(frame, layout->frame_code) & ~(uint64_t)TAGS;
        walk->frame = load_word(frame, layout->frame_previous);
        if (is_shim(layout, frame) || !code || type_of(layout, code) != (uint64_t)(uintptr_t)code_type)
            continue;
        out->code = (struct interned_code){code, identify(layout, code)};
        out->instruction = instruction_of(layout, frame, code);
        return 1;
    }
    return 0;
}

static inline __attribute__((always_inline)) uint64_t hash_frames(const struct python_frame_layout *layout,
                                                                  const void *code_type, struct walk walk)
{
    struct interned_sum sum = {0};
    struct interned_frame frame;
    while (sum.count < INTERNED_DEPTH && next(layout, code_type, &walk, &frame))
        interned_mix(&sum, &frame);
    return interned_hash(&sum);
}

static uint64_t hash_any(const struct python_frame_layout *layout, const void *code_type, struct walk walk)
{
    return hash_frames(layout, code_type, walk);
}

#define HASHER(version)                                                                                                        \
    static const struct python_frame_layout layout_##version = PYTHON_FRAME_##version;                                         \
    static uint64_t hash_##version(const struct python_frame_layout *layout, const void *code_type, struct walk walk)          \
    {                                                                                                                          \
        (void)layout;                                                                                                          \
        return hash_frames(&layout_##version, code_type, walk);                                                                \
    }
HASHER(3_10)
HASHER(3_11)
HASHER(3_12)
HASHER(3_14)

static hasher *hasher_for(const struct python_frame_layout *layout)
{
    static const struct {
        const struct python_frame_layout *layout;
        hasher *hash;
    } constant[] = {{&layout_3_10, hash_3_10}, {&layout_3_11, hash_3_11}, {&layout_3_12, hash_3_12}, {&layout_3_14, hash_3_14}};
    for (size_t i = 0; i < sizeof constant / sizeof constant[0]; i++) {
        if (memcmp(layout, constant[i].layout, sizeof *layout) == 0)
            return constant[i].hash;
    }
    return hash_any;
}

size_t python_frames_of(const struct python_layout *layout, const void *thread_state, const void *code_type,
                        struct interned_frame *out)
{
    size_t count = 0;
    struct walk walk = begin(layout, thread_state);
    while (count < INTERNED_DEPTH && next(&layout->frame, code_type, &walk, &out[count]))
        count++;
    return count;
}

uint64_t python_hash_of(const struct python_layout *layout, const void *thread_state, const void *code_type)
{
    return hasher_for(&layout->frame)(&layout->frame, code_type, begin(layout, thread_state));
}

/* ---- positions ---- */

/* The copy of the bytecode that the instruction lies in. Another thread that makes a copy may replace the array of their
 * addresses and free it, so it is read with reads that may fail, and only what was read from the current one counts. Returns
 * the offset in the copy, PYTHON_NOWHERE if there is none. */
static int64_t offset_in_copy(const uint64_t *copies_of_code, uint64_t instruction, uint64_t size)
{
    enum { TRIES = 4, COPIES_MOST = 4096, CHUNK = 64 };
    for (int i = 0; i < TRIES; i++) {
        uint64_t array = __atomic_load_n(copies_of_code, __ATOMIC_ACQUIRE), count = 0, some, copies[CHUNK];
        int64_t found = PYTHON_NOWHERE;
        int is_read = python_read(array, &count, sizeof count);
        for (uint64_t at = 0; is_read && at < count && at < COPIES_MOST && found == PYTHON_NOWHERE; at += some) {
            some = count - at < CHUNK ? count - at : CHUNK;
            is_read = python_read(array + (1 + at) * sizeof copies[0], copies, some * sizeof copies[0]);
            for (uint64_t k = 0; is_read && k < some; k++)
                found = copies[k] && instruction - copies[k] < size ? (int64_t)(instruction - copies[k]) : found;
        }
        if (__atomic_load_n(copies_of_code, __ATOMIC_ACQUIRE) == array)
            return found;
    }
    return PYTHON_NOWHERE;
}

int64_t python_position_of(const struct python_layout *layout, const struct interned_frame *frame)
{
    uint64_t code = frame->code.address, position = frame->instruction - code - layout->code_bytecode;
    uint64_t size = 2 * load_word(code, layout->frame.head); /* from 3.11 on, the length is in instructions of two bytes */
    if (!layout->code_copies || position < size)
        return (int64_t)position;
    return offset_in_copy((const uint64_t *)(uintptr_t)(code + layout->code_copies), frame->instruction, size);
}

/* ---- the interpreter ---- */

/* Parses "3.10.13 (main, ...)" into the form of PY_VERSION_HEX, without the release level. */
static unsigned long parse_version(const char *text)
{
    unsigned major = 0, minor = 0, micro = 0;
    if (sscanf(text, "%u.%u.%u", &major, &minor, &micro) != 3)
        return 0;
    return (unsigned long)major << 24 | (unsigned long)(minor & 255) << 16 | (unsigned long)(micro & 255) << 8;
}

static int find_interpreter(struct interpreter *out)
{
    const void *type_type = dlsym(RTLD_DEFAULT, "PyType_Type");
    const unsigned long *version = dlsym(RTLD_DEFAULT, "Py_Version"); /* from 3.11 on */
    const char *(*get_version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    out->thread_state = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    out->types.code = dlsym(RTLD_DEFAULT, "PyCode_Type");
    out->types.str = dlsym(RTLD_DEFAULT, "PyUnicode_Type");
    out->types.bytes = dlsym(RTLD_DEFAULT, "PyBytes_Type");
    if (!out->thread_state || !out->types.code || !out->types.str || !out->types.bytes || !type_type || !get_version)
        return 0;
    if (!python_layout_for(version ? *version : parse_version(get_version()), dlsym(RTLD_DEFAULT, "_PyRuntime"), &out->layout))
        return -1;
    uint64_t type = type_of(&out->layout.frame, (uint64_t)(uintptr_t)out->types.code);
    if (type != (uint64_t)(uintptr_t)type_type)
        return type ? -1 : 0; /* a build with a different object header (Py_TRACE_REFS), or one not started yet */
    out->hash = hasher_for(&out->layout.frame);
    return 1;
}

/* Says once why the reports of this process show no Python frames. */
static void say_unreadable(void *why)
{
    const char *(*get_version)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "Py_GetVersion");
    const char *version = get_version ? get_version() : "";
    output_note("no Python lines in reports, only native ones: %s %.*s", (const char *)why, (int)strcspn(version, " "),
                version);
}

static void look_for_interpreter(void *is_found)
{
    lock_take(&lock);
    int is_new = !is_known, found = is_known ?: find_interpreter(&interpreter);
    __atomic_store_n(&is_known, found, __ATOMIC_RELEASE);
    lock_release(&lock);
    if (is_new && found < 0)
        say_unreadable("cufence reads the frames of " PYTHON_VERSIONS ", not those of this Python");
    *(int *)is_found = found == 1;
}

static __attribute__((cold, noinline)) int look_again(void)
{
    int is_found;
    aside_call(look_for_interpreter, &is_found);
    return is_found;
}

/* Programs may load an interpreter late, so it is looked for at a thread's 1st, 2nd, 4th, 8th ... call. */
static inline int is_time_to_look(void)
{
    static HOT_TLS unsigned calls;
    unsigned call = ++calls;
    return (call & (call - 1)) == 0;
}

int stack_has_python(void)
{
    int known = __atomic_load_n(&is_known, __ATOMIC_ACQUIRE);
    return known == 1 || (known == 0 && is_time_to_look() && look_again());
}

static __attribute__((cold, noinline)) int prove(const void *state)
{
    enum python_proof proof = python_prove(&interpreter.layout, &interpreter.types, state);
    if (proof == PYTHON_IS_OTHERWISE && __atomic_exchange_n(&is_known, -1, __ATOMIC_ACQ_REL) == 1)
        aside_call(say_unreadable, "the frames of this interpreter are not as they should be in Python");
    else if (proof == PYTHON_IS_PROVEN)
        __atomic_store_n(&is_proven, 1, __ATOMIC_RELAXED);
    return proof == PYTHON_IS_PROVEN;
}

uint64_t python_hash(void)
{
    const void *state = interpreter.thread_state();
    if (!state || (__builtin_expect(!__atomic_load_n(&is_proven, __ATOMIC_RELAXED), 0) && !prove(state)))
        return 0;
    return interpreter.hash(&interpreter.layout.frame, interpreter.types.code, begin(&interpreter.layout, state));
}

size_t python_frames(struct interned_frame *out)
{
    const void *state = interpreter.thread_state();
    return state ? python_frames_of(&interpreter.layout, state, interpreter.types.code, out) : 0;
}

/* ---- texts ---- */

static size_t put_utf8(char *out, uint32_t character)
{
    if (character < 0x80) {
        out[0] = (char)character;
        return 1;
    }
    size_t size = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, character >>= 6)
        out[i] = (char)(0x80 | (character & 0x3f));
    out[0] = (char)((0xf00 >> size & 0xff) | character);
    return size;
}

/* Returns the kind (bytes per character) of a compact str and whether it is ASCII; 0 for other forms. The state field starts
 * with the interning state, 0 to 3: in two bits, in eight (free-threaded builds) or in sixteen (the first ones of 3.14). */
static unsigned form_of(uint64_t str, int *is_ascii)
{
    unsigned state = (unsigned)load_int(str, interpreter.layout.frame.head + (uint64_t)STATE_OFFSET);
    unsigned form = state & 0x7c ? state >> 2 : state & 0x1f00 ? state >> 8 : state >> 16;
    unsigned kind = form & 7, is_compact = form >> 3 & 1;
    *is_ascii = form >> 4 & 1;
    return is_compact && (kind == 1 || kind == 2 || kind == 4) ? kind : 0;
}

static void copy_text(uint64_t str, char *out, size_t size)
{
    enum { UTF8_LONGEST = 4 };
    int is_ascii = 0;
    unsigned kind = is_pointer(str) && type_of(&interpreter.layout.frame, str) == (uint64_t)(uintptr_t)interpreter.types.str
                        ? form_of(str, &is_ascii)
                        : 0;
    size_t at = 0;
    if (kind) {
        const struct python_layout *layout = &interpreter.layout;
        uint64_t length = load_word(str, layout->frame.head);
        const char *data = (const char *)(uintptr_t)str + (is_ascii ? layout->text_ascii_data : layout->text_unicode_data);
        for (uint64_t i = 0; i < length && at + UTF8_LONGEST < size; i++) {
            uint32_t character = 0;
            memcpy(&character, data + i * kind, kind);
            if (character >= 0xd800 && character < 0xe000) /* half of a surrogate pair: not a character, and not valid UTF-8 */
                character = '?';
            at += put_utf8(out + at, character);
        }
    }
    out[at] = 0;
}

void python_describe(const struct interned_frame *frame, struct interned_text *out)
{
    const struct python_layout *layout = &interpreter.layout;
    uint64_t table = load_word(frame->code.address, layout->frame.code_linetable);
    int64_t position = python_position_of(layout, frame);
    copy_text(load_word(frame->code.address, layout->frame.code_name), out->function, sizeof out->function);
    copy_text(load_word(frame->code.address, layout->frame.code_filename), out->file, sizeof out->file);
    out->line = 0;
    if (!is_pointer(table) || type_of(&layout->frame, table) != (uint64_t)(uintptr_t)interpreter.types.bytes ||
        load_word(table, layout->frame.head) > TABLE_MOST || position > INT32_MAX)
        return;
    out->line = linetable_line(layout->format, (const unsigned char *)(uintptr_t)(table + layout->frame.head + BYTES_OFFSET),
                               load_word(table, layout->frame.head),
                               load_int(frame->code.address, layout->frame.code_first_line), position < 0 ? -1 : (int)position);
}
