/* Interpreters: which are supported, frames in memory that no interpreter wrote, and line numbers of bytecode. */
#include "support/test.h"

#include "stacks/python.h"
#include "stacks/python_layout.h"

#include <sys/mman.h>

TEST(known_versions_only)
{
    struct python_layout layout;
    assert_true(python_layout_for(0x030a0df0, NULL, &layout) && layout.format == LINETABLE_RANGES);
    assert_true(python_layout_for(0x030b07f0, NULL, &layout) && layout.format == LINETABLE_LOCATIONS);
    assert_true(python_layout_for(0x030c01f0, NULL, &layout) && layout.format == LINETABLE_LOCATIONS);
    static const unsigned long unknown[] = {0, 0x030912f0, 0x03060ff0, 0x020712f0, 0x030d00f0, 0x031000f0, 0x040000f0};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_false(python_layout_for(unknown[i], NULL, &layout));
}

/* _Py_DebugOffsets of CPython 3.13.15, 3.14.10 and 3.15.2 on x86-64, as far as they are read. `head`: 16, or 32 if the build is
 * free-threaded. */
static const struct version {
    unsigned long number;
    unsigned thread, frame, code, object; /* the words at which the groups begin */
} versions[] = {{0x030d00f0, 19, 28, 34, 44}, {0x030e0af0, 22, 31, 39, 50}, {0x030f02f0, 22, 39, 47, 58}};

static void fill(uint64_t *words, const struct version *version, unsigned head)
{
    const uint64_t more = head - 16;
    const int is_3_13 = version == versions, has_copies = more && !is_3_13;
    const uint64_t owner = is_3_13 ? 70 : 74 + more / 4, bytecode = is_3_13 ? 200 + more : 208 + more * 3 / 2;
    const uint64_t frame[] = {88, 8, 0, 56, 72, owner};
    const uint64_t code[] = {bytecode + 8,
                             112 + more,
                             120 + more,
                             128 + more,
                             136 + more,
                             68 + more,
                             52 + more,
                             96 + more,
                             104 + more,
                             bytecode,
                             has_copies ? bytecode - 8 : 0};
    const uint64_t object[] = {head, head - 8};
    memcpy(words, "xdebugpy", 8);
    words[1] = version->number;
    words[2] = more != 0;
    words[version->thread + 4] = 72;
    memcpy(words + version->frame, frame, sizeof frame);
    memcpy(words + version->code, code, sizeof code);
    memcpy(words + version->object, object, sizeof object);
}

TEST(a_runtime_describes_itself)
{
    const struct python_frame_layout constant[] = {PYTHON_FRAME_3_12, PYTHON_FRAME_3_14};
    for (size_t i = 0; i < 2 * sizeof versions / sizeof versions[0]; i++) {
        const struct version *version = &versions[i / 2];
        const unsigned is_new = version > versions, is_free_threaded = i % 2;
        uint64_t words[128] = {0};
        struct python_layout layout;
        fill(words, version, is_free_threaded ? 32 : 16);
        assert_true(python_layout_for(version->number, words, &layout));
        assert_int_equal(layout.thread_frame, 72);
        if (!is_free_threaded) { /* so the walk whose offsets are constants serves it */
            assert_memory_equal(&layout.frame, &constant[is_new], sizeof layout.frame);
            assert_int_equal(layout.code_bytecode, is_new ? 208 : 200);
            assert_int_equal(layout.code_copies, 0);
            continue;
        }
        assert_int_equal(layout.frame.head, 32);
        assert_int_equal(layout.frame.code_version, 108);
        assert_int_equal(layout.frame.frame_owner, is_new ? 78 : 70);
        assert_int_equal(layout.code_bytecode, is_new ? 232 : 216);
        assert_int_equal(layout.code_copies, is_new ? 224 : 0); /* threads have copies of the bytecode from 3.14 on */
        assert_int_equal(layout.text_ascii_data, 56);
        assert_int_equal(layout.text_unicode_data, 72);
    }
}

TEST(a_runtime_that_is_not_what_it_should_be_is_refused)
{
    static const struct {
        unsigned word;
        uint64_t value;
    } wrong[] = {{0, 0},   {1, 0x030d01f0}, {2, 1 /* free-threaded */}, {44, 32},
                 {45, 16}, {23, 1 << 20},   {36, UINT64_MAX},           {41, 0}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint64_t words[128] = {0};
        struct python_layout layout;
        fill(words, &versions[0], 16);
        words[wrong[i].word] = wrong[i].value;
        assert_int_equal(python_layout_for(0x030d00f0, words, &layout), wrong[i].word == 36);
    }
}

