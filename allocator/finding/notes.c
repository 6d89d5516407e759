
#include "analysis/verdict/launches.h"
#include "base/text.h"
#include "frames.h"
#include "parts.h"
#include "writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAPS_SHOWN 4                        /* each may take two notes */
#define UNGUARDED_REACH (UINT64_C(1) << 30) /* bytes that an access may miss its buffer by, to be worth a mention */

/* ---- what happened, if no buffer is involved ---- */

static struct note_fact *new_note(struct finding *finding)
{
    return &finding->notes.list[finding->notes.count++];
}

static void add_meaning(struct finding *finding, enum certainty certainty, const char *before, const char *text)
{
    struct note_fact *note = &finding->meaning.list[finding->meaning.count++];
    note->certainty = certainty;
    part_add(note->text, "%s%s", before, text);
}

static void take_meaning(struct finding *finding)
{
    const struct exception *exception = &finding->where.stop.exception;
    if (exception->meaning)
        add_meaning(finding, CERTAIN_NOT, "", exception->meaning);
    if (exception->cause)
        add_meaning(finding, CERTAIN_CANDIDATE, "perhaps ", exception->cause);
    if (exception->class == CLASS_NO_BUFFER)
        add_meaning(finding, CERTAIN_NOT, "", "no buffer is involved");
}

/* ---- why facts are missing ---- */

/* Adds a text from elsewhere, of which no byte may end the line. */
static void add_foreign(struct note_fact *note, const char *text)
{
    part_add(note->text, "%s", text);
    text_make_plain(note->text);
}

static void note_exited_warp(struct finding *finding, const struct diagnosis *diagnosis)
{
    struct note_fact *note = new_note(finding);
    part_add(note->text, "the warp had exited when the driver");
    if (finding->device.driver[0])
        part_add(note->text, " (%s)", finding->device.driver);
    part_add(note->text, " wrote its dump, so %s missing from it; drivers from CUDA 13.3 on keep such warps",
             diagnosis->again ? "the thread is" : "address and thread are");
    if (diagnosis->is_bystander)
        note_add(finding, "%s",
                 diagnosis->verdict.kind == FAULT_MISALIGNED ? "all accesses of this instruction in the dump are aligned"
                                                             : "all accesses of this instruction in the dump are in bounds");
}

/* Notes where the address came from, according to the kernel's code. */
static void note_source(struct finding *finding)
{
    const struct access_fact *access = &finding->access;
    if (access->is_loaded) {
        note_add(finding, "the address was loaded from memory");
    } else if (access->source.word >= 0) {
        struct note_fact *note = new_note(finding);
        part_add(note->text, "by the kernel's code, the address comes from ");
        part_append_argument(note->text, sizeof note->text, access->source);
    }
}

static void note_launches(struct finding *finding, const struct diagnosis *diagnosis)
{
    if (diagnosis->origin.fits == 1)
        note_add(finding, "one launch of this kernel is on record, and points to %s",
                 diagnosis->candidates.total == 1 ? "this buffer only" : "these buffers");
    else
        note_add(finding, "candidates are the buffers that the last %zu launches of this kernel point to",
                 diagnosis->origin.fits);
}

static void note_candidates(struct finding *finding, const struct diagnosis *diagnosis)
{
    static const char *const sources[] = {
        [CANDIDATES_LIVE] = "live buffers of the device, newest first",
        [CANDIDATES_ARGUMENTS] = "buffers that the kernel's arguments point to",
        [CANDIDATES_RUNNING] = "arguments of the launch that was still running; it may have been another one",
    };
    if (diagnosis->candidates.source == CANDIDATES_LAUNCHES)
        note_launches(finding, diagnosis);
    else
        note_add(finding, "candidates are the %s", sources[diagnosis->candidates.source]);
    if (diagnosis->candidates.excluded == EXCLUDED_CONST)
        note_add(finding, "without those that it takes as pointers to const, because the access writes");
}

