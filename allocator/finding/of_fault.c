/* Builds a finding from the diagnosis of a kernel fault. */
#include "finding.h"

#include "analysis/verdict/launches.h"
#include "analysis/verdict/owner.h"
#include "parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct argument_name name_of(const struct diagnosis *diagnosis, int word)
{
    struct argument_name name = {word, -1, 0};
    if (word >= 0)
        name.number = launch_argument_of(diagnosis->arguments.layout, (size_t)word, &name.offset);
    return name;
}

/* ---- what happened ---- */

static void say_access(struct finding *finding, const char *before, const struct evidence_stop *stop)
{
    static const char *const names[] = {"access", "READ", "WRITE", "ATOMIC"};
    if (stop->access_bytes)
        part_add(finding->what, "%s%s of %" PRIu32 " byte%s", before, names[stop->access], stop->access_bytes,
                 plural(stop->access_bytes));
    else
        part_add(finding->what, "%s%s", before, names[stop->access]);
}

static void say_illegal_access(struct finding *finding, const struct diagnosis *diagnosis)
{
    static const char *const causes[] = {"", " by a READ", " by a WRITE", " by an ATOMIC"};
    const struct evidence_stop *stop = &finding->where.stop;
    part_add(finding->what, "illegal memory access%s", causes[stop->access]);
    if (diagnosis->access.certainty != CERTAIN_NOT && stop->access_bytes)
        part_add(finding->what, " of %" PRIu32 " byte%s", stop->access_bytes, plural(stop->access_bytes));
}

static void say_what(struct finding *finding, const struct diagnosis *diagnosis)
{
    static const char *const names[] = {
        [FAULT_OVERRUN] = "out-of-bounds ", [FAULT_UNDERRUN] = "out-of-bounds ", [FAULT_USE_AFTER_FREE] = "use-after-free ",
        [FAULT_WILD] = "wild-address ",     [FAULT_NULL] = "null-pointer ",      [FAULT_HOST_POINTER] = "host-pointer ",
        [FAULT_MISALIGNED] = "misaligned ", [FAULT_ILLEGAL_ACCESS] = NULL,       [FAULT_OTHER] = NULL,
    };
    if (names[diagnosis->verdict.kind])
        say_access(finding, names[diagnosis->verdict.kind], &finding->where.stop);
    else if (diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS)
        say_illegal_access(finding, diagnosis);
    else if (finding->where.is_known)
        part_add(finding->what, "exception: %s", finding->where.stop.exception.name);
    else
        part_add(finding->what, "exception that the dump does not name");
}

static uint64_t bytes_past_end(const struct diagnosis *diagnosis)
{
    uint64_t bytes = diagnosis->stop->access_bytes;
    if (diagnosis->verdict.kind != FAULT_OVERRUN)
        return 0;
    uint64_t end = diagnosis->verdict.owner->address + diagnosis->verdict.owner->size;
    return diagnosis->access.address < end && end - diagnosis->access.address < bytes
               ? bytes - (end - diagnosis->access.address)
               : 0;
}

static struct access_fact access_of(const struct diagnosis *diagnosis)
{
    const struct evidence_stop *stop = diagnosis->stop;
    int has_access = stop->access != ACCESS_UNKNOWN || stop->access_bytes;
    return (struct access_fact){.is_known = has_access && stop->exception.class != CLASS_NO_BUFFER,
                                .kind = stop->access,
                                .bytes = stop->access_bytes,
                                .bytes_past_end = bytes_past_end(diagnosis),
                                .source = name_of(diagnosis, fault_source_word(diagnosis)),
                                .is_loaded = fault_is_loaded(diagnosis)};
}

/* ---- the address ---- */

static void say_distance(struct address_fact *address, const char *preposition, const struct diagnosis *diagnosis)
{
    part_add(address->where, "%" PRIu64 " byte%s %s buffer #%" PRIu64, diagnosis->verdict.distance,
             plural(diagnosis->verdict.distance), preposition, diagnosis->verdict.owner->id);
}

/* Describes an address in mapped memory, or one that is not itself the problem. */
static void say_inside(struct address_fact *address, const struct diagnosis *diagnosis)
{
    int is_told = diagnosis->verdict.owner || !diagnosis->memory->is_unknown; /* a dump has no buffers */
    if (address->is_misaligned)
        part_add(address->where, "not a multiple of %" PRIu32 "%s", diagnosis->stop->access_bytes, is_told ? ", " : "");
    if (diagnosis->verdict.owner)
        say_distance(address, "into", diagnosis);
    else if (is_told)
        part_add(address->where, "in no buffer of cufence's");
    if (diagnosis->verdict.owner && diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS)
        part_add(address->where, ", to which this GPU may have no access");
}

