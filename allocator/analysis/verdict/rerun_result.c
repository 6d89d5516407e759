#include "rerun_result.h"

#include "cause.h"
#include "launches.h"
#include "owner.h"

#include <stdio.h>
#include <string.h>

static void limit(enum certainty *certainty)
{
    if (*certainty > CERTAIN_RERUN)
        *certainty = CERTAIN_RERUN;
}

/* Returns 1 if the exception is about an access to global memory, or may be. */
static int is_about_memory(const struct evidence_stop *stop)
{
    enum exception_class class = stop->exception.class;
    return class == CLASS_ADDRESS || class == CLASS_GIVEN_ONLY || class == CLASS_MISALIGNED;
}

static int is_same_kind(const struct evidence_stop *a, const struct evidence_stop *b)
{
    if (!is_about_memory(a) || !is_about_memory(b))
        return a->exception.number == b->exception.number;
    return (a->exception.class == CLASS_MISALIGNED) == (b->exception.class == CLASS_MISALIGNED);
}

const struct evidence_stop *rerun_result_elsewhere(const struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    const struct evidence *evidence = rerun->outcome == RERUN_FAULTED ? rerun->evidence : NULL;
    if (!evidence || !diagnosis->stop || !diagnosis->stop->symbol)
        return NULL;
    for (size_t i = 0; i < evidence->stop_count; i++)
        if (!evidence->stops[i].symbol || diagnosis_is_copy(&evidence->stops[i], diagnosis->stop))
            return NULL;
    return evidence->stop_count ? &evidence->stops[0] : NULL;
}

/* Returns the first dump's stop with the warp of the second launch. Grid and parameters stay the first dump's if it has those
 * of the faulting warp. */
static struct evidence_stop with_warp(const struct evidence_stop *stop, const struct evidence_stop *again)
{
    struct evidence_stop made = *stop;
    int is_own = !stop->is_grid_borrowed;
    made.is_warp_alive = 1;
    made.is_grid_borrowed = 0;
    made.sm = again->sm;
    made.warp = again->warp;
    made.lanes = again->lanes;
    made.lane_count = again->lane_count;
    memcpy(made.block_index, again->block_index, sizeof made.block_index);
    if (!is_own || !stop->has_grid) {
        made.has_grid = again->has_grid;
        made.grid_id = again->grid_id;
        made.shape = again->shape;
    }
    if (!is_own || !stop->parameters) {
        made.parameters = again->parameters;
        made.parameter_bytes = again->parameter_bytes;
    }
    return made;
}

/* Enters the recorded launch that was launched again, unless the first dump is certain of the launch. */
static void take_launch(struct diagnosis *diagnosis, const struct fault_launch *launch)
{
    struct launch_match *origin = &diagnosis->origin;
    if (!launch || origin->certainty == CERTAIN_EXACT)
        return;
    origin->launch = launch;
    origin->certainty = CERTAIN_RERUN;
    if (!launch->entry->graph && !origin->fits)
        origin->fits = 1;
}

/* Enters the arguments of the second launch: from its dump, otherwise from the record of the launch that was launched again. */
static void take_arguments(struct diagnosis *diagnosis, const struct diagnosis *again, const struct fault_launch *launch)
{
    struct fault_arguments *arguments = &diagnosis->arguments;
    const struct launch_entry *entry = launch ? launch->entry : NULL;
    if (arguments->bytes && arguments->certainty == CERTAIN_EXACT)
        return;
    if (again && again->stop->parameters)
        *arguments = again->arguments;
    else if (entry && entry->function && entry->function->has_layout && entry->kept_bytes)
        *arguments = (struct fault_arguments){
            .layout = entry->function, .bytes = entry->bytes, .count = entry->kept_bytes, .certainty = CERTAIN_RERUN};
    else
        return;
    arguments->time_ns = entry ? entry->time_ns : 0;
    limit(&arguments->certainty);
}