#define POSSIBLE 4 /* kernels to name */

/* Returns the kernel of the newest launch on record, without those in `named`; NULL if there is none. */
static const struct launch_function *newest_kernel(const struct fault_memory *memory,
                                                   const struct launch_function *const *named, size_t count)
{
    const struct launch_entry *newest = NULL;
    for (size_t i = 0; i < memory->recent_count; i++) {
        const struct launch_entry *launch = &memory->recent[i];
        size_t known = 0;
        while (known < count && named[known] != launch->function)
            known++;
        if (launch->function && known == count && (!newest || launch->time_ns > newest->time_ns))
            newest = launch;
    }
    return newest ? newest->function : NULL;
}

void note_possible(struct finding *finding, const struct fault_memory *memory)
{
    const struct launch_function *named[POSSIBLE];
    struct note_fact *note = &finding->notes.list[finding->notes.count];
    size_t count = 0;
    while (count < POSSIBLE && (named[count] = newest_kernel(memory, named, count)) != NULL) {
        char kernel[128];
        finding_kernel_of(named[count]->name, kernel, sizeof kernel);
        part_add(note->text, "%s",
                 count ? ", " : "the dump names no kernel; by the newest launches on record it may have been ");
        add_foreign(note, kernel);
        count++;
    }
    finding->notes.count += count > 0;
}

/* ---- what the second launch did ---- */

/* Names the place at which the second launch faulted instead. */
static void note_elsewhere(struct finding *finding, const struct evidence_stop *stop)
{
    struct note_fact *note = new_note(finding);
    char kernel[128];
    finding_kernel(stop, kernel, sizeof kernel);
    part_add(note->text, "launched again on the memory as the fault left it, the kernel faulted at another place: ");
    if (stop->file) {
        add_foreign(note, stop->file);
        if (stop->line)
            part_add(note->text, ":%d", stop->line);
        part_add(note->text, " in ");
    }
    add_foreign(note, kernel);
    if (!stop->is_in_driver)
        part_add(note->text, "+0x%" PRIx64, stop->kernel_offset);
}

static void note_no_fault(struct finding *finding)
{
    char launches[80] = "the kernel did not fault";
    if (finding->rerun->launches_tried > 1)
        snprintf(launches, sizeof launches, "none of the %u launches that it may have been faulted",
                 finding->rerun->launches_tried);
    note_add(
        finding,
        "launched again on the memory as the fault left it, %s: the memory, another launch or the time made the difference",
        launches);
}

/* Names the variables that the second launch did not have. */
static void note_unset(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct rerun_result *rerun = finding->rerun;
    struct note_fact *note = new_note(finding);
    int is_several = strchr(rerun->unset, ',') != NULL;
    add_foreign(note, rerun->unset);
    part_add(note->text, is_several
                             ? ": the kernel uses these variables of its module, and their values were lost with the context"
                             : ": the kernel uses this variable of its module, and its value was lost with the context");
    if (diagnosis->access.certainty == CERTAIN_NOT && fault_is_loaded(diagnosis))
        part_add(note->text, "; the address was loaded, so it may depend on %s", is_several ? "them" : "it");
    else
        part_add(note->text, "; the second launch began with %s", is_several ? "their first values" : "its first value");
}

static void note_rerun(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct rerun_result *rerun = finding->rerun;
    if (rerun->unset[0] && diagnosis->again == AGAIN_NOTHING && rerun->outcome != RERUN_FAILED)
        note_unset(finding, diagnosis);
    const struct evidence_stop *elsewhere = rerun_result_elsewhere(diagnosis, rerun);
    int is_other = elsewhere || rerun->outcome == RERUN_NO_FAULT;
    int is_open = diagnosis->verdict.kind != FAULT_OTHER && !fault_is_address_sure(diagnosis);
    if (rerun->lacks[0] && !diagnosis->again && (is_other || is_open))
        note_add(finding, RERUN_LACKS, rerun->lacks);
    else if (elsewhere)
        note_elsewhere(finding, elsewhere);
    else if (is_other)
        note_no_fault(finding);
    int has_failed = rerun->outcome == RERUN_FAILED;
    if (!has_failed && !rerun->note[0])
        return;
    struct note_fact *note = new_note(finding);
    part_add(note->text, has_failed ? "could not be launched again: " : "of the second launch: ");
    add_foreign(note, has_failed ? rerun->reason : rerun->note);
}

