
#include "parts.h"

#include <inttypes.h>

#define TICK_NS 10000000 /* by which the time of a launch may be early */

static uint64_t threads_of(const struct evidence_stop *stop)
{
    uint64_t threads = 1;
    for (int i = 0; i < 3; i++)
        threads *= (uint64_t)stop->grid[i] * stop->block[i];
    return threads;
}

/* Rows of a buffer, by the argument that the thread's row is multiplied with: a row too many, or the stride of another shape.
 * Returns whether there is a hint. */
static int take_rows(struct finding *finding)
{
    const struct cause_fact *cause = &finding->cause;
    uint64_t row = 0, stride = 0, elements = cause->unit ? finding->buffer.buffer->size / cause->unit : 0;
    struct argument_name argument = unnamed_argument;
    for (size_t i = 0; i < cause->term_count; i++) {
        const struct term_fact *term = &cause->terms[i];
        if (term->times.number < 0 || (stride && term->times.number != argument.number))
            continue;
        argument = term->times;
        stride = term->term->times_value;
        row += term->term->adds / cause->unit / stride;
    }
    if (!elements || !stride)
        return 0;
    if (elements % stride == 0 && row == elements / stride)
        part_add(finding->hint,
                 "the access is to row %" PRIu64 ", and the buffer has %" PRIu64 " rows of %" PRIu64
                 " elements (argument %d): do the rows count from 0 here?",
                 row, row, stride, argument.number);
    else if (elements % stride)
        part_add(finding->hint,
                 "the buffer has %" PRIu64 " elements, no whole rows of %" PRIu64
                 " (argument %d): the stride of another shape?",
                 elements, stride, argument.number);
    return finding->hint[0] != '\0';
}

/* An index that wrapped, or that was loaded. Returns whether there is a hint. */
static int take_cause(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct element_fact *loaded = &finding->cause.loaded;
    const cufence_buffer *base = finding->cause.base;
    if (finding->cause.wrap.is_known) {
        part_add(finding->hint, "compute the index with 64 bits: make one operand 64 bits wide before that");
        return 1;
    }
    int is_culprit = 0; /* without what was loaded, the access would be inside */
    for (size_t i = 0; base && i < finding->cause.term_count; i++) {
        const struct origin_term *term = finding->cause.terms[i].term;
        is_culprit |= term->input == ORIGIN_LOADED && term->from == loaded->address &&
                      diagnosis->access.address - term->adds - base->address < base->size;
    }
    if (!is_culprit)
        return 0;
    if (loaded->from)
        part_add(finding->hint, "the index itself was read outside of buffer #%" PRIu64 ": what reads it lacks a bounds check",
                 loaded->buffer->id);
    else if (loaded->value == -1)
        part_add(finding->hint, "an index of -1 often stands for none: does the kernel have to skip it?");
    else
        part_add(finding->hint,
                 "the kernel takes the index as it is in memory: what has written it, and for a buffer of which size?");
    return 1;
}

/* An overrun: suggests a row too many, the stride of another shape, an index off by one, or a missing bounds check. */
static void take_overrun(struct finding *finding, const cufence_buffer *buffer, uint64_t address)
{
    const struct evidence_stop *stop = &finding->where.stop;
    uint64_t bytes = stop->access_bytes, threads = threads_of(stop);
    if (!bytes || buffer->size % bytes || address < buffer->address + buffer->size)
        return;
    uint64_t elements = buffer->size / bytes, index = (address - buffer->address) / bytes;
    if (take_rows(finding))
        return;
    if (index == elements && finding->where.threads == 1)
        part_add(finding->hint, "one thread went one element too far: is <= meant to be <, or a size one too large?");
    else if (stop->has_grid && threads > elements && index < threads)
        part_add(finding->hint,
                 "%" PRIu64 " threads run, and the buffer has %" PRIu64 " elements of %" PRIu64
                 " byte%s: is a bounds check (a mask) missing?",
                 threads, elements, bytes, plural(bytes));
}

static void take_underrun(struct finding *finding, uint64_t distance)
{
    uint64_t bytes = finding->where.stop.access_bytes;
    if (bytes && distance == bytes)
        part_add(finding->hint, "one element before the start: does an index i - 1 also run for i == 0?");
}

/* Returns how often the kernel was launched from the same place between the free and the launch that faulted. */
static size_t launches_since(const struct diagnosis *diagnosis, const struct fault_launch *faulted)
{
    const struct fault_memory *memory = diagnosis->memory;
    size_t count = 0;
    for (size_t i = 0; faulted->place && i < memory->launch_count; i++) {
        const struct fault_launch *other = &memory->launches[i];
        count += other != faulted && other->place == faulted->place && other->entry->function == faulted->entry->function &&
                 other->entry->tid == faulted->entry->tid && other->entry->sequence < faulted->entry->sequence &&
                 other->entry->time_ns > diagnosis->verdict.owner->freed_ns;
    }
    return count;
}

