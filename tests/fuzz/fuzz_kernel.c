/*
 * The code of a kernel in a bundle, as `cufence replay` takes it: a cubin, into which barriers are put, and whose threads are
 * emulated; and where the address of an access comes from. The input: the number of the access's instruction (1 byte),
 * dimensions of grid and block (1 byte each), 16 bytes of parameters, and the cubin, whose kernel is "k". Its bytes also serve
 * as the device's memory.
 */
#include "fuzz.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/fence.h"
#include "analysis/sass/origin.h"
#include "analysis/sass/search.h"

enum { PARAMETERS = 3, HEAD = PARAMETERS + 16, MEMORY = 0x10000, QUESTIONS = 2 };

struct world {
    struct span memory; /* at MEMORY */
    unsigned asked;
};

static int is_over(void *user)
{
    struct world *world = user;
    return ++world->asked > QUESTIONS;
}

static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    const struct world *world = user;
    struct span part = span_part(world->memory, address - MEMORY, size);
    require(size > 0 && size <= 16);
    if (part.bytes)
        memcpy(bytes, part.bytes, size);
    return part.bytes != NULL;
}

static enum search_region region_of(void *user, uint64_t address, uint64_t bytes)
{
    const struct world *world = user;
    require(bytes > 0 && bytes <= 16);
    if (span_part(world->memory, address - MEMORY, bytes).bytes)
        return SEARCH_INSIDE;
    return address < (uint64_t)1 << 47 ? SEARCH_OUTSIDE : SEARCH_UNKNOWN;
}

/* Of the first thread of the warp that was found, else of the first one of all. */
static void look_for_origin(const struct search *found, uint64_t at)
{
    struct origin origin;
    struct emulate_lane lane = {.lane = 0};
    uint64_t address = 0, budget = 1000;
    if (found->lane_count) {
        memcpy(lane.block_index, found->block, sizeof lane.block_index);
        memcpy(lane.thread, found->lanes[0].thread, sizeof lane.thread);
        address = found->lanes[0].address;
    } else {
        lane.pc = at;
        emulate(found->launch, &lane, at, found->access, &budget, &address);
    }
    int is_known = origin_find(found->launch, &lane, at, found->access, address, &origin);
    require(origin.term_count <= ORIGIN_TERMS && origin.wrap_count <= ORIGIN_WRAPS && is_known == origin.is_known);
    uint64_t sum = origin.base + origin.constant;
    for (uint32_t i = 0; i < origin.term_count; i++) {
        const struct origin_term *term = &origin.terms[i];
        require(!term->factor || term->factor * term->value == term->adds);
        sum += term->adds;
    }
    require(!is_known || (origin.address == address && (!origin.has_formula || sum == address)));
}

static void emulate_threads(const uint8_t *data, struct span cubin)
{
    struct cubin_kernel kernel;
    struct sass_access access;
    if (!cubin_find_kernel(cubin, "k", &kernel))
        return;
    uint64_t at = data[0] * (uint64_t)SASS_INSTRUCTION_BYTES;
    struct span instruction = span_part(kernel.code, at, SASS_INSTRUCTION_BYTES);
    if (!instruction.bytes || !sass_decode(sass_load(instruction.bytes), kernel.sm, &access))
        return;
    struct world world = {.memory = cubin};
    const struct emulate_memory memory = {read_memory, &world};
    const struct emulate_launch launch = {.code = kernel.code,
                                          .sm = kernel.sm,
                                          .parameters = {data + PARAMETERS, 16},
                                          .parameters_at = kernel.parameters_at ? kernel.parameters_at : 0x210,
                                          .memory = &memory,
                                          .grid = {data[1] & 15u, (data[1] >> 4) + 1u, UINT16_MAX},
                                          .block = {data[2] & 63u, (data[2] >> 6) + 1u, 1}};
    struct search found = {
        .launch = &launch, .access = &access, .access_pc = at, .region = region_of, .is_over = is_over, .user = &world};
    search_all(&found, 1);
    require(found.lane_count <= SEARCH_LANES);
    for (size_t i = 0; i < found.lane_count; i++)
        require(found.lanes[i].lane < SEARCH_LANES && found.lanes[i].thread[0] < launch.block[0] &&
                region_of(&world, found.lanes[i].address, 1) != SEARCH_UNKNOWN);
    look_for_origin(&found, at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem problem;
    struct fence fence;
    if (size <= HEAD)
        return 0;
    struct span cubin = {data + HEAD, size - HEAD};
    emulate_threads(data, cubin);
    size_t fenced_bytes = cubin.size;
    uint8_t *fenced = malloc(fenced_bytes);
    require(fenced != NULL);
    memcpy(fenced, cubin.bytes, fenced_bytes);
    if (fence_put(&fenced, &fenced_bytes, "k", data[0] * 16u, &fence, &problem) == CUFENCE_OK) {
        require(fence.fenced <= fence.exits && fenced_bytes >= cubin.size);
        emulate_threads(data, (struct span){fenced, fenced_bytes});
    }
    free(fenced);
    return 0;
}
