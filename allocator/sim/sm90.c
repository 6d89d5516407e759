#include "kernel.h"
#include "call.h"

#define EF_SM_90 0x005a055a /* flags of an sm_90 cubin of CUDA 12 and 13 */

struct instruction {
    uint64_t low, high;
};

/* The instructions of a kernel: the access is the last thing that it does. */
enum { ACCESS = 4, LEAVE = 6, STAY = 7, PADDED = 16 };

static const struct instruction nop = {UINT64_C(0x7918), UINT64_C(0x000fc00000000000)};
static const struct instruction leave = {UINT64_C(0x794d), UINT64_C(0x000fea0003800000)};
static const struct instruction stay = {UINT64_C(0xfffffffc00fc7947), UINT64_C(0x000fc0000383ffff)}; /* BRA to itself */

/* Encodings for sm_90 with an empty width field (bits 75:73), predicate PT, address [R2.64], descriptor UR4. The store was
 * measured on an H100. Bits 91, 90, 76 (71 in a reduction) and 72 mean: descriptor, 64-bit base, descriptor form, 64-bit
 * address. */
static const struct instruction load = {UINT64_C(0x0000000402057981), UINT64_C(0x000ea8000c1e1100)};
static const struct instruction store = {UINT64_C(0x0000000502007986), UINT64_C(0x000fe2000c101104)};
static const struct instruction reduction = {UINT64_C(0x000000050200798e), UINT64_C(0x000fe2000c10e184)};

struct code cubin_code(const struct CUfunc_st *function)
{
    if (function->code != NULL)
        return *function->code;
    const uint64_t bytes = sizeof(struct instruction);
    return (struct code){.size = PADDED * bytes, .fault = ACCESS * bytes, .origin = ACCESS * bytes, .resume = LEAVE * bytes};
}

uint32_t cubin_access_bytes(const struct CUfunc_st *function)
{
    return function->kernel.access_bytes != 0 ? function->kernel.access_bytes : 4;
}

static struct instruction encode(const struct CUfunc_st *function, int is_write)
{
    uint32_t bytes = cubin_access_bytes(function);
    struct instruction code = function->kernel.is_atomic ? reduction : is_write ? store : load;
    uint64_t width = bytes == 1 ? 0 : bytes == 2 ? 2 : bytes == 4 ? 4 : bytes == 8 ? 5 : 6;
    if (function->kernel.is_atomic)
        width = bytes == 8 ? 2 : 0; /* in a reduction the field is a type: U32 or U64 */
    code.high |= width << 9;
    if (bytes > 4) { /* wide data is in aligned registers: R8 and on instead of R5 */
        unsigned shift = function->kernel.is_atomic || is_write ? 32 : 16;
        code.low = (code.low & ~(UINT64_C(0xff) << shift)) | UINT64_C(8) << shift;
    }
    return code;
}

/* LDC.64 R2, c[0x4][0], where the variable's address is. */
static const struct instruction load_address = {UINT64_C(0x01000000ff027b82), UINT64_C(0x000e220000000a00)};

enum { VARIABLE_SYMBOL = 3, VARIABLE_BYTES = 8, R_CUDA_64 = 2 };

/* Adds the declared variable, as the driver leaves it in the image of a module that it has loaded. Returns its section. */
static unsigned add_variable(struct elf_writer *writer, uint64_t address)
{
    const Elf64_Rela relocation = {.r_info = ELF64_R_INFO((uint64_t)VARIABLE_SYMBOL, R_CUDA_64)};
    Elf64_Shdr header = {.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = VARIABLE_BYTES};
    unsigned bank = elf_add(writer, ".nv.constant4", header, &address, sizeof address);
    header = (Elf64_Shdr){.sh_type = SHT_RELA, .sh_info = bank, .sh_entsize = sizeof relocation};
    elf_add(writer, ".rela.nv.constant4", header, &relocation, sizeof relocation);
    header = (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_WRITE, .sh_addralign = VARIABLE_BYTES};
    return elf_add(writer, ".nv.global.init", header, (const uint64_t[1]){0}, VARIABLE_BYTES);
}

