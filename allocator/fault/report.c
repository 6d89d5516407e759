#include "diagnosis.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the last letter of exact, derived or candidate stands, counted behind the "==pid== ". */
#define WIDTH 100
#define KEY_WIDTH 11
#define SUBKEY_WIDTH 14

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct report {
    const struct diagnosis *diagnosis;
    FILE *out; /* a memory stream over text */
    char *text;
    size_t size;
    size_t line; /* where the current line begins in text, behind its prefix */
    int pid;
};

/* A number in the form that people read. The arithmetic is on integers: a program's locale must not change a report. */
struct amount {
    char text[48];
};

static struct amount amount_in(uint64_t value, uint64_t unit, const char *name)
{
    struct amount amount;
    uint64_t tenths = value % unit * 10 / unit;
    if (value % unit == 0)
        snprintf(amount.text, sizeof amount.text, "%" PRIu64 " %s", value / unit, name);
    else
        snprintf(amount.text, sizeof amount.text, "%" PRIu64 ".%" PRIu64 " %s", value / unit, tenths, name);
    return amount;
}

/* Small sizes stay exact, because off-by-one errors are read off them. */
static struct amount amount_of(uint64_t bytes)
{
    struct amount amount;
    if (bytes >= GIB)
        return amount_in(bytes, GIB, "GiB");
    if (bytes >= 10 * MIB || (bytes >= MIB && bytes % MIB == 0))
        return amount_in(bytes, MIB, "MiB");
    snprintf(amount.text, sizeof amount.text, "%" PRIu64, bytes);
    return amount;
}

