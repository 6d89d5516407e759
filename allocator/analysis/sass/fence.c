#include "fence.h"

#include "analysis/dump/coredump.h"
#include "analysis/lines/cubin.h"
#include "emulate_state.h"
#include "ways.h"

#include <stdlib.h>
#include <string.h>

/* How ptxas ends a kernel with __threadfence(). A barrier of system scope won't do: drivers replace it by code of their own,
 * which keeps an address in R2 and R3 while it waits (580.159 on an H100), so the dump would show that address as the kernel's.
 */
static const struct sass_instruction stub_80[] = {
    {0x0000000000007992, 0x000fec0000002000}, /* MEMBAR.SC.GPU */
    {0x00000000000079ab, 0x000fc00000000000}, /* ERRBAR */
    {0x00000000ff00798f, 0x000fca0002000000}, /* CCTL.IVALL */
    {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
};
static const struct sass_instruction stub_90[] = {
    {0x0000000000007992, 0x000fec0000002000}, /* MEMBAR.SC.GPU */
    {0x00000000000079ab, 0x000fc00000000000}, /* ERRBAR */
    {0x00000000000075ab, 0x000fec0000000000}, /* CGAERRBAR */
    {0x00000000ff00798f, 0x000fe20002000000}, /* CCTL.IVALL */
    {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
};

static const uint8_t architectures[] = {80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

#define NOP ((struct sass_instruction){0x0000000000007918, 0x000fc00000000000})
#define SECTION_ALIGNMENT 128u
/* Branches within longer code may not fit in one word. */
#define CODE_LIMIT ((uint64_t)1 << 30)
/* In the high word, from here on: when the instruction may start. */
#define SCHEDULE_BIT 41

struct code {
    uint8_t *bytes;
    uint32_t section;
    Elf64_Shdr header;
    uint64_t header_at;                /* offset of the header in the file */
    uint64_t symbols_at, symbols_size; /* the symbol table */
    unsigned sm;
    uint64_t size; /* without the NOPs at its end */
    const struct sass_instruction *stub;
    uint64_t stub_size;
};

static cufence_status choose_stub(const Elf64_Ehdr *header, struct code *code, struct problem *problem)
{
    code->sm = cubin_architecture(header);
    int is_known = memchr(architectures, (int)code->sm, sizeof(architectures)) != NULL;
    code->stub = code->sm < 90 ? stub_80 : stub_90;
    code->stub_size = code->sm < 90 ? sizeof(stub_80) : sizeof(stub_90);
    return is_known ? CUFENCE_OK
                    : problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                                  "the module was compiled for sm_%u, and cufence knows the barriers of sm_80 to sm_121 only",
                                  code->sm);
}

static struct sass_instruction instruction_at(const struct code *code, uint64_t at)
{
    return sass_load(code->bytes + code->header.sh_offset + at);
}

static void put_instruction(uint8_t *to, struct sass_instruction instruction)
{
    memcpy(to, &instruction.low, 8);
    memcpy(to + 8, &instruction.high, 8);
}

/* Sets the size without the NOPs at the end. */
static cufence_status find_end(struct code *code, struct problem *problem)
{
    code->size = code->header.sh_size;
    while (code->size && instruction_at(code, code->size - SASS_INSTRUCTION_BYTES).low == NOP.low)
        code->size -= SASS_INSTRUCTION_BYTES;
    if (!code->size || way_of(instruction_at(code, code->size - SASS_INSTRUCTION_BYTES)) != WAY_END)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                           "the last instruction of the kernel's code is not an unconditional branch");
    return CUFENCE_OK;
}

static cufence_status corrupt(struct problem *problem, const char *what)
{
    return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the kernel's module is damaged: %s", what);
}

/* Finds the section of the kernel's code, and everything that describes it. */
static cufence_status find_code(uint8_t *bytes, size_t size, const char *symbol, struct code *code, struct problem *problem)
{
    struct image image;
    Elf64_Ehdr header;
    Elf64_Sym entry;
    Elf64_Shdr section;
    uint64_t work = UINT64_MAX; /* one cubin is searched once */
    if (!image_open(bytes, size, &image) || image.machine != COREDUMP_MACHINE)
        return corrupt(problem, "its headers are not valid");
    if (!cubin_find_named(image.file, symbol, &work, &entry))
        return problem_set(problem, CUFENCE_ERROR_NOT_FOUND, "the module has no kernel %.100s", symbol);
    memcpy(&header, bytes, sizeof(header));
    cufence_status status = choose_stub(&header, code, problem);
    if (status != CUFENCE_OK)
        return status;
    code->bytes = bytes;
    code->section = entry.st_shndx;
    code->header_at = header.e_shoff + (uint64_t)code->section * sizeof(section);
    if (!image_section(&image, code->section, &code->header) || code->header.sh_type != SHT_PROGBITS ||
        !(code->header.sh_flags & SHF_EXECINSTR) || !image_content(&image, &code->header).bytes ||
        code->header.sh_size % SASS_INSTRUCTION_BYTES != 0 || code->header.sh_size > CODE_LIMIT)
        return corrupt(problem, "the kernel's code is not in it");
    for (uint32_t i = 1; !code->symbols_size && image_section(&image, i, &section); i++) {
        code->symbols_at = section.sh_offset;
        code->symbols_size = section.sh_type == SHT_SYMTAB ? section.sh_size : 0;
    }
    return CUFENCE_OK;
}

static int is_exit(struct sass_instruction instruction)
{
    return sass_bits(instruction, 0, 9) == 0x14d;
}

/* Without operands and modifiers, but for the predicate. */
static int is_plain_exit(struct sass_instruction instruction)
{
    return (instruction.low & ~(uint64_t)0xf000) == 0x94d && sass_bits(instruction, 64, SCHEDULE_BIT) == 0x3800000;
}

static void count_exits(const struct code *code, struct fence *fence)
{
    *fence = (struct fence){0, 0, 0};
    for (uint64_t at = 0; at < code->size; at += SASS_INSTRUCTION_BYTES) {
        fence->exits += is_exit(instruction_at(code, at)) != 0;
        fence->fenced += is_plain_exit(instruction_at(code, at)) != 0;
    }
}

/* Returns BRA with the predicate and the schedule of an EXIT; `distance`: bytes from the next instruction, at most
 * CODE_LIMIT. The reverse of instruction_branch_offset(). */
static struct sass_instruction branch_from(struct sass_instruction exit, uint64_t distance, unsigned sm)
{
    uint64_t offset = sm < 90 ? distance << 32 : (distance / 4 & 0xff) << 16 | (distance / 4 >> 8) << 34;
    return (struct sass_instruction){(exit.low & 0xf000) | 0x947 | offset, exit.high};
}

/* Moves the code to the end of the file, with space for the stub. */
static cufence_status move(struct code *code, uint8_t **image, size_t *size, struct problem *problem)
{
    uint64_t at = (*size + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT;
    uint64_t grown = code->size + code->stub_size;
    grown = (grown + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT;
    uint8_t *bytes = realloc(*image, at + grown);
    if (!bytes)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "out of host memory for a module of %llu bytes",
                           (unsigned long long)at + grown);
    memset(bytes + *size, 0, at - *size);
    memcpy(bytes + at, bytes + code->header.sh_offset, code->size);
    for (uint64_t next = code->size; next < grown; next += SASS_INSTRUCTION_BYTES)
        put_instruction(bytes + at + next, NOP);
    *image = code->bytes = bytes;
    *size = at + grown;
    code->header.sh_offset = at;
    code->header.sh_size = grown;
    return CUFENCE_OK;
}

/* Writes the new place into the section header, and the size into the symbols of functions that start where the code does. */
static void tell_size(const struct code *code)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= code->symbols_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, code->bytes + code->symbols_at + at, sizeof(symbol));
        if (symbol.st_shndx != code->section || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
            symbol.st_value != code->header.sh_addr)
            continue;
        symbol.st_size = code->header.sh_size;
        memcpy(code->bytes + code->symbols_at + at, &symbol, sizeof(symbol));
    }
    memcpy(code->bytes + code->header_at, &code->header, sizeof(code->header));
}

