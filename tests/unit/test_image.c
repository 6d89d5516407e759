/* The images of kernels, from recorded dumps and from a synthetic one; and the variables of their modules. */
#include "support/test.h"

#include "support/fixture.h"
#include "analysis/dump/kernel_module.h"
#include "analysis/lines/cubin.h"
#include "analysis/sass/fence.h"
#include "synthetic_dump.h"

static struct problem problem;

/* Returns the relocated image that has the kernel loaded, and its address. The dump may have no grid: if the kernel's last warp
 * was gone. */
static struct span relocated_image(const struct coredump *dump, const char *symbol, uint64_t *start)
{
    uint32_t section = 0;
    while ((section = coredump_next(dump, COREDUMP_RELOCATED_CUBIN, section)) != 0) {
        Elf64_Sym entry;
        uint64_t work = UINT64_MAX;
        *start = cubin_find_named(coredump_content(dump, section), symbol, &work, &entry) ? entry.st_value : 0;
        if (*start)
            return coredump_content(dump, section);
    }
    fail_msg("no image has the kernel");
    return (struct span){NULL, 0};
}

static void assert_same(struct span was, struct span is)
{
    assert_int_equal(was.size, is.size);
    if (was.size)
        assert_memory_equal(was.bytes, is.bytes, was.size);
}

/* Only addresses of sections and values of symbols may differ. */
static void check_image(struct span relocated, struct span cleaned)
{
    struct image before, after;
    Elf64_Shdr was, is;
    unsigned addresses = 0, values = 0;
    assert_int_equal(relocated.size, cleaned.size);
    assert_true(image_open(relocated.bytes, relocated.size, &before));
    assert_true(image_open(cleaned.bytes, cleaned.size, &after));
    assert_int_equal(before.section_count, after.section_count);
    for (uint32_t i = 1; image_section(&before, i, &was); i++) {
        assert_true(image_section(&after, i, &is));
        assert_int_equal(is.sh_addr, 0);
        addresses += was.sh_addr != 0;
        is.sh_addr = was.sh_addr;
        assert_memory_equal(&is, &was, sizeof(was));
        if (was.sh_type != SHT_SYMTAB) {
            assert_same(image_content(&before, &was), image_content(&after, &is));
            continue;
        }
        Elf64_Sym old, new;
        struct reader olds = reader_of(image_content(&before, &was), 0), news = reader_of(image_content(&after, &is), 0);
        while (reader_copy(&olds, &old, sizeof(old))) {
            Elf64_Shdr home = {0};
            assert_true(reader_copy(&news, &new, sizeof(new)));
            image_section(&before, old.st_shndx, &home);
            assert_int_equal(new.st_value, old.st_value >= home.sh_addr ? old.st_value - home.sh_addr : old.st_value);
            values += new.st_value != old.st_value;
            new.st_value = old.st_value;
            assert_memory_equal(&new, &old, sizeof(old));
        }
    }
    assert_true(addresses > 0);
    assert_true(values > 0);
}