static void say_where(struct address_fact *address, const struct diagnosis *diagnosis)
{
    uint64_t past = bytes_past_end(diagnosis);
    switch (diagnosis->verdict.kind) {
    case FAULT_OVERRUN:
        if (past) /* the access begins inside the buffer, so its address alone would look valid */
            part_add(address->where, "%" PRIu64 " byte%s of the access lie past the end of buffer #%" PRIu64, past,
                     plural(past), diagnosis->verdict.owner->id);
        else
            say_distance(address, "past the end of", diagnosis);
        break;
    case FAULT_UNDERRUN:
        say_distance(address, "before the start of", diagnosis);
        break;
    case FAULT_USE_AFTER_FREE:
        say_distance(address, "into", diagnosis);
        part_add(address->where, ", which has been freed");
        break;
    case FAULT_NULL:
        part_add(address->where, "a null pointer");
        if (address->value)
            part_add(address->where, " with an offset of %" PRIu64 " byte%s", address->value, plural(address->value));
        break;
    case FAULT_HOST_POINTER:
        part_add(address->where, "memory of the host that the device cannot reach");
        break;
    case FAULT_WILD:
        part_add(address->where, "%s",
                 address->is_in_arena ? "in cufence's address space, but in no buffer or guard"
                                      : "in no buffer of cufence's and not in its address space");
        break;
    default:
        say_inside(address, diagnosis);
    }
}

/* Without known buffers, any lane of the warp may be the faulting one: the driver marks all of them. */
static void take_all_lanes(struct address_fact *address, const struct evidence_stop *stop)
{
    address->value = UINT64_MAX;
    for (size_t i = 0; i < stop->lane_count; i++) {
        const struct evidence_lane *lane = &stop->lanes[i];
        if (lane->certainty == CERTAIN_NOT)
            continue;
        address->value = lane->address < address->value ? lane->address : address->value;
        address->last = lane->address > address->last ? lane->address : address->last;
        address->lanes++;
    }
}

static void take_address(struct finding *finding, const struct diagnosis *diagnosis)
{
    struct address_fact *address = &finding->address;
    const struct fault_memory *memory = diagnosis->memory;
    address->certainty = diagnosis->access.certainty;
    if (address->certainty == CERTAIN_NOT)
        return;
    if (memory->is_unknown && diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS) {
        take_all_lanes(address, &finding->where.stop);
        return;
    }
    address->value = diagnosis->access.address;
    address->is_one = 1;
    address->is_in_arena = address->value >= memory->arena_start && address->value < memory->arena_end;
    address->is_misaligned =
        diagnosis->verdict.kind == FAULT_MISALIGNED && is_misaligned(&finding->where.stop, diagnosis->access.lane);
    say_where(address, diagnosis);
}

/* ---- buffers ---- */

static struct buffer_fact fact_of(const struct diagnosis *diagnosis, const cufence_buffer *buffer)
{
    return part_buffer(buffer, diagnosis->memory->frames);
}

static void take_owner(struct finding *finding, const struct diagnosis *diagnosis)
{
    int is_overrun = diagnosis->verdict.kind == FAULT_OVERRUN, is_underrun = diagnosis->verdict.kind == FAULT_UNDERRUN;
    if (!diagnosis->verdict.owner)
        return;
    finding->buffer = fact_of(diagnosis, diagnosis->verdict.owner);
    finding->buffer.certainty = diagnosis->verdict.certainty;
    finding->buffer.reason = diagnosis->verdict.reason;
    finding->buffer.from = is_overrun ? PAST_END : is_underrun ? BEFORE_START : FROM_START;
    finding->buffer.distance = diagnosis->verdict.distance;
    finding->buffer.argument = name_of(diagnosis, diagnosis->verdict.parameter);
    finding->is_disputed = diagnosis->verdict.certainty < CERTAIN_RERUN && diagnosis->verdict.kind != FAULT_ILLEGAL_ACCESS &&
                           diagnosis->verdict.kind != FAULT_MISALIGNED;
    if (!diagnosis->verdict.rival)
        return;
    finding->rival = fact_of(diagnosis, diagnosis->verdict.rival);
    finding->rival.certainty = CERTAIN_CANDIDATE;
    finding->rival.from = is_overrun ? BEFORE_START : PAST_END;
    finding->rival.distance = diagnosis->verdict.rival_distance;
}