static void take_record(struct diagnosis *diagnosis, const struct diagnosis *again, const struct rerun_result *rerun)
{
    diagnosis->again = diagnosis->again ?: AGAIN_WRITES;
    limit(&diagnosis->access.certainty);
    limit(&diagnosis->verdict.certainty);
    take_launch(diagnosis, rerun->launch);
    take_arguments(diagnosis, again, rerun->launch);
    if (diagnosis->verdict.owner && !fault_stop(diagnosis)->parameters)
        diagnosis_find_parameter(diagnosis);
}

static int is_writing(const struct evidence_stop *stop)
{
    return stop->access == ACCESS_WRITE || stop->access == ACCESS_ATOMIC;
}

/* The dump's registers may have changed since the access; that something was written just there settles it. */
static void confirm(struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    for (size_t i = 0; i < rerun->write_count && is_writing(fault_stop(diagnosis)); i++) {
        const struct rerun_write *write = &rerun->writes[i];
        if (!write->buffer || write->is_slack || diagnosis->access.address - write->address >= write->bytes)
            continue;
        diagnosis->access.certainty = CERTAIN_RERUN;
        if (diagnosis->verdict.owner && diagnosis->verdict.owner->id == write->buffer->id)
            diagnosis->verdict.certainty = CERTAIN_RERUN;
    }
}

/* Enters the warp of the second launch that `again` is about. */
static void take_view(struct diagnosis *diagnosis, const struct diagnosis *again)
{
    const struct evidence_stop stop = *fault_stop(diagnosis);
    int is_own_grid = again->stop->has_grid && (stop.is_grid_borrowed || !stop.has_grid);
    diagnosis->again = is_own_grid ? AGAIN_GRID : AGAIN_WARP;
    diagnosis->view = with_warp(&stop, again->stop);
    diagnosis->access.lane = again->access.lane;
    diagnosis->access.threads = again->access.threads;
}

/* The address is that of registers which may have changed since. */
static int is_guess(const struct diagnosis *diagnosis)
{
    return diagnosis->access.certainty != CERTAIN_NOT && !fault_is_address_sure(diagnosis);
}

/* Returns whether the second launch may have gone astray only because of state that it had not: an address beside no buffer
 * then means nothing. State other than variables is no part of one that comes from the arguments alone. */
static int is_astray(const struct diagnosis *again, const struct rerun_result *rerun)
{
    const struct address_source *source = &again->stop->source;
    int is_given = !is_about_memory(again->stop) || (source->is_known && !source->is_loaded);
    return !again->verdict.owner && (rerun->unset[0] || (rerun->lacks[0] && !is_given));
}

/* Takes over the diagnosis of a warp that faulted at the same place. Returns 0 if there is none whose address is known. */
static int take_warp(struct diagnosis *diagnosis, const struct evidence *evidence, const struct rerun_result *rerun)
{
    struct diagnosis again;
    if (!evidence)
        return 0;
    for (int with_copies = 0; with_copies < 2; with_copies++) {
        diagnosis_of_place(evidence, diagnosis->memory, diagnosis->stop, with_copies, &again);
        if (again.stop && again.access.certainty != CERTAIN_NOT)
            break;
    }
    if (!again.stop || again.access.certainty == CERTAIN_NOT || !is_same_kind(again.stop, diagnosis->stop) ||
        is_astray(&again, rerun))
        return 0;
    int is_lost = again.verdict.kind == FAULT_WILD && diagnosis->verdict.kind != FAULT_WILD; /* the dump's says more */
    if (is_guess(diagnosis) && (is_lost || again.access.certainty != CERTAIN_EXACT))
        return 0;
    diagnosis->verdict = again.verdict;
    diagnosis->access = again.access;
    diagnosis->candidates = again.candidates;
    take_view(diagnosis, &again);
    take_record(diagnosis, &again, rerun);
    confirm(diagnosis, rerun);
    return 1;
}

static int is_written(const struct rerun_result *rerun, uint64_t address)
{
    int is_any = 0;
    for (size_t i = 0; i < rerun->write_count; i++) {
        const struct rerun_write *write = &rerun->writes[i];
        if (!write->is_slack && address - write->address < write->bytes)
            return 1;
        is_any |= !write->is_slack;
    }
    return !is_any; /* nothing was seen, so nothing contradicts */
}