TEST(test_recorded)
{
    static const struct {
        const char *fixture, *symbol;
        unsigned exits;
    } cases[] = {{"store_last", "store_last", 2},
                 {"store_then_exit", "store_then_exit", 3},
                 {"triton_load", "k_oob", 2},
                 {"load_called", "_Z11load_calledIdEvPKT_PS0_i", 2}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = 0, other_size = 0;
        struct span recorded = fixture_read("%s.core", cases[i].fixture);
        uint8_t *image = NULL, *other = NULL;
        struct coredump dump;
        uint64_t start;
        assert_int_equal(coredump_open(recorded.bytes, recorded.size, &dump, &problem), CUFENCE_OK);
        struct span relocated = relocated_image(&dump, cases[i].symbol, &start);
        assert_int_equal(image_of_kernel(&dump, cases[i].symbol, start + 16, &image, &size, &problem), CUFENCE_OK);
        check_image(relocated, (struct span){image, size});

        /* The symbol alone is enough, even with an address elsewhere, as of a function of the driver. */
        for (uint64_t pc = 0; pc < 32; pc += 16) {
            assert_int_equal(image_of_kernel(&dump, cases[i].symbol, pc, &other, &other_size, &problem), CUFENCE_OK);
            assert_same((struct span){image, size}, (struct span){other, other_size});
            free(other);
        }

        Elf64_Sym entry;
        uint64_t work = UINT64_MAX;
        assert_true(cubin_find_named((struct span){image, size}, cases[i].symbol, &work, &entry));
        assert_int_equal(entry.st_value, 0);
        struct fence fence;
        size_t before = size;
        assert_int_equal(fence_put(&image, &size, cases[i].symbol, FENCE_NO_ACCESS, &fence, &problem), CUFENCE_OK);
        assert_int_equal(fence.fenced, cases[i].exits);
        assert_int_equal(size, before);

        /* A kernel that the module has, but that the driver has not loaded; and one that does not exist. */
        assert_int_equal(image_of_kernel(&dump, "poison", 0, &other, &other_size, &problem), CUFENCE_ERROR_NOT_FOUND);
        assert_int_equal(image_of_kernel(&dump, "none", start, &other, &other_size, &problem), CUFENCE_ERROR_NOT_FOUND);
        assert_non_null(strstr(problem.text, "the kernel none"));
        free(image);
        coredump_close(&dump);
        fixture_free(recorded);
    }
}

/* ---- A synthetic dump ---- */

/* Opens the dump, asks for the image of _Z3oobPi, and returns the status. */
static cufence_status ask(uint64_t pc, uint8_t **image, size_t *size)
{
    struct coredump dump;
    struct span file = dump_file(0xBE);
    *image = NULL;
    *size = 0;
    assert_int_equal(coredump_open(file.bytes, file.size, &dump, &problem), CUFENCE_OK);
    cufence_status status = image_of_kernel(&dump, "_Z3oobPi", pc, image, size, &problem);
    assert_int_equal(status == CUFENCE_OK, *image != NULL);
    coredump_close(&dump);
    fixture_free(file);
    return status;
}

static void refuse(cufence_status status, const char *words)
{
    uint8_t *image;
    size_t size;
    assert_int_equal(ask(KERNEL_START, &image, &size), status);
    assert_non_null(strstr(problem.text, words));
}

/* Expects the one with this mark. */
static void expect_marked(uint64_t pc, uint8_t mark)
{
    uint8_t *image;
    size_t size;
    assert_int_equal(ask(pc, &image, &size), CUFENCE_OK);
    assert_int_equal(image[EI_ABIVERSION], mark);
    free(image);
}

/* Expects the image of the relocated module, without its addresses. */
static void expect_relocated(struct span relocated)
{
    uint8_t *image;
    size_t size;
    assert_int_equal(ask(0, &image, &size), CUFENCE_OK);
    check_image(relocated, (struct span){image, size});
    free(image);
}

static Elf64_Shdr *section_of(uint8_t *cubin, unsigned index)
{
    Elf64_Ehdr header;
    memcpy(&header, cubin, sizeof(header));
    return (Elf64_Shdr *)(void *)(cubin + header.e_shoff) + index;
}

/* The module as the program loaded it comes first, if it has the kernel. */
TEST(test_plain)
{
    uint8_t cubin[4096], *image;
    size_t size, plain_size = make_cubin(cubin);
    section_of(cubin, 2)->sh_addr = 0;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(cubin + section_of(cubin, 3)->sh_offset);
    symbols[1].st_value = 0;
    cubin[EI_ABIVERSION] = 99; /* tells it from the other */
    make_synthetic(&oldest);
    uint32_t plain = builder_add(&synthetic.builder, 0x80000006, 0, plain_size, synthetic.part[MODULES], 0);
    builder_put(&synthetic.builder, plain, 0, cubin, plain_size);
    assert_int_equal(ask(KERNEL_START, &image, &size), CUFENCE_OK);
    assert_same((struct span){cubin, plain_size}, (struct span){image, size});
    free(image);

    struct span relocated = {bytes_of_section(synthetic.part[CUBIN]), plain_size};
    symbols = (Elf64_Sym *)(void *)(bytes_of_section(plain) + section_of(cubin, 3)->sh_offset);
    symbols[1].st_name++; /* another kernel */
    expect_relocated(relocated);
    symbols[1].st_name--;
    section_of(bytes_of_section(plain), 1)->sh_offset = 1 << 20; /* damaged */
    expect_relocated(relocated);
}