#define VERSION 77

/* A thread state, frames and a code object as 3.12 has them. */
static struct {
    uint64_t thread[16], holder[2], frames[40][16], code[32], not_code[32], text[8], table[8], code_type;
} world;

static struct python_layout set_up(void)
{
    struct python_layout layout;
    assert_true(python_layout_for(0x030c01f0, NULL, &layout));
    memset(&world, 0, sizeof world);
    world.thread[7] = (uintptr_t)world.holder;
    world.holder[0] = (uintptr_t)world.frames[0];
    world.code[1] = (uintptr_t)&world.code_type;
    world.code[11] = (uint64_t)VERSION << 32;
    world.code[14] = (uintptr_t)world.text; /* file name, name, qualified name, line table */
    world.code[15] = (uintptr_t)world.text;
    world.code[16] = (uintptr_t)world.text;
    world.code[17] = (uintptr_t)world.table;
    world.table[2] = 24; /* bytes */
    for (int i = 0; i < 40; i++) {
        world.frames[i][0] = (uintptr_t)world.code;
        world.frames[i][1] = i < 39 ? (uintptr_t)world.frames[i + 1] : 0;
        world.frames[i][7] = (uintptr_t)world.code + 192 + 2 * (unsigned)i;
    }
    return layout;
}

static size_t frames_of(const struct python_layout *layout, struct interned_frame *out)
{
    return python_frames_of(layout, world.thread, &world.code_type, out);
}

TEST(frames_are_read_up_to_the_limit)
{
    struct python_layout layout = set_up();
    struct interned_frame out[INTERNED_DEPTH + 1];
    memset(out, 0, sizeof out);
    assert_int_equal(frames_of(&layout, out), INTERNED_DEPTH);
    assert_true(out[3].instruction == (uintptr_t)world.code + 192 + 6);
    assert_true(out[3].code.address == (uintptr_t)world.code);
    assert_int_equal(out[INTERNED_DEPTH].code.address, 0);
    world.frames[0][0] |= 1; /* a reference to a code object has tag bits from 3.14 on */
    world.frames[1][0] |= 3;
    assert_int_equal(frames_of(&layout, out), INTERNED_DEPTH);
    assert_true(out[0].code.address == (uintptr_t)world.code && out[1].code.address == (uintptr_t)world.code);
}

TEST(shims_and_what_is_no_code_are_left_out)
{
    struct python_layout layout = set_up();
    struct interned_frame out[INTERNED_DEPTH];
    ((unsigned char *)world.frames[0])[70] = 3;
    world.frames[1][0] = (uintptr_t)world.not_code;
    world.frames[2][0] = 0;
    world.frames[4][1] = 0;
    assert_int_equal(frames_of(&layout, out), 2);
    assert_true(out[0].instruction == (uintptr_t)world.code + 192 + 6);
}

TEST(pointers_that_are_none_and_rings_end_the_walk)
{
    struct python_layout layout = set_up();
    struct interned_frame out[INTERNED_DEPTH];
    world.frames[2][1] = (uintptr_t)world.frames[3] + 1;
    assert_int_equal(frames_of(&layout, out), 3);
    world.frames[0][0] = world.frames[1][0] = 0; /* nothing to keep in the ring */
    world.frames[1][1] = (uintptr_t)world.frames[0];
    assert_int_equal(frames_of(&layout, out), 0);
    world.holder[0] = 0;
    assert_int_equal(frames_of(&layout, out), 0);
    world.thread[7] = 3;
    assert_int_equal(frames_of(&layout, out), 0);
}

static uint64_t hash_of_frames(const struct python_layout *layout)
{
    struct interned_frame frames[INTERNED_DEPTH];
    struct interned_sum sum = {0};
    size_t count = frames_of(layout, frames);
    for (size_t i = 0; i < count; i++)
        interned_mix(&sum, &frames[i]);
    return interned_hash(&sum);
}

/* With offsets that are constants, and with others. */
TEST(the_hash_is_that_of_the_frames)
{
    struct python_layout layout = set_up();
    ((unsigned char *)world.frames[2])[70] = 3;
    uint64_t hash = python_hash_of(&layout, world.thread, &world.code_type);
    assert_true(hash != 0);
    assert_true(hash == hash_of_frames(&layout));
    layout.frame.frame_owner = 71;
    uint64_t other = python_hash_of(&layout, world.thread, &world.code_type);
    assert_true(other != hash && other == hash_of_frames(&layout));
    world.holder[0] = 0;
    assert_true(python_hash_of(&layout, world.thread, &world.code_type) == 0);
}