static void add_symbols(struct elf_writer *writer, const struct CUfunc_st *function, unsigned text, uint64_t size)
{
    Elf64_Sym symbols[4] = {{0}};
    symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
    symbols[1].st_shndx = (uint16_t)text;
    symbols[1].st_value = function->entry;
    symbols[2].st_name = elf_string(writer, function->kernel.name);
    symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[2].st_other = 0x10; /* STO_CUDA_ENTRY */
    symbols[2].st_shndx = (uint16_t)text;
    symbols[2].st_value = function->entry;
    symbols[2].st_size = size;
    size_t count = VARIABLE_SYMBOL;
    if (kernel_variable.name != NULL)
        symbols[count++] = (Elf64_Sym){.st_name = elf_string(writer, kernel_variable.name),
                                       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
                                       .st_shndx = (uint16_t)add_variable(writer, kernel_variable.address),
                                       .st_value = kernel_variable.address,
                                       .st_size = VARIABLE_BYTES};
    Elf64_Shdr header = {.sh_type = SHT_SYMTAB, .sh_link = ELF_STRINGS, .sh_info = 2, .sh_entsize = sizeof symbols[0]};
    elf_add(writer, ".symtab", header, symbols, count * sizeof symbols[0]);
}

/* As nvcc -lineinfo writes it: version 2, opcode base 10. No special opcodes are used, so line base and range don't matter. */
enum { DW_VERSION = 2, DW_LNS_copy = 1, DW_LNS_advance_pc = 2, DW_LNS_advance_line = 3, OPCODE_BASE = 10 };

/* A number in LEB128, signed or not, as long as the longest. */
static void put_number(FILE *out, uint64_t value)
{
    for (unsigned i = 0; i < 4; i++)
        fputc((int)(value >> i * 7 & 0x7f) | 0x80, out);
    fputc((int)(value >> 28 & 0x3f), out);
}

static void put_row(FILE *out, uint64_t advance, uint64_t lines)
{
    fputc(DW_LNS_advance_pc, out);
    put_number(out, advance);
    fputc(DW_LNS_advance_line, out);
    put_number(out, lines);
    fputc(DW_LNS_copy, out);
}

/* Rows: the start of the function, one line above; the access; and the rest, one line below. */
static void put_program(FILE *out, const struct CUfunc_st *function)
{
    static const char set_address[] = {0, 1 + sizeof function->entry, 2}, end_sequence[] = {0, 1, 1};
    uint64_t line = (uint64_t)function->kernel.line;
    struct code code = cubin_code(function);
    fwrite(set_address, sizeof set_address, 1, out);
    fwrite(&function->entry, sizeof function->entry, 1, out);
    put_row(out, 0, line > 1 ? line - 2 : 0);
    put_row(out, code.origin, line > 1 ? 1 : 0);
    put_row(out, 16, 1);
    fputc(DW_LNS_advance_pc, out);
    put_number(out, code.size - code.origin - 16);
    fwrite(end_sequence, sizeof end_sequence, 1, out);
}

/* Adds a DWARF line program that maps the access to the kernel's file and line. */
static void add_lines(struct elf_writer *writer, const struct CUfunc_st *function)
{
    /* Minimum instruction length, default is_stmt, line base -5, line range, and the operands of the opcodes. */
    static const unsigned char start[] = {1, 1, 251, 14, OPCODE_BASE, 0, 1, 1, 1, 1, 0, 0, 0, 1};
    const char *file = function->kernel.file, *slash = strrchr(file, '/');
    char *bytes = NULL;
    size_t size = 0;
    struct __attribute__((packed)) {
        uint32_t unit_bytes;
        uint16_t version;
        uint32_t header_bytes;
    } lengths = {.version = DW_VERSION};
    FILE *out = memory_file(&bytes, &size);
    fwrite(&lengths, sizeof lengths, 1, out);
    fwrite(start, sizeof start, 1, out);
    if (slash != NULL) /* "/a.cu" is in the folder "/" */
        fprintf(out, "%.*s%c", slash == file ? 1 : (int)(slash - file), file, 0);
    fprintf(out, "%c%s%c%c%c%c%c", 0, slash == NULL ? file : slash + 1, 0, slash != NULL ? 1 : 0, 0, 0,
            0); /* of the folder; no time, no size */
    lengths.header_bytes = (uint32_t)((size_t)ftell(out) - sizeof lengths);
    put_program(out, function);
    fclose(out);
    lengths.unit_bytes = (uint32_t)(size - sizeof lengths.unit_bytes);
    memcpy(bytes, &lengths, sizeof lengths);
    elf_add(writer, ".debug_line", (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addralign = 1}, bytes, size);
    free(bytes);
}

