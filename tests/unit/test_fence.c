/*
 * Barriers in front of exits: the bytes for every architecture, with and without room for them; what is refused.
 */
#include "support/test.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/fence.h"
#include "analysis/sass/sass.h"

#include "coredump_builder.h"

static struct problem problem;

/* The symbols: the kernel, a function behind it in the same section, and a function in another section. */
#define NAMES "\0kernel\0$kernel$inner\0other"
enum { KERNEL_NAME = 1, INNER_NAME = 8, OTHER_NAME = 22, CODE_LIMIT = 512, OTHER_COUNT = 8 };

#define EXIT_LOW 0x000000000000794du
#define EXIT_HIGH 0x000fea0003800000u
static const struct sass_instruction store = {0x0000000702007986, 0x000fe2000c101904};
static const struct sass_instruction plain_exit = {EXIT_LOW, EXIT_HIGH};
static const struct sass_instruction nop = {0x0000000000007918, 0x000fc00000000000};
static const struct sass_instruction self_80 = {0xfffffff000007947, 0x000fc0000383ffff};
static const struct sass_instruction self_90 = {0xfffffffc00fc7947, 0x000fc0000383ffff};

static struct cubin {
    uint8_t *bytes;
    size_t size;
    uint64_t text, symbols, header; /* offsets: the code, its function symbols, its section header */
    size_t count;                   /* instructions in the section */
} cubin;                            /* the one that was made last */

static void assert_code(uint64_t text, size_t index, struct sass_instruction expected)
{
    assert_true(text + index * 16 + 16 <= cubin.size);
    struct sass_instruction found = sass_load(cubin.bytes + text + index * 16);
    assert_int_equal(found.low, expected.low);
    assert_int_equal(found.high, expected.high);
}

/* Makes a cubin whose kernel has these instructions, followed by `padding` NOPs. */
static void make_cubin(unsigned sm, const struct sass_instruction *code, size_t count, size_t padding)
{
    struct dump_builder builder;
    free(cubin.bytes);
    cubin.count = count + padding;
    builder_start(&builder);
    uint32_t strings = builder_add(&builder, SHT_STRTAB, 0, sizeof(NAMES), 0, 0);
    builder_put(&builder, strings, 0, NAMES, sizeof(NAMES));
    uint32_t text = builder_add(&builder, SHT_PROGBITS, 0, cubin.count * 16, 0, 0);
    uint32_t other = builder_add(&builder, SHT_PROGBITS, 0, OTHER_COUNT * 16, 0, 0);
    builder.sections[text].sh_flags = builder.sections[other].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
    for (size_t i = 0; i < cubin.count; i++)
        builder_put(&builder, text, i * 16, i < count ? &code[i] : &nop, 16);
    for (size_t i = 0; i < OTHER_COUNT; i++)
        builder_put(&builder, other, i * 16, &plain_exit, 16);
    uint32_t symbols = builder_add(&builder, SHT_SYMTAB, sizeof(Elf64_Sym), 4 * sizeof(Elf64_Sym), strings, 0);
    const Elf64_Sym functions[] = {
        {KERNEL_NAME, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)text, 0, cubin.count * 16},
        {INNER_NAME, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, (uint16_t)text, 16, (cubin.count - 1) * 16},
        {OTHER_NAME, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, (uint16_t)other, 0, sizeof(Elf64_Sym)},
    };
    builder_put(&builder, symbols, sizeof(Elf64_Sym), functions, sizeof(functions));
    const uint8_t *file = builder_finish(&builder, 0xBE, &cubin.size);
    cubin.bytes = malloc(cubin.size);
    assert_non_null(cubin.bytes);
    memcpy(cubin.bytes, file, cubin.size);
    cubin.text = builder.sections[text].sh_offset;
    cubin.symbols = builder.sections[symbols].sh_offset + sizeof(Elf64_Sym);
    Elf64_Ehdr header;
    memcpy(&header, cubin.bytes, sizeof(header));
    cubin.header = header.e_shoff + text * sizeof(Elf64_Shdr);
    header.e_ident[EI_OSABI] = 0x41;
    header.e_flags = 0x06000004 | sm << 8;
    memcpy(cubin.bytes, &header, sizeof(header));
    builder_end(&builder);
}