static void take_buffer(struct rerun_write *write, const cufence_buffer *buffer)
{
    write->buffer = buffer;
    write->is_before = write->address < buffer->address;
    write->distance = write->is_before ? buffer->address - (write->address + write->bytes)
                                       : write->address - (buffer->address + buffer->size);
}

/* Slack belongs to the newest buffer of its mapping, which may have been freed since. */
static void name_owner(struct rerun_write *write, const struct fault_memory *memory)
{
    for (size_t i = 0; i < memory->near_count; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        int is_outside = write->address >= buffer->address + buffer->size || write->address + write->bytes <= buffer->address;
        if (write->address >= buffer->mapping_start && write->address < buffer->mapping_end && is_outside &&
            (!write->buffer || buffer->id > write->buffer->id))
            take_buffer(write, buffer);
    }
}

static void name_buffer(struct rerun_write *write, const struct fault_memory *memory)
{
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < memory->near_count; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        uint64_t end = buffer->address + buffer->size;
        int is_before = write->address < buffer->address;
        uint64_t distance = is_before ? buffer->address - (write->address + write->bytes) : write->address - end;
        if (buffer->freed_ns || (write->address < buffer->guard_start || write->address >= buffer->guard_end) ||
            distance >= best)
            continue;
        best = distance;
        take_buffer(write, buffer);
    }
}

/* Returns 1 if what is not listed lies beside the buffer of `nearest`, and no nearer. */
static int is_rest_beside(const struct rerun_result *rerun, const struct rerun_write *nearest,
                          const struct fault_memory *memory)
{
    struct rerun_write ends[] = {{.address = rerun->rest_start, .bytes = 1}, {.address = rerun->rest_end - 1, .bytes = 1}};
    for (size_t i = 0; i < 2; i++) {
        name_buffer(&ends[i], memory);
        if (!ends[i].buffer || ends[i].buffer->id != nearest->buffer->id || ends[i].distance < nearest->distance)
            return 0;
    }
    return 1;
}

/* Returns the write that is nearest to the only buffer in whose guard anything was written; NULL if there are several buffers,
 * or may be. */
static const struct rerun_write *only_write(const struct rerun_result *rerun, const struct fault_memory *memory)
{
    const struct rerun_write *nearest = NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; i < rerun->write_count; i++) {
        const struct rerun_write *write = &rerun->writes[i];
        bytes += write->bytes;
        if (write->is_slack)
            continue;
        if (!write->buffer || (nearest && write->buffer->id != nearest->buffer->id))
            return NULL;
        if (!nearest || write->distance < nearest->distance)
            nearest = write;
    }
    if (nearest && rerun->rest_start != rerun->rest_end)
        return is_rest_beside(rerun, nearest, memory) ? nearest : NULL;
    /* What was written into guards comes first: if slack is the last that is known, all of that is. */
    int has_all = bytes >= rerun->written_bytes || (nearest && rerun->writes[rerun->write_count - 1].is_slack);
    return has_all ? nearest : NULL;
}

/* Blames the buffer beside which the second launch wrote. */
static void take_write(struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    static const char reason[] = "the second launch wrote into its guard";
    const struct evidence_stop *stop = fault_stop(diagnosis);
    const struct rerun_write *write = only_write(rerun, diagnosis->memory);
    if (!write || !is_writing(stop) || stop->exception.class == CLASS_MISALIGNED)
        return;
    const struct evidence_lane lane = {.address = write->address, .certainty = CERTAIN_EXACT};
    struct verdict verdict = owner_settle(diagnosis->memory, stop, &lane, write->buffer, reason);
    if (verdict.rank != RANK_OWNED)
        return;
    diagnosis->verdict = verdict;
    diagnosis->access.address = write->address;
    diagnosis->access.certainty = CERTAIN_RERUN;
    diagnosis->candidates = (struct fault_candidates){.count = 0};
    take_record(diagnosis, NULL, rerun);
}

