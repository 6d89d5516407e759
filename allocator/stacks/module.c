#include "module.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct search {
    uint64_t address;
    module_visitor *visit;
    void *argument;
    int result;
};

/* Returns the segment that contains the address, if it is readable code. */
static const ElfW(Phdr) * code_segment(const struct dl_phdr_info *info, uint64_t address)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uint64_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & (PF_R | PF_X)) == (PF_R | PF_X) && address >= start &&
            address - start < segment->p_memsz)
            return segment;
    }
    return NULL;
}

static int look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    if (!code_segment(info, search->address))
        return 0;
    search->result = search->visit(info, search->address, search->argument);
    return 1;
}

int module_visit(uint64_t address, module_visitor *visit, void *argument)
{
    struct search search = {.address = address, .visit = visit, .argument = argument};
    dl_iterate_phdr(look, &search);
    return search.result;
}

const void *module_bytes(const struct dl_phdr_info *info, uint64_t address, uint64_t size)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && address >= segment->p_vaddr &&
            size <= segment->p_memsz && address - segment->p_vaddr <= segment->p_memsz - size)
            return (const void *)(uintptr_t)(info->dlpi_addr + address);
    }
    return NULL;
}

/* Empty if not mapped readable. */
static struct cfi_bytes bytes_of(const struct dl_phdr_info *info, const ElfW(Phdr) * segment)
{
    const uint8_t *bytes = module_bytes(info, segment->p_vaddr, segment->p_memsz);
    return (struct cfi_bytes){info->dlpi_addr + segment->p_vaddr, bytes, bytes ? segment->p_memsz : 0};
}

void module_tables(const struct dl_phdr_info *info, struct cfi_module *out)
{
    *out = (struct cfi_module){.abi = &CFI_HOST};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_GNU_EH_FRAME)
            out->header = bytes_of(info, segment);
        else if (segment->p_type == PT_LOAD && out->segment_count < CFI_SEGMENTS)
            out->segments[out->segment_count++] = bytes_of(info, segment);
    }
}

static int describe(const struct dl_phdr_info *info, uint64_t address, void *argument)
{
    struct module *out = argument;
    const ElfW(Phdr) *code = code_segment(info, address);
    out->base = info->dlpi_addr;
    out->code_start = info->dlpi_addr + code->p_vaddr;
    out->offset = address - out->code_start + code->p_offset;
    out->is_program = !info->dlpi_name[0];
    snprintf(out->path, sizeof out->path, "%s", out->is_program ? program_invocation_name : info->dlpi_name);
    return 1;
}

int module_of(uint64_t address, struct module *out)
{
    return module_visit(address, describe, out);
}

int module_is_cufence(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "libcufence", strlen("libcufence")) == 0;
}
