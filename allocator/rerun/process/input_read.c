/* In a file of its own: a library that only writes needs no parser. */
#include "rerun/input.h"

#include "base/reader.h"
#include "json/json_table.h"

static int has_sound_move(const struct rerun_input *input)
{
    return !input->moved_bytes ||
           (input->moved_to >= input->arena_start + MOVED_ROOM && input->moved_to < input->arena_end - MOVED_ROOM &&
            input->moved_bytes < input->arena_end - MOVED_ROOM - input->moved_to);
}

cufence_status rerun_input_read(const void *bytes, size_t size, struct rerun_input *input, struct json_memory *memory,
                                struct problem *problem)
{
    struct reader reader = reader_of((struct span){bytes, size}, 0);
    struct rerun_head got;
    json_error_t ignored;
    if (!reader_copy(&reader, &got, sizeof got) || memcmp(got.magic, RERUN_MAGIC, sizeof got.magic) != 0)
        return problem_set(problem, CUFENCE_ERROR_CORRUPT, "this is not an input of cufence");
    if (got.version != RERUN_VERSION)
        return problem_set(problem, CUFENCE_ERROR_UNSUPPORTED, "an input of version %u, but this cufence reads version %u",
                           got.version, RERUN_VERSION);
    struct reader json = reader_cut(&reader, got.json_bytes);
    memory->json = json_loadb((const char *)json.at, reader_left(&json), 0, &ignored);
    cufence_status status = json_table_read(&rerun_input_record, memory->json, input, memory, problem);
    input->image = reader.at;
    if (status == CUFENCE_OK && input->launch_count && input->arena_start < input->arena_end && has_sound_move(input) &&
        rerun_pinned_is_sound(input->pinned, input->pinned_count, input->arena_start, input->arena_end) && input->image_bytes &&
        reader_left(&reader) == input->image_bytes)
        return CUFENCE_OK;
    json_memory_free(memory);
    return status == CUFENCE_ERROR_OUT_OF_MEMORY ? status : problem_set(problem, CUFENCE_ERROR_CORRUPT, "the input is damaged");
}
