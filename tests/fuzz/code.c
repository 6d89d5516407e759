/* Targets that read code: of a device, in a cubin, and what says where it comes from. */
#include "fuzz.h"

#include "analysis/lines/cubin.h"
#include "analysis/lines/fatbin.h"
#include "analysis/sass/emulate.h"
#include "analysis/sass/fence.h"
#include "analysis/sass/origin.h"
#include "stacks/python_layout.h"

/* ---- fatbin ---- */

/* A fat binary, and its images unpacked. The input is the file. */
#define MOST (1u << 20)

FUZZ(fatbin)
{
    struct span file = {data, size};
    struct fatbin_image image;
    uint64_t at = 0;
    if (size < FATBIN_HEADER || fatbin_size(data) == 0)
        return 0;
    while (fatbin_next(file, &at, &image) == 1) {
        require(at <= size);
        uint8_t *room = image.size <= MOST ? malloc(image.size) : NULL;
        if (room)
            fatbin_unpack(&image, room);
        free(room);
    }
    return 0;
}

/* ---- kernel ---- */

/*
 * The code of a kernel in a bundle, as `cufence replay` takes it: a cubin, into which barriers are put, and whose first thread
 * is emulated; and where the address of an access comes from. The input: the number of the access's instruction (1 byte),
 * dimensions of grid and block (1 byte each), 16 bytes of parameters, and the cubin, whose kernel is "k". Its bytes also serve
 * as the device's memory.
 */
enum { KERNEL_PARAMETERS = 3, KERNEL_HEAD = KERNEL_PARAMETERS + 16, KERNEL_MEMORY = 0x10000 };

static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    const struct span *memory = user; /* at KERNEL_MEMORY */
    struct span part = span_part(*memory, address - KERNEL_MEMORY, size);
    require(size > 0 && size <= 16);
    if (part.bytes)
        memcpy(bytes, part.bytes, size);
    return part.bytes != NULL;
}

/* Of the first thread. */
static void look_for_origin(const struct emulate_launch *launch, const struct sass_access *access, uint64_t at)
{
    struct origin origin;
    struct emulate_lane lane = {.pc = at};
    uint64_t address = 0, budget = 1000;
    emulate(launch, &lane, at, access, &budget, &address);
    int is_known = origin_find(launch, &lane, at, access, address, &origin);
    require(origin.term_count <= ORIGIN_TERMS && origin.wrap_count <= ORIGIN_WRAPS && is_known == origin.is_known);
    uint64_t sum = origin.base + origin.constant;
    for (uint32_t i = 0; i < origin.term_count; i++) {
        const struct origin_term *term = &origin.terms[i];
        require(!term->factor || term->factor * term->value == term->adds);
        sum += term->adds;
    }
    require(!is_known || (origin.address == address && (!origin.has_formula || sum == address)));
}

static void emulate_thread(const uint8_t *data, struct span cubin)
{
    struct cubin_kernel kernel;
    struct sass_access access;
    if (!cubin_find_kernel(cubin, "k", &kernel))
        return;
    uint64_t at = data[0] * (uint64_t)SASS_INSTRUCTION_BYTES;
    struct span instruction = span_part(kernel.code, at, SASS_INSTRUCTION_BYTES);
    if (!instruction.bytes || !sass_decode(sass_load(instruction.bytes), kernel.sm, &access))
        return;
    const struct emulate_memory memory = {read_memory, &cubin};
    const struct emulate_launch launch = {.code = kernel.code,
                                          .sm = kernel.sm,
                                          .parameters = {data + KERNEL_PARAMETERS, 16},
                                          .parameters_at = kernel.parameters_at ? kernel.parameters_at : 0x210,
                                          .memory = &memory,
                                          .grid = {data[1] & 15u, (data[1] >> 4) + 1u, UINT16_MAX},
                                          .block = {data[2] & 63u, (data[2] >> 6) + 1u, 1}};
    look_for_origin(&launch, &access, at);
}

FUZZ(kernel)
{
    struct problem problem;
    struct fence fence;
    if (size <= KERNEL_HEAD)
        return 0;
    struct span cubin = {data + KERNEL_HEAD, size - KERNEL_HEAD};
    emulate_thread(data, cubin);
    size_t fenced_bytes = cubin.size;
    uint8_t *fenced = malloc(fenced_bytes);
    require(fenced != NULL);
    memcpy(fenced, cubin.bytes, fenced_bytes);
    if (fence_put(&fenced, &fenced_bytes, "k", data[0] * 16u, &fence, &problem) == CUFENCE_OK) {
        require(fence.fenced <= fenced_bytes / 16 && fenced_bytes >= cubin.size);
        emulate_thread(data, (struct span){fenced, fenced_bytes});
    }
    free(fenced);
    return 0;
}

/* ---- lines ---- */

/*
 * A cubin's line table by itself, which the target for core dumps reaches only if everything around it is valid. The input: the
 * place to look up (2 bytes), how .debug_line is relocated (1), the sizes of .debug_line_str and .debug_str (1 each), those
 * two, and .debug_line.
 */
static int relocation(void *user, uint64_t offset, uint64_t *base)
{
    unsigned way = *(const uint8_t *)user;
    *base = way & 0xf0;
    return (int)((way + offset % 3) % 3) - 1;
}

static struct span take(const uint8_t **data, size_t *left, size_t size)
{
    struct span part = {*data, size < *left ? size : *left};
    *data += part.size;
    *left -= part.size;
    return part;
}