static struct amount duration_of(uint64_t ns)
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = {
        {UINT64_C(3600000000000), "h"}, {UINT64_C(60000000000), "min"}, {1000000000, "s"}, {1000000, "ms"}, {1000, "us"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (ns >= units[i].unit)
            return amount_in(ns, units[i].unit, units[i].name);
    return amount_in(ns, 1, "ns");
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

/* Names come from the program and from the dump: a control character in one must not forge a line. */
static void put_name(struct report *report, const char *name)
{
    for (; *name; name++)
        putc(iscntrl((unsigned char)*name) ? '?' : *name, report->out);
}

__attribute__((format(printf, 2, 3))) static void put(struct report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(report->out, format, arguments);
    va_end(arguments);
}

static void begin(struct report *report, const char *key, const char *subkey)
{
    put(report, "==%d== ", report->pid);
    fflush(report->out);
    report->line = report->size;
    if (key)
        put(report, "  %-*s", KEY_WIDTH, key);
    if (subkey)
        put(report, "%-*s", SUBKEY_WIDTH, subkey);
}

/* Letters, not bytes: what continues a UTF-8 sequence takes no column. */
static int line_width(struct report *report)
{
    int width = 0;
    if (fflush(report->out))
        return 0;
    for (size_t i = report->line; i < report->size; i++)
        width += ((unsigned char)report->text[i] & 0xc0) != 0x80;
    return width;
}

static void end(struct report *report, enum certainty certainty)
{
    static const char *const marks[] = {NULL, "candidate", "derived", "exact"};
    if (marks[certainty]) {
        int column = WIDTH - (int)strlen(marks[certainty]) - line_width(report);
        put(report, "%*s%s", column > 2 ? column : 2, "", marks[certainty]);
    }
    put(report, "\n");
}

static const struct evidence_site *site_of(const struct report *report)
{
    return report->diagnosis->site;
}

static void put_access_bytes(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    if (site->access_bytes)
        put(report, " of %" PRIu32 " byte%s", site->access_bytes, plural(site->access_bytes));
}

static void put_access(struct report *report)
{
    static const char *const names[] = {"access", "READ", "WRITE", "ATOMIC"};
    put(report, "%s", names[site_of(report)->access]);
    put_access_bytes(report);
}

static void put_illegal_access(struct report *report)
{
    static const char *const causes[] = {"", " by a READ", " by a WRITE", " by an ATOMIC"};
    const struct evidence_site *site = site_of(report);
    put(report, "illegal memory access%s", causes[site->access]);
    if (report->diagnosis->address_certainty != CERTAIN_NOT)
        put_access_bytes(report);
    else
        put(report, " (address unknown%s)", site->is_warp_alive ? "" : ": the warp had exited");
}

static void headline(struct report *report, int device, const char *device_name)
{
    static const char *const names[] = {
        [FAULT_OVERRUN] = "out-of-bounds ", [FAULT_UNDERRUN] = "out-of-bounds ", [FAULT_USE_AFTER_FREE] = "use-after-free ",
        [FAULT_WILD] = "wild-address ",     [FAULT_NULL] = "null-pointer ",      [FAULT_HOST_POINTER] = "host-pointer ",
        [FAULT_MISALIGNED] = "misaligned ", [FAULT_ILLEGAL_ACCESS] = NULL,       [FAULT_OTHER] = NULL,
    };
    const struct diagnosis *diagnosis = report->diagnosis;
    begin(report, NULL, NULL);
    put(report, "cufence: ");
    if (names[diagnosis->kind]) {
        put(report, "%s", names[diagnosis->kind]);
        put_access(report);
    } else if (diagnosis->kind == FAULT_ILLEGAL_ACCESS) {
        put_illegal_access(report);
    } else {
        put(report, "exception: %s", diagnosis->site ? diagnosis->site->exception_name : "the dump names none");
    }
    if (device >= 0)
        put(report, " on GPU %d", device);
    else
        put(report, " on a GPU");
    const char *name = device_name ? device_name : diagnosis->evidence->device_name;
    if (*name) {
        put(report, " (");
        put_name(report, name);
        put(report, ")");
    }
    end(report, CERTAIN_NOT);
    begin(report, NULL, NULL);
    end(report, CERTAIN_NOT);
}

/* "0 bytes past the end of buffer #7": where an address lies, for one of the two that it may belong to. */
static void put_distance(struct report *report, const char *preposition, uint64_t distance, const cufence_buffer *buffer)
{
    put(report, "%" PRIu64 " byte%s %s buffer #%" PRIu64, distance, plural(distance), preposition, buffer->id);
}

static void put_overrun(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const cufence_buffer *owner = diagnosis->owner;
    uint64_t inside = owner->address + owner->size - diagnosis->address;
    put_distance(report, "past the end of", diagnosis->distance, owner);
    if (diagnosis->address < owner->address + owner->size && inside < site_of(report)->access_bytes)
        put(report, " (the last %" PRIu64 " of the access's %" PRIu32 " bytes lie past it)",
            site_of(report)->access_bytes - inside, site_of(report)->access_bytes);
}

static void address_line(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    if (diagnosis->address_certainty == CERTAIN_NOT)
        return;
    begin(report, "address", NULL);
    put(report, "0x%" PRIx64 ", ", diagnosis->address);
    switch (diagnosis->kind) {
    case FAULT_OVERRUN:
        put_overrun(report);
        break;
    case FAULT_UNDERRUN:
        put_distance(report, "before the start of", diagnosis->distance, diagnosis->owner);
        break;
    case FAULT_USE_AFTER_FREE:
        put_distance(report, "into", diagnosis->distance, diagnosis->owner);
        put(report, ", which has been freed");
        break;
    case FAULT_NULL:
        if (diagnosis->address)
            put(report, "a null pointer with an offset of %" PRIu64 " byte%s", diagnosis->address, plural(diagnosis->address));
        else
            put(report, "a null pointer");
        break;
    case FAULT_HOST_POINTER:
        put(report, "memory of the host that the device cannot reach");
        break;
    case FAULT_WILD:
        put(report, diagnosis->address >= diagnosis->memory->arena_start && diagnosis->address < diagnosis->memory->arena_end
                        ? "in cufence's address space, far from any buffer"
                        : "in no buffer of cufence's and not in its address space");
        break;
    case FAULT_MISALIGNED:
    case FAULT_ILLEGAL_ACCESS:
    case FAULT_OTHER:
        if (diagnosis->kind == FAULT_MISALIGNED && site_of(report)->access_bytes)
            put(report, "%s a multiple of %" PRIu32 ", ", diagnosis->address % site_of(report)->access_bytes ? "not" : "itself",
                site_of(report)->access_bytes);
        if (diagnosis->owner)
            put_distance(report, "into", diagnosis->distance, diagnosis->owner);
        else
            put(report, "in no buffer of cufence's");
        if (diagnosis->owner && diagnosis->kind == FAULT_ILLEGAL_ACCESS)
            put(report, ", which is mapped, but perhaps not for this device");
        break;
    }
    end(report, diagnosis->address_certainty);
}

/* Why this buffer is blamed, where that is not beyond doubt. */
static void owner_line(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    if (!diagnosis->owner || diagnosis->owner_certainty == CERTAIN_EXACT || diagnosis->kind == FAULT_MISALIGNED ||
        diagnosis->kind == FAULT_ILLEGAL_ACCESS)
        return;
    begin(report, "owner", NULL);
    put(report, "#%" PRIu64 ": %s", diagnosis->owner->id, diagnosis->owner_reason);
    end(report, diagnosis->owner_certainty);
    if (!diagnosis->rival)
        return;
    begin(report, "", NULL);
    put(report, "or ");
    put_distance(report, diagnosis->kind == FAULT_OVERRUN ? "before the start of" : "past the end of",
                 diagnosis->rival_distance, diagnosis->rival);
    end(report, CERTAIN_CANDIDATE);
}

static void put_buffer(struct report *report, const cufence_buffer *buffer)
{
    put(report, "#%" PRIu64 ", %" PRIu64 " byte%s", buffer->id, buffer->size, plural(buffer->size));
    if (buffer->size >= MIB)
        put(report, " (%s)",
            amount_in(buffer->size, buffer->size >= GIB ? GIB : MIB, buffer->size >= GIB ? "GiB" : "MiB").text);
    put(report, " [0x%" PRIx64 ", 0x%" PRIx64 "), stream 0x%" PRIx64, buffer->address, buffer->address + buffer->size,
        buffer->stream);
    if (buffer->label[0]) {
        put(report, ", label \"");
        put_name(report, buffer->label);
        put(report, "\"");
    }
}

static void event_line(struct report *report, const char *event, uint64_t time_ns, uint64_t tid, const uint64_t *stream)
{
    uint64_t now = report->diagnosis->memory->now_ns;
    if (!time_ns)
        return;
    begin(report, "", event);
    if (now >= time_ns)
        put(report, "%s ago ", duration_of(now - time_ns).text);
    put(report, "by thread %" PRIu64, tid);
    if (stream)
        put(report, " on stream 0x%" PRIx64, *stream);
    end(report, CERTAIN_NOT);
}

static void buffer_lines(struct report *report)
{
    const cufence_buffer *owner = report->diagnosis->owner;
    if (!owner)
        return;
    begin(report, "buffer", NULL);
    put_buffer(report, owner);
    end(report, CERTAIN_NOT);
    event_line(report, "allocated", owner->allocated_ns, owner->allocated_tid, NULL);
    event_line(report, "freed", owner->freed_ns, owner->freed_tid, &owner->free_stream);
}

static void put_dim(struct report *report, const uint32_t dim[3])
{
    put(report, "(%" PRIu32 ",%" PRIu32 ",%" PRIu32 ")", dim[0], dim[1], dim[2]);
}

static void kernel_line(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    const char *name = site->kernel ? site->kernel : site->symbol;
    if (!name && !site->error_pc)
        return;
    begin(report, "kernel", NULL);
    if (name)
        put_name(report, name);
    else
        put(report, "in no known function, at PC 0x%" PRIx64, site->error_pc);
    if (site->has_grid) {
        put(report, "<<<");
        put_dim(report, site->grid);
        put(report, ", ");
        put_dim(report, site->block);
        put(report, ">>>");
    }
    if (site->has_grid && (site->cluster[0] > 1 || site->cluster[1] > 1 || site->cluster[2] > 1)) {
        put(report, " in clusters of ");
        put_dim(report, site->cluster);
    }
    if (report->diagnosis->owner && report->diagnosis->owner_parameter >= 0)
        put(report, "  argument word %d points to this buffer", report->diagnosis->owner_parameter);
    end(report, name || site->has_grid ? CERTAIN_EXACT : CERTAIN_NOT);
}

static void place_line(struct report *report)
{
    const struct evidence_site *site = site_of(report);
    const char *gap = "";
    if (!site->file && !site->instruction && !site->symbol)
        return;
    begin(report, "", "at");
    if (site->file) {
        put_name(report, site->file);
        if (site->line)
            put(report, ":%d", site->line);
        gap = "   ";
    }
    if (site->instruction) {
        put(report, "%s", gap);
        put_name(report, site->instruction);
        gap = "   ";
    }
    if (site->symbol) {
        put(report, "%s(", gap);
        put_name(report, site->symbol);
        put(report, "+0x%" PRIx64 ")", site->kernel_offset);
    }
    end(report, CERTAIN_NOT);
}

static void thread_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const struct evidence_site *site = diagnosis->site;
    if (diagnosis->lane && site->is_warp_alive) {
        begin(report, "", "thread");
        put(report, "block ");
        put_dim(report, site->block_index);
        put(report, " thread ");
        put_dim(report, diagnosis->lane->thread);
        if (diagnosis->faulting_threads > 1)
            put(report, ", and %zu more", diagnosis->faulting_threads - 1);
        end(report, CERTAIN_NOT);
    }
    if (diagnosis->other_sites) {
        begin(report, "", "also");
        put(report, "%zu more %s%s at this instruction", diagnosis->other_sites, site->is_warp_alive ? "warp" : "SM",
            plural(diagnosis->other_sites));
        end(report, CERTAIN_NOT);
    }
}

static void note_line(struct report *report, const char *key, const char *text)
{
    begin(report, key, NULL);
    put(report, "%s", text);
    end(report, CERTAIN_NOT);
}

static void note_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    const struct evidence *evidence = diagnosis->evidence;
    if (diagnosis->kind == FAULT_ILLEGAL_ACCESS && diagnosis->address_certainty == CERTAIN_NOT) {
        if (diagnosis->site->is_warp_alive) {
            note_line(report, "note", "the address cannot be told from this instruction and the registers in the dump");
        } else {
            begin(report, "note", NULL);
            put(report, "the warp had exited when the driver");
            if (evidence->driver_major)
                put(report, " (%" PRIu32 ".%" PRIu32 ")", evidence->driver_major, evidence->driver_minor);
            put(report, " wrote its dump, so address and thread are");
            end(report, CERTAIN_NOT);
            note_line(report, "", "missing from it; drivers from CUDA 13.3 on keep such warps");
        }
    }
    if (diagnosis->candidate_count)
        note_line(report, diagnosis->kind == FAULT_ILLEGAL_ACCESS ? "" : "note",
                  diagnosis->parameters_named ? "candidates are the buffers that the kernel's arguments point to"
                                              : "candidates are the live buffers of the device, newest first");
}