/* Whether the kernel was recorded before the free, and a graph launched after it. */
static int is_replayed(const struct diagnosis *diagnosis, const struct fault_launch *faulted)
{
    const struct fault_memory *memory = diagnosis->memory;
    const uint64_t freed = diagnosis->verdict.owner->freed_ns;
    for (size_t i = 0; faulted->entry->time_ns < freed && i < memory->launch_count; i++)
        if (memory->launches[i].entry->graph && memory->launches[i].entry->time_ns + TICK_NS > freed)
            return 1;
    return 0;
}

/* A buffer freed on one stream while another stream still uses it, or one of an earlier step. */
static void take_use_after_free(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct fault_launch *launch = diagnosis->origin.launch;
    const cufence_buffer *owner = diagnosis->verdict.owner;
    size_t since = launch ? launches_since(diagnosis, launch) : 0;
    if (!launch)
        return;
    if (is_replayed(diagnosis, launch) && launch->entry->node)
        part_add(finding->hint,
                 "a graph was launched after the free, and this kernel is node %" PRIu32
                 " of one: capture it again, or keep the buffer as long as the graph",
                 launch->entry->node - 1);
    else if (is_replayed(diagnosis, launch))
        part_add(finding->hint,
                 "a graph was launched after the free: is the kernel in it, with the pointer of its capture? Capture "
                 "it again, or keep the buffer");
    else if (diagnosis->origin.certainty >= CERTAIN_DERIVED && launch->entry->stream != owner->free_stream)
        part_add(finding->hint,
                 "the kernel ran on stream 0x%" PRIx64 ", and the buffer was freed on stream 0x%" PRIx64
                 ": does an event (or record_stream) have to order them?",
                 launch->entry->stream, owner->free_stream);
    else if (diagnosis->origin.certainty >= CERTAIN_RERUN && since)
        part_add(finding->hint,
                 "after the free, the kernel was launched from the same place %zu time%s before this: does it use a pointer of "
                 "%zu step%s ago?",
                 since, plural(since), since + 1, plural(since + 1));
    else if (diagnosis->origin.certainty >= CERTAIN_RERUN && launch->entry->time_ns > owner->freed_ns)
        part_add(finding->hint, "the kernel was launched after the free: who still holds the pointer?");
}

static void take_misaligned(struct finding *finding, const struct diagnosis *diagnosis)
{
    uint64_t bytes = finding->where.stop.access_bytes;
    if (bytes && diagnosis->verdict.owner && diagnosis->verdict.owner->address % bytes)
        part_add(finding->hint,
                 "the buffer itself does not begin at a multiple of %" PRIu64 ", because of align=; align=%" PRIu64
                 " leaves its end up to %" PRIu64 " bytes before the guard",
                 bytes, bytes, bytes - 1);
}

void hint_take(struct finding *finding, const struct diagnosis *diagnosis)
{
    int is_out = diagnosis->verdict.kind == FAULT_OVERRUN || diagnosis->verdict.kind == FAULT_UNDERRUN ||
                 diagnosis->verdict.kind == FAULT_WILD;
    if (is_out && take_cause(finding, diagnosis))
        return;
    switch (diagnosis->verdict.kind) {
    case FAULT_OVERRUN:
        take_overrun(finding, diagnosis->verdict.owner, diagnosis->access.address);
        break;
    case FAULT_UNDERRUN:
        take_underrun(finding, diagnosis->verdict.distance);
        break;
    case FAULT_USE_AFTER_FREE:
        take_use_after_free(finding, diagnosis);
        break;
    case FAULT_MISALIGNED:
        take_misaligned(finding, diagnosis);
        break;
    case FAULT_NULL:
        if (diagnosis->access.address)
            part_add(finding->hint,
                     "an offset from a null pointer: an element of an array, or a member of a struct, that is not there?");
        break;
    case FAULT_HOST_POINTER:
        part_add(finding->hint, "copy the data to the device, or keep it in managed or pinned memory");
        break;
    default:
        break;
    }
}

void hint_take_slack(struct finding *finding, const struct slack_write *write)
{
    const cufence_buffer *buffer = write->buffer;
    if (write->again.stop && write->found.is_before)
        take_underrun(finding, buffer->address - write->again.address);
    else if (write->again.stop)
        take_overrun(finding, buffer, write->again.address);
    else
        part_add(finding->hint, "cufence run --set %s%s puts this edge of buffers at a guard, where such a write faults",
                 write->found.is_before ? "side=start" : "align=auto", finding->buffer.has_redzone ? ",small=map" : "");
}
