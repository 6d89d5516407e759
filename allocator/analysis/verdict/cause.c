#include "cause.h"

#include "analysis/dump/kernel_module.h"
#include "analysis/lines/cubin.h"
#include "analysis/sass/emulate.h"
#include "analysis/sass/slice.h"
#include "base/text.h"
#include "launches.h"
#include "owner.h"

#include <stdlib.h>
#include <string.h>

int cause_access(const struct diagnosis *diagnosis, struct origin_access *access)
{
    const struct evidence_stop *stop = fault_stop(diagnosis);
    if (!stop || !stop->symbol || stop->is_in_driver || !stop->is_warp_alive || !diagnosis->access.lane ||
        diagnosis->access.certainty == CERTAIN_NOT)
        return 0;
    *access = (struct origin_access){.code_at = stop->kernel_offset, .address = diagnosis->access.address};
    memcpy(access->block, stop->block_index, sizeof access->block);
    memcpy(access->thread, diagnosis->access.lane->thread, sizeof access->thread);
    return 1;
}

static void find_line(struct span cubin, const char *symbol, struct origin_place *place)
{
    struct cubin_line line;
    if (!cubin_find_kernel_line(cubin, symbol, place->code_at, &line))
        return;
    const char *slash = strrchr(line.file, '/');
    place->line = line.line;
    text_format(place->file, sizeof place->file, "%s", slash ? slash + 1 : line.file);
}

int cause_find(struct span cubin, const char *symbol, const struct rerun_launch *launch, const struct origin_access *access,
               const struct emulate_memory *memory, struct origin *out)
{
    struct cubin_kernel kernel;
    struct sass_access decoded;
    *out = (struct origin){0};
    if (!cubin_find_kernel(cubin, symbol, &kernel))
        return 0;
    struct span at = span_part(kernel.code, access->code_at, SASS_INSTRUCTION_BYTES);
    if (!at.bytes || !sass_decode(sass_load(at.bytes), kernel.sm, &decoded))
        return 0;
    const struct emulate_launch emulated = {.code = kernel.code,
                                            .sm = kernel.sm,
                                            .parameters = {launch->arguments, launch->argument_bytes},
                                            .parameters_at = kernel.parameters_at ?: slice_parameters_at(kernel.sm),
                                            .shape = launch->shape,
                                            .memory = memory};
    struct emulate_lane lane = {.lane = 0};
    memcpy(lane.block_index, access->block, sizeof lane.block_index);
    memcpy(lane.thread, access->thread, sizeof lane.thread);
    lane.lane = (lane.thread[0] + launch->block[0] * (lane.thread[1] + launch->block[1] * lane.thread[2])) % 32;
    origin_find(&emulated, &lane, access->code_at, &decoded, access->address, out);
    for (uint32_t i = 0; i < out->term_count; i++)
        if (out->terms[i].input == ORIGIN_LOADED)
            find_line(cubin, symbol, &out->terms[i].place);
    for (uint32_t i = 0; i < out->wrap_count; i++)
        find_line(cubin, symbol, &out->wraps[i].place);
    return out->is_known;
}

/* The launch, as the dump has it, or the record of the launch that was it. Returns 0 if its arguments are not known. */
static int launch_of(const struct diagnosis *diagnosis, struct rerun_launch *launch)
{
    const struct evidence_stop *stop = fault_stop(diagnosis);
    *launch = (struct rerun_launch){.shape = stop->shape,
                                    .argument_bytes =
                                        (uint32_t)(stop->parameters ? stop->parameter_bytes : diagnosis->arguments.count),
                                    .arguments = stop->parameters ? stop->parameters : diagnosis->arguments.bytes};
    return stop->has_grid && launch->arguments;
}

void cause_in_dump(const struct coredump *dump, struct diagnosis *diagnosis, struct origin *out)
{
    struct origin_access access;
    struct rerun_launch launch;
    struct problem ignored;
    uint8_t *image = NULL;
    size_t image_bytes = 0;
    if (!cause_access(diagnosis, &access) || !launch_of(diagnosis, &launch))
        return;
    const struct evidence_stop *stop = fault_stop(diagnosis);
    if (image_of_kernel(dump, stop->symbol, stop->error_pc, &image, &image_bytes, &ignored) == CUFENCE_OK &&
        cause_find((struct span){image, image_bytes}, stop->symbol, &launch, &access, NULL, out))
        cause_take(diagnosis, out);
    free(image);
}

static int is_same_memory(const cufence_buffer *a, const cufence_buffer *b)
{
    return a && b && a->mapping_start == b->mapping_start && a->mapping_end == b->mapping_end;
}

/* It may come from a file. */
static int is_sound(const struct origin *cause)
{
    int is = cause->is_known && cause->term_count <= ORIGIN_TERMS && cause->wrap_count <= ORIGIN_WRAPS;
    for (uint32_t i = 0; is && i < cause->term_count; i++) {
        const struct origin_term *term = &cause->terms[i];
        is = term->input <= ORIGIN_PARAMETER && (term->input != ORIGIN_LOADED || term->bytes - 1 < 8) &&
             (term->times < 0 || term->times_value);
    }
    return is;
}

void cause_take(struct diagnosis *diagnosis, const struct origin *cause)
{
    static const char reason[] = "the address is computed from a pointer to it";
    struct origin_access access;
    if (!is_sound(cause) || !cause_access(diagnosis, &access) || access.address != cause->address)
        return;
    diagnosis->cause = cause;
    memory_look(diagnosis->memory, cause->base);
    for (uint32_t i = 0; i < cause->term_count; i++)
        memory_look(diagnosis->memory, cause->terms[i].from);
    const cufence_buffer *buffer = word_buffer(diagnosis->memory, cause->base, diagnosis->arguments.time_ns);
    struct evidence_lane lane = *diagnosis->access.lane;
    lane.address = diagnosis->access.address;
    lane.certainty = diagnosis->access.certainty < CERTAIN_RERUN ? diagnosis->access.certainty : CERTAIN_RERUN;
    if (!buffer || (is_same_memory(buffer, diagnosis->verdict.owner) && diagnosis->verdict.certainty >= CERTAIN_RERUN))
        return;
    struct verdict verdict = owner_settle(diagnosis->memory, fault_stop(diagnosis), &lane, buffer, reason);
    if (verdict.rank != RANK_OWNED)
        return;
    if (cause->base_at >= 0)
        verdict.parameter = cause->base_at / 8;
    diagnosis->verdict = verdict;
    diagnosis->candidates = (struct fault_candidates){.count = 0};
}

const struct origin_wrap *cause_wrap(const struct diagnosis *diagnosis)
{
    const struct origin *cause = diagnosis->cause;
    const cufence_buffer *buffer = cause ? word_buffer(diagnosis->memory, cause->base, diagnosis->arguments.time_ns) : NULL;
    for (uint32_t i = 0; buffer && i < cause->wrap_count; i++)
        if (cause->wraps[i].address - buffer->address < buffer->size)
            return &cause->wraps[i];
    return NULL;
}