static struct fence hold(uint64_t at)
{
    struct fence fence;
    assert_int_equal(fence_put(&cubin.bytes, &cubin.size, "kernel", at, &fence, &problem), CUFENCE_OK);
    return fence;
}

static struct fence put(void)
{
    return hold(FENCE_NO_ACCESS);
}

/* What nvdisasm prints as MEMBAR.SC.GPU, ERRBAR, CGAERRBAR (sm_90 on), CCTL.IVALL, EXIT. */
static void assert_stub(uint64_t text, size_t index, unsigned sm)
{
    assert_code(text, index++, (struct sass_instruction){0x0000000000007992, 0x000fec0000002000});
    assert_code(text, index++, (struct sass_instruction){0x00000000000079ab, 0x000fc00000000000});
    if (sm >= 90)
        assert_code(text, index++, (struct sass_instruction){0x00000000000075ab, 0x000fec0000000000});
    uint64_t schedule = sm >= 90 ? 0x000fe20002000000 : 0x000fca0002000000;
    assert_code(text, index++, (struct sass_instruction){0x00000000ff00798f, schedule});
    assert_code(text, index, plain_exit);
}

/* Exits at the start of code of `count` instructions, and the branches that nvdisasm prints as in the comment. To check again:
 * write the two words, low first, as a file, and print it with `nvdisasm -b SM90`. The encodings of the barriers are in the
 * output of `nvdisasm -hex` for a kernel that ends in __threadfence_system(), compiled with `nvcc -cubin -arch=sm_90`. */
static const struct branch_case {
    unsigned sm;
    size_t count;
    uint64_t exit_low, high, branch_low;
} branches[] = {
    {80, 2, 0x000000000000794d, 0x000fea0003800000, 0x0000001000007947},    /* EXIT; BRA 0x20 */
    {80, 9, 0x000000000000094d, 0x001fea0003800000, 0x0000008000000947},    /* @P0 EXIT; @P0 BRA 0x90 */
    {80, 300, 0x000000000000b94d, 0x004fe20003800000, 0x000012b00000b947},  /* @!P3 EXIT; @!P3 BRA 0x12c0 */
    {86, 2, 0x000000000000f94d, 0x000fec0003800000, 0x000000100000f947},    /* @!PT EXIT; @!PT BRA 0x20 */
    {86, 9, 0x000000000000794d, 0x000fea0003800000, 0x0000008000007947},    /* EXIT; BRA 0x90 */
    {86, 300, 0x000000000000094d, 0x001fea0003800000, 0x000012b000000947},  /* @P0 EXIT; @P0 BRA 0x12c0 */
    {89, 2, 0x000000000000b94d, 0x004fe20003800000, 0x000000100000b947},    /* @!P3 EXIT; @!P3 BRA 0x20 */
    {89, 9, 0x000000000000f94d, 0x000fec0003800000, 0x000000800000f947},    /* @!PT EXIT; @!PT BRA 0x90 */
    {89, 300, 0x000000000000794d, 0x000fea0003800000, 0x000012b000007947},  /* EXIT; BRA 0x12c0 */
    {90, 2, 0x000000000000094d, 0x001fea0003800000, 0x0000000000040947},    /* @P0 EXIT; @P0 BRA 0x20 */
    {90, 9, 0x000000000000b94d, 0x004fe20003800000, 0x000000000020b947},    /* @!P3 EXIT; @!P3 BRA 0x90 */
    {90, 300, 0x000000000000f94d, 0x000fec0003800000, 0x0000001000acf947},  /* @!PT EXIT; @!PT BRA 0x12c0 */
    {100, 2, 0x000000000000794d, 0x000fea0003800000, 0x0000000000047947},   /* EXIT; BRA 0x20 */
    {100, 9, 0x000000000000094d, 0x001fea0003800000, 0x0000000000200947},   /* @P0 EXIT; @P0 BRA 0x90 */
    {100, 300, 0x000000000000b94d, 0x004fe20003800000, 0x0000001000acb947}, /* @!P3 EXIT; @!P3 BRA 0x12c0 */
    {120, 2, 0x000000000000f94d, 0x000fec0003800000, 0x000000000004f947},   /* @!PT EXIT; @!PT BRA 0x20 */
    {120, 9, 0x000000000000794d, 0x000fea0003800000, 0x0000000000207947},   /* EXIT; BRA 0x90 */
    {120, 300, 0x000000000000094d, 0x001fea0003800000, 0x0000001000ac0947}, /* @P0 EXIT; @P0 BRA 0x12c0 */
};

