/* What looks at the memory: the figures of what arguments point to, and the thread that is followed. */
#include "process_memory.h"

#include "analysis/sass/emulate.h"
#include "analysis/verdict/cause.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define CHUNK (2 * MIB)
#define MOST_EACH (16 * MIB)
#define MOST_ALL (64 * MIB)

static int add(struct figures_count *count, uint8_t *chunk, uint64_t address, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += CHUNK) {
        uint64_t size = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (driver->cuMemcpyDtoH(chunk, address + at, size) != CUDA_SUCCESS)
            return 0;
        figures_add(count, chunk, size);
    }
    return 1;
}

/* Adds all bytes of the range, or its two ends. `most` is a multiple of 16. */
static int add_range(struct figures_count *count, uint8_t *chunk, const struct rerun_range *range, uint64_t most)
{
    if (range->bytes <= most)
        return add(count, chunk, range->address, range->bytes);
    uint64_t left_out = (range->bytes - most + 7) / 8 * 8; /* so that elements stay whole */
    uint64_t tail = most / 2 + left_out;
    return add(count, chunk, range->address, most / 2) && add(count, chunk, range->address + tail, range->bytes - tail);
}

static void tell(int socket, uint8_t *chunk, const struct rerun_range *range, uint64_t most)
{
    struct rerun_message message = {.type = MESSAGE_FIGURES, .figures = {.address = range->address, .bytes = range->bytes}};
    struct figures_count *count = memory_find(range->address, range->bytes) > 0 ? figures_begin() : NULL;
    if (!count)
        return;
    int is_read = add_range(count, chunk, range, most);
    figures_end(count, &message.figures);
    if (is_read)
        rerun_send(socket, &message, -1);
}

void figures_tell(int socket, const struct rerun_input *input)
{
    uint64_t most = input->range_count * MOST_EACH > MOST_ALL ? MOST_ALL / input->range_count / MIB * MIB : MOST_EACH;
    uint8_t *chunk = malloc(CHUNK);
    for (size_t i = 0; chunk && i < input->range_count; i++)
        tell(socket, chunk, &input->ranges[i], most);
    free(chunk);
}

/* ---- the thread that is followed ---- */

#define PART ((uint64_t)64 << 10) /* of the memory, read at once; mappings are multiples of it */
#define PARTS 64u

static struct {
    uint8_t *bytes;            /* PARTS parts */
    uint64_t addresses[PARTS]; /* of the parts; 0: none */
} cache;

static int read_memory(void *user, uint64_t address, void *bytes, size_t size)
{
    uint64_t start = address / PART * PART, offset = address - start;
    unsigned part = (unsigned)(start / PART % PARTS);
    (void)user;
    if (memory_find(address, size) <= 0 || offset + size > PART)
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

cufence_status trace_thread(int socket, const struct rerun_input *input)
{
    const struct span cubin = {input->image, input->image_bytes};
    const struct emulate_memory memory = {read_memory, NULL};
    struct rerun_message message = {.type = MESSAGE_CAUSE};
    cache.bytes = malloc(PARTS * PART);
    if (cache.bytes &&
        cause_find(cubin, input->bundle.symbol, &input->bundle.launches[0], &input->traced, &memory, &message.cause))
        rerun_send(socket, &message, -1);
    return CUFENCE_OK;
}
