/* Where a buffer lies: in mappings of its own with guards, and in the cells of pages that small buffers share. */
#include "support/test.h"

#include "base/error.h"
#include "guard/layout.h"
#include "guard/cells.h"

static struct problem problem;

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define PAGE (2 * MIB)
#define GUARD_MIN (64 * MIB)
#define GUARD_MAX (4 * GIB)

static const uint64_t sizes[] = {1, 2, 3, 15, 16, 17, 4000, 4096, PAGE - 1, PAGE, PAGE + 1, GIB, 80 * GIB};

static struct layout_request request_for(uint64_t size, uint64_t align, enum layout_side side)
{
    return (struct layout_request){size, align, side, PAGE, GUARD_MIN, GUARD_MAX};
}

/* What must hold for whatever layout_compute() accepts. */
static void check(const struct layout_request *request, const struct layout *layout)
{
    assert_true(layout->align && !(layout->align & (layout->align - 1)) && layout->align <= request->granularity);
    if (request->align)
        assert_int_equal(layout->align, request->align);
    assert_int_equal(layout->mapped % request->granularity, 0);
    assert_int_equal(layout->pages, layout->mapped / request->granularity);
    assert_true(layout->mapped >= request->size && layout->mapped - request->size < request->granularity);
    assert_int_equal(layout->offset % layout->align, 0);
    if (request->side == LAYOUT_END)
        assert_true(layout->mapped - layout->offset - request->size < layout->align);
    else
        assert_int_equal(layout->offset, 0);
    assert_int_equal(layout->guard % request->granularity, 0);
    assert_true(layout->guard >= request->guard_min);
    assert_true(layout->guard >= (layout->mapped < request->guard_max ? layout->mapped : request->guard_max));
    assert_true(layout->guard < request->guard_max + request->granularity);
    assert_int_equal(layout->span, layout->mapped + layout->guard);
    assert_true(layout->span >= layout->mapped && layout->span % request->granularity == 0);
    assert_int_equal(layout_offset(layout->mapped, request->size, layout->align, request->side), layout->offset);
}

TEST(every_size_alignment_and_side_is_flush)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint64_t align = 1; align <= PAGE; align *= 2)
            for (int side = LAYOUT_END; side <= LAYOUT_START; side++) {
                struct layout_request request = request_for(sizes[i], align, (enum layout_side)side);
                struct layout layout;
                assert_int_equal(layout_compute(&request, &layout, &problem), CUFENCE_OK);
                check(&request, &layout);
            }
}

TEST(automatic_alignment_leaves_no_slack_at_the_end)
{
    static const struct {
        uint64_t size, align;
    } cases[] = {{1, 1},      {2, 2},        {15, 1},       {16, 16},        {17, 1},         {20, 4},
                 {40, 8},     {4000, 32},    {1200, 16},    {512, 512},      {1024, 512},     {PAGE - 1, 1},
                 {PAGE, 512}, {PAGE + 1, 1}, {PAGE - 8, 8}, {80 * GIB, 512}, {UINT64_MAX, 1}, {UINT64_C(1) << 63, 512}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(layout_auto_align(cases[i].size), cases[i].align);
        if (cases[i].size > 80 * GIB)
            continue;
        struct layout_request request = request_for(cases[i].size, 0, LAYOUT_END);
        struct layout layout;
        assert_int_equal(layout_compute(&request, &layout, &problem), CUFENCE_OK);
        assert_int_equal(layout.align, cases[i].align);
        assert_int_equal(layout.offset + cases[i].size, layout.mapped);
        check(&request, &layout);
    }
}

