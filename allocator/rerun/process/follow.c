#include "memory.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/search.h"
#include "analysis/verdict/cause.h"
#include "base/clock.h"
#include "driver/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART ((uint64_t)64 << 10) /* of the memory, read at once; mappings are multiples of it */
#define PARTS 64u
#define NULL_END ((uint64_t)64 << 10) /* no memory is mapped below */

static struct {
    uint8_t *bytes;            /* PARTS parts */
    uint64_t addresses[PARTS]; /* of the parts; 0: none */
    uint64_t end_ns;
} cache;

static int is_over(void *user)
{
    (void)user;
    return monotonic_ns() >= cache.end_ns;
}

static enum search_region region_of(void *user, uint64_t address, uint64_t bytes)
{
    const struct rerun_input *input = user;
    int found = memory_find(address, bytes), is_ours = address >= input->arena_start && address < input->arena_end;
    if (found > 0)
        return SEARCH_INSIDE;
    return !found && (is_ours || address < NULL_END) ? SEARCH_OUTSIDE : SEARCH_UNKNOWN;
}

static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    uint64_t start = address / PART * PART, offset = address - start;
    unsigned part = (unsigned)(start / PART % PARTS);
    if (region_of(user, address, size) != SEARCH_INSIDE || offset + size > PART)
        return 0;
    uint8_t *own = cache.bytes + part * PART;
    if (cache.addresses[part] != start) {
        cache.addresses[part] = 0;
        if (driver->cuMemcpyDtoH(own, start, PART) != CUDA_SUCCESS)
            return 0;
        cache.addresses[part] = start;
    }
    memcpy(bytes, own + offset, size);
    return 1;
}

static void tell_lost(int socket, const char *why)
{
    struct rerun_message message = {.type = MESSAGE_LOST};
    snprintf(message.text, sizeof message.text, "%s", why);
    rerun_send(socket, &message, -1);
}

static void tell_why(int socket, const struct search *found)
{
    char why[128];
    if (found->lost)
        snprintf(why, sizeof why,
                 "what %" PRIu64 " of %" PRIu64 " do from +0x%" PRIx64 " on depends on values that are not known", found->lost,
                 found->lost + found->followed, found->lost_at);
    else if (found->is_over_before)
        snprintf(why, sizeof why, "time ran out after %" PRIu64 " of them", found->followed);
    else
        snprintf(why, sizeof why, "none of the %" PRIu64 " leaves the memory", found->followed);
    tell_lost(socket, why);
}

static void tell(int socket, const struct search *found)
{
    for (size_t i = 0; i < found->lane_count; i++) {
        const struct evidence_lane *lane = &found->lanes[i];
        struct rerun_message message = {.type = MESSAGE_LANE, .number = lane->lane, .address = lane->address};
        memcpy(message.block, found->block, sizeof message.block);
        memcpy(message.thread, lane->thread, sizeof message.thread);
        rerun_send(socket, &message, -1);
    }
}

static int has_cache(void)
{
    memset(cache.addresses, 0, sizeof cache.addresses);
    return cache.bytes || (cache.bytes = malloc(PARTS * PART));
}

void follow_traced(int socket, const struct rerun_input *input, const struct rerun_launch *launch)
{
    const struct span cubin = {input->image, input->image_bytes};
    const struct emulate_memory memory = {read_memory, (void *)(uintptr_t)input};
    struct rerun_message message = {.type = MESSAGE_CAUSE};
    if (has_cache() && cause_find(cubin, input->symbol, launch, &input->traced, &memory, &message.cause))
        rerun_send(socket, &message, -1);
}

size_t follow_launch(int socket, const struct rerun_input *input, const struct rerun_launch *launch, uint64_t limit_ms)
{
    struct cubin_kernel kernel;
    struct sass_access access;
    if (!cubin_find_kernel((struct span){input->image, input->image_bytes}, input->symbol, &kernel)) {
        tell_lost(socket, "its code is not a cubin, or calls code outside of it");
        return 0;
    }
    struct span at = span_part(kernel.code, input->access_at, SASS_INSTRUCTION_BYTES);
    if (!at.bytes || !sass_decode(sass_load(at.bytes), kernel.sm, &access)) {
        tell_lost(socket, "the access is not an instruction that cufence knows");
        return 0;
    }
    if (!has_cache()) {
        tell_lost(socket, "the host has no memory");
        return 0;
    }
    cache.end_ns = monotonic_ns() + limit_ms * 1000000;
    const struct emulate_memory memory = {read_memory, (void *)(uintptr_t)input};
    const struct emulate_launch emulated = emulate_launch_of(&kernel, launch, &memory);
    struct search found = {.launch = &emulated,
                           .access = &access,
                           .access_pc = input->access_at,
                           .region = region_of,
                           .is_over = is_over,
                           .user = (void *)(uintptr_t)input};
    search_all(&found, 1);
    if (found.lane_count)
        tell(socket, &found);
    else
        tell_why(socket, &found);
    return found.lane_count;
}