/* Takes only block and thread of a warp that had exited in the first launch: no address is known, or none matters. */
static void take_thread(struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    struct diagnosis again;
    if (fault_stop(diagnosis)->is_warp_alive || rerun->outcome != RERUN_FAULTED || !rerun->evidence)
        return;
    diagnosis_of_place(rerun->evidence, diagnosis->memory, diagnosis->stop, 0, &again);
    if (!again.stop || !is_same_kind(again.stop, diagnosis->stop) || is_astray(&again, rerun))
        return;
    take_view(diagnosis, &again);
    take_record(diagnosis, &again, rerun);
}

static void take_address(struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    int is_again = rerun->outcome == RERUN_FAULTED || rerun->outcome == RERUN_WROTE;
    if (fault_is_address_sure(diagnosis) || rerun_result_elsewhere(diagnosis, rerun) ||
        (is_again && take_warp(diagnosis, rerun->evidence, rerun)))
        return;
    if (is_guess(diagnosis)) {
        if (is_again && is_writing(fault_stop(diagnosis)) && !is_written(rerun, diagnosis->access.address))
            take_write(diagnosis, rerun);
        return;
    }
    if (is_again && diagnosis->access.certainty == CERTAIN_NOT)
        take_write(diagnosis, rerun);
    take_thread(diagnosis, rerun);
}

void diagnosis_take_rerun(struct diagnosis *diagnosis, const struct rerun_result *rerun)
{
    if (!diagnosis->stop)
        return;
    if (rerun->evidence)
        memory_meet(diagnosis->memory, rerun->evidence);
    if (is_about_memory(diagnosis->stop))
        take_address(diagnosis, rerun);
    else
        take_thread(diagnosis, rerun);
}

void fault_diagnose_rerun(const struct evidence *evidence, const struct rerun_result *rerun, const struct fault_memory *memory,
                          struct diagnosis *diagnosis)
{
    fault_diagnose(evidence, memory, diagnosis);
    if (!rerun)
        return;
    diagnosis_take_rerun(diagnosis, rerun);
    cause_take(diagnosis, &rerun->cause);
}

void rerun_result_add_unset(struct rerun_result *rerun, const char *name)
{
    size_t length = strlen(rerun->unset), size = strlen(name);
    for (const char *at = rerun->unset; (at = strstr(at, name)) != NULL; at++)
        if ((at[size] == ',' || !at[size]) && (at == rerun->unset || at[-1] == ' '))
            return;
    if (length + size + sizeof ", ..." < sizeof rerun->unset)
        snprintf(rerun->unset + length, sizeof rerun->unset - length, "%s%s", length ? ", " : "", name);
    else if (length < 3 || strcmp(rerun->unset + length - 3, "...") != 0)
        snprintf(rerun->unset + length, sizeof rerun->unset - length, "%s...", length ? ", " : "");
}

void rerun_result_clear(struct rerun_result *rerun)
{
    struct rerun_result clear = {.launches_tried = rerun->launches_tried, .took_ms = rerun->took_ms};
    memcpy(clear.unset, rerun->unset, sizeof clear.unset);
    *rerun = clear;
}

cufence_status rerun_result_fail(struct rerun_result *rerun, const char *why)
{
    if (rerun->outcome != RERUN_FAILED)
        snprintf(rerun->reason, sizeof rerun->reason, "%s", why);
    rerun->outcome = RERUN_FAILED;
    return CUFENCE_ERROR_UNSUPPORTED;
}

const char *const rerun_outcome_words[] = {
    [RERUN_NOT_TRIED] = "",        [RERUN_FAULTED] = "faulted", [RERUN_WROTE] = "wrote",
    [RERUN_NO_FAULT] = "no fault", [RERUN_FAILED] = "failed",   NULL,
};

void rerun_result_name_buffers(struct rerun_result *rerun, const struct fault_memory *memory)
{
    for (size_t i = 0; i < rerun->write_count; i++) {
        memory_look(memory, rerun->writes[i].address);
        (rerun->writes[i].is_slack ? name_owner : name_buffer)(&rerun->writes[i], memory);
    }
}
