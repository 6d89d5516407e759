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
/* Of these, what holds a warp. The cache need not be emptied. */
enum { BARRIERS_80 = 2, BARRIERS_90 = 3 };

static const uint8_t architectures[] = {80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

#define NOP ((struct sass_instruction){0x0000000000007918, 0x000fc00000000000})
#define SECTION_ALIGNMENT 128u
/* Branches within longer code may not fit in one word. */
#define CODE_LIMIT ((uint64_t)1 << 30)
/* There: the scoreboards that it sets when its result is there, and when it has read its registers (7: none); those that it
 * waits for, a bit each. */
#define HIGH_WORD 64u
#define RESULT_AT (HIGH_WORD + 46)
#define READ_AT (HIGH_WORD + 49)
#define WAITS_AT (SASS_SCHEDULE_AT + 11)
/* BRA, always. */
#define BRANCH ((struct sass_instruction){0x0000000000007947, 0x000fea0003800000})

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
    uint64_t held[FENCE_HELD]; /* offsets of accesses */
    unsigned held_count;
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
    if (!image_open(bytes, size, &image) || image.machine != COREDUMP_MACHINE)
        return corrupt(problem, "its headers are not valid");
    if (!cubin_find_named(image.file, symbol, NULL, &entry))
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

/* Without operands and modifiers, but for the predicate. */
static int is_plain_exit(struct sass_instruction instruction)
{
    return (instruction.low & ~(uint64_t)0xf000) == 0x94d && sass_bits(instruction, HIGH_WORD, SASS_SCHEDULE_AT) == 0x3800000;
}

static void count_exits(const struct code *code, struct fence *fence)
{
    *fence = (struct fence){0};
    for (uint64_t at = 0; at < code->size; at += SASS_INSTRUCTION_BYTES)
        fence->fenced += is_plain_exit(instruction_at(code, at)) != 0;
}

/* Returns `like`, an EXIT or a BRA without offset, as a BRA with the predicate and the schedule of that; `distance`: bytes from
 * the next instruction, at most CODE_LIMIT in either direction. The reverse of instruction_branch_offset(). */
static struct sass_instruction branch(struct sass_instruction like, int64_t distance, unsigned sm)
{
    uint64_t far = (uint64_t)distance, words = (uint64_t)(distance / 4); /* a multiple of 16 */
    uint64_t low = sm < 90 ? far << 32 : (words & 0xff) << 16 | words >> 8 << 34;
    uint64_t high = distance < 0 ? 0x3ffff : 0; /* its sign, up to [81] */
    return (struct sass_instruction){(like.low & 0xf000) | 0x947 | low, like.high | high};
}

static unsigned barriers_of(unsigned sm)
{
    return sm < 90 ? BARRIERS_80 : BARRIERS_90;
}

static uint64_t held_size(const struct code *code)
{
    return (barriers_of(code->sm) + 3ul) * SASS_INSTRUCTION_BYTES;
}

/* Of the exits' barriers, and of all stubs. */
static uint64_t added_size(const struct code *code)
{
    return code->stub_size + code->held_count * held_size(code);
}

/* Moves the code to the end of the file, with space for the stub. */
static cufence_status move(struct code *code, uint8_t **image, size_t *size, struct problem *problem)
{
    uint64_t at = (*size + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT;
    uint64_t grown = code->size + added_size(code);
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
            put_instruction(text + at, branch(instruction, (int64_t)(code->size - at - SASS_INSTRUCTION_BYTES), code->sm));
    }
    for (uint64_t at = 0; at < code->stub_size; at += SASS_INSTRUCTION_BYTES)
        put_instruction(text + code->size + at, code->stub[at / SASS_INSTRUCTION_BYTES]);
}

/* Finds the accesses to be held: the one at `at`, and those like it. Those in the rest of the section are in functions that the
 * kernel calls. */
static void find_held(struct code *code, uint64_t at)
{
    struct sass_access wanted = {.kind = ACCESS_UNKNOWN}, access;
    int is_at = at < code->size && at % SASS_INSTRUCTION_BYTES == 0 && sass_decode(instruction_at(code, at), code->sm, &wanted);
    if (is_at)
        code->held[code->held_count++] = at;
    else if (at != FENCE_STORES)
        return;
    for (uint64_t other = 0; other < code->size && code->held_count < FENCE_HELD; other += SASS_INSTRUCTION_BYTES) {
        int is_access = other != at && sass_decode(instruction_at(code, other), code->sm, &access);
        if (is_access && (is_at ? access.kind == wanted.kind && access.bytes == wanted.bytes : access.kind != ACCESS_READ))
            code->held[code->held_count++] = other;
    }
}

/* Returns 1 if the access overwrites its own address, and has a probe. */
static int is_probed(struct sass_instruction instruction, unsigned sm, struct sass_instruction *probe)
{
    struct sass_access access;
    return sass_decode(instruction, sm, &access) && access.base != SASS_RZ &&
           sass_writes_register(instruction, access.base, access.is_base_wide ? 2 : 1) && sass_probe(instruction, sm, probe);
}

/* Returns a barrier that waits for what the access sets. */
static struct sass_instruction after(struct sass_instruction barrier, struct sass_instruction access)
{
    static const unsigned sets[] = {RESULT_AT, READ_AT};
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
        if (sass_bits(access, sets[i], 3) < 6)
            barrier.high |= (uint64_t)1 << (WAITS_AT + sass_bits(access, sets[i], 3));
    return barrier;
}

/* Writes the stub of the access at `at`: | access | barriers | NOP | BRA back |, or | probe | barriers | access | BRA back |.
 */
static void write_held(const struct code *code, uint64_t at, uint64_t stub)
{
    uint8_t *text = code->bytes + code->header.sh_offset;
    struct sass_instruction access = instruction_at(code, at), first = access;
    int has_probe = is_probed(access, code->sm, &first);
    unsigned barriers = barriers_of(code->sm);
    put_instruction(text + at, branch(BRANCH, (int64_t)(stub - at - SASS_INSTRUCTION_BYTES), code->sm));
    put_instruction(text + stub, first);
    for (unsigned i = 0; i < barriers; i++)
        put_instruction(text + (stub += SASS_INSTRUCTION_BYTES), i ? code->stub[i] : after(code->stub[i], first));
    put_instruction(text + (stub += SASS_INSTRUCTION_BYTES), has_probe ? access : NOP);
    stub += SASS_INSTRUCTION_BYTES;
    put_instruction(text + stub, branch(BRANCH, (int64_t)at - (int64_t)stub, code->sm));
}

static struct sass_instruction at_offset(struct span code, uint64_t at)
{
    struct span bytes = span_part(code, at, SASS_INSTRUCTION_BYTES);
    return bytes.bytes ? sass_load(bytes.bytes) : (struct sass_instruction){0, 0};
}

/* Returns where a branch without a predicate goes; UINT64_MAX if this is none. */
static uint64_t target_of(struct span code, uint64_t at, unsigned sm)
{
    struct sass_instruction instruction = at_offset(code, at);
    return sass_opcode(instruction) == 0x147 && way_of(instruction) == WAY_END
               ? at + SASS_INSTRUCTION_BYTES + (uint64_t)instruction_branch_offset(instruction, sm)
               : UINT64_MAX;
}

int fence_origin(struct span code, unsigned sm, uint64_t offset, uint64_t *origin, uint64_t *end,
                 struct sass_instruction *access)
{
    const uint64_t second = (barriers_of(sm) + 1ul) * SASS_INSTRUCTION_BYTES;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t stub = i ? offset - second : offset;
        uint64_t back = target_of(code, stub + second + SASS_INSTRUCTION_BYTES, sm);
        if (back == UINT64_MAX || target_of(code, back - SASS_INSTRUCTION_BYTES, sm) != stub)
            continue;
        struct sass_instruction last = at_offset(code, stub + second);
        if (i && last.low == NOP.low)
            return 0;
        *access = last.low == NOP.low ? at_offset(code, stub) : last;
        *origin = back - SASS_INSTRUCTION_BYTES;
        *end = stub + second + 2ul * SASS_INSTRUCTION_BYTES;
        return 1;
    }
    return 0;
}

cufence_status fence_put(uint8_t **image, size_t *size, const char *symbol, uint64_t access_at, struct fence *fence,
                         struct problem *problem)
{
    struct code code = {0};
    cufence_status status = find_code(*image, *size, symbol, &code, problem) ?: find_end(&code, problem);
    if (status != CUFENCE_OK)
        return status;
    count_exits(&code, fence);
    find_held(&code, access_at);
    if (!fence->fenced && !code.held_count)
        return CUFENCE_OK;
    if (code.header.sh_size - code.size < added_size(&code)) {
        status = move(&code, image, size, problem);
        if (status != CUFENCE_OK)
            return status;
        tell_size(&code);
    }
    write_fence(&code);
    fence->held = code.held_count;
    for (unsigned i = 0; i < code.held_count; i++) /* behind the exits' barriers */
        write_held(&code, code.held[i], code.size + code.stub_size + i * held_size(&code));
    return CUFENCE_OK;
}