/* The same kernel in two modules. */
TEST(test_two)
{
    uint8_t cubin[4096], *image;
    size_t size, cubin_size = make_cubin(cubin);
    section_of(cubin, 2)->sh_addr = KERNEL_START + 0x1000;
    Elf64_Sym *symbols = (Elf64_Sym *)(void *)(cubin + section_of(cubin, 3)->sh_offset);
    symbols[1].st_value = KERNEL_START + 0x1000;
    cubin[EI_ABIVERSION] = 99;
    make_synthetic(&oldest);
    uint32_t second = builder_add(&synthetic.builder, 0x80000007, 0, cubin_size, 0, 0);
    builder_put(&synthetic.builder, second, 0, cubin, cubin_size);
    expect_marked(KERNEL_START + 0x10, 0);
    expect_marked(KERNEL_START + 0x1010, 99);
    assert_int_equal(ask(0, &image, &size), CUFENCE_ERROR_NOT_FOUND);
    assert_non_null(strstr(problem.text, "2 loaded modules"));
    symbols = (Elf64_Sym *)(void *)(bytes_of_section(second) + section_of(cubin, 3)->sh_offset);
    symbols[1].st_value = 0; /* not loaded: it cannot have faulted */
    expect_marked(0, 0);
}

TEST(test_damage)
{
    make_synthetic(&oldest);
    uint8_t *cubin = bytes_of_section(synthetic.part[CUBIN]);
    Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)cubin, good_header = *header;
    Elf64_Shdr *text = section_of(cubin, 2), good_text = *text, *symbols = section_of(cubin, 3), good_symbols = *symbols;
    Elf64_Sym *symbol = (Elf64_Sym *)(void *)(cubin + symbols->sh_offset) + 1;

    header->e_machine = EM_X86_64;
    refuse(CUFENCE_ERROR_CORRUPT, "headers");
    *header = good_header;
    header->e_phnum = 1; /* no program header */
    header->e_phoff = UINT64_MAX - 20;
    header->e_phentsize = sizeof(Elf64_Phdr);
    refuse(CUFENCE_ERROR_CORRUPT, "headers");
    header->e_phoff = 8; /* a segment of other bytes */
    refuse(CUFENCE_ERROR_CORRUPT, "headers");
    header->e_phentsize = 1;
    refuse(CUFENCE_ERROR_CORRUPT, "headers");
    *header = good_header;
    header->e_shoff = UINT64_MAX - 63;
    refuse(CUFENCE_ERROR_NOT_FOUND, "_Z3oobPi");
    *header = good_header;

    text->sh_offset = UINT64_MAX - 15;
    refuse(CUFENCE_ERROR_CORRUPT, "outside the file");
    *text = good_text;
    text->sh_size = 0x70; /* the kernel is longer */
    refuse(CUFENCE_ERROR_CORRUPT, "code is not in it");
    *text = good_text;
    text->sh_addr += 0x10; /* the kernel starts before its section */
    refuse(CUFENCE_ERROR_CORRUPT, "code is not in it");
    *text = good_text;
    symbol->st_shndx = 77;
    refuse(CUFENCE_ERROR_CORRUPT, "code is not in it");
    symbol->st_shndx = 2;

    section_of(cubin, 1)->sh_type = SHT_PROGBITS;
    refuse(CUFENCE_ERROR_NOT_FOUND, "_Z3oobPi");
    section_of(cubin, 1)->sh_type = SHT_STRTAB;
    *text = (Elf64_Shdr){.sh_type = SHT_REL, .sh_size = 16, .sh_info = 2, .sh_addr = KERNEL_START};
    refuse(CUFENCE_ERROR_UNSUPPORTED, "second time");
    *text = good_symbols;
    refuse(CUFENCE_ERROR_CORRUPT, "one symbol table");
    *text = good_text;
}

/* ---- variables, in cubins of nvcc 13.0 for three architectures (tests/gpu/programs/variables.cu) ---- */

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
