#include "analysis/verdict/launches.h"
#include "analysis/verdict/owner.h"
#include "report_common.h"
#include "report_launch.h"
#include "writer.h"

#include <inttypes.h>

static const struct evidence_site *site_of(const struct report *report)
{
    return fault_site(report->diagnosis);
}

static void put_access_bytes(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    if (site->access_bytes)
        report_put(report, " of %" PRIu32 " byte%s", site->access_bytes, plural(site->access_bytes));
}

static void put_access(struct report *report)
{
    static const char *const names[] = {"access", "READ", "WRITE", "ATOMIC"};
    report_put(report, "%s", names[site_of(report)->access]);
    put_access_bytes(report);
}

static void put_illegal_access(struct report *report)
{
    static const char *const causes[] = {"", " by a READ", " by a WRITE", " by an ATOMIC"};
    const struct evidence_site *site = site_of(report);
    report_put(report, "illegal memory access%s", causes[site->access]);
    if (report->diagnosis->address_certainty != CERTAIN_NOT)
        put_access_bytes(report);
    else
        report_put(report, " (address unknown%s)", site->is_warp_alive ? "" : ": the warp had exited");
}

static void headline(struct report *report, const struct report_origin *origin)
{
    static const char *const names[] = {
        [FAULT_OVERRUN] = "out-of-bounds ", [FAULT_UNDERRUN] = "out-of-bounds ", [FAULT_USE_AFTER_FREE] = "use-after-free ",
        [FAULT_WILD] = "wild-address ",     [FAULT_NULL] = "null-pointer ",      [FAULT_HOST_POINTER] = "host-pointer ",
        [FAULT_MISALIGNED] = "misaligned ", [FAULT_ILLEGAL_ACCESS] = NULL,       [FAULT_OTHER] = NULL,
    };
    const struct diagnosis *diagnosis = report->diagnosis;
    report_begin(report, NULL, NULL);
    report_put(report, "cufence: ");
    if (names[diagnosis->kind]) {
        report_put(report, "%s", names[diagnosis->kind]);
        put_access(report);
    } else if (diagnosis->kind == FAULT_ILLEGAL_ACCESS) {
        put_illegal_access(report);
    } else if (diagnosis->site) {
        report_put(report, "exception: %s", site_of(report)->exception.name);
    } else {
        report_put(report, "exception that the dump does not name");
    }
    report_end_headline(report, origin, diagnosis->evidence->device_name);
}

/* "0 bytes past the end of buffer #7": where an address lies, for one of the two that it may belong to. */
static void put_distance(struct report *report, const char *preposition, uint64_t distance, const cufence_buffer *buffer)
{
    report_put(report, "%" PRIu64 " byte%s %s buffer #%" PRIu64, distance, plural(distance), preposition, buffer->id);
}

/* Of an access that begins inside the buffer, the address alone would look innocent. */
static void put_overrun(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const cufence_buffer *owner = diagnosis->owner;
    uint64_t before_end = owner->address + owner->size - diagnosis->address, bytes = site_of(report)->access_bytes;
    if (diagnosis->address < owner->address + owner->size && before_end < bytes)
        report_put(report, "%" PRIu64 " byte%s of the access lie past the end of buffer #%" PRIu64, bytes - before_end,
                   plural(bytes - before_end), owner->id);
    else
        put_distance(report, "past the end of", diagnosis->distance, owner);
}

/* Where nobody knows the buffers: the driver marks every lane of the warp, so any of them may be the one. */
static void lanes_line(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    uint64_t low = UINT64_MAX, high = 0;
    size_t count = 0;
    for (size_t i = 0; i < site->lane_count; i++) {
        const struct evidence_lane *lane = &site->lanes[i];
        if (lane->certainty == CERTAIN_NOT)
            continue;
        low = lane->address < low ? lane->address : low;
        high = lane->address > high ? lane->address : high;
        count++;
    }
    report_begin(report, "address", NULL);
    report_put(report, "0x%" PRIx64, low);
    if (count > 1)
        report_put(report, " to 0x%" PRIx64 " by %zu lanes, any of which may have faulted", high, count);
    report_end(report, report->diagnosis->address_certainty);
}

