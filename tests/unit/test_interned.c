/* Stacks as numbers, and labels: each is stored once, found again, and bounded. */
#include "support/test.h"

#include "stacks/labels.h"
#include "failing_malloc.h"
#include "stacks/intern.h"

#include <cufence.h>

TEST(labels_nest)
{
    assert_null(label_current());
    assert_int_equal(label_push("outer"), CUFENCE_OK);
    const char *outer = label_current();
    assert_int_equal(label_push("inner"), CUFENCE_OK);
    assert_string_equal(label_current(), "inner");
    assert_int_equal(label_push("outer"), CUFENCE_OK);
    assert_ptr_equal(label_current(), outer);
    for (int i = 0; i < 3; i++)
        assert_int_equal(label_pop(), CUFENCE_OK);
    assert_null(label_current());
    assert_int_equal(label_pop(), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_int_equal(label_push(NULL), CUFENCE_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < LABEL_DEPTH; i++)
        assert_int_equal(label_push("deep"), CUFENCE_OK);
    assert_int_equal(label_push("deeper"), CUFENCE_ERROR_INVALID_ARGUMENT);
    for (int i = 0; i < LABEL_DEPTH; i++)
        assert_int_equal(label_pop(), CUFENCE_OK);
}

/* What a buffer's label has no room for is not kept. */
TEST(a_long_label_is_cut)
{
    char text[2 * LABEL_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(label_push(text), CUFENCE_OK);
    const char *first = label_current();
    assert_int_equal(strlen(first), LABEL_BYTES - 1);
    text[LABEL_BYTES - 1] = 'y';
    assert_int_equal(label_push(text), CUFENCE_OK);
    assert_ptr_equal(label_current(), first);
    label_pop();
    label_pop();
}

/* More than the table has room for at first, so that it grows in between. */
TEST(malloc_may_fail_at_every_position_of_a_label)
{
    for (int i = 0; i < 1000; i++) {
        char text[32];
        cufence_status status = CUFENCE_OK;
        snprintf(text, sizeof text, "scarce %d", i);
        for (long position = 0;; position++) {
            fail_malloc_at(position);
            status = label_push(text);
            int has_failed = malloc_has_failed();
            fail_malloc_at(-1);
            if (!has_failed)
                break;
            assert_int_equal(status, CUFENCE_ERROR_OUT_OF_MEMORY);
            assert_null(label_current());
        }
        assert_int_equal(status, CUFENCE_OK);
        assert_string_equal(label_current(), text);
        label_pop();
    }
}

/* The last of labels: afterwards there is no room. */
TEST(a_label_a_step_is_bounded)
{
    char text[32];
    assert_int_equal(label_push("known"), CUFENCE_OK);
    for (unsigned i = 0; i <= LABEL_TEXTS; i++) {
        snprintf(text, sizeof text, "step %u", i);
        assert_int_equal(label_push(text), CUFENCE_OK);
        if (i < LABEL_TEXTS)
            assert_int_equal(label_pop(), CUFENCE_OK);
    }
    assert_string_equal(label_current(), LABEL_OF_TOO_MANY);
    assert_true(strlen(LABEL_OF_TOO_MANY) < LABEL_BYTES);
    label_pop();
    assert_int_equal(label_push("known"), CUFENCE_OK);
    assert_string_equal(label_current(), "known");
}

/* ---- stacks of Python, without an interpreter ---- */

enum { IMPORTER = 1, PACKAGE }; /* identities of code objects of the importer, and of cufence's package */

static unsigned described; /* calls of describe(); under the room's lock */

static void describe(const struct interned_frame *frame, struct interned_text *out)
{
    described++;
    snprintf(out->function, sizeof out->function, "f%llu", (unsigned long long)frame->code.address);
    static const char *const files[] = {[IMPORTER] = "<frozen importlib._bootstrap>", [PACKAGE] = "/lib/cufence/_api"};
    snprintf(out->file, sizeof out->file, "%s.py", frame->code.identity <= PACKAGE ? files[frame->code.identity] : "file");
    out->line = (int)(100 + frame->instruction - frame->code.address);
}

static struct interned_frame frame_at(uint64_t code, uint64_t position)
{
    return (struct interned_frame){.code = {code, 7}, .instruction = code + position};
}

static uint32_t add(const struct interned_frame *frames, size_t count)
{
    return interned_add(frames, count, describe).number;
}

static uint64_t hash_of(const struct interned_frame *frames, size_t count)
{
    struct interned_sum sum = {0};
    for (size_t i = 0; i < count; i++)
        interned_mix(&sum, &frames[i]);
    return interned_hash(&sum);
}

/* The first of stacks: the tables are made in it. More stacks than those have room for at first, so that they grow. */
TEST(malloc_may_fail_at_every_position)
{
    for (uint64_t i = 0; i < 500; i++) {
        struct interned_frame frames[] = {frame_at(0x100000 + 64 * i, 4), frame_at(0x200000 + 64 * i, 8)};
        struct stack_frame out[2];
        uint32_t number = 0;
        for (long position = 0;; position++) {
            fail_malloc_at(position);
            number = add(frames, 2);
            int has_failed = malloc_has_failed();
            fail_malloc_at(-1);
            if (!has_failed)
                break;
            assert_int_equal(number, 0);
            assert_int_equal(interned_find(hash_of(frames, 2)).number, 0);
        }
        assert_int_equal(number, i + 1);
        assert_int_equal(interned_read(number, out, 2), 2);
        assert_int_equal(out[1].line, 108);
    }
}

/* All that is read of a stack is told. */
TEST(the_public_text_has_every_frame)
{
    struct interned_frame frames[INTERNED_DEPTH];
    char text[INTERNED_DEPTH * 64];
    for (size_t i = 0; i < INTERNED_DEPTH; i++)
        frames[i] = frame_at(0x9000 + 64 * i, i);
    size_t size = sizeof text, lines = 0;
    assert_int_equal(cufence_stack(add(frames, INTERNED_DEPTH), text, &size), CUFENCE_OK);
    assert_int_equal(size, strlen(text) + 1);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(lines, INTERNED_DEPTH);
    assert_non_null(strstr(text, "file.py:123 in f"));
}

TEST(a_stack_has_one_number)
{
    struct interned_frame frames[] = {frame_at(0x1000, 4), frame_at(0x2000, 8)};
    assert_int_equal(interned_find(hash_of(frames, 2)).number, 0);
    uint32_t number = add(frames, 2);
    assert_true(number != 0);
    unsigned before = described;
    assert_int_equal(interned_find(hash_of(frames, 2)).number, number);
    assert_int_equal(interned_find(hash_of(frames, 2)).readable, 2);
    assert_int_equal(add(frames, 2), number);
    assert_int_equal(described, before);
    struct stack_frame out[4];
    assert_int_equal(interned_read(number, out, 4), 2);
    assert_string_equal(out[0].function, "f4096");
    assert_string_equal(out[0].file, "file.py");
    assert_int_equal(out[0].line, 104);
    assert_int_equal(out[1].line, 108);
    assert_true(out[0].is_python);
    assert_int_equal(interned_read(number, out, 1), 1);
}

TEST(what_differs_in_anything_is_another_stack)
{
    struct interned_frame frames[] = {frame_at(0x3000, 4), frame_at(0x4000, 8)};
    uint32_t seen[6] = {add(frames, 2), add(frames, 1), add(frames + 1, 1)};
    frames[1].instruction += 2;
    seen[3] = add(frames, 2);
    struct interned_frame swapped[] = {frames[1], frames[0]};
    seen[4] = add(swapped, 2);
    frames[1].code.identity++; /* another code object where that one was */
    seen[5] = add(frames, 2);
    for (int i = 0; i < 6; i++) {
        assert_true(seen[i] != 0);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

/* Neighbours in memory, neighbouring versions, and the same few frames at all depths, as programs have them. */
TEST(hashes_of_like_stacks_differ)
{
    enum { CODES = 16, VERSIONS = 16, POSITIONS = 16, DEPTHS = INTERNED_DEPTH };
    static uint64_t hashes[CODES * VERSIONS * POSITIONS * DEPTHS];
    size_t count = 0;
    struct interned_frame frames[INTERNED_DEPTH];
    for (size_t i = 0; i < INTERNED_DEPTH; i++)
        frames[i] = frame_at(0x7f0000000000, 0);
    for (uint64_t code = 0; code < CODES; code++)
        for (uint64_t version = 0; version < VERSIONS; version++)
            for (uint64_t position = 0; position < POSITIONS; position++)
                for (size_t depth = 0; depth < DEPTHS; depth++) {
                    struct interned_frame before = frames[depth];
                    frames[depth] = frame_at(0x7f0000001000 + 256 * code, 2 * position);
                    frames[depth].code.identity = version << 32 | 1;
                    hashes[count++] = hash_of(frames, INTERNED_DEPTH);
                    frames[depth] = before;
                }
    qsort(hashes, count, sizeof hashes[0], compare);
    for (size_t i = 1; i < count; i++)
        assert_true(hashes[i] != hashes[i - 1]);
}

TEST(only_no_frames_hash_to_0)
{
    struct interned_frame frame = frame_at(0x8000, 4);
    struct stack_frame out[2];
    assert_true(hash_of(NULL, 0) == 0 && add(NULL, 0) == 0);
    assert_true(hash_of(&frame, 1) != 0);
    frame.instruction = -interned_keys[0]; /* the sum of products is then 0 */
    assert_true(hash_of(&frame, 1) != 0);
    assert_int_equal(interned_read(0, out, 2), 0);
    assert_int_equal(interned_read(INTERNED_STACKS, out, 2), 0); /* unknown */
    assert_int_equal(interned_read(INTERNED_FULL, out, 0), 0);
}

TEST(the_importer_and_cufences_package_are_left_out)
{
    struct interned_frame frames[] = {
        frame_at(0x5000, 4), {{0x6000, IMPORTER}, 0x6006}, {{0x6800, PACKAGE}, 0x6806}, frame_at(0x7000, 8)};
    struct interned_stack stack = interned_add(frames, 4, describe);
    struct stack_frame out[4];
    assert_int_equal(stack.readable, 2);
    assert_int_equal(interned_read(stack.number, out, 4), 2);
    assert_string_equal(out[1].function, "f28672");
}

#define THREADS 4
#define EACH 2000
static uint32_t numbers[THREADS][EACH];

static void *add_many(void *argument)
{
    uint32_t *out = argument;
    for (unsigned i = 0; i < EACH; i++) {
        struct interned_frame frames[] = {frame_at(0x10000 + 16 * (i % 50), i), frame_at(0x20000, 2)};
        out[i] = add(frames, 2);
    }
    return NULL;
}

TEST(threads_get_the_same_numbers)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(numbers[i], numbers[0], sizeof numbers[0]);
}

/* The last of stacks: afterwards there is no room. */
TEST(what_comes_after_the_last_one_says_so)
{
    struct interned_frame known = frame_at(0x30000, 0);
    struct interned_stack last = {0};
    uint32_t number = add(&known, 1);
    for (uint64_t i = 1; i <= INTERNED_STACKS && last.number != INTERNED_FULL; i++) {
        struct interned_frame frame = frame_at(0x30000, i);
        last = interned_add(&frame, 1, describe);
        assert_true(last.number != 0);
    }
    assert_int_equal(last.number, INTERNED_FULL);
    assert_int_equal(last.readable, 1);
    assert_int_equal(add(&known, 1), number);
    struct stack_frame out[2];
    assert_int_equal(interned_read(INTERNED_FULL, out, 2), 1);
    assert_non_null(strstr(out[0].function, "not kept"));
}
