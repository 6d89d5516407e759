/*
 * The code of a kernel in a bundle, as `cufence replay` takes it: a cubin, into which barriers are put, and whose first thread
 * is emulated; and where the address of an access comes from. The input: the number of the access's instruction (1 byte),
 * dimensions of grid and block (1 byte each), 16 bytes of parameters, and the cubin, whose kernel is "k". Its bytes also serve
 * as the device's memory.
 */
#include "fuzz.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/emulate.h"
#include "analysis/sass/fence.h"
#include "analysis/sass/origin.h"

enum { PARAMETERS = 3, HEAD = PARAMETERS + 16, MEMORY = 0x10000 };

static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    const struct span *memory = user; /* at MEMORY */
    struct span part = span_part(*memory, address - MEMORY, size);
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
                                          .parameters = {data + PARAMETERS, 16},
                                          .parameters_at = kernel.parameters_at ? kernel.parameters_at : 0x210,
                                          .memory = &memory,
                                          .grid = {data[1] & 15u, (data[1] >> 4) + 1u, UINT16_MAX},
                                          .block = {data[2] & 63u, (data[2] >> 6) + 1u, 1}};
    look_for_origin(&launch, &access, at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct fence fence;
    if (size <= HEAD)
        return 0;
    struct span cubin = {data + HEAD, size - HEAD};
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