static void address_line(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    if (diagnosis->address_certainty == CERTAIN_NOT)
        return;
    if (diagnosis->memory->is_unknown && diagnosis->kind == FAULT_ILLEGAL_ACCESS) {
        lanes_line(report);
        return;
    }
    report_begin(report, "address", NULL);
    report_put(report, "0x%" PRIx64 ", ", diagnosis->address);
    switch (diagnosis->kind) {
    case FAULT_OVERRUN:
        put_overrun(report);
        break;
    case FAULT_UNDERRUN:
        put_distance(report, "before the start of", diagnosis->distance, diagnosis->owner);
        break;
    case FAULT_USE_AFTER_FREE:
        put_distance(report, "into", diagnosis->distance, diagnosis->owner);
        report_put(report, ", which has been freed");
        break;
    case FAULT_NULL:
        if (diagnosis->address)
            report_put(report, "a null pointer with an offset of %" PRIu64 " byte%s", diagnosis->address,
                       plural(diagnosis->address));
        else
            report_put(report, "a null pointer");
        break;
    case FAULT_HOST_POINTER:
        report_put(report, "memory of the host that the device cannot reach");
        break;
    case FAULT_WILD:
        report_put(report,
                   diagnosis->address >= diagnosis->memory->arena_start && diagnosis->address < diagnosis->memory->arena_end
                       ? "in cufence's address space, but in no buffer or guard"
                       : "in no buffer of cufence's and not in its address space");
        break;
    case FAULT_MISALIGNED:
    case FAULT_ILLEGAL_ACCESS:
    case FAULT_OTHER:
        if (diagnosis->kind == FAULT_MISALIGNED && is_misaligned(site_of(report), diagnosis->lane))
            report_put(report, "not a multiple of %" PRIu32 ", ", site_of(report)->access_bytes);
        if (diagnosis->owner)
            put_distance(report, "into", diagnosis->distance, diagnosis->owner);
        else if (diagnosis->memory->is_unknown)
            report_put(report, "in a buffer that the dump does not know");
        else
            report_put(report, "in no buffer of cufence's");
        if (diagnosis->owner && diagnosis->kind == FAULT_ILLEGAL_ACCESS)
            report_put(report, ", to which this GPU may have no access");
        break;
    }
    report_end(report, diagnosis->address_certainty);
}

/* Why this buffer is blamed, where that is not beyond doubt. */
static void owner_line(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    if (!diagnosis->owner || diagnosis->owner_certainty == CERTAIN_EXACT || diagnosis->kind == FAULT_MISALIGNED ||
        diagnosis->kind == FAULT_ILLEGAL_ACCESS)
        return;
    report_begin(report, "owner", NULL);
    report_put(report, "#%" PRIu64 ": %s", diagnosis->owner->id, diagnosis->owner_reason);
    report_end(report, diagnosis->owner_certainty);
    if (!diagnosis->rival)
        return;
    report_begin(report, "", NULL);
    report_put(report, "or ");
    put_distance(report, diagnosis->kind == FAULT_OVERRUN ? "before the start of" : "past the end of",
                 diagnosis->rival_distance, diagnosis->rival);
    report_end(report, CERTAIN_CANDIDATE);
}

static void buffer_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    if (diagnosis->owner)
        report_buffer_lines(report, diagnosis->owner, diagnosis->memory->now_ns, diagnosis->memory->frames);
}

static void kernel_line(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    const char *name = site->kernel ? site->kernel : site->symbol;
    if (!name && !site->error_pc)
        return;
    report_begin(report, "kernel", NULL);
    if (name)
        report_put_name(report, name);
    else
        report_put(report, "unknown, at PC 0x%" PRIx64 " ", site->error_pc);
    if (site->has_grid) {
        report_put(report, "<<<");
        report_put_dim(report, site->grid);
        report_put(report, ", ");
        report_put_dim(report, site->block);
        report_put(report, ">>>");
    }
    if (site->has_grid && (site->cluster[0] > 1 || site->cluster[1] > 1 || site->cluster[2] > 1)) {
        report_put(report, " in clusters of ");
        report_put_dim(report, site->cluster);
    }
    if (report->diagnosis->owner && report->diagnosis->owner_parameter >= 0) {
        report_put(report, "  ");
        report_put_argument(report, report->diagnosis->owner_parameter);
        report_put(report, " points to this buffer");
    }
    report_end(report, CERTAIN_EXACT);
}

static void place_line(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    if (!site->file && !site->instruction && !site->symbol)
        return;
    report_begin(report, "", "at");
    if (site->is_in_driver) {
        report_put(report, "code of the driver's, called by ");
        report_put_name(report, site->symbol);
        report_end(report, CERTAIN_NOT);
        return;
    }
    report_put_code(report,
                    &(struct report_code){site->file, site->line, site->instruction, site->symbol, site->kernel_offset});
    report_end(report, CERTAIN_NOT);
}

/* What faulted at once in another place: nothing else in the report is about it. */
static void other_places(struct report *report)
{
    const struct evidence_site *places[FAULT_PLACES];
    size_t count = fault_other_places(report->diagnosis, places);
    for (size_t i = 0; i < count; i++) {
        const struct evidence_site *site = places[i];
        report_begin(report, "", "also");
        report_put(report, "%s in ", site->exception.name);
        if (site->kernel || site->symbol)
            report_put_name(report, site->kernel ? site->kernel : site->symbol);
        else
            report_put(report, "unknown code at PC 0x%" PRIx64, site->error_pc);
        report_put(report, " at once, ");
        if (site->file) {
            report_put_name(report, site->file);
            if (site->line)
                report_put(report, ":%d", site->line);
        } else if (site->symbol && !site->is_in_driver) {
            report_put(report, "+0x%" PRIx64, site->kernel_offset);
        }
        report_end(report, CERTAIN_EXACT);
    }
}