static void take_neighbours(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct fault_neighbours found = fault_neighbours(diagnosis);
    const cufence_buffer *owner = diagnosis->verdict.owner;
    int is_beside = owner && diagnosis->verdict.at - owner->guard_start < owner->guard_end - owner->guard_start;
    if (found.previous)
        finding->previous = fact_of(diagnosis, found.previous);
    if (found.next)
        finding->next = fact_of(diagnosis, found.next);
    if (diagnosis->verdict.kind == FAULT_OVERRUN && is_beside)
        finding->strip = STRIP_PAST_END;
    else if (diagnosis->verdict.kind == FAULT_UNDERRUN && is_beside)
        finding->strip = STRIP_BEFORE_START;
    else if (diagnosis->verdict.kind == FAULT_USE_AFTER_FREE)
        finding->strip = STRIP_FREED;
    else if (diagnosis->verdict.kind <= FAULT_WILD && finding->address.is_in_arena && (found.previous || found.next))
        finding->strip = STRIP_NOWHERE;
}

static void take_candidates(struct finding *finding, const struct diagnosis *diagnosis)
{
    static const char *const sources[] = {"live buffers", "arguments", "launches", "running"};
    for (size_t i = 0; i < diagnosis->candidates.count; i++) {
        finding->candidates.list[i] = fact_of(diagnosis, diagnosis->candidates.list[i]);
        finding->candidates.list[i].certainty = diagnosis->candidates.certainty;
        finding->candidates.list[i].argument = name_of(diagnosis, diagnosis->candidates.parameter[i]);
    }
    finding->candidates.count = diagnosis->candidates.count;
    finding->candidates.total = diagnosis->candidates.total;
    finding->candidates.from = sources[diagnosis->candidates.source];
    finding->candidates.is_const_excluded = diagnosis->candidates.excluded == EXCLUDED_CONST;
    finding->candidates.is_traced = diagnosis->candidates.excluded == EXCLUDED_BY_CODE;
}

/* ---- the kernel's arguments ---- */

static struct value_fact pointer_of(const struct diagnosis *diagnosis, struct value_fact value, const uint8_t *bytes)
{
    memcpy(&value.bits, bytes, sizeof value.bits);
    value.target = word_buffer(diagnosis->memory, value.bits, diagnosis->arguments.time_ns);
    value.offset = value.target ? value.bits - value.target->address : 0;
    return value;
}

/* Adds the pointers in a struct passed by value. It is aligned like its widest member, so pointers are 8-byte aligned.
 * Returns 0 if out of host memory. */
static int add_members(struct value_fact *whole, const struct diagnosis *diagnosis, uint32_t offset)
{
    struct value_fact member = *whole;
    member.is_member = 1;
    whole->members = calloc(whole->size / 8, sizeof *whole->members);
    for (member.at = (8 - offset % 8) % 8; whole->members && member.at + 8 <= whole->size; member.at += 8) {
        struct value_fact made = pointer_of(diagnosis, member, diagnosis->arguments.bytes + offset + member.at);
        if (made.target)
            whole->members[whole->member_count++] = made;
    }
    return whole->members != NULL;
}

/* Returns 0 if out of host memory. */
static int fill_value(struct value_fact *value, const struct diagnosis *diagnosis, uint32_t number)
{
    const struct fault_arguments *arguments = &diagnosis->arguments;
    struct launch_argument argument = arguments->layout->arguments[number];
    *value = (struct value_fact){.number = number, .size = argument.size};
    value->is_kept = (size_t)argument.offset + argument.size <= arguments->count;
    value->has_bits = value->is_kept && argument.size <= sizeof value->bits;
    if (value->is_kept && !value->has_bits)
        return add_members(value, diagnosis, argument.offset);
    if (value->has_bits && argument.size == sizeof value->bits)
        *value = pointer_of(diagnosis, *value, arguments->bytes + argument.offset);
    else if (value->has_bits)
        memcpy(&value->bits, arguments->bytes + argument.offset, argument.size);
    return 1;
}

static void take_values(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct launch_function *layout = diagnosis->arguments.layout;
    if (!diagnosis->arguments.bytes || !layout)
        return;
    finding->arguments.list = calloc(layout->argument_count + 1u, sizeof *finding->arguments.list);
    finding->arguments.certainty = finding->arguments.list ? diagnosis->arguments.certainty : CERTAIN_NOT;
    for (uint32_t i = 0; finding->arguments.list && i < layout->argument_count; i++) {
        finding->arguments.count = i + 1;
        if (!fill_value(&finding->arguments.list[i], diagnosis, i)) {
            finding_free_values(finding);
            finding->arguments.certainty = CERTAIN_NOT;
        }
    }
}

/* ---- the whole ---- */

/* Adds where it is, with the buffer's label behind its number, and the certainty if it is not exact. */
static void say_buffer(struct finding *finding, const char *where, const cufence_buffer *buffer, enum certainty certainty)
{
    static const char *const words[] = {"", " (candidate)", " (derived)", " (re-run)", ""};
    char number[32];
    snprintf(number, sizeof number, "buffer #%" PRIu64, buffer->id);
    const char *at = strstr(where, number);
    int length = (int)(at ? (size_t)(at - where) + strlen(number) : strlen(where));
    part_add(finding->headline, ", %.*s", length, where);
    if (buffer->label[0])
        part_add(finding->headline, " \"%s\"", buffer->label);
    part_add(finding->headline, "%s%s", where + length, words[certainty]);
}

