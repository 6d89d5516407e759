/* The bounds-checked reader: numbers, strings, parts; a read past the end breaks it, and it returns 0 from then on. */
#include "support/test.h"

#include "base/reader.h"

#define SPAN(...) ((struct span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

/* A copy of its own size, so that a sanitizer sees a read behind it. */
static struct span exact(struct span span)
{
    uint8_t *copy = malloc(span.size);
    assert_non_null(copy);
    memcpy(copy, span.bytes, span.size);
    return (struct span){copy, span.size};
}

TEST(numbers_are_little_endian)
{
    struct span bytes = SPAN(0xf1, 2, 0xf3, 4, 5, 6, 0xf7, 8, 9, 10, 11, 12, 13, 14, 0xff, 16, 17, 0x80, 0xfe, 0xff);
    struct reader reader = reader_of(bytes, 0);
    assert_int_equal(reader_u8(&reader), 0xf1);
    assert_int_equal(reader_u16(&reader), 0xf302);
    assert_int_equal(reader_u32(&reader), 0xf7060504);
    assert_int_equal(reader.position, 7);
    assert_true(reader_u64(&reader) == 0xff0e0d0c0b0a0908);
    assert_int_equal(reader_unsigned(&reader, 2), 0x1110);
    assert_int_equal(reader_signed(&reader, 1), -128);
    assert_int_equal(reader_signed(&reader, 2), -2);
    assert_int_equal(reader_left(&reader), 0);
    assert_non_null(reader.at); /* at the end, and not beyond it */
    assert_int_equal(load_u32(bytes.bytes + 3), 0xf7060504);
    assert_true(load_u64(bytes.bytes + 7) == 0xff0e0d0c0b0a0908);
}

/* Of every size, one byte short. */
TEST(the_end_breaks_it)
{
    for (unsigned size = 1; size <= 8; size++) {
        struct span bytes = exact(SPAN(1, 2, 3, 4, 5, 6, 7, 8));
        struct reader reader = reader_of(bytes, 8 - (size - 1) % 8), start = reader_of(bytes, 0);
        uint64_t copy = 42;
        if (size > 1)
            assert_int_equal(reader_left(&reader), size - 1);
        assert_int_equal(reader_unsigned(&reader, size), 0);
        assert_null(reader.at);
        assert_int_equal(reader_left(&reader), 0);
        assert_int_equal(reader_u8(&reader), 0); /* once broken, it stays so */
        assert_int_equal(reader_copy(&reader, &copy, 1), 0);
        reader_skip(&reader, 0);
        assert_null(reader.at);
        assert_int_equal(copy, 42);
        reader_skip(&start, 8);
        assert_non_null(start.at);
        assert_int_equal(reader_signed(&start, size), 0);
        assert_null(start.at);
        free((void *)(uintptr_t)bytes.bytes);
    }
    struct reader reader = reader_of(SPAN(1, 2, 3, 4, 5, 6, 7, 8, 9), 0);
    assert_int_equal(reader_unsigned(&reader, 9), 0);
    assert_null(reader.at);
}

TEST(offsets_outside_give_nothing)
{
    static const uint64_t outside[] = {3, 4, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    struct span bytes = SPAN(1, 2, 0);
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_null(reader_of(bytes, outside[i]).at);
        assert_null(span_string(bytes, outside[i]));
        assert_null(span_part(bytes, outside[i], 1).bytes);
        assert_null(span_part(bytes, 1, outside[i]).bytes);
        struct reader reader = reader_of(bytes, 1);
        if (i > 0) {
            reader_skip(&reader, outside[i]);
            assert_null(reader.at);
        }
    }
    assert_null(reader_of((struct span){NULL, 0}, 0).at);
    assert_null(span_part(bytes, 0, 0).bytes);
    assert_int_equal(span_part(bytes, 1, 2).bytes[1], 0);
}

TEST(a_part_ends_where_it_was_cut)
{
    struct reader reader = reader_of(SPAN(1, 2, 3, 4, 5), 1), inner = reader_cut(&reader, 2);
    assert_int_equal(inner.position, 1);
    assert_int_equal(reader_left(&inner), 2);
    assert_int_equal(reader_u16(&inner), 0x0302);
    assert_int_equal(reader_u8(&inner), 0);
    assert_null(inner.at);
    assert_int_equal(reader.position, 3);
    assert_int_equal(reader_u8(&reader), 4); /* it does not suffer with its part */
    inner = reader_cut(&reader, 2);
    assert_null(inner.at);
    assert_null(reader.at);
}

TEST(leb128)
{
    static const struct {
        uint8_t bytes[11];
        size_t size;
        uint64_t is, is_signed;
    } cases[] = {
        {{0}, 1, 0, 0},
        {{0x7f}, 1, 127, UINT64_MAX},
        {{0x80, 1}, 2, 128, 128},
        {{0xe5, 0x8e, 0x26}, 3, 624485, 624485}, /* DWARF 5, appendix C */
        {{0x80, 0x7f}, 2, 16256, (uint64_t)-128},
        {{0x81, 0x80, 0x80, 0}, 4, 1, 1}, /* padded */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 10, UINT64_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct span bytes = exact((struct span){cases[i].bytes, cases[i].size});
        struct reader reader = reader_of(bytes, 0), other = reader;
        assert_true(reader_uleb(&reader) == cases[i].is);
        assert_true((uint64_t)reader_sleb(&other) == cases[i].is_signed);
        assert_non_null(reader.at);
        assert_int_equal(reader_left(&reader), 0);
        bytes.size--; /* its last byte is missing */
        reader = other = reader_of(bytes, 0);
        assert_int_equal(reader_uleb(&reader), 0);
        assert_int_equal(reader_sleb(&other), 0);
        assert_null(reader.at);
        assert_null(other.at);
        free((void *)(uintptr_t)bytes.bytes);
    }
    uint8_t endless[64];
    memset(endless, 0x80, sizeof endless);
    struct reader reader = reader_of((struct span){endless, sizeof endless}, 0);
    assert_int_equal(reader_uleb(&reader), 0);
    assert_null(reader.at);
}

TEST(strings_have_their_end_inside)
{
    struct span bytes = exact(SPAN('a', 'b', 0, 0, 'c'));
    struct reader reader = reader_of(bytes, 0);
    assert_string_equal(reader_string(&reader), "ab");
    assert_string_equal(reader_string(&reader), "");
    assert_int_equal(reader.position, 4);
    assert_null(reader_string(&reader));
    assert_null(reader.at);
    assert_null(reader_string(&reader));
    assert_string_equal(span_string(bytes, 1), "b");
    assert_null(span_string(bytes, 4));
    free((void *)(uintptr_t)bytes.bytes);
}