static uint64_t first_identity(const struct python_layout *layout)
{
    struct interned_frame frames[INTERNED_DEPTH];
    assert_int_equal(frames_of(layout, frames), INTERNED_DEPTH);
    return frames[0].code.identity;
}

/* The version alone, whatever else has changed; but for the first line, which tells interpreters apart. */
TEST(a_version_is_the_identity)
{
    struct python_layout layout = set_up();
    uint64_t before = first_identity(&layout);
    world.text[3] = world.table[4] = 5;
    assert_true(first_identity(&layout) == before);
    world.code[8] = (uint64_t)4 << 32; /* first line */
    assert_true(first_identity(&layout) != before);
    world.code[8] = 0;
    world.code[11] += (uint64_t)1 << 32;
    assert_true(first_identity(&layout) != before);
}

TEST(without_a_version_what_a_report_shows_is_the_identity)
{
    static uint64_t other_text[8];
    struct {
        uint64_t *word, value;
    } changes[] = {
        {&world.text[2], 1}, /* length of the file name */
        {&world.text[3], 1}, /* hash of the name */
        {&world.text[5], 1}, /* last 16 bytes of the file name */
        {&world.text[6], 1},
        {&world.code[14], (uintptr_t)other_text},
        {&world.code[16], (uintptr_t)other_text},
        {&world.code[8], (uint64_t)9 << 32}, /* first line */
        {&world.table[2], 16},
        {&world.table[4], 1},
        {&world.table[6], 1},
    };
    struct python_layout layout = set_up();
    world.code[11] = 0;
    world.text[2] = 16;
    uint64_t before = first_identity(&layout);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        layout = set_up();
        world.code[11] = 0;
        world.text[2] = 16;
        *changes[i].word = changes[i].value;
        assert_true(first_identity(&layout) != before);
    }
}

/* Addresses that are not mapped: what is mapped ends in the middle of a field. */
static uint64_t nowhere(void)
{
    static char *pages;
    if (!pages) {
        pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages != MAP_FAILED);
        assert_int_equal(munmap(pages + 4096, 4096), 0);
    }
    return (uintptr_t)pages + 4088;
}

static int64_t position_at(const struct python_layout *layout, uint64_t instruction)
{
    const struct interned_frame frame = {{(uintptr_t)world.code, 1}, instruction};
    return python_position_of(layout, &frame);
}

/* Free-threaded builds from 3.14 on: the code object's own bytecode serves one thread, copies serve the others. */
TEST(a_position_is_found_in_a_copy_of_the_bytecode)
{
    struct python_layout layout = set_up();
    static uint64_t array[200];
    static unsigned char copies[2][40];
    enum { COPIES = 20 }; /* a word of the code object */
    uint64_t own = (uintptr_t)world.code + layout.code_bytecode;
    world.code[2] = 20; /* instructions */
    assert_int_equal(position_at(&layout, own - 2), -2);
    layout.code_copies = 8 * COPIES;
    world.code[COPIES] = (uintptr_t)array;
    array[0] = 199;
    array[1] = own;
    array[2] = 0; /* not made yet */
    array[3] = (uintptr_t)copies[0];
    array[199] = (uintptr_t)copies[1];
    assert_int_equal(position_at(&layout, own + 38), 38);
    assert_int_equal(position_at(&layout, (uintptr_t)copies[0]), 0);
    assert_int_equal(position_at(&layout, (uintptr_t)copies[0] + 38), 38);
    assert_int_equal(position_at(&layout, (uintptr_t)copies[1] + 2), 2);
    assert_true(position_at(&layout, own + 40) == PYTHON_NOWHERE);
    assert_true(position_at(&layout, 6) == PYTHON_NOWHERE); /* what was not made yet is not at address 0 */
    array[0] = 3;
    assert_true(position_at(&layout, (uintptr_t)copies[1] + 2) == PYTHON_NOWHERE);
    world.code[COPIES] = nowhere() + 8;
    assert_true(position_at(&layout, (uintptr_t)copies[0]) == PYTHON_NOWHERE);
    world.code[COPIES] = nowhere();
    *(uint64_t *)(uintptr_t)nowhere() = UINT64_MAX; /* the length is mapped, the copies are not */
    assert_true(position_at(&layout, (uintptr_t)copies[0]) == PYTHON_NOWHERE);
}

