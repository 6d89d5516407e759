#include "memory.h"

#include "analysis/sass/emulate.h"
#include "analysis/verdict/cause.h"
#include "driver/driver.h"

#include <stdlib.h>
#include <string.h>

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

void trace_thread(int socket, const struct rerun_input *input)
{
    const struct span cubin = {input->image, input->image_bytes};
    const struct emulate_memory memory = {read_memory, NULL};
    struct rerun_message message = {.type = MESSAGE_CAUSE};
    cache.bytes = malloc(PARTS * PART);
    if (cache.bytes && cause_find(cubin, input->symbol, &input->launches[0], &input->traced, &memory, &message.cause))
        rerun_send(socket, &message, -1);
}