TEST(test_encodings)
{
    for (size_t i = 0; i < sizeof(branches) / sizeof(branches[0]); i++) {
        const struct branch_case *wanted = &branches[i];
        struct sass_instruction code[CODE_LIMIT];
        for (size_t at = 0; at < wanted->count; at++)
            code[at] = store;
        code[0] = (struct sass_instruction){wanted->exit_low, wanted->high};
        code[wanted->count - 1] = wanted->sm < 90 ? self_80 : self_90;
        make_cubin(wanted->sm, code, wanted->count, 8);
        size_t size = cubin.size;
        struct fence fence = put();
        assert_int_equal(fence.fenced, 1);
        assert_int_equal(cubin.size, size);
        assert_code(cubin.text, 0, (struct sass_instruction){wanted->branch_low, wanted->high});
        for (size_t at = 1; at < wanted->count; at++)
            assert_code(cubin.text, at, code[at]);
        assert_stub(cubin.text, wanted->count, wanted->sm);
        for (size_t at = wanted->count + (wanted->sm < 90 ? 4 : 5); at < cubin.count; at++)
            assert_code(cubin.text, at, nop);
    }
}

/* Several exits, one of them in a function behind the kernel. Those in other sections stay. */
TEST(test_exits)
{
    const struct sass_instruction code[] = {{0x294d, EXIT_HIGH}, store,  {0xa94d, EXIT_HIGH}, plain_exit, self_90,
                                            plain_exit,          self_90};
    make_cubin(90, code, 7, 8);
    struct fence fence = put();
    assert_int_equal(fence.fenced, 4);
    assert_code(cubin.text, 0, (struct sass_instruction){0x0000000000182947, EXIT_HIGH}); /* @P2 BRA 0x70 */
    assert_code(cubin.text, 2, (struct sass_instruction){0x000000000010a947, EXIT_HIGH}); /* @!P2 BRA 0x70 */
    assert_code(cubin.text, 3, (struct sass_instruction){0x00000000000c7947, EXIT_HIGH}); /* BRA 0x70 */
    assert_code(cubin.text, 5, (struct sass_instruction){0x0000000000047947, EXIT_HIGH}); /* BRA 0x70 */
    assert_stub(cubin.text, 7, 90);
    for (size_t i = 0; i < OTHER_COUNT; i++)
        assert_code(cubin.text + cubin.count * 16, i, plain_exit);
}

/* Exits that say more than a branch could. */
TEST(test_other_forms)
{
    const struct sass_instruction code[] = {{EXIT_LOW, 0x000fea0003900000},  /* EXIT.KEEPREFCOUNT */
                                            {EXIT_LOW, 0x000fea0003c00000},  /* EXIT.NO_ATEXIT */
                                            {EXIT_LOW, 0x000fea0003000000},  /* EXIT P6 */
                                            {0x000000000003794d, EXIT_HIGH}, /* not known */
                                            {0x000000000000734d, EXIT_HIGH}, /* the same */
                                            plain_exit,
                                            self_90};
    make_cubin(90, code, 7, 8);
    struct fence fence = put();
    assert_int_equal(fence.fenced, 1);
    for (size_t i = 0; i < 5; i++)
        assert_code(cubin.text, i, code[i]);
    assert_code(cubin.text, 5, (struct sass_instruction){0x0000000000047947, EXIT_HIGH});

    /* There is nothing to do if no exit can be fenced, or if there is none. */
    for (size_t skip = 0; skip < 6; skip += 5) {
        struct sass_instruction rest[7];
        memcpy(rest, code, sizeof(rest));
        for (size_t i = 0; i < 6; i++)
            if (i < skip || i == 5)
                rest[i] = store;
        make_cubin(90, rest, 7, 0);
        size_t size = cubin.size;
        fence = put();
        assert_int_equal(fence.fenced, 0);
        assert_int_equal(cubin.size, size);
        for (size_t i = 0; i < 7; i++)
            assert_code(cubin.text, i, rest[i]);
    }
}

