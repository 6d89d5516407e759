#include "coredump.h"

#include "base/error.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

struct coredump_child {
    uint32_t parent, row, type, section;
};

/* Offset and size of a field, or of an array, in a row of the dump, and its offset in our struct. */
struct field {
    uint16_t at;
    uint8_t size;
    uint8_t member;
};

struct row_layout {
    enum coredump_section_type type;
    uint32_t smallest;      /* stride of the oldest known version */
    size_t size;            /* of our struct */
    struct field fields[9]; /* up to the first of 0 bytes */
};

#define FIELD(at, name, member)                                                                                                \
    {                                                                                                                          \
        at, sizeof(((struct coredump_##name *)0)->member), (uint8_t)offsetof(struct coredump_##name, member)                   \
    }
#define LAYOUT(type, smallest, name, ...)                                                                                      \
    {                                                                                                                          \
        type, smallest, sizeof(struct coredump_##name),                                                                        \
        {                                                                                                                      \
            __VA_ARGS__                                                                                                        \
        }                                                                                                                      \
    }

static const struct row_layout layouts[] = {
    LAYOUT(COREDUMP_DEVICES, 72, device, FIELD(0, device, name), FIELD(16, device, sm_type), FIELD(24, device, index),
           FIELD(28, device, pci_bus), FIELD(32, device, pci_device), FIELD(56, device, sm_major), FIELD(60, device, sm_minor)),
    LAYOUT(COREDUMP_CONTEXTS, 40, context, FIELD(0, context, id)),
    LAYOUT(COREDUMP_MODULES, 8, module, FIELD(0, module, handle)),
    LAYOUT(COREDUMP_GRIDS, 104, grid, FIELD(0, grid, id), FIELD(8, grid, context), FIELD(24, grid, entry),
           FIELD(32, grid, module), FIELD(48, grid, parameters_at), FIELD(72, grid, grid), FIELD(84, grid, block),
           FIELD(100, grid, tid), FIELD(104, grid, cluster)),
    LAYOUT(COREDUMP_SMS, 8, sm, FIELD(0, sm, id), FIELD(8, sm, exception), FIELD(12, sm, error_pc_valid),
           FIELD(16, sm, error_pc)),
    LAYOUT(COREDUMP_CTAS, 24, cta, FIELD(0, cta, grid_id), FIELD(8, cta, block), FIELD(40, cta, cluster_size)),
    LAYOUT(COREDUMP_WARPS, 32, warp, FIELD(0, warp, error_pc), FIELD(8, warp, id), FIELD(16, warp, active_lanes),
           FIELD(20, warp, is_broken), FIELD(24, warp, error_pc_valid)),
    LAYOUT(COREDUMP_LANES, 48, lane, FIELD(0, lane, pc), FIELD(16, lane, lane), FIELD(20, lane, thread),
           FIELD(32, lane, exception)),
    LAYOUT(COREDUMP_META, 32, meta, FIELD(8, meta, driver_major), FIELD(12, meta, driver_minor)),
};

static const struct row_layout *layout_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        if (layouts[i].type == type)
            return &layouts[i];
    return NULL;
}

/* .cudbg.meta is a single row and has no entry size. */
static uint64_t stride_of(const Elf64_Shdr *section)
{
    return section->sh_type == COREDUMP_META && section->sh_entsize == 0 ? section->sh_size : section->sh_entsize;
}

static cufence_status check_table(const Elf64_Shdr *section, uint32_t index, struct problem *problem)
{
    const struct row_layout *layout = layout_of(section->sh_type);
    if (!layout || section->sh_size == 0)
        return CUFENCE_OK;
    uint64_t stride = stride_of(section);
    if (stride == 0)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the core dump's table in section %u has rows of 0 bytes", index);
    if (stride < layout->smallest)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED,
                           "the core dump's table in section %u has rows of %llu bytes; the oldest known format has %u", index,
                           (unsigned long long)stride, layout->smallest);
    return CUFENCE_OK;
}

static int compare_children(const void *left, const void *right)
{
    const struct coredump_child *a = left, *b = right;
    uint64_t places[2] = {(uint64_t)a->parent << 32 | a->row, (uint64_t)b->parent << 32 | b->row};
    uint64_t kinds[2] = {(uint64_t)a->type << 32 | a->section, (uint64_t)b->type << 32 | b->section};
    return LIST_ORDER(places[0], places[1]) ?: LIST_ORDER(kinds[0], kinds[1]);
}

static cufence_status index_sections(struct coredump *dump, struct problem *problem)
{
    if (dump->image.machine != COREDUMP_MACHINE)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the core dump is for machine 0x%x; a GPU core dump is for 0x%x",
                           dump->image.machine, COREDUMP_MACHINE);
    uint32_t count = dump->image.section_count, devices = 0;
    size_t children = 0;
    Elf64_Shdr section;
    for (uint32_t i = 1; i < count; i++) {
        image_section(&dump->image, i, &section);
        cufence_status status = check_table(&section, i, problem);
        if (status != CUFENCE_OK)
            return status;
        children += section.sh_link != 0;
        devices += section.sh_type == COREDUMP_DEVICES;
        /* The first string table holds the device names; the second one holds the section names. */
        if (section.sh_type == SHT_STRTAB && !dump->strings.bytes)
            dump->strings = image_content(&dump->image, &section);
    }
    if (!devices)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "it is no core dump: it has no table of GPUs; a cubin has none");
    if (children == 0)
        return CUFENCE_OK;
    dump->children = malloc(children * sizeof(*dump->children));
    if (!dump->children)
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "no host memory for the index of the core dump's %zu sections",
                           children);
    for (uint32_t i = 1; i < count; i++) {
        image_section(&dump->image, i, &section);
        if (section.sh_link != 0)
            dump->children[dump->child_count++] = (struct coredump_child){section.sh_link, section.sh_info, section.sh_type, i};
    }
    qsort(dump->children, dump->child_count, sizeof(*dump->children), compare_children);
    return CUFENCE_OK;
}