TEST(a_layout_is_proved_without_a_fault)
{
    static uint64_t str_type, bytes_type;
    const struct python_types types = {&world.code_type, &str_type, &bytes_type};
    struct {
        uint64_t *word, value;
        enum python_proof proof;
    } changes[] = {
        {&world.code[31], 0, PYTHON_IS_PROVEN},
        {&world.thread[7], nowhere() + 8, PYTHON_IS_OTHERWISE},
        {&world.thread[7], 0, PYTHON_IS_UNPROVEN},
        {&world.holder[0], nowhere(), PYTHON_IS_OTHERWISE},
        {&world.holder[0], 0, PYTHON_IS_UNPROVEN},
        {&world.frames[0][0], nowhere(), PYTHON_IS_OTHERWISE},
        {&world.frames[0][0], (uintptr_t)world.not_code, PYTHON_IS_PROVEN},
        {&world.frames[3][1], nowhere(), PYTHON_IS_OTHERWISE},
        {&world.code[1], (uintptr_t)&str_type, PYTHON_IS_UNPROVEN},
        {&world.code[14], nowhere(), PYTHON_IS_OTHERWISE},
        {&world.code[14], (uintptr_t)world.table, PYTHON_IS_OTHERWISE},
        {&world.code[16], 0, PYTHON_IS_OTHERWISE},
        {&world.code[17], (uintptr_t)world.text, PYTHON_IS_OTHERWISE},
        {&world.table[2], (uint64_t)1 << 46, PYTHON_IS_OTHERWISE},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        struct python_layout layout = set_up();
        world.text[1] = (uintptr_t)&str_type;
        world.table[1] = (uintptr_t)&bytes_type;
        *changes[i].word = changes[i].value;
        assert_int_equal(python_prove(&layout, &types, world.thread), changes[i].proof);
    }
}

TEST(without_an_interpreter_there_is_no_number)
{
    for (int i = 0; i < 100; i++)
        assert_int_equal(stack_capture_python(), 0);
}

/* ---- line numbers of bytecode: tables of real interpreters, and invalid ones ---- */

#define FIRST_LINE 2

/* Reads the table of an interpreter, or its lines, from linetables.txt. Returns how many numbers. */
static size_t read_numbers(const char *what, const char *version, int *numbers, size_t most)
{
    FILE *file = fopen(CUFENCE_FIXTURES "/linetables.txt", "re");
    char line[256], title[64];
    size_t length = (size_t)snprintf(title, sizeof title, "%s of Python %s.", what, version), count = 0;
    assert_non_null(file);
    do
        assert_non_null(fgets(line, sizeof line, file));
    while (strncmp(line, title, length) != 0);
    while (count < most && fscanf(file, "%d", &numbers[count]) == 1)
        count++;
    fclose(file);
    assert_true(count > 50 && count < most);
    return count;
}

TEST(tables_of_interpreters)
{
    static const struct {
        const char *version;
        enum linetable_format format;
    } cases[] = {{"3.10", LINETABLE_RANGES},
                 {"3.11", LINETABLE_LOCATIONS},
                 {"3.12", LINETABLE_LOCATIONS},
                 {"3.13", LINETABLE_LOCATIONS}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char table[1000];
        int numbers[1000], lines[1000];
        size_t size = read_numbers("table", cases[i].version, numbers, 1000);
        size_t count = read_numbers("lines", cases[i].version, lines, 1000);
        for (size_t k = 0; k < size; k++)
            table[k] = (unsigned char)numbers[k];
        for (size_t k = 0; k < count; k++)
            assert_int_equal(linetable_line(cases[i].format, table, size, FIRST_LINE, (int)(2 * k)), lines[k]);
        assert_int_equal(linetable_line(cases[i].format, table, size, 7, -2), 7);
        assert_int_equal(linetable_line(cases[i].format, table, size, 1, 1 << 20), 0);
    }
    assert_int_equal(linetable_line(LINETABLE_LOCATIONS, NULL, 0, 1, 0), 0);
}

TEST(no_line_is_beyond_an_int)
{
    static const unsigned char forward[] = {2, 1}, back[] = {2, 0x81};
    assert_int_equal(linetable_line(LINETABLE_RANGES, forward, sizeof forward, INT32_MAX, 0), 0);
    assert_int_equal(linetable_line(LINETABLE_RANGES, back, sizeof back, 1, 0), 0);
}