/* With too few NOPs for the barriers, the code moves to the end of the file. */
TEST(test_move)
{
    for (unsigned sm = 80; sm <= 90; sm += 10) {
        for (size_t padding = 0; padding < 6; padding++) {
            const struct sass_instruction self = sm < 90 ? self_80 : self_90;
            const struct sass_instruction code[] = {store, {0x094d, EXIT_HIGH}, store, plain_exit, self};
            make_cubin(sm, code, 5, padding);
            size_t size = cubin.size;
            uint64_t text = cubin.text;
            struct fence fence = put();
            int must_move = padding < (sm < 90 ? 4 : 5);
            assert_int_equal(cubin.size > size, must_move);
            assert_int_equal(fence.fenced, 2);
            Elf64_Shdr header;
            Elf64_Sym symbols[3];
            memcpy(&header, cubin.bytes + cubin.header, sizeof(header));
            memcpy(symbols, cubin.bytes + cubin.symbols, sizeof(symbols));
            if (must_move) {
                text = (size + 127) / 128 * 128;
                assert_int_equal(cubin.size, text + 256);
                assert_code(cubin.text, 1, code[1]); /* the former place is as it was */
            }
            assert_int_equal(header.sh_offset, text);
            assert_int_equal(header.sh_size, must_move ? 256 : (5 + padding) * 16);
            assert_int_equal(symbols[0].st_size, header.sh_size);
            assert_int_equal(symbols[1].st_size, (4 + padding) * 16);
            assert_int_equal(symbols[2].st_size, sizeof(Elf64_Sym));
            assert_code(text, 0, store);
            uint64_t branch = sm < 90 ? 0x0000003000000947 : 0x00000000000c0947; /* @P0 BRA 0x50 */
            assert_code(text, 1, (struct sass_instruction){branch, EXIT_HIGH});
            assert_code(text, 4, self);
            assert_stub(text, 5, sm);
            for (size_t i = sm < 90 ? 9 : 10; i < header.sh_size / 16; i++)
                assert_code(text, i, nop);
        }
    }
}

/* The access that faults goes to a stub, with those of its kind and width. What nvdisasm prints is in the comments. */
#define BRANCH_HIGH 0x000fea0003800000u
static const struct sass_instruction load_self = {0x0000000402027981, 0x002ea4000c1e1900}; /* LDG.E R2, desc[UR4][R2.64] */
static const struct sass_instruction atomic_self = {0x0000000b040579a8,
                                                    0x000ee200081ee1c4}; /* ATOMG.E.ADD R5, desc[UR4][R4.64], R11 */

static struct span code_of(void)
{
    Elf64_Shdr header;
    memcpy(&header, cubin.bytes + cubin.header, sizeof(header));
    return (struct span){cubin.bytes + header.sh_offset, header.sh_size};
}

/* Expects each of `count` instructions from the stub on to be told as `access` at `origin`, or as nothing. */
static void expect_origins(struct span code, unsigned sm, const char *told, uint64_t stub, uint64_t origin,
                           struct sass_instruction access)
{
    for (uint64_t i = 0; told[i]; i++) {
        struct sass_instruction found = {1, 1};
        uint64_t at = 1, end = 1;
        assert_int_equal(fence_origin(code, sm, stub + i * 16, &at, &end, &found), told[i] == 'x');
        assert_int_equal(end, told[i] == 'x' ? stub + 16 * strlen(told) : 1);
        assert_int_equal(at, told[i] == 'x' ? origin : 1);
        assert_int_equal(found.low, told[i] == 'x' ? access.low : 1);
        assert_int_equal(found.high, told[i] == 'x' ? access.high : 1);
    }
}