cufence_status coredump_open(const void *bytes, size_t size, struct coredump *dump, struct problem *problem)
{
    memset(dump, 0, sizeof(*dump));
    if (!image_open(bytes, size, &dump->image))
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "the core dump (%zu bytes) is not an ELF64 file, or it is cut off",
                           size);
    return index_sections(dump, problem);
}

void coredump_close(struct coredump *dump)
{
    free(dump->children);
    memset(dump, 0, sizeof(*dump));
}

uint32_t coredump_next(const struct coredump *dump, enum coredump_section_type type, uint32_t after)
{
    Elf64_Shdr section;
    for (uint32_t i = after + 1; image_section(&dump->image, i, &section); i++)
        if (section.sh_type == type)
            return i;
    return 0;
}

uint32_t coredump_rows(const struct coredump *dump, uint32_t index, enum coredump_section_type type)
{
    Elf64_Shdr section;
    if (!image_section(&dump->image, index, &section) || section.sh_type != type || !layout_of(type))
        return 0;
    uint64_t stride = stride_of(&section);
    uint64_t rows = stride ? image_content(&dump->image, &section).size / stride : 0;
    return rows > UINT32_MAX ? UINT32_MAX : (uint32_t)rows;
}

int coredump_row(const struct coredump *dump, enum coredump_section_type type, struct coredump_ref ref, void *row)
{
    const struct row_layout *layout = layout_of(type);
    Elf64_Shdr section;
    if (!layout || ref.row >= coredump_rows(dump, ref.section, type) || !image_section(&dump->image, ref.section, &section))
        return 0;
    uint64_t stride = stride_of(&section);
    struct span bytes = span_part(image_content(&dump->image, &section), stride * ref.row, stride);
    memset(row, 0, layout->size);
    for (size_t i = 0; i < sizeof layout->fields / sizeof *layout->fields && layout->fields[i].size; i++) {
        struct reader reader = reader_of(bytes, layout->fields[i].at);
        reader_copy(&reader, (uint8_t *)row + layout->fields[i].member, layout->fields[i].size);
    }
    return bytes.bytes != NULL;
}

size_t coredump_words(const struct coredump *dump, struct coredump_ref owner, enum coredump_section_type type, uint32_t *words,
                      size_t max)
{
    struct reader reader = reader_of(coredump_content(dump, coredump_child(dump, owner, type)), 0);
    size_t count = 0;
    while (count < max && reader_copy(&reader, &words[count], sizeof *words))
        count++;
    return count;
}

struct coredump_ref coredump_parent(const struct coredump *dump, uint32_t index, enum coredump_section_type type)
{
    Elf64_Shdr section;
    if (!image_section(&dump->image, index, &section) || section.sh_info >= coredump_rows(dump, section.sh_link, type))
        return (struct coredump_ref){0, 0};
    return (struct coredump_ref){section.sh_link, section.sh_info};
}

uint32_t coredump_child(const struct coredump *dump, struct coredump_ref parent, enum coredump_section_type type)
{
    struct coredump_child wanted = {parent.section, parent.row, type, 0};
    size_t low = 0, high = dump->child_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_children(&dump->children[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == dump->child_count)
        return 0;
    const struct coredump_child *found = &dump->children[low];
    return found->parent == parent.section && found->row == parent.row && found->type == (uint32_t)type ? found->section : 0;
}

struct span coredump_content(const struct coredump *dump, uint32_t index)
{
    Elf64_Shdr section;
    if (!image_section(&dump->image, index, &section))
        return (struct span){NULL, 0};
    return image_content(&dump->image, &section);
}

const char *coredump_string(const struct coredump *dump, uint64_t offset)
{
    const char *text = span_string(dump->strings, offset);
    return text ? text : "";
}

unsigned coredump_compute(const struct coredump *dump, struct coredump_ref ref)
{
    struct coredump_device device;
    if (!coredump_row(dump, COREDUMP_DEVICES, ref, &device) || device.sm_major > 100 || device.sm_minor > 9)
        return 0;
    return device.sm_major * 10 + device.sm_minor;
}
