#include "cubin.h"
#include "config.h"
#include "elf_file.h"

#include <stdio.h>
#include <string.h>

#define EF_SM_90 0x005a055a /* flags of an sm_90 cubin of CUDA 12 and 13 */

struct instruction {
    uint64_t low, high;
};

/* The instructions of a kernel: the access is the last thing that it does. */
enum { ACCESS = 4, LEAVE = 6, STAY = 7, UNPADDED = 8, PADDED = 16 };

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
    return (struct code){
        .size = (config_get()->has_padding ? PADDED : UNPADDED) * bytes, .fault = ACCESS * bytes, .resume = LEAVE * bytes};
}

uint32_t cubin_access_bytes(const struct CUfunc_st *function)
{
    uint32_t bytes = function->kernel.access_bytes;
    int is_width = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;
    return is_width ? bytes : 4;
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

static void add_symbols(struct elf_writer *writer, const struct CUfunc_st *function, unsigned text, uint64_t size)
{
    Elf64_Sym symbols[3] = {{0}};
    symbols[1].st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION);
    symbols[1].st_shndx = (uint16_t)text;
    symbols[1].st_value = function->entry;
    symbols[2].st_name = elf_string(writer, function->kernel.name);
    symbols[2].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbols[2].st_other = 0x10; /* STO_CUDA_ENTRY */
    symbols[2].st_shndx = (uint16_t)text;
    symbols[2].st_value = function->entry;
    symbols[2].st_size = size;
    Elf64_Shdr header = {.sh_type = SHT_SYMTAB, .sh_info = 2, .sh_entsize = sizeof symbols[0]};
    elf_link_strings(writer, elf_add(writer, ".symtab", header, symbols, sizeof symbols));
}

unsigned char *cubin_create(const struct CUfunc_st *function, int is_write, size_t *size)
{
    struct instruction made_up[PADDED];
    for (size_t i = 0; i < PADDED; i++)
        made_up[i] = nop;
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
    if (function->kernel.file != NULL && function->kernel.line > 0) {
        struct buffer lines = {0};
        lines_append(&lines, function);
        writer.is_failed |= lines.is_failed;
        elf_add(&writer, ".debug_line", (Elf64_Shdr){.sh_type = SHT_PROGBITS, .sh_addralign = 1}, lines.bytes, lines.size);
        buffer_free(&lines);
    }
    return elf_finish(&writer, ET_EXEC, 0x33, EF_SM_90, size);
}
