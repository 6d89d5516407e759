#include "coredump.h"

#include "analysis/lines/cubin.h"
#include "base/list.h"

#include <stdlib.h>

enum {
    DEVICE_BYTES = 72,
    GRID_BYTES = 104,
    DEVICE = 1
}; /* row sizes of the oldest known format; index of the device's section */

#define GRID_LIMIT 128u /* a device runs at most this many at a time */
#define CUBIN_LIMIT 65536u
#define GAP_LIMIT ((uint64_t)16 << 20) /* bytes to search: these tables precede registers and memory */

/* Read a number at a file offset; return 0 if it is outside the file. Inlined into the searches below, which look at each byte.
 */
static inline __attribute__((always_inline)) uint32_t word(struct span file, uint64_t at)
{
    struct reader reader = reader_of(file, at);
    return reader_u32(&reader);
}

static inline __attribute__((always_inline)) uint64_t wide(struct span file, uint64_t at)
{
    struct reader reader = reader_of(file, at);
    return reader_u64(&reader);
}

/* Returns 0 if out of host memory. */
static int add(struct remains *remains, Elf64_Shdr header)
{
    if (!list_make_room(&remains->headers, remains->count, sizeof header))
        return 0;
    remains->headers[remains->count++] = header;
    return 1;
}

/* Returns the SM count in the device row at `at`; 0 if it is not a device row. */
static uint32_t read_device(struct span file, uint64_t at)
{
    enum { NUMBER = 24, SMS = 36, WARPS = 40, LANES = 44, REGISTERS = 48, SM_MAJOR = 56, INSTRUCTION = 64 };
    uint32_t sms = word(file, at + SMS), warps = word(file, at + WARPS), registers = word(file, at + REGISTERS);
    uint32_t major = word(file, at + SM_MAJOR), instruction = word(file, at + INSTRUCTION);
    int is_device = word(file, at + NUMBER) < 256 && sms >= 8 && sms <= 1024 && warps >= 8 && warps <= 256 &&
                    word(file, at + LANES) == 32 && registers >= 63 && registers <= 256 && major >= 5 && major <= 100 &&
                    (instruction == 8 || instruction == 16);
    return is_device && span_part(file, at, DEVICE_BYTES).bytes ? sms : 0;
}

/* The device table comes first. Returns 0 if it has several rows: the SM table could belong to any of them. */
static uint32_t find_device(struct span file, uint64_t *at)
{
    *at = sizeof(Elf64_Ehdr);
    uint32_t sms = read_device(file, *at);
    for (uint64_t stride = DEVICE_BYTES; stride <= 2 * DEVICE_BYTES; stride += 8)
        if (read_device(file, *at + stride))
            return 0;
    return sms;
}

/* Returns the size of the cubin that starts here; 0 if there is none or it is incomplete. */
static uint64_t cubin_size(struct span rest)
{
    struct image image;
    int is_cubin = image_open(rest.bytes, rest.size, &image) && image.machine == COREDUMP_MACHINE && image.section_count > 1;
    uint64_t size = is_cubin ? image_end(&image) : 0;
    return size <= rest.size ? size : 0;
}

/* Finds all complete cubins. Returns 0 if out of host memory. */
static int find_cubins(struct span file, struct remains *remains)
{
    static const uint8_t magic[] = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB};
    uint64_t at = sizeof(Elf64_Ehdr) + DEVICE_BYTES;
    while (at < file.size && remains->count < CUBIN_LIMIT) {
        const uint8_t *next = memmem(file.bytes + at, file.size - at, magic, sizeof magic);
        if (!next)
            break;
        at = (uint64_t)(next - file.bytes);
        uint64_t size = cubin_size((struct span){next, file.size - at});
        const Elf64_Shdr cubin = {.sh_type = COREDUMP_RELOCATED_CUBIN, .sh_offset = at, .sh_size = size};
        if (size && !add(remains, cubin))
            return 0;
        at += size ? size : sizeof magic;
    }
    return 1;
}

/* Sets [*at, *end) to gap `number`: the bytes before, between and after the cubins. Returns 0 if there is no such gap. */
static int find_gap(struct span file, const struct remains *remains, size_t cubins, size_t number, uint64_t *at, uint64_t *end)
{
    size_t next = DEVICE + 1 + number;
    if (next > cubins)
        return 0;
    const Elf64_Shdr *before = &remains->headers[next - 1];
    *at = before->sh_offset + before->sh_size;
    *end = next < cubins ? remains->headers[next].sh_offset : file.size;
    uint64_t most = before->sh_offset + before->sh_size + GAP_LIMIT;
    *end = *end < most ? *end : most;
    return 1;
}

