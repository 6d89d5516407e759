/*
 * The variables of a module, and those that a kernel uses, in cubins of nvcc 13.0 for three architectures
 * (tests/gpu/programs/variables.cu).
 */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/dump/image.h"

static const char *const cubins[] = {"variables_80.cubin", "variables_90.cubin", "variables_120.cubin"};
enum { CUBINS = sizeof cubins / sizeof *cubins, COUNT = 5 };

TEST(each_kernel_uses_its_own)
{
    static const struct {
        const char *kernel, *used;
        uint64_t size;
    } cases[] = {{"_Z11by_variablei", "target", 8},
                 {"_Z9by_structv", "held", 24},
                 {"_Z11by_constanti", "table", 16},
                 {"_Z8by_valuePf", "inner", 8}};
    for (size_t i = 0; i < CUBINS; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct span cubin = fixture_read("cubins/%s", cubins[i]);
            struct variable found[VARIABLES_MOST];
            assert_int_equal(variables_of(cubin, cases[k].kernel, found), COUNT);
            assert_string_equal(found[0].name, cases[k].used);
            assert_int_equal(found[0].size, cases[k].size);
            assert_true(found[0].is_used && !found[1].is_used && !found[2].is_used);
            assert_int_equal(variables_of(cubin, "none", found), COUNT);
            assert_false(found[0].is_used || found[1].is_used || found[2].is_used);
            fixture_free(cubin);
        }
}

/* A module with an assert() as a driver has loaded it (580.159): three strings, and no variable. */
TEST(the_strings_of_an_assertion_are_no_variables)
{
    struct problem problem;
    struct coredump dump;
    struct image image;
    Elf64_Shdr section, global = {0};
    struct variable found[VARIABLES_MOST];
    uint8_t *bytes = NULL;
    size_t size = 0, strings = 0;
    struct span file = fixture_read("asserted.core");
    assert_int_equal(coredump_open(file.bytes, file.size, &dump, &problem), CUFENCE_OK);
    assert_int_equal(image_of_kernel(&dump, "asserted", 0, &bytes, &size, &problem), CUFENCE_OK);
    assert_int_equal(variables_of((struct span){bytes, size}, "asserted", found), 0);
    assert_true(image_open(bytes, size, &image));
    for (uint32_t i = 1; image_section(&image, i, &section); i++)
        for (uint64_t at = 0; section.sh_type == SHT_SYMTAB && at < section.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, bytes + section.sh_offset + at, sizeof symbol);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !image_section(&image, symbol.st_shndx, &global))
                continue;
            assert_true(symbol.st_value <= global.sh_size && symbol.st_size <= global.sh_size - symbol.st_value);
            strings++;
        }
    assert_int_equal(strings, 3);
    free(bytes);
    coredump_close(&dump);
    fixture_free(file);
}

/* Whatever is in it; a sanitizer watches. */
TEST(a_damaged_cubin_has_less)
{
    struct variable found[VARIABLES_MOST];
    for (size_t i = 0; i < CUBINS; i++) {
        struct span cubin = fixture_read("cubins/%s", cubins[i]);
        for (size_t size = 0; size < cubin.size; size += 61)
            assert_true(variables_of((struct span){cubin.bytes, size}, "_Z11by_variablei", found) <= COUNT);
        uint8_t *bytes = (uint8_t *)(uintptr_t)cubin.bytes;
        for (size_t at = 0; at < cubin.size; at += 7) {
            uint8_t *copy = malloc(cubin.size);
            memcpy(copy, bytes, cubin.size);
            copy[at] ^= 0xff;
            size_t count = variables_of((struct span){copy, cubin.size}, "_Z9by_structv", found);
            assert_true(count <= VARIABLES_MOST && variables_locate((struct span){copy, cubin.size}, found, count) <= count);
            variables_settle(copy, cubin.size);
            free(copy);
        }
        fixture_free(cubin);
    }
}

/* As the driver leaves the image of a module that it has loaded: symbols have addresses, sections have none. */
static void relocate(struct span cubin)
{
    struct image image;
    Elf64_Shdr section;
    uint64_t address = 0x7f0000001000;
    uint8_t *bytes = (uint8_t *)(uintptr_t)cubin.bytes;
    assert_true(image_open(cubin.bytes, cubin.size, &image));
    for (uint32_t i = 1; image_section(&image, i, &section); i++)
        for (uint64_t at = 0; section.sh_type == SHT_SYMTAB && at < section.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            memcpy(&symbol, bytes + section.sh_offset + at, sizeof symbol);
            if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || !symbol.st_shndx)
                continue;
            symbol.st_value = address;
            memcpy(bytes + section.sh_offset + at, &symbol, sizeof symbol);
            address += 0x100;
        }
}

TEST(a_relocated_cubin_can_be_loaded_again)
{
    for (size_t i = 0; i < CUBINS; i++) {
        struct span plain = fixture_read("cubins/%s", cubins[i]), relocated = fixture_read("cubins/%s", cubins[i]),
                    settled = fixture_read("cubins/%s", cubins[i]);
        struct variable found[VARIABLES_MOST];
        relocate(relocated);
        relocate(settled);
        variables_settle((uint8_t *)(uintptr_t)settled.bytes, settled.size);
        assert_true(settled.size == plain.size && !memcmp(settled.bytes, plain.bytes, plain.size));
        assert_int_equal(variables_of(settled, "_Z11by_constanti", found), COUNT);
        assert_string_equal(found[0].name, "table");
        assert_int_equal(variables_locate(relocated, found, COUNT), COUNT);
        for (size_t k = 0; k < COUNT; k++) {
            uint64_t values[] = {7, found[k].address + found[k].size - 1};
            assert_true(found[k].address >= 0x7f0000001000);
            assert_true(variables_lead_inside(relocated, (const uint8_t *)values, sizeof values));
            assert_false(variables_lead_inside(relocated, (const uint8_t *)values, sizeof values - 1));
            values[1]++;
            assert_false(variables_lead_inside(relocated, (const uint8_t *)values, sizeof values));
        }
        assert_int_equal(variables_locate(plain, found, COUNT), 2); /* offsets, three of which are 0 */
        fixture_free(plain);
        fixture_free(relocated);
        fixture_free(settled);
    }
}