unsigned char *cubin_create(const struct CUfunc_st *function, int is_write, size_t *size)
{
    struct instruction made_up[PADDED];
    for (size_t i = 0; i < PADDED; i++)
        made_up[i] = nop;
    if (kernel_variable.name != NULL)
        made_up[0] = load_address;
    made_up[ACCESS] = encode(function, is_write);
    made_up[LEAVE] = leave;
    made_up[STAY] = stay;
    struct code code = cubin_code(function);

    struct elf_writer writer;
    elf_begin(&writer);
    char name[512];
    snprintf(name, sizeof name, ".text.%s", function->kernel.name);
    Elf64_Shdr text_header = {.sh_type = SHT_PROGBITS,
                              .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                              .sh_addralign = 128,
                              .sh_addr = function->entry,
                              .sh_info = CUBIN_REGISTERS << 24};
    unsigned text = elf_add(&writer, name, text_header, code.bytes != NULL ? (void *)code.bytes : made_up, code.size);
    add_symbols(&writer, function, text, code.size);
    if (function->kernel.file != NULL && function->kernel.line > 0)
        add_lines(&writer, function);
    return elf_finish(&writer, ET_EXEC, 0x33, EF_SM_90, size);
}

/* ---- the file ---- */

void elf_begin(struct elf_writer *writer)
{
    static const Elf64_Ehdr place_of_header;
    memset(writer, 0, sizeof *writer);
    writer->count = 1; /* section 0 is the null section */
    writer->contents = memory_file(&writer->bytes, &writer->size);
    writer->strings = memory_file(&writer->names, &writer->names_size);
    elf_string(writer, "");
    fwrite(&place_of_header, sizeof place_of_header, 1, writer->contents);
}

uint32_t elf_string(struct elf_writer *writer, const char *text)
{
    uint32_t at = (uint32_t)ftell(writer->strings);
    fwrite(text, strlen(text) + 1, 1, writer->strings);
    return at;
}

/* Returns where the file goes on. */
static uint64_t align(struct elf_writer *writer, size_t alignment)
{
    while ((size_t)ftell(writer->contents) % alignment != 0)
        fputc(0, writer->contents);
    return (uint64_t)ftell(writer->contents);
}

unsigned elf_add(struct elf_writer *writer, const char *name, Elf64_Shdr header, const void *data, size_t size)
{
    if (header.sh_addralign == 0)
        header.sh_addralign = 8;
    header.sh_name = elf_string(writer, name);
    if (header.sh_type == SHT_STRTAB) { /* the last section: it has its own name too */
        fclose(writer->strings);
        data = writer->names;
        size = writer->names_size;
    }
    header.sh_offset = align(writer, header.sh_addralign);
    header.sh_size = size;
    if (size != 0)
        fwrite(data, size, 1, writer->contents);
    writer->headers[writer->count] = header;
    return writer->count++;
}

unsigned char *elf_finish(struct elf_writer *writer, uint16_t type, unsigned char os_abi, uint32_t flags, size_t *size)
{
    unsigned table = elf_add(writer, ".strtab", (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_addralign = 1}, NULL, 0);
    free(writer->names);
    for (unsigned i = 0; i < writer->count; i++) {
        if (writer->headers[i].sh_link == ELF_STRINGS)
            writer->headers[i].sh_link = table;
    }
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT, os_abi},
                         .e_type = type,
                         .e_machine = ELF_MACHINE_CUDA,
                         .e_version = EV_CURRENT,
                         .e_flags = flags,
                         .e_ehsize = sizeof header,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = (uint16_t)writer->count,
                         .e_shstrndx = (uint16_t)table};
    header.e_shoff = align(writer, 8);
    fwrite(writer->headers, sizeof writer->headers[0], writer->count, writer->contents);
    fclose(writer->contents);
    memcpy(writer->bytes, &header, sizeof header);
    *size = writer->size;
    return (unsigned char *)writer->bytes;
}
