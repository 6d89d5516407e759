/* Fat binaries of nvcc 13.0 in all of its modes of compression (tests/fixtures/cubins), and what is kept of them unpacked. */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/lines/cubin.h"
#include "analysis/lines/fatbin.h"
#include "inspect/code/unpacked.h"

static const char *const modes[] = {"values_default", "values_size", "values_speed"};
#define MODES (sizeof modes / sizeof *modes)

TEST(a_plain_one_has_its_cubins)
{
    struct span file = fixture_read("cubins/values.fatbin");
    struct fatbin_image image;
    uint64_t at = 0;
    assert_int_equal(fatbin_size(file.bytes), file.size);
    for (int i = 0; i < 2; i++) {
        struct cubin_kernel kernel;
        assert_int_equal(fatbin_next(file, &at, &image), 1);
        assert_true(image.kind == FATBIN_CUBIN && image.packing == FATBIN_PLAIN && image.size == image.packed.size);
        assert_true(image.packed.bytes > file.bytes && image.packed.bytes < file.bytes + file.size);
        assert_true(cubin_find_kernel(image.packed, "normalise", &kernel));
        assert_int_equal(kernel.sm, i ? 90 : 80);
        assert_int_equal(image.sm, kernel.sm);
    }
    assert_int_equal(fatbin_next(file, &at, &image), 0);
    fixture_bytes(file)[0]++;
    assert_int_equal(fatbin_size(file.bytes), 0);
    fixture_free(file);
}

TEST(compressed_ones_have_the_same_cubins)
{
    struct span plain = fixture_read("cubins/values.fatbin");
    for (size_t mode = 0; mode < MODES; mode++) {
        struct span file = fixture_read("cubins/%s.fatbin", modes[mode]);
        uint64_t at = 0, at_plain = 0;
        struct fatbin_image image, same;
        while (fatbin_next(plain, &at_plain, &same) == 1) {
            assert_int_equal(fatbin_next(file, &at, &image), 1);
            assert_int_equal(image.packing, strcmp(modes[mode], "values_speed") ? FATBIN_ZSTD : FATBIN_LZ4);
            assert_true(image.kind == FATBIN_CUBIN && image.sm == same.sm && image.size == same.size);
            uint8_t *unpacked = malloc(image.size);
            assert_true(fatbin_unpack(&image, unpacked));
            assert_memory_equal(unpacked, same.packed.bytes, same.size);
            free(unpacked);
        }
        assert_int_equal(fatbin_next(file, &at, &image), 0);
        fixture_free(file);
    }
    fixture_free(plain);
}

TEST(a_damaged_header_ends_the_file)
{
    static const struct {
        unsigned at;
        uint32_t value;
    } damages[] = {{4, 63}, {8, 0}, {8, 1 << 20}, {16, 0}, {16, 1 << 20}, {56, 0}, {60, 1}};
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        struct span file = fixture_read("cubins/values_speed.fatbin");
        struct fatbin_image image;
        uint64_t at = 0;
        memcpy(fixture_bytes(file) + 16 + damages[i].at, &damages[i].value, 4);
        if (damages[i].at == 8)
            memset(fixture_bytes(file) + 16 + 12, 0, 4);
        assert_int_equal(fatbin_next(file, &at, &image), -1);
        fixture_free(file);
    }
}

/* ---- LZ4 ---- */

static int unpacks(const void *block, size_t bytes, const char *text, size_t size)
{
    uint8_t *exact = malloc(bytes), *to = malloc(size + 1);
    memcpy(exact, block, bytes);
    int is_done = lz4_unpack((struct span){exact, bytes}, to, size);
    if (is_done)
        assert_memory_equal(to, text, size);
    free(exact);
    free(to);
    return is_done;
}

#define UNPACKS(block, text) unpacks(block, sizeof(block) - 1, text, sizeof(text) - 1)

TEST(blocks_are_unpacked)
{
    assert_true(UNPACKS("\060abc", "abc"));
    assert_true(UNPACKS("\060abc\3\0\020x", "abcabcax")); /* a match that makes what it copies */
    assert_true(UNPACKS("\020a\1\0\020x", "aaaaax"));     /* a byte that is repeated */
    assert_true(UNPACKS("\105abcd\4\0\020x", "abcdabcdabcdax"));
    assert_true(UNPACKS("\360\002abcdefghijklmnopq", "abcdefghijklmnopq")); /* 15 + 2 literals */
    assert_true(UNPACKS("\037a\1\0\0\020x", "aaaaaaaaaaaaaaaaaaaax"));      /* 15 + 0 + 4 */
    assert_true(UNPACKS("\020a\1\0\0", "aaaaa"));                           /* no literals at the end */
}