TEST(a_store_is_held)
{
    static const struct {
        unsigned sm;
        uint64_t there_low, back_low, back_high;
        size_t barriers;
        const char *told;
    } cases[] = {
        {80, 0x0000008000007947, 0xffffff3000007947, 0x000fea000383ffff, 2, "x----"},  /* BRA 0xa0; BRA 0x20 */
        {90, 0x0000000000247947, 0xfffffffc00c47947, 0x000fea000383ffff, 3, "x-----"}, /* BRA 0xb0; BRA 0x20 */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const unsigned sm = cases[i].sm;
        const struct sass_instruction self = sm < 90 ? self_80 : self_90;
        /* The predicate stays with the store, and its scoreboards are waited for. */
        const struct sass_instruction held = {0x0000000702000986, 0x0003e2000c101904};
        const struct sass_instruction code[] = {nop, held, nop, nop, plain_exit, self};
        make_cubin(sm, code, 6, 8);
        struct fence fence = hold(16);
        assert_int_equal(fence.held, 1);
        assert_int_equal(fence.fenced, 1);
        struct span text = code_of();
        uint64_t at = (uint64_t)(text.bytes - cubin.bytes);
        size_t stub = 6 + (sm < 90 ? 4 : 5);
        assert_code(at, 1, (struct sass_instruction){cases[i].there_low, BRANCH_HIGH});
        assert_stub(at, 6, sm);
        assert_code(at, stub, held);
        assert_code(at, stub + 1, (struct sass_instruction){0x0000000000007992, 0x002fec0000002000}); /* waits for SB1 */
        assert_code(at, stub + 2, (struct sass_instruction){0x00000000000079ab, 0x000fc00000000000});
        assert_code(at, stub + 1 + cases[i].barriers, nop);
        assert_code(at, stub + 2 + cases[i].barriers, (struct sass_instruction){cases[i].back_low, cases[i].back_high});
        expect_origins(text, sm, "------", 0, 0, held);
        expect_origins(text, sm, cases[i].told, stub * 16, 16, held);
        expect_origins(text, sm, "-", text.size, 0, held);
    }
}

/* Before what overwrites its own address, a load into no register faults. */
TEST(what_overwrites_its_address_is_held)
{
    const struct {
        struct sass_instruction access, probe;
        uint64_t barrier_high;
    } cases[] = {
        {load_self, {0x0000000402ff7981, 0x002ea4000c1e1900}, 0x004fec0000002000},   /* LDG.E RZ, desc[UR4][R2.64] */
        {atomic_self, {0x0000000404ff7981, 0x000ee2000c1e1100}, 0x008fec0000002000}, /* LDG.E.U8 RZ, desc[UR4][R4.64] */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sass_instruction code[] = {cases[i].access, store, plain_exit, self_90};
        make_cubin(90, code, 4, 8);
        assert_int_equal(hold(0).held, 1);
        struct span text = code_of();
        uint64_t at = (uint64_t)(text.bytes - cubin.bytes);
        assert_code(at, 1, store); /* another kind */
        assert_code(at, 9, cases[i].probe);
        assert_code(at, 10, (struct sass_instruction){0x0000000000007992, cases[i].barrier_high});
        assert_code(at, 13, cases[i].access);
        expect_origins(text, 90, "x---x-", 9 * 16, 0, cases[i].access);
    }
}

