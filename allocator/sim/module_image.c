/* Reads a cubin that a program loads. Addresses in it may be those of a device or 0, and its code may have been changed. */
#include "kernel.h"
#include "context.h"

#define INSTRUCTION_BYTES 16
#define STO_CUDA_ENTRY 0x10
#define FENCE_DISTANCE 5 /* instructions from a memory barrier to the EXIT that it belongs to, at most */

enum { LOAD = 0x981, STORE = 0x986, REDUCTION = 0x98e, BARRIER = 0x992, EXIT = 0x94d, BRANCH = 0x947 }; /* bits 11:0 */

static pthread_mutex_t codes_lock = PTHREAD_MUTEX_INITIALIZER; /* a leaf */
static struct code *codes;                                     /* of all images, newest first; never freed */
static unsigned images;                                        /* how many were read; with the list under codes_lock */

static unsigned opcode(const struct code *code, uint64_t offset)
{
    uint64_t low;
    memcpy(&low, code->bytes + offset, sizeof low);
    return low & 0xfff;
}

/* Where a branch for sm_90 leads to, if that is further on. */
static uint64_t target(const struct code *code, uint64_t at)
{
    uint64_t low;
    memcpy(&low, code->bytes + at, sizeof low);
    return at + INSTRUCTION_BYTES + ((low >> 34) << 8 | (low >> 16 & 0xff)) * 4;
}

/* An access that was moved may have a barrier behind it, at which a faulting lane waits. */
static void find_origin(struct code *code)
{
    code->origin = code->fault;
    for (uint64_t at = 0; at + INSTRUCTION_BYTES <= code->size; at += INSTRUCTION_BYTES) {
        if (opcode(code, at) != BRANCH || target(code, at) != code->fault)
            continue;
        code->origin = at;
        code->resume = code->fault + 2ull * INSTRUCTION_BYTES;
    }
}

/* A fault is at the first store, or at the first load of a kernel that stores nothing. */
static void examine(struct code *code)
{
    int has_load = 0, has_store = 0, has_barrier = 0, is_open = 0, has_exit = 0;
    uint64_t barrier = 0;
    for (uint64_t at = 0; at + INSTRUCTION_BYTES <= code->size; at += INSTRUCTION_BYTES) {
        unsigned found = opcode(code, at);
        int is_store = found == STORE || found == REDUCTION;
        if (!has_store && (is_store || (!has_load && found == LOAD))) {
            has_store = is_store;
            has_load = 1;
            code->fault = at;
            code->resume = at + 2ull * INSTRUCTION_BYTES < code->size ? at + 2ull * INSTRUCTION_BYTES : at;
        }
        if (found == BARRIER) {
            has_barrier = 1;
            barrier = at;
        }
        if (found == EXIT) {
            has_exit = 1;
            is_open |= !has_barrier || at - barrier > (uint64_t)FENCE_DISTANCE * INSTRUCTION_BYTES;
        }
    }
    code->is_fenced = has_exit && !is_open;
    if (code->is_fenced)
        code->resume = barrier + INSTRUCTION_BYTES; /* where it waits for its store */
    find_origin(code);
}

/* All zeros if there is none of that number. */
static Elf64_Shdr section_at(const unsigned char *file, unsigned number)
{
    Elf64_Ehdr header;
    Elf64_Shdr section = {0};
    memcpy(&header, file, sizeof header);
    if (number < header.e_shnum)
        memcpy(&section, file + header.e_shoff + number * sizeof section, sizeof section);
    return section;
}

static int is_kernel(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & STO_CUDA_ENTRY) != 0 &&
           symbol->st_shndx != SHN_UNDEF;
}

/* A kernel has a section of its own, so its code is all that follows. */
static CUresult add_kernel_locked(const unsigned char *file, const Elf64_Sym *symbol, const char *name)
{
    Elf64_Shdr text = section_at(file, symbol->st_shndx);
    uint64_t offset = symbol->st_value >= text.sh_addr ? symbol->st_value - text.sh_addr : symbol->st_value;
    CALL_REFUSE(offset % INSTRUCTION_BYTES != 0 || offset >= text.sh_size, INVALID_IMAGE);
    struct code *code = memory_new(sizeof *code);
    code->image = images;
    code->name = memory_copy(name, strlen(name));
    code->size = text.sh_size - offset;
    code->bytes = memory_copy(file + text.sh_offset + offset, code->size);
    examine(code);
    LL_PREPEND(codes, code);
    return CUDA_SUCCESS;
}

CUresult image_read(unsigned *image, const void *bytes)
{
    Elf64_Ehdr header;
    const unsigned char *file = bytes;
    *image = 0;
    if (strncmp(bytes, ELFMAG, SELFMAG) != 0) /* text may be shorter than a header */
        return CUDA_SUCCESS;
    memcpy(&header, bytes, sizeof header);
    CALL_REFUSE(header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != ELF_MACHINE_CUDA, INVALID_IMAGE);
    Elf64_Shdr table = {0};
    for (unsigned i = 1; i < header.e_shnum && table.sh_type != SHT_SYMTAB; i++)
        table = section_at(file, i);
    CALL_REFUSE(table.sh_type != SHT_SYMTAB, INVALID_IMAGE);
    const char *names = (const char *)file + section_at(file, table.sh_link).sh_offset;
    HOLD(&codes_lock);
    *image = ++images;
    for (uint64_t at = 0; at < table.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, file + table.sh_offset + at, sizeof symbol);
        if (is_kernel(&symbol))
            CALL_TRY(add_kernel_locked(file, &symbol, names + symbol.st_name));
    }
    return CUDA_SUCCESS;
}

const struct code *image_find(unsigned image, const char *name)
{
    HOLD(&codes_lock);
    const struct code *code = codes;
    while (code != NULL && (code->image != image || strcmp(code->name, name) != 0))
        code = code->next;
    return code;
}