TEST(damaged_blocks_are_refused)
{
    char text[600] = {0};
    assert_false(unpacks("", 0, text, 1));
    assert_false(UNPACKS("\060ab", "abc"));                /* literals are missing */
    assert_false(UNPACKS("\060abc", "ab"));                /* too many */
    assert_false(UNPACKS("\060abc", "abcd"));              /* too few */
    assert_false(UNPACKS("\060abc\3", "abcabca"));         /* half of an offset */
    assert_false(UNPACKS("\060abc\4\0\020x", "abcabcax")); /* before the start */
    assert_false(UNPACKS("\060abc\0\0\020x", "abcabcax"));
    assert_false(UNPACKS("\060abc\3\0\020x", "abcabc")); /* a match that is too long */
    assert_false(UNPACKS("\360", "abc"));                /* a length without its end */
    memset(text, 0xff, sizeof text);
    assert_false(unpacks(text, sizeof text, "abc", 3));
}

/* ---- keeping ---- */

static struct fatbin_image first_of(struct span file)
{
    struct fatbin_image image;
    uint64_t at = 0;
    assert_int_equal(fatbin_next(file, &at, &image), 1);
    return image;
}

TEST(a_cubin_is_unpacked_once)
{
    struct span plain = fixture_read("cubins/values.fatbin"), file = fixture_read("cubins/values_default.fatbin");
    struct fatbin_image same = first_of(plain), image = first_of(file);
    int one, two;
    struct span found = unpacked_find(&one, &image);
    assert_int_equal(found.size, same.size);
    assert_memory_equal(found.bytes, same.packed.bytes, same.size);
    memset(fixture_bytes(image.packed), 0, image.packed.size); /* it is not read again */
    assert_ptr_equal(unpacked_find(&one, &image).bytes, found.bytes);
    assert_null(unpacked_find(&two, &image).bytes);
    assert_int_equal(unpacked_bytes(), same.size);
    unpacked_forget(&one);
    assert_int_equal(unpacked_bytes(), 0);
    assert_null(unpacked_find(&one, &image).bytes);
    assert_ptr_equal(unpacked_find(&one, &same).bytes, same.packed.bytes); /* is in the file as it is */
    assert_int_equal(unpacked_bytes(), 0);
    fixture_free(plain);
    fixture_free(file);
}

/* Returns a block that holds `size` zeros: a literal, a match of 255 and 255 and ..., five literals. */
static struct span zeros(uint64_t size)
{
    uint64_t match = size - 1 - 5, rest = match - 4 - 15, longer = rest / 255;
    uint8_t *block = calloc(1, longer + 16), *at = block;
    *at++ = 0x1f;
    *at++ = 0;
    *at++ = 1;
    *at++ = 0;
    memset(at, 255, longer);
    at += longer;
    *at++ = (uint8_t)(rest % 255);
    *at++ = 0x50;
    return (struct span){block, (size_t)(at - block) + 5};
}

TEST(what_is_kept_is_bounded)
{
    enum { IMAGES = 5 };
    uint64_t size = UNPACKED_MOST / 4;
    int owner;
    struct fatbin_image images[IMAGES];
    for (int i = 0; i < IMAGES; i++) {
        images[i] = (struct fatbin_image){zeros(size), size, 90, FATBIN_CUBIN, FATBIN_LZ4};
        assert_int_equal(unpacked_find(&owner, &images[i]).size, size);
        assert_int_equal(unpacked_find(&owner, &images[0]).size, size); /* is used, so it stays */
        assert_int_equal(unpacked_bytes(), i < 4 ? size * (uint64_t)(i + 1) : UNPACKED_MOST);
        fixture_bytes(images[i].packed)[0] = 0;
    }
    assert_non_null(unpacked_find(&owner, &images[0]).bytes);
    assert_null(unpacked_find(&owner, &images[1]).bytes);
    struct fatbin_image large = {zeros(UNPACKED_MOST + 1), UNPACKED_MOST + 1, 90, FATBIN_CUBIN, FATBIN_LZ4};
    assert_int_equal(unpacked_find(&owner, &large).size, large.size);
    assert_int_equal(unpacked_bytes(), large.size);
    unpacked_forget(&owner);
    assert_int_equal(unpacked_bytes(), 0);
    for (int i = 0; i < IMAGES; i++)
        fixture_free(images[i].packed);
    fixture_free(large.packed);
}