/* Code without an exit that can be fenced; and more accesses than are held. The one that faulted is among them. */
TEST(accesses_of_a_kind_are_held)
{
    struct sass_instruction code[CODE_LIMIT];
    for (size_t i = 0; i < 100; i++)
        code[i] = i % 3 == 0 ? load_self : store;
    code[100] = self_90;
    make_cubin(90, code, 101, 0);
    size_t size = cubin.size;
    assert_int_equal(hold(98 * 16).held, FENCE_HELD);
    assert_true(cubin.size > size);
    struct span text = code_of();
    expect_origins(text, 90, "x-----", (101 + 5) * 16, 98 * 16, store);
    for (uint64_t at = 8; at <= 4096; at += 101 * 16 - 8) { /* none: inside an instruction, the branch, behind the end */
        make_cubin(90, code, 101, 0);
        assert_int_equal(hold(at).held, 0);
    }
}

static void refuse(const char *symbol, cufence_status status, const char *words)
{
    struct fence fence;
    uint8_t *before = malloc(cubin.size), *same = cubin.bytes;
    assert_non_null(before);
    memcpy(before, cubin.bytes, cubin.size);
    size_t size = cubin.size;
    assert_int_equal(fence_put(&cubin.bytes, &cubin.size, symbol, FENCE_NO_ACCESS, &fence, &problem), status);
    assert_non_null(strstr(problem.text, words));
    assert_ptr_equal(cubin.bytes, same);
    assert_int_equal(cubin.size, size);
    assert_memory_equal(cubin.bytes, before, size);
    free(before);
}

static void set_flags(uint8_t abi, uint32_t flags)
{
    cubin.bytes[EI_OSABI] = abi;
    memcpy(cubin.bytes + offsetof(Elf64_Ehdr, e_flags), &flags, sizeof(flags));
}

TEST(test_architectures)
{
    static const struct {
        uint8_t abi;
        uint32_t flags;
        int is_known;
    } cases[] = {{0x41, 0x0a005a04, 1},
                 {0x33, 0x005a0d5a, 1},
                 {0x41, 0x06006402, 1},
                 {0x41, 0x06007802, 1},
                 {0x33, 0x00640564, 1},
                 {0x41, 0x06004b04, 0},
                 {0x33, 0x004b054b, 0},
                 {0x33, 0x0a005a04, 0},
                 {0x41, 0x06005b04, 0},
                 {0x41, 0x0600ff04, 0},
                 {0, 0, 0}};
    const struct sass_instruction code[] = {plain_exit, self_90};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_cubin(90, code, 2, 8);
        set_flags(cases[i].abi, cases[i].flags);
        if (!cases[i].is_known) {
            refuse("kernel", CUFENCE_ERROR_UNSUPPORTED, "was compiled for sm_");
            continue;
        }
        assert_int_equal(put().fenced, 1);
        assert_stub(cubin.text, 2, 90);
    }
}

TEST(test_refusals)
{
    const struct sass_instruction code[] = {plain_exit, store, {0x0000000000080947, EXIT_HIGH}};
    make_cubin(90, code, 3, 8);
    refuse("kerne", CUFENCE_ERROR_NOT_FOUND, "no kernel kerne");
    refuse("kernel", CUFENCE_ERROR_UNSUPPORTED, "last instruction"); /* a branch that may not be taken */
    make_cubin(90, code, 0, 8);                                      /* NOPs only */
    refuse("kernel", CUFENCE_ERROR_UNSUPPORTED, "last instruction");
    Elf64_Shdr header, wrong;
    memcpy(&header, cubin.bytes + cubin.header, sizeof(header));
    for (unsigned i = 0; i < 6; i++) {
        wrong = header;
        wrong.sh_type = i == 0 ? SHT_NOBITS : header.sh_type;
        wrong.sh_flags = i == 1 ? SHF_ALLOC : header.sh_flags;
        wrong.sh_offset = i == 2 ? UINT64_MAX - 15 : i == 3 ? cubin.size - 16 : header.sh_offset;
        wrong.sh_size = i == 4 ? 24 : i == 5 ? UINT64_MAX / 16 * 16 : header.sh_size;
        memcpy(cubin.bytes + cubin.header, &wrong, sizeof(wrong));
        refuse("kernel", CUFENCE_ERROR_CORRUPT, "code is not in it");
    }
}