static void write_fence(const struct code *code)
{
    uint8_t *text = code->bytes + code->header.sh_offset;
    for (uint64_t at = 0; at < code->size; at += SASS_INSTRUCTION_BYTES) {
        struct sass_instruction instruction = instruction_at(code, at);
        if (is_plain_exit(instruction))
            put_instruction(text + at, branch_from(instruction, code->size - at - SASS_INSTRUCTION_BYTES, code->sm));
    }
    for (uint64_t at = 0; at < code->stub_size; at += SASS_INSTRUCTION_BYTES)
        put_instruction(text + code->size + at, code->stub[at / SASS_INSTRUCTION_BYTES]);
}

cufence_status fence_put(uint8_t **image, size_t *size, const char *symbol, struct fence *fence, struct problem *problem)
{
    struct code code = {0};
    cufence_status status = find_code(*image, *size, symbol, &code, problem);
    if (status == CUFENCE_OK)
        status = find_end(&code, problem);
    if (status != CUFENCE_OK)
        return status;
    count_exits(&code, fence);
    if (!fence->fenced)
        return CUFENCE_OK;
    if (code.header.sh_size - code.size < code.stub_size) {
        status = move(&code, image, size, problem);
        if (status != CUFENCE_OK)
            return status;
        tell_size(&code);
        fence->is_moved = 1;
    }
    write_fence(&code);
    return CUFENCE_OK;
}