static int is_within(struct span span, const char *text)
{
    uintptr_t at = (uintptr_t)text, start = (uintptr_t)span.bytes;
    return at >= start && at < start + span.size && memchr(text, 0, span.size - (at - start)) != NULL;
}

static int is_named(const struct line_query *query, const char *text)
{
    return is_within(query->line, text) || is_within(query->line_str, text) || is_within(query->str, text);
}

FUZZ(lines)
{
    struct cubin_line place = {0};
    if (size < 5)
        return 0;
    uint8_t way = data[2];
    uint64_t offset = data[0] | (uint64_t)data[1] << 8;
    size_t left = size - 5, line_str = data[3], str = data[4];
    data += 5;
    struct line_query query = {.start = 0x1000, .offset = offset, .relocation = relocation, .user = &way};
    query.line_str = take(&data, &left, line_str);
    query.str = take(&data, &left, str);
    query.line = take(&data, &left, left);
    if (!lines_find(&query, &place))
        return 0;
    /* the contract: the names are within the sections */
    require(is_named(&query, place.file) && (!place.directory || is_named(&query, place.directory)));
    return 0;
}

/* ---- sass ---- */

/*
 * Machine code from a core dump: decodes each instruction, and emulates all of it. The input: architecture, the access to look
 * for, the lane's PC, its block and thread (1 byte each), 8 bytes of parameters, and the code; the words of the code also serve
 * as the lane's registers.
 */
enum { HEAD = 13, REGISTERS = 64, START = 0x1000, PARAMETERS_AT = 0x160, STEPS = 5000 };

/* Checks that the results for one instruction are consistent. Returns 1 if it is an access that can be decoded. */
static int decode(struct sass_instruction instruction, unsigned sm, struct sass_access *access)
{
    uint32_t registers[REGISTERS], uniforms[REGISTERS];
    uint64_t address;
    enum access_kind kind;
    const char *name = sass_class(instruction, &kind);
    struct sass_bulk bulk;
    require(!name || *name);
    require(!sass_bulk(instruction, &bulk) || (name && memchr(bulk.text, 0, sizeof bulk.text) && bulk.dimensions <= 5));
    (void)(sass_writes_register(instruction, 4, 2) + sass_writes_uniform(instruction) + sass_writes_predicate(instruction) +
           sass_may_write_uniform_predicate(instruction, 0) + sass_is_known(instruction) + sass_branches(instruction));
    memset(access, 0xa5, sizeof *access);
    if (!sass_decode(instruction, sm, access))
        return 0;
    require(memchr(access->text, 0, sizeof access->text) != NULL && access->predicate <= 7 && access->base <= SASS_RZ);
    for (unsigned i = 0; i < REGISTERS; i++)
        registers[i] = uniforms[i] = i * 0x01010101u;
    (void)sass_address(access, registers, REGISTERS, uniforms, REGISTERS, &address);
    return 1;
}

FUZZ(sass)
{
    static const unsigned architectures[] = {70, 75, 80, 86, 89, 90, 100, 120};
    struct sass_access access, asked;
    uint32_t registers[REGISTERS] = {0};
    if (size < HEAD + SASS_INSTRUCTION_BYTES)
        return 0;
    unsigned sm = architectures[data[0] % 8];
    const uint8_t *code = data + HEAD;
    size_t count = (size - HEAD) / SASS_INSTRUCTION_BYTES, wanted = data[1] % count;
    int is_access = 0;
    for (size_t i = 0; i < count; i++) {
        int is_decoded = decode(sass_load(code + i * SASS_INSTRUCTION_BYTES), sm, &access);
        if (i == wanted && is_decoded) {
            asked = access;
            is_access = 1;
        }
    }
    if (!is_access)
        return 0;
    size_t words = count * SASS_INSTRUCTION_BYTES < sizeof registers ? count * SASS_INSTRUCTION_BYTES : sizeof registers;
    memcpy(registers, code, words);
    const struct emulate_launch launch = {.code = {code, count * SASS_INSTRUCTION_BYTES},
                                          .start = START,
                                          .sm = sm,
                                          .parameters = {data + 5, 8},
                                          .parameters_at = PARAMETERS_AT,
                                          .grid = {4, 2, 1},
                                          .block = {64, 2, 1}};
    struct emulate_lane lane = {.block_index = {data[3] % 4, data[3] % 2, 0}, .thread = {data[4] % 64, 0, 0}};
    lane.lane = data[4] % 32;
    if (data[2] != 0) {
        lane.pc = START + (uint64_t)(data[2] % (count + 1)) * SASS_INSTRUCTION_BYTES;
        lane.registers = registers;
        lane.register_count = REGISTERS;
    }
    uint64_t budget = STEPS, address = 0;
    (void)emulate(&launch, &lane, START + wanted * SASS_INSTRUCTION_BYTES, &asked, &budget, &address);
    require(budget <= STEPS); /* it is only counted down */
    return 0;
}

/* ---- linetable ---- */

/*
 * A code object's line table, first line and position, as read from the memory of an interpreter that may be exiting. The
 * input: the format, the position (2 bytes), the first line (4 bytes), and the table.
 */
FUZZ(linetable)
{
    int16_t position;
    int32_t first_line;
    if (size < 7)
        return 0;
    memcpy(&position, data + 1, sizeof position);
    memcpy(&first_line, data + 3, sizeof first_line);
    int line = linetable_line(data[0] % 2, data + 7, size - 7, first_line, position);
    require(position < 0 ? line == first_line
                         : line >= 0); /* the contract: the first line before the first instruction, and 0 if unknown */
    return 0;
}