static int is_kernel_start(struct span file, const struct remains *remains, size_t cubins, uint64_t address, uint64_t *work)
{
    struct cubin_function function;
    for (size_t i = DEVICE + 1; *work > 0 && i < cubins; i++)
        if (cubin_find(span_part(file, remains->headers[i].sh_offset, remains->headers[i].sh_size), address, work, &function))
            return function.is_kernel && function.start == address;
    return 0;
}

enum { CONTEXT = 8, ENTRY = 24, MODULE = 32, DIMENSIONS = 72 };

/* Returns 1 if a launch's row may be at `at`, judged without the kernel's address. */
static int is_grid(struct span file, uint64_t at)
{
    struct reader reader = reader_of(file, at + DIMENSIONS);
    uint64_t size[6], threads = 1, blocks = 1;
    if (!span_part(file, at, GRID_BYTES).bytes || !wide(file, at) || !wide(file, at + CONTEXT) || !wide(file, at + ENTRY) ||
        !wide(file, at + MODULE))
        return 0;
    for (size_t i = 0; i < 6; i++)
        size[i] = reader_u32(&reader);
    for (size_t i = 0; i < 3; i++) {
        blocks = size[i] && size[i] <= INT32_MAX && blocks <= INT32_MAX ? blocks * size[i] : 0;
        threads = size[3 + i] <= 1024 ? threads * size[3 + i] : 0;
    }
    return blocks && threads && threads <= 1024;
}

static int is_sm_table(struct span file, uint64_t at, uint32_t count, uint32_t stride)
{
    enum { EXCEPTION = 8, VALID = 12, PC = 16, HIGHEST_EXCEPTION = 64 };
    if (wide(file, at + stride) != 1 || !span_part(file, at, (uint64_t)count * stride).bytes)
        return 0;
    for (uint32_t i = 0; i < count; i++, at += stride) {
        uint32_t is_valid = word(file, at + VALID);
        uint64_t pc = wide(file, at + PC);
        if (wide(file, at) != i || word(file, at + EXCEPTION) > HIGHEST_EXCEPTION || is_valid > 1 ||
            (is_valid && (!pc || pc % 8)))
            return 0;
    }
    return 1;
}

/* Returns the size of a row if a table of `count` SMs is at `at`, else 0. The 8-byte rows of the oldest drivers hold no
 * exception: they are ignored. */
static uint32_t sm_stride(struct span file, uint64_t at, uint32_t count)
{
    static const uint32_t strides[] = {24, 40, 48};
    for (size_t i = 0; wide(file, at) == 0 && i < sizeof strides / sizeof *strides; i++)
        if (is_sm_table(file, at, count, strides[i]))
            return strides[i];
    return 0;
}

/* Finds the rows of launches, and the SM table, if there is exactly one. Returns 0 if out of host memory. */
static int find_tables(struct span file, size_t cubins, uint32_t sms, struct remains *remains)
{
    Elf64_Shdr table = {.sh_type = COREDUMP_SMS, .sh_link = DEVICE};
    uint64_t work = (uint64_t)file.size * 16, at, end;
    int tables = 0;
    for (size_t gap = 0; find_gap(file, remains, cubins, gap, &at, &end); gap++) {
        for (; at < end; at++) {
            const Elf64_Shdr grid = {
                .sh_type = COREDUMP_GRIDS, .sh_offset = at, .sh_size = GRID_BYTES, .sh_entsize = GRID_BYTES, .sh_link = DEVICE};
            if (remains->count < cubins + GRID_LIMIT && is_grid(file, at) &&
                is_kernel_start(file, remains, cubins, wide(file, at + ENTRY), &work)) {
                if (!add(remains, grid))
                    return 0;
                at += GRID_BYTES - 1;
                continue;
            }
            uint32_t stride = sm_stride(file, at, sms);
            if (!stride)
                continue;
            tables++;
            table.sh_offset = at;
            table.sh_entsize = stride;
            table.sh_size = (uint64_t)sms * stride;
        }
    }
    return tables != 1 || add(remains, table);
}

int remains_find(struct span file, struct remains *remains)
{
    Elf64_Ehdr header;
    uint64_t device;
    struct reader reader = reader_of(file, 0);
    *remains = (struct remains){NULL, 0};
    uint32_t sms = find_device(file, &device);
    if (!reader_copy(&reader, &header, sizeof header) || header.e_type != ET_CORE || !sms)
        return 1;
    const Elf64_Shdr row = {
        .sh_type = COREDUMP_DEVICES, .sh_offset = device, .sh_size = DEVICE_BYTES, .sh_entsize = DEVICE_BYTES};
    int is_complete = add(remains, (Elf64_Shdr){0}) && add(remains, row) && find_cubins(file, remains);
    size_t cubins = remains->count;
    return is_complete && find_tables(file, cubins, sms, remains);
}
