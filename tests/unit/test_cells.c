/* The cells of pages that small buffers share: every size has one that it fits in, with its redzones, and little is left over.
 */
#include "support/test.h"

#include "guard/cells.h"

#define PAGE (UINT64_C(2) << 20)

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