static void thread_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const struct evidence_site *site = site_of(report);
    if (diagnosis->lane && site->is_warp_alive) {
        report_begin(report, "", "thread");
        report_put(report, "block ");
        report_put_dim(report, site->block_index);
        report_put(report, " thread ");
        report_put_dim(report, diagnosis->lane->thread);
        if (diagnosis->faulting_threads > 1)
            report_put(report, ", and %zu more", diagnosis->faulting_threads - 1);
        report_end(report, CERTAIN_NOT);
    }
    if (diagnosis->other_sites) {
        report_begin(report, "", "also");
        report_put(report, "%zu more %s%s at this instruction", diagnosis->other_sites, site->is_warp_alive ? "warp" : "SM",
                   plural(diagnosis->other_sites));
        report_end(report, CERTAIN_NOT);
    }
    other_places(report);
}

static void note_line(struct report *report, const char *key, const char *text)
{
    report_begin(report, key, NULL);
    report_put(report, "%s", text);
    report_end(report, CERTAIN_NOT);
}

static const char *arguments_note(const struct diagnosis *diagnosis)
{
    if (!diagnosis->is_narrowed)
        return "candidates are the buffers that the kernel's arguments point to";
    return diagnosis->candidate_total == 1
               ? "the high half of the address is known; of the kernel's arguments only this is near it"
               : "candidates are the buffers of the kernel's arguments near the high half of the address";
}

/* By the kernel's code. */
static void source_note(struct report *report, const char *key)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    int word = fault_source_word(diagnosis);
    if (fault_is_loaded(diagnosis)) {
        note_line(report, key, "the address was loaded from memory");
    } else if (word >= 0) {
        report_begin(report, key, NULL);
        report_put(report, "by the kernel's code, the address comes from ");
        report_put_argument(report, word);
        report_end(report, CERTAIN_NOT);
    }
}

static void candidates_note(struct report *report, const char *key)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    switch (diagnosis->candidate_source) {
    case CANDIDATES_LIVE:
        note_line(report, key, "candidates are the live buffers of the device, newest first");
        return;
    case CANDIDATES_ARGUMENTS:
        note_line(report, key, arguments_note(diagnosis));
        break;
    case CANDIDATES_RUNNING:
        note_line(report, key, "candidates are the arguments of the launch that still ran; it may have been another launch");
        break;
    case CANDIDATES_LAUNCHES:
        report_begin(report, key, NULL);
        if (diagnosis->origin.fits == 1)
            report_put(report, "one launch of this kernel is on record, and points to %s",
                       diagnosis->candidate_total == 1 ? "this buffer only" : "these buffers");
        else
            report_put(report, "candidates are the buffers that the last %zu launches of this kernel point to",
                       diagnosis->origin.fits);
        report_end(report, CERTAIN_NOT);
        break;
    }
    if (diagnosis->is_const_excluded)
        note_line(report, "", "without those that it takes as pointers to const, because the access writes");
}

/* What happened, where no buffer is involved. */
static void meaning_lines(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    const char *meaning = site->exception.meaning;
    const char *cause = site->exception.cause;
    if (report->diagnosis->kind != FAULT_OTHER)
        return;
    if (meaning)
        note_line(report, "what", meaning);
    if (cause) {
        report_begin(report, "", NULL);
        report_put(report, "perhaps %s", cause);
        report_end(report, CERTAIN_CANDIDATE);
    }
    if (site->exception.class == CLASS_NO_BUFFER)
        note_line(report, meaning ? "" : "what", "no buffer is involved");
}

static void note_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const struct evidence *evidence = diagnosis->evidence;
    int is_about_memory = diagnosis->kind == FAULT_ILLEGAL_ACCESS || diagnosis->kind == FAULT_MISALIGNED;
    if (is_about_memory && diagnosis->address_certainty == CERTAIN_NOT) {
        if (site_of(report)->is_warp_alive) {
            note_line(report, "note", "the address cannot be told from this instruction and the registers in the dump");
        } else {
            report_begin(report, "note", NULL);
            report_put(report, "the warp had exited when the driver");
            if (evidence->driver_major)
                report_put(report, " (%" PRIu32 ".%" PRIu32 ")", evidence->driver_major, evidence->driver_minor);
            report_put(report, " wrote its dump, so address and thread are");
            report_end(report, CERTAIN_NOT);
            note_line(report, "", "missing from it; drivers from CUDA 13.3 on keep such warps");
            if (diagnosis->is_bystander)
                note_line(report, "",
                          diagnosis->kind == FAULT_MISALIGNED
                              ? "the accesses that the dump has of this instruction are all aligned"
                              : "the accesses that the dump has of this instruction are all in bounds");
        }
        source_note(report, "");
    }
    if (diagnosis->is_completed) {
        note_line(report, "note", "a register holds the low half of the address; the high half is what the buffers allow");
        note_line(report, "", "that the kernel's arguments point to");
    }
    if (diagnosis->candidate_count)
        candidates_note(report, is_about_memory ? "" : "note");
}