static void say_headline(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct address_fact *address = &finding->address;
    part_add(finding->headline, "%s", finding->what);
    if (diagnosis->verdict.owner && address->where[0]) {
        say_buffer(finding, address->where, diagnosis->verdict.owner,
                   address->certainty < diagnosis->verdict.certainty ? address->certainty : diagnosis->verdict.certainty);
    } else if (address->certainty != CERTAIN_NOT && !address->lanes) {
        part_add(finding->headline, " at 0x%" PRIx64, address->value);
    } else if (diagnosis->candidates.total == 1 && diagnosis->candidates.certainty == CERTAIN_DERIVED) {
        char pointer[64];
        snprintf(pointer, sizeof pointer, "through a pointer into buffer #%" PRIu64, diagnosis->candidates.list[0]->id);
        say_buffer(finding, pointer, diagnosis->candidates.list[0], CERTAIN_DERIVED);
    } else if (diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS && address->certainty == CERTAIN_NOT) {
        part_add(finding->headline, " (address unknown%s)", finding->where.stop.is_warp_alive ? "" : ": the warp had exited");
    }
}

/* The offset is told where it is known. */
static void tell_offset(struct evidence_stop *stop)
{
    if (!stop->symbol || stop->is_in_driver)
        stop->kernel_offset = UINT64_MAX;
}

static void take_stop(struct finding *finding, const struct diagnosis *diagnosis)
{
    struct evidence_stop *stop = &finding->where.stop;
    const struct evidence_stop *also[FAULT_PLACES];
    finding->where.is_known = finding->where.has_exception = 1;
    finding->where.certainty = CERTAIN_EXACT;
    *stop = *fault_stop(diagnosis);
    finding->where.has_kernel = stop->kernel || stop->symbol || stop->error_pc;
    finding->where.has_no_buffer = stop->exception.class == CLASS_NO_BUFFER;
    finding->where.has_cluster = stop->cluster[0] > 1 || stop->cluster[1] > 1 || stop->cluster[2] > 1;
    finding->where.has_exited = fault_has_exited(diagnosis);
    finding->where.is_warp_of_rerun = diagnosis->again >= AGAIN_WARP;
    finding->where.is_grid_of_rerun = diagnosis->again == AGAIN_GRID;
    if (diagnosis->verdict.kind != FAULT_OTHER) /* it is about memory */
        stop->exception.meaning = stop->exception.cause = NULL;
    tell_offset(stop);
    finding->where.lane = finding->where.stop.is_warp_alive ? diagnosis->access.lane : NULL;
    finding->where.threads = diagnosis->access.threads;
    *(stop->is_warp_alive ? &finding->where.warps : &finding->where.sms) = diagnosis->access.other_stops + 1;
    finding->where.also_count = fault_other_places(diagnosis, also);
    for (size_t i = 0; i < finding->where.also_count; i++) {
        finding->where.also[i] = *also[i];
        finding->where.also[i].exception.meaning = finding->where.also[i].exception.cause = NULL;
        tell_offset(&finding->where.also[i]);
    }
    finding->launch = diagnosis->origin;
}

void finding_of_fault(struct finding *finding, const struct diagnosis *diagnosis, const struct rerun_result *rerun,
                      const struct finding_source *origin)
{
    const struct evidence *evidence = diagnosis->evidence;
    *finding = (struct finding){.origin = *origin,
                                .device = {.architecture = evidence->sm_type},
                                .kind = fault_kind_names[diagnosis->verdict.kind],
                                .rerun = diagnosis->stop && rerun && rerun->outcome != RERUN_NOT_TRIED ? rerun : NULL,
                                .now_ns = diagnosis->memory->now_ns};
    if (!origin->device_name)
        finding->origin.device_name = evidence->device_name;
    if (evidence->driver_major)
        part_add(finding->device.driver, "%" PRIu32 ".%" PRIu32, evidence->driver_major, evidence->driver_minor);
    if (diagnosis->stop) {
        take_stop(finding, diagnosis);
        finding->access = access_of(diagnosis);
        take_address(finding, diagnosis);
        take_owner(finding, diagnosis);
        take_neighbours(finding, diagnosis);
        take_candidates(finding, diagnosis);
        take_values(finding, diagnosis);
        figures_take(finding, diagnosis->arguments.layout);
        cause_facts_take(finding, diagnosis);
        notes_take(finding, diagnosis);
        hint_take(finding, diagnosis);
    } else {
        note_possible(finding, diagnosis->memory);
    }
    say_what(finding, diagnosis);
    say_headline(finding, diagnosis);
    finding_complete(finding);
}