static void candidate_lines(struct report *report)
{
    const struct diagnosis *diagnosis = report->diagnosis;
    for (size_t i = 0; i < diagnosis->candidate_count; i++) {
        begin(report, "buffer", NULL);
        put_buffer(report, diagnosis->candidates[i]);
        if (diagnosis->candidates[i]->freed_ns)
            put(report, ", freed");
        if (diagnosis->candidate_parameter[i] >= 0)
            put(report, ", argument word %d", diagnosis->candidate_parameter[i]);
        end(report, CERTAIN_CANDIDATE);
    }
    if (diagnosis->candidate_total > diagnosis->candidate_count) {
        begin(report, "", NULL);
        put(report, "and %zu more", diagnosis->candidate_total - diagnosis->candidate_count);
        end(report, CERTAIN_NOT);
    }
}

static void put_slack(struct report *report, uint64_t bytes)
{
    if (bytes)
        put(report, " slack %s |", amount_of(bytes).text);
}

static void put_block(struct report *report, const char *mark, const cufence_buffer *buffer)
{
    put(report, "%s #%" PRIu64 " %s%s |", mark, buffer->id, amount_of(buffer->size).text, buffer->freed_ns ? " freed" : "");
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
    begin(report, "memory", NULL);
    put(report, "|");
    if (previous && diagnosis->kind != FAULT_OVERRUN)
        put_block(report, "", previous);
    if (diagnosis->kind == FAULT_OVERRUN) {
        put_mapping(report, "");
        put(report, "X guard %s .......|", amount_of(owner->guard_end - owner->mapping_end).text);
    } else if (diagnosis->kind == FAULT_UNDERRUN) {
        put(report, "....... guard %s X|", amount_of(owner->mapping_start - owner->guard_start).text);
        put_mapping(report, "");
    } else if (diagnosis->kind == FAULT_USE_AFTER_FREE) {
        put_mapping(report, "X");
        put(report, " guard %s |", amount_of(owner->guard_end - owner->mapping_end).text);
    } else {
        put(report, " ....... X ....... |");
    }
    if (next && diagnosis->kind != FAULT_UNDERRUN)
        put_block(report, "", next);
    end(report, CERTAIN_NOT);
}

char *fault_report_text(const struct diagnosis *diagnosis, int pid, int device, const char *device_name)
{
    struct report report = {.diagnosis = diagnosis, .pid = pid};
    report.out = open_memstream(&report.text, &report.size);
    if (!report.out)
        return NULL;
    headline(&report, device, device_name);
    if (diagnosis->site) {
        address_line(&report);
        owner_line(&report);
        buffer_lines(&report);
        kernel_line(&report);
        place_line(&report);
        thread_lines(&report);
        note_lines(&report);
        candidate_lines(&report);
        memory_line(&report);
    }
    int is_complete = !ferror(report.out);
    if (fclose(report.out) || !is_complete) {
        free(report.text);
        return NULL;
    }
    return report.text;
}