TEST(known_layouts)
{
    static const struct {
        struct layout_request request;
        struct layout layout; /* align, mapped, pages, offset, guard, span */
    } cases[] = {
        {{1, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, PAGE, 1, PAGE - 16, GUARD_MIN, GUARD_MIN + PAGE}},
        {{4000, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, PAGE, 1, PAGE - 4000, GUARD_MIN, GUARD_MIN + PAGE}},
        {{4000, 16, LAYOUT_START, PAGE, GUARD_MIN, GUARD_MAX}, {16, PAGE, 1, 0, GUARD_MIN, GUARD_MIN + PAGE}},
        {{PAGE, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, PAGE, 1, 0, GUARD_MIN, GUARD_MIN + PAGE}},
        {{PAGE + 1, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, 2 * PAGE, 2, PAGE - 16, GUARD_MIN, GUARD_MIN + 2 * PAGE}},
        {{GIB, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, GIB, 512, 0, GIB, 2 * GIB}},
        {{80 * GIB, 16, LAYOUT_END, PAGE, GUARD_MIN, GUARD_MAX}, {16, 80 * GIB, 40960, 0, 4 * GIB, 84 * GIB}},
        {{1, 1, LAYOUT_END, PAGE, PAGE, PAGE}, {1, PAGE, 1, PAGE - 1, PAGE, 2 * PAGE}},
        {{1, 1, LAYOUT_END, PAGE, PAGE + 1, PAGE + 1}, {1, PAGE, 1, PAGE - 1, 2 * PAGE, 3 * PAGE}},
        {{1, 1, LAYOUT_END, PAGE, 0, 0}, {1, PAGE, 1, PAGE - 1, 0, PAGE}},
        {{5, 0, LAYOUT_END, 1, 0, 0}, {1, 5, 5, 0, 0, 5}},
        {{64, 0, LAYOUT_END, 16, 0, 16}, {16, 64, 4, 0, 16, 80}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layout layout;
        assert_int_equal(layout_compute(&cases[i].request, &layout, &problem), CUFENCE_OK);
        check(&cases[i].request, &layout);
        assert_memory_equal(&layout, &cases[i].layout, sizeof layout);
    }
}

TEST(what_is_refused_leaves_the_result_alone)
{
    static const struct {
        struct layout_request request;
        cufence_status status;
        const char *message;
    } cases[] = {
        {{0, 16, LAYOUT_END, PAGE, PAGE, PAGE},
         CUFENCE_ERROR_INVALID_ARGUMENT,
         "a buffer of 0 bytes has no layout; the smallest is 1 byte"},
        {{1, 3, LAYOUT_END, PAGE, PAGE, PAGE},
         CUFENCE_ERROR_INVALID_ARGUMENT,
         "alignment 3 is not a power of two up to the granularity, 2097152"},
        {{1, 2 * PAGE, LAYOUT_END, PAGE, PAGE, PAGE},
         CUFENCE_ERROR_INVALID_ARGUMENT,
         "alignment 4194304 is not a power of two up to the granularity, 2097152"},
        {{1, 1, LAYOUT_END, 0, PAGE, PAGE}, CUFENCE_ERROR_INVALID_ARGUMENT, "granularity 0 is not a power of two"},
        {{1, 1, LAYOUT_END, 48, PAGE, PAGE}, CUFENCE_ERROR_INVALID_ARGUMENT, "granularity 48 is not a power of two"},
        {{1, 1, LAYOUT_END, PAGE, PAGE, PAGE - 1},
         CUFENCE_ERROR_INVALID_ARGUMENT,
         "guard_max 2097151 is smaller than guard_min 2097152"},
        {{UINT64_MAX, 16, LAYOUT_END, PAGE, PAGE, PAGE},
         CUFENCE_ERROR_OVERFLOW,
         "a buffer of 18446744073709551615 bytes and its guard do not fit into 64 bits of addresses"},
        {{UINT64_MAX - PAGE + 2, 16, LAYOUT_END, PAGE, PAGE, PAGE}, CUFENCE_ERROR_OVERFLOW, NULL},
        {{UINT64_MAX - PAGE + 1, 16, LAYOUT_START, PAGE, PAGE, PAGE}, CUFENCE_ERROR_OVERFLOW, NULL},
        {{UINT64_C(1) << 63, 0, LAYOUT_END, PAGE, PAGE, UINT64_MAX}, CUFENCE_ERROR_OVERFLOW, NULL},
        {{1, 0, LAYOUT_END, PAGE, UINT64_MAX, UINT64_MAX}, CUFENCE_ERROR_OVERFLOW, NULL},
        {{1, 0, LAYOUT_END, PAGE, UINT64_MAX - PAGE + 1, UINT64_MAX}, CUFENCE_ERROR_OVERFLOW, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layout layout, before;
        memset(&layout, 0x5a, sizeof layout);
        before = layout;
        assert_int_equal(layout_compute(&cases[i].request, &layout, &problem), cases[i].status);
        assert_memory_equal(&layout, &before, sizeof layout);
        if (cases[i].message)
            assert_string_equal(problem.text, cases[i].message);
    }
}

TEST(the_largest_that_fits_is_accepted)
{
    struct layout_request request = {UINT64_MAX - 2 * PAGE + 1, 16, LAYOUT_END, PAGE, PAGE, PAGE};
    struct layout layout;
    assert_int_equal(layout_compute(&request, &layout, &problem), CUFENCE_OK);
    assert_int_equal(layout.span, UINT64_MAX - PAGE + 1);
    check(&request, &layout);
}

static uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

/* xorshift64: the same sequence on every run and machine. */
static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

TEST(random_requests_keep_the_invariants)
{
    size_t accepted = 0;
    for (int i = 0; i < 200000; i++) {
        struct layout_request request = {
            .size = next_random() >> (next_random() % 64),
            .align = next_random() % 8 ? UINT64_C(1) << (next_random() % 22) : 0,
            .side = next_random() % 2 ? LAYOUT_END : LAYOUT_START,
            .granularity = PAGE,
            .guard_min = next_random() % (128 * MIB),
        };
        request.guard_max = request.guard_min + next_random() % (8 * GIB);
        struct layout layout;
        cufence_status status = layout_compute(&request, &layout, &problem);
        if (status == CUFENCE_OK) {
            check(&request, &layout);
            accepted++;
        } else {
            assert_true(request.size == 0 || request.size > UINT64_MAX - 10 * GIB);
        }
    }
    assert_true(accepted > 190000);
}

TEST(larger_mappings_keep_the_end_flush)
{
    for (int i = 0; i < 100000; i++) {
        uint64_t mapped = PAGE * (1 + next_random() % 64), size = 1 + next_random() % mapped;
        uint64_t align = UINT64_C(1) << (next_random() % 22), padded = (size + align - 1) / align * align;
        assert_int_equal(layout_offset(mapped, size, align, LAYOUT_END), mapped - padded);
        assert_int_equal(layout_offset(mapped, size, align, LAYOUT_START), 0);
    }
}

TEST(addresses_are_placed)
{
    static const struct {
        uint64_t address, start, size;
        cufence_place place;
        uint64_t offset;
    } cases[] = {
        {1000, 1000, 4, CUFENCE_PLACE_INSIDE, 0},
        {1003, 1000, 4, CUFENCE_PLACE_INSIDE, 3},
        {1004, 1000, 4, CUFENCE_PLACE_PAST_END, 0},
        {1005, 1000, 4, CUFENCE_PLACE_PAST_END, 1},
        {999, 1000, 4, CUFENCE_PLACE_BEFORE_START, 1},
        {0, 1000, 4, CUFENCE_PLACE_BEFORE_START, 1000},
        {UINT64_MAX, 1000, 4, CUFENCE_PLACE_PAST_END, UINT64_MAX - 1004},
        {UINT64_MAX, UINT64_MAX - 3, 4, CUFENCE_PLACE_INSIDE, 3},
        {UINT64_MAX, UINT64_MAX - 4, 4, CUFENCE_PLACE_PAST_END, 0},
        {UINT64_MAX, UINT64_MAX, 1, CUFENCE_PLACE_INSIDE, 0},
        {0, UINT64_MAX, 1, CUFENCE_PLACE_BEFORE_START, UINT64_MAX},
        {1000, 1000, 0, CUFENCE_PLACE_PAST_END, 0},
        {0, 0, UINT64_MAX, CUFENCE_PLACE_INSIDE, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t offset = 12345;
        assert_int_equal(layout_classify(cases[i].address, cases[i].start, cases[i].size, &offset), cases[i].place);
        assert_int_equal(offset, cases[i].offset);
    }
}

TEST(slack_ends_with_the_mapping_and_with_the_reach)
{
    static const struct {
        uint64_t mapped, offset, size, head, tail;
    } cases[] = {
        {2 << 20, (2 << 20) - 1008, 1000, 4096, 8}, /* at the end, align 16 */
        {2 << 20, 0, 1000, 0, 4096},                /* at the start */
        {2 << 20, 0, 2 << 20, 0, 0},                /* all of it */
        {2 << 20, 100, (2 << 20) - 100, 100, 0},    /* less than the reach */
        {4 << 20, 1 << 20, 1 << 20, 4096, 4096},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct layout_slack slack = layout_slack(cases[i].mapped, cases[i].offset, cases[i].size);
        assert_int_equal(slack.head, cases[i].head);
        assert_int_equal(slack.tail, cases[i].tail);
    }
}

/* ---- cells: every size has one that it fits in, with its redzones, and little is left over ---- */

static void check_buffer(const struct cells *cells, uint64_t size, uint64_t align, enum layout_side side)
{
    for (int is_first = 0; is_first < 2; is_first++) {
        uint64_t bytes = cells->bytes + (is_first ? cells->leftover : 0);
        uint64_t offset = cells_offset(bytes, size, align, side);
        assert_int_equal(offset % align, 0);
        assert_true(offset >= CELLS_REDZONE);
        assert_true(offset + size + CELLS_REDZONE <= bytes);
        if (side == LAYOUT_END)
            assert_true(offset + size + CELLS_REDZONE + align > bytes);
    }
}

static void check_size(uint64_t size, uint64_t align)
{
    struct cells cells;
    if (!cells_for(PAGE, size, align, &cells))
        fail_msg("%u bytes have no cell", (unsigned)size);
    assert_true(cells.class < CELLS_CLASSES);
    assert_true(cells.count >= CELLS_LEAST);
    assert_int_equal(cells.bytes % CELLS_UNIT, 0);
    assert_int_equal(cells.leftover + cells.count * cells.bytes, PAGE);
    assert_int_equal(cells_bytes(PAGE, cells.class), cells.bytes);
    check_buffer(&cells, size, align, LAYOUT_END);
    check_buffer(&cells, size, align, LAYOUT_START);
}

TEST(every_size_and_alignment_has_its_cell)
{
    for (uint64_t align = 1; align <= CELLS_UNIT; align *= 2) {
        for (uint64_t size = 1; size <= CELLS_SIZE_MOST; size += size < 20000 ? 1 : 97)
            check_size(size, align);
        check_size(CELLS_SIZE_MOST, align);
    }
}

/* Of a page, two buffers more would not have fitted. */
TEST(little_is_lost)
{
    struct cells cells;
    for (uint64_t size = 4096; size <= CELLS_SIZE_MOST; size += 512) {
        assert_true(cells_for(PAGE, size, 16, &cells));
        uint64_t best = PAGE / (size + 2 * CELLS_REDZONE);
        assert_true(cells.count <= best && cells.count * 9 >= best * 8 - 8);
    }
}

TEST(other_buffers_have_no_cell)
{
    struct cells cells;
    assert_false(cells_for(PAGE, 0, 16, &cells));
    assert_false(cells_for(PAGE, CELLS_SIZE_MOST + 1, 16, &cells));
    assert_false(cells_for(PAGE, 100, 2 * CELLS_UNIT, &cells));
    assert_false(cells_for(PAGE, UINT64_MAX, 16, &cells));
    assert_false(cells_for(64 << 10, 60 << 10, 16, &cells));
}

TEST(each_byte_of_a_page_is_in_a_cell)
{
    struct cells cells;
    assert_true(cells_for(PAGE, 4096, 16, &cells));
    assert_int_equal(cells.bytes, 4608);
    assert_true(cells.leftover > 0);
    assert_int_equal(cells_at(&cells, 0), 0);
    assert_int_equal(cells_at(&cells, cells.leftover + cells.bytes - 1), 0);
    for (uint32_t i = 1; i < cells.count; i++) {
        assert_int_equal(cells_at(&cells, cells.leftover + i * cells.bytes), i);
        assert_int_equal(cells_at(&cells, cells.leftover + (i + 1) * cells.bytes - 1), i);
    }
    assert_int_equal(cells_at(&cells, PAGE), cells.count - 1);
}
