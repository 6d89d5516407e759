/* Reads a cubin that a program loads. Addresses in it may be those of a device or 0, and its code may have been changed. */
#include "cubin.h"
#include "elf_file.h"
#include "context.h"

#define INSTRUCTION_BYTES 16
#define STO_CUDA_ENTRY 0x10
#define FENCE_DISTANCE 5 /* instructions from a memory barrier to the EXIT that it belongs to, at most */

enum { LOAD = 0x981, STORE = 0x986, REDUCTION = 0x98e, BARRIER = 0x992, EXIT = 0x94d, BRANCH = 0x947 }; /* bits 11:0 */

struct kernel_code {
    char *name;
    struct code code;
    int is_kept;
};

struct image {
    size_t count;
    struct kernel_code *kernels[]; /* each on its own, because a kept one outlives the others */
};

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

static void free_kernel(struct kernel_code *kernel)
{
    free(kernel->code.bytes);
    free(kernel->name);
    free(kernel);
}

static struct kernel_code *create_kernel(const char *name, const unsigned char *bytes, uint64_t size)
{
    struct kernel_code *kernel = memory_new(sizeof *kernel);
    kernel->name = memory_copy(name, strlen(name));
    kernel->code.bytes = memory_copy(bytes, size);
    kernel->code.size = size;
    examine(&kernel->code);
    return kernel;
}

struct file {
    const unsigned char *bytes;
    Elf64_Ehdr header;
};

/* Errors: INVALID_IMAGE. */
static CUresult section_at(const struct file *file, uint32_t index, Elf64_Shdr *section)
{
    CALL_REFUSE(index == 0 || index >= file->header.e_shnum, INVALID_IMAGE);
    memcpy(section, file->bytes + file->header.e_shoff + index * sizeof *section, sizeof *section);
    return CUDA_SUCCESS;
}

static int is_kernel(const Elf64_Sym *symbol)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && (symbol->st_other & STO_CUDA_ENTRY) != 0 &&
           symbol->st_shndx != SHN_UNDEF;
}

/* A kernel has a section of its own, so its code is all that follows. */
static CUresult add_kernel(struct image *image, const struct file *file, const Elf64_Sym *symbol, const Elf64_Shdr *strings)
{
    Elf64_Shdr text;
    if (section_at(file, symbol->st_shndx, &text) != CUDA_SUCCESS || symbol->st_name >= strings->sh_size)
        return CUDA_ERROR_INVALID_IMAGE;
    uint64_t offset = symbol->st_value >= text.sh_addr ? symbol->st_value - text.sh_addr : symbol->st_value;
    CALL_REFUSE(offset % INSTRUCTION_BYTES != 0 || offset >= text.sh_size, INVALID_IMAGE);
    const char *name = (const char *)file->bytes + strings->sh_offset + symbol->st_name;
    image->kernels[image->count++] = create_kernel(name, file->bytes + text.sh_offset + offset, text.sh_size - offset);
    return CUDA_SUCCESS;
}

static CUresult add_kernels(struct image **out, const struct file *file, const Elf64_Shdr *table)
{
    Elf64_Shdr strings;
    if (table->sh_entsize != sizeof(Elf64_Sym) || section_at(file, table->sh_link, &strings) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_IMAGE;
    size_t count = table->sh_size / sizeof(Elf64_Sym);
    struct image *image = memory_new(sizeof *image + count * sizeof image->kernels[0]);
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, file->bytes + table->sh_offset + i * sizeof symbol, sizeof symbol);
        if (is_kernel(&symbol))
            result = add_kernel(image, file, &symbol, &strings);
    }
    if (result == CUDA_SUCCESS)
        *out = image;
    else
        image_free(image);
    return result;
}

CUresult image_read(struct image **image, const void *bytes)
{
    struct file file = {.bytes = bytes};
    *image = NULL;
    if (strncmp(bytes, ELFMAG, SELFMAG) != 0) /* text may be shorter than a header */
        return CUDA_SUCCESS;
    memcpy(&file.header, bytes, sizeof file.header);
    CALL_REFUSE(file.header.e_ident[EI_CLASS] != ELFCLASS64 || file.header.e_machine != ELF_MACHINE_CUDA, INVALID_IMAGE);
    CALL_REFUSE(file.header.e_shentsize != sizeof(Elf64_Shdr), INVALID_IMAGE);
    for (uint32_t i = 1; i < file.header.e_shnum; i++) {
        Elf64_Shdr section;
        CUresult result = section_at(&file, i, &section);
        if (result == CUDA_SUCCESS && section.sh_type != SHT_SYMTAB)
            continue;
        return result == CUDA_SUCCESS ? add_kernels(image, &file, &section) : result;
    }
    return CUDA_ERROR_INVALID_IMAGE;
}

const struct code *image_find(struct image *image, const char *name)
{
    for (size_t i = 0; i < image->count; i++) {
        if (strcmp(image->kernels[i]->name, name) == 0)
            return &image->kernels[i]->code;
    }
    return NULL;
}

void image_keep(struct image *image, const struct code *code)
{
    for (size_t i = 0; i < image->count; i++)
        image->kernels[i]->is_kept |= &image->kernels[i]->code == code;
}

void image_free(struct image *image)
{
    for (size_t i = 0; image != NULL && i < image->count; i++) {
        if (!image->kernels[i]->is_kept)
            free_kernel(image->kernels[i]);
    }
    free(image);
}

/* ---- the linker. It compiles nothing: PTX becomes the cubin in the file that its directive .file names ---- */

#define CUBIN_MOST (1u << 20)

struct CUlinkState_st {
    char file[512];
    unsigned char cubin[CUBIN_MOST];
};

DRIVER(cuLinkCreate, 6050, (unsigned int, numOptions, CUjit_option *, options, void **, optionValues, CUlinkState *, stateOut))
{
    CALL_TRY(context_check());
    CALL_REFUSE(stateOut == NULL || (numOptions != 0 && (options == NULL || optionValues == NULL)), INVALID_VALUE);
    *stateOut = memory_new(sizeof **stateOut);
    return CUDA_SUCCESS;
}

DRIVER(cuLinkAddData, 6050,
       (CUlinkState, state, CUjitInputType, type, void *, data, size_t, size, const char *, name, unsigned int, numOptions,
        CUjit_option *, options, void **, optionValues))
{
    (void)name;
    CALL_REFUSE(state == NULL || data == NULL || (numOptions != 0 && (options == NULL || optionValues == NULL)), INVALID_VALUE);
    const char *text = data;
    CALL_REFUSE(type != CU_JIT_INPUT_PTX || size == 0 || text[size - 1] != '\0', INVALID_PTX);
    const char *file = strstr(text, ".file");
    return file != NULL && sscanf(file, ".file%*d \"%511[^\"]", state->file) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

DRIVER(cuLinkComplete, 5050, (CUlinkState, state, void **, cubinOut, size_t *, sizeOut))
{
    CALL_REFUSE(state == NULL || cubinOut == NULL || sizeOut == NULL, INVALID_VALUE);
    FILE *file = fopen(state->file, "rb");
    *cubinOut = state->cubin;
    *sizeOut = file == NULL ? 0 : fread(state->cubin, 1, sizeof state->cubin, file);
    if (file != NULL)
        fclose(file);
    return *sizeOut == 0 ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

DRIVER(cuLinkDestroy, 5050, (CUlinkState, state))
{
    free(state);
    return CUDA_SUCCESS;
}