static void candidate_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    for (size_t i = 0; i < diagnosis->candidate_count; i++) {
        report_begin(report, "buffer", NULL);
        report_put_buffer(report, diagnosis->candidates[i]);
        if (diagnosis->candidates[i]->freed_ns)
            report_put(report, ", freed");
        if (diagnosis->candidate_parameter[i] >= 0) {
            report_put(report, ", ");
            report_put_argument(report, diagnosis->candidate_parameter[i]);
        }
        report_put_label(report, diagnosis->candidates[i]);
        report_end(report, diagnosis->candidate_certainty);
    }
    if (diagnosis->candidate_total > diagnosis->candidate_count) {
        report_begin(report, "", NULL);
        report_put(report, "and %zu more", diagnosis->candidate_total - diagnosis->candidate_count);
        report_end(report, CERTAIN_NOT);
    }
}

static void put_slack(struct report *report, uint64_t bytes)
{
    if (bytes)
        report_put(report, " slack %s |", amount_of(bytes).text);
}

static void put_block(struct report *report, const char *mark, const cufence_buffer *buffer)
{
    report_put(report, "%s #%" PRIu64 " %s%s |", mark, buffer->id, amount_of(buffer->size).text,
               buffer->freed_ns ? " freed" : "");
}

/* The owner between its slacks; the X stands where the access went. */
static void put_mapping(struct report *report, const char *mark)
{
    const cufence_buffer *owner = report->diagnosis->owner;
    put_slack(report, owner->address - owner->mapping_start);
    put_block(report, mark, owner);
    put_slack(report, owner->mapping_end - (owner->address + owner->size));
}

static void memory_line(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const cufence_buffer *owner = diagnosis->owner, *previous = diagnosis->previous, *next = diagnosis->next;
    int is_wild = diagnosis->kind == FAULT_WILD && diagnosis->address >= diagnosis->memory->arena_start &&
                  diagnosis->address < diagnosis->memory->arena_end && (previous || next);
    int is_owned =
        diagnosis->kind == FAULT_OVERRUN || diagnosis->kind == FAULT_UNDERRUN || diagnosis->kind == FAULT_USE_AFTER_FREE;
    if (!is_owned && !is_wild)
        return;
    report_begin(report, "memory", NULL);
    report_put(report, "|");
    if (previous && diagnosis->kind != FAULT_OVERRUN)
        put_block(report, "", previous);
    if (diagnosis->kind == FAULT_OVERRUN) {
        put_mapping(report, "");
        report_put(report, "X guard %s .......|", amount_of(owner->guard_end - owner->mapping_end).text);
    } else if (diagnosis->kind == FAULT_UNDERRUN) {
        report_put(report, "....... guard %s X|", amount_of(owner->mapping_start - owner->guard_start).text);
        put_mapping(report, "");
    } else if (diagnosis->kind == FAULT_USE_AFTER_FREE) {
        put_mapping(report, "X");
        report_put(report, " guard %s |", amount_of(owner->guard_end - owner->mapping_end).text);
    } else {
        report_put(report, " ....... X ....... |");
    }
    if (next && diagnosis->kind != FAULT_UNDERRUN)
        put_block(report, "", next);
    report_end(report, CERTAIN_NOT);
}

char *fault_report_text(const struct diagnosis *diagnosis, const struct report_origin *origin)
{
    struct report report;
    if (!report_open(&report, diagnosis, origin->pid))
        return NULL;
    headline(&report, origin);
    if (diagnosis->site) {
        address_line(&report);
        owner_line(&report);
        buffer_lines(&report);
        kernel_line(&report);
        place_line(&report);
        thread_lines(&report);
        meaning_lines(&report);
        report_launch_lines(&report);
        note_lines(&report);
        candidate_lines(&report);
        report_argument_lines(&report);
        memory_line(&report);
    }
    return report_close(&report);
}

char *fault_unexplained_text(const char *reason, const struct report_origin *origin)
{
    struct report report;
    if (!report_open(&report, NULL, origin->pid))
        return NULL;
    report_begin(&report, NULL, NULL);
    report_put(&report, "cufence: unexplained fault of a kernel");
    report_end_headline(&report, origin, "");
    note_line(&report, "reason", reason);
    return report_close(&report);
}