/* An address in no buffer that cufence knows may be in, or beyond, one that is not guarded. */
static void note_unguarded(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct unguarded_buffers *unguarded = &diagnosis->memory->unguarded;
    uint64_t past = diagnosis->access.address - unguarded->near;
    struct note_fact *note = new_note(finding);
    part_add(note->text, "%" PRIu64 " live buffer%s (%s) %s not guarded, and the address may be meant for one of them",
             unguarded->count, plural(unguarded->count), bytes_of(unguarded->bytes).text, unguarded->count == 1 ? "is" : "are");
    if (diagnosis->access.certainty == CERTAIN_NOT || !unguarded->size || past >= UNGUARDED_REACH)
        return;
    if (past < unguarded->size)
        part_add(note->text, ": it lies %" PRIu64 " byte%s into one of %" PRIu64 " byte%s", past, plural(past), unguarded->size,
                 plural(unguarded->size));
    else
        part_add(note->text, ": it lies %" PRIu64 " byte%s past the end of one of %" PRIu64 " byte%s", past - unguarded->size,
                 plural(past - unguarded->size), unguarded->size, plural(unguarded->size));
}

/* ---- tensor maps ---- */

/* Adds "[512, 64] of 4 bytes", outermost first, as programs declare arrays. */
static void add_shape(struct note_fact *note, const struct tensor_map *map)
{
    for (uint32_t i = map->rank; i-- > 0;)
        part_add(note->text, "%s%" PRIu64 "%s", i == map->rank - 1 ? "[" : ", ", map->size[i], i ? "" : "]");
    if (map->element_bits >= 8)
        part_add(note->text, " of %" PRIu32 " byte%s", map->element_bits / 8, plural(map->element_bits / 8));
}

/* Adds ": box [16, 64] at [272, 0]". */
static void add_box(struct note_fact *note, const struct tensor_map *map, const struct evidence_box *box)
{
    for (uint32_t i = map->rank; map->box[0] && i-- > 0;)
        part_add(note->text, "%s%" PRIu32 "%s", i == map->rank - 1 ? ": box [" : ", ", map->box[i], i ? "" : "]");
    for (uint32_t i = map->rank; i-- > 0;)
        part_add(note->text, "%s%" PRId32 "%s", i == map->rank - 1 ? " at [" : ", ", box->corner[i], i ? "" : "]");
}

static void add_buffer(struct note_fact *note, const struct tensor_map *map, const struct fault_memory *memory)
{
    if (!map->buffer) {
        part_add(note->text, " that was made for no live buffer");
        return;
    }
    part_add(note->text, " in buffer #%" PRIu64, map->buffer);
    if (map_is_freed(map, memory))
        part_add(note->text, ", which has been freed since");
    if (map_excess(map))
        part_add(note->text, ", %" PRIu64 " byte%s past its end", map_excess(map), plural(map_excess(map)));
}

