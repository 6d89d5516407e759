/* Python stacks as numbers: one each, found again, bounded; no interpreter here. */
#include "stacks/interned.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned described; /* calls of describe(); under the room's lock */

static void describe(const struct interned_frame *frame, struct interned_text *out)
{
    described++;
    snprintf(out->function, sizeof out->function, "f%llu", (unsigned long long)frame->identity.name);
    snprintf(out->file, sizeof out->file, "%s.py", frame->identity.filename == 1 ? "<frozen importlib._bootstrap>" : "file");
    out->line = (int)(frame->identity.first_line + (uint64_t)frame->position);
}

static struct interned_frame frame_at(uint64_t code, int64_t position)
{
    return (struct interned_frame){{code, 2, code, code + 1, 100, 7}, position};
}

static void a_stack_has_one_number(void **state)
{
    (void)state;
    struct interned_frame frames[] = {frame_at(0x1000, 4), frame_at(0x2000, 8)};
    assert_int_equal(interned_find(frames, 2), 0);
    uint32_t number = interned_add(frames, 2, describe);
    assert_true(number != 0);
    unsigned before = described;
    assert_int_equal(interned_find(frames, 2), number);
    assert_int_equal(interned_add(frames, 2, describe), number);
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

static void what_differs_in_anything_is_another_stack(void **state)
{
    (void)state;
    struct interned_frame frames[] = {frame_at(0x3000, 4), frame_at(0x4000, 8)};
    uint32_t seen[9] = {interned_add(frames, 2, describe), interned_add(frames, 1, describe),
                        interned_add(frames + 1, 1, describe)};
    frames[1].position = 10;
    seen[3] = interned_add(frames, 2, describe);
    struct interned_frame swapped[] = {frames[1], frames[0]};
    seen[4] = interned_add(swapped, 2, describe);
    frames[1].identity.name++; /* another code object where that one was */
    seen[5] = interned_add(frames, 2, describe);
    frames[1].identity.linetable++;
    seen[6] = interned_add(frames, 2, describe);
    frames[1].identity.first_line++;
    seen[7] = interned_add(frames, 2, describe);
    frames[1].identity.texts++;
    seen[8] = interned_add(frames, 2, describe);
    for (int i = 0; i < 9; i++) {
        assert_true(seen[i] != 0);
        for (int j = 0; j < i; j++)
            assert_int_not_equal(seen[i], seen[j]);
    }
    struct stack_frame out[2];
    assert_int_equal(interned_read(seen[5], out, 2), 2);
    assert_string_equal(out[1].function, "f16385");
}

static void nothing_and_unknown_numbers_have_no_frames(void **state)
{
    (void)state;
    struct stack_frame out[2];
    assert_int_equal(interned_add(NULL, 0, describe), 0);
    assert_int_equal(interned_read(0, out, 2), 0);
    assert_int_equal(interned_read(INTERNED_STACKS, out, 2), 0);
    assert_int_equal(interned_read(INTERNED_FULL, out, 0), 0);
}

static void the_importer_is_left_out(void **state)
{
    (void)state;
    struct interned_frame frames[] = {frame_at(0x5000, 4), {{0x6000, 1, 3, 4, 5, 7}, 6}, frame_at(0x7000, 8)};
    struct stack_frame out[4];
    assert_int_equal(interned_read(interned_add(frames, 3, describe), out, 4), 2);
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
        out[i] = interned_add(frames, 2, describe);
    }
    return NULL;
}

static void threads_get_the_same_numbers(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, numbers[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < THREADS; i++)
        assert_memory_equal(numbers[i], numbers[0], sizeof numbers[0]);
}

/* The last of the tests: afterwards there is no room. */
static void what_comes_after_the_last_one_says_so(void **state)
{
    (void)state;
    struct interned_frame known = frame_at(0x30000, 0);
    uint32_t number = interned_add(&known, 1, describe), last = 0;
    for (int64_t i = 1; i <= INTERNED_STACKS && last != INTERNED_FULL; i++) {
        struct interned_frame frame = frame_at(0x30000, i);
        last = interned_add(&frame, 1, describe);
        assert_true(last != 0);
    }
    assert_int_equal(last, INTERNED_FULL);
    assert_int_equal(interned_add(&known, 1, describe), number);
    struct stack_frame out[2];
    assert_int_equal(interned_read(INTERNED_FULL, out, 2), 1);
    assert_non_null(strstr(out[0].function, "not kept"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stack_has_one_number),
        cmocka_unit_test(what_differs_in_anything_is_another_stack),
        cmocka_unit_test(nothing_and_unknown_numbers_have_no_frames),
        cmocka_unit_test(the_importer_is_left_out),
        cmocka_unit_test(threads_get_the_same_numbers),
        cmocka_unit_test(what_comes_after_the_last_one_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
