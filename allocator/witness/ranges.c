#include "ranges.h"

#include "analysis/verdict/arguments.h"

#include <string.h>

static int is_chosen(const struct rerun_input *input, uint64_t address)
{
    for (size_t i = 0; i < input->range_count; i++)
        if (input->ranges[i].address == address)
            return 1;
    return 0;
}

void describe_arguments(struct rerun_input *input, const struct rerun_launch *launch, const struct fault_memory *memory)
{
    for (size_t i = 0; i + 8 <= launch->argument_bytes && input->range_count < RERUN_RANGES; i += 8) {
        uint64_t word;
        memcpy(&word, launch->arguments + i, sizeof word);
        const cufence_buffer *buffer = word_buffer(memory, word, 0);
        uint64_t bytes = buffer ? buffer->address + buffer->size - word : 0;
        if (bytes && !buffer->freed_ns && !is_chosen(input, word))
            input->ranges[input->range_count++] = (struct rerun_range){word, bytes};
    }
}