static void note_map(struct finding *finding, const struct diagnosis *diagnosis, size_t at, const struct tensor_map *map)
{
    struct argument_name name = {(int)(at / 8), -1, 0};
    const struct evidence_box *box = &finding->where.stop.box;
    const uint8_t *bytes = diagnosis->arguments.bytes + at;
    int is_copy = !memcmp(bytes, &map->copied_to, sizeof map->copied_to);
    struct stack_frame frames[STACK_READ];
    const struct buffer_frames *known = &diagnosis->memory->frames;
    struct note_fact *note = new_note(finding);
    name.number = launch_argument_of(diagnosis->arguments.layout, at / 8, &name.offset);
    part_append_argument(note->text, sizeof note->text, name);
    part_add(note->text, is_copy ? " points to a copy of a tensor map, " : " is a tensor map, ");
    add_shape(note, map);
    add_buffer(note, map, diagnosis->memory);
    if (diagnosis->verdict.owner && diagnosis->verdict.owner->id == map->buffer &&
        boxes_lead(map, box, diagnosis->memory, diagnosis->access.address))
        add_box(note, map, box);
    part_add(note->text, "; %s", map->call);
    size_t count = map->stack && known->read ? known->read(known->from, map->stack, frames, STACK_READ) : 0;
    if (!count)
        return;
    const struct stack_frame *own = frames_own(frames, count);
    if (own->line)
        part_add(note->text, " at %s:%d", frames_file(own), own->line);
    if (own->function[0])
        part_add(note->text, " in %s", own->function);
}

/* Says where the driver may be to blame. */
static void note_driver(struct finding *finding, const struct diagnosis *diagnosis, const struct tensor_map *map)
{
    unsigned sm = 0;
    if (sscanf(diagnosis->evidence->sm_type, "sm_%u", &sm) != 1 || sm < 100 || !map_is_misencoded(map))
        return;
    note_add(
        finding,
        "this may be the driver's fault: on this architecture it is known to encode maps wrongly whose tensor is not dense "
        "and lies in less than 128 KiB; clearing bit 85 of the map mends it (release notes of driver 595.71.05), as does CUDA "
        "13.5's cuTensorMapSetAllocationClass()");
    finding->notes.list[finding->notes.count - 1].certainty = CERTAIN_CANDIDATE;
}

/* The maps among the arguments, or that an argument points to: first those of the buffer that the access was meant for. */
static void note_maps(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct fault_arguments *arguments = &diagnosis->arguments;
    const cufence_buffer *owner = diagnosis->verdict.owner;
    size_t count = 0;
    for (int is_owners = 1; is_owners >= 0; is_owners--) {
        for (size_t at = 0; arguments->bytes && at + 8 <= arguments->count; at += 8) {
            const struct tensor_map *map;
            size_t i = 0;
            while ((map = boxes_map(diagnosis->memory, arguments->bytes, arguments->count, at, &i)) != NULL) {
                if (is_owners == (owner && map->buffer == owner->id) && ++count <= MAPS_SHOWN) {
                    note_map(finding, diagnosis, at, map);
                    note_driver(finding, diagnosis, map);
                }
            }
        }
    }
    if (count > MAPS_SHOWN)
        note_add(finding, "%zu more tensor map%s among the arguments", count - MAPS_SHOWN,
                 count == MAPS_SHOWN + 1 ? " is" : "s are");
}

void notes_take(struct finding *finding, const struct diagnosis *diagnosis)
{
    int is_about_address = diagnosis->verdict.kind == FAULT_ILLEGAL_ACCESS || diagnosis->verdict.kind == FAULT_MISALIGNED;
    int may_be_unguarded = !diagnosis->verdict.owner && (is_about_address || diagnosis->verdict.kind == FAULT_WILD);
    if (diagnosis->verdict.kind == FAULT_OTHER)
        take_meaning(finding);
    if (is_about_address && diagnosis->access.certainty == CERTAIN_NOT) {
        if (finding->where.stop.is_warp_alive)
            note_add(finding, "the address cannot be told from this instruction and the registers in the dump");
        else
            note_exited_warp(finding, diagnosis);
        note_source(finding);
    }
    if (diagnosis->again && !finding->where.stop.is_warp_alive)
        note_exited_warp(finding, diagnosis);
    note_maps(finding, diagnosis);
    if (diagnosis->candidates.count)
        note_candidates(finding, diagnosis);
    if (may_be_unguarded && diagnosis->memory->unguarded.count)
        note_unguarded(finding, diagnosis);
    if (finding->rerun)
        note_rerun(finding, diagnosis);
}
