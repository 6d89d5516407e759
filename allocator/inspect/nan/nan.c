#include "inspect/inspect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/output.h"
#include "base/lost_reports.h"
#include "base/peak.h"
#include "finding/launch_finding.h"
#include "heap/slack/poison.h"
#include "inspect/values/measure.h"
#include "inspect/visits/visits.h"
#include "fault/tell.h"

#include <inttypes.h>
#include <stdlib.h>

#define MOST_POINTERS 64 /* of a launch */
#define COUNTERS 4096u
#define PAIRS 64u

static struct {
    uint64_t every; /* constant after the start, like those below */
    int looks_for_inf, stops;
    uint32_t counters[COUNTERS]; /* atomic: launches of the kernels */
    uint64_t unseen;             /* launches without results; used by the thread that finishes visits */
} watch;

/* ---- which buffers have been written: by a launch that was given them, or by the host. What is in other memory is left over
 * from earlier buffers, and no input. Buffers are named by their numbers, the newest million of them; an older one counts as
 * written. Any thread. ---- */

#define ENTRIES (UINT64_C(1) << 20)

static uint64_t *written_table; /* each atomic: the newest buffer whose number ends like this and that was written */

static void written_note(uint64_t buffer)
{
    raise_to(&written_table[buffer % ENTRIES], buffer);
}

static int written_is(uint64_t buffer)
{
    return __atomic_load_n(&written_table[buffer % ENTRIES], __ATOMIC_RELAXED) >= buffer;
}

/* The host is about to write at this address, with a copy or a set. */
static void host_writes(uint64_t address)
{
    struct heap_range range;
    if (heap_owns(address) && heap_range_of(address, &range))
        written_note(range.id);
}

nan_host_writes *nan_wants_host_writes(void)
{
    return written_table ? host_writes : NULL;
}

/* ---- what is looked at ---- */

static int wants_number(const struct launch_function *function)
{
    uint32_t *counter = &watch.counters[((uintptr_t)function >> 4) % COUNTERS];
    return watch.every == 1 || __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED) % watch.every == 0;
}

static int wants(const struct visit *visit)
{
    return visit->reached_count != 0;
}

static unsigned when(const struct visit *visit, const struct reached *reached)
{
    int is_input = visit->function && types_is_const(reached->function, reached);
    return is_input ? PLAN_BEFORE : PLAN_BEFORE | PLAN_AFTER;
}

/* has_fill: constant after the start */
static struct plan_rules rules = {.most_pointers = MOST_POINTERS, .is_for_nan = 1, .when = when};

_Static_assert(MOST_POINTERS <= 64, "one bit each in plan.written");

static size_t size(const struct visit *visit)
{
    return plan_make(&rules, visit, NULL, 0);
}

static void before(struct visit_part *part)
{
    const struct visit *visit = part->visit;
    struct plan *plan = (struct plan *)(void *)part->memory;
    plan_make(&rules, visit, part->memory, part->bytes);
    for (size_t i = 0; i < visit->reached_count && i < MOST_POINTERS; i++) {
        const struct heap_range *range = &visit->reached[i].range;
        int is_written = watch.every > 1 || written_is(range->id);
        is_written = is_written && !poison_bytes(visit->reached[i].pointer, range->address + range->size);
        plan->written |= (uint64_t)is_written << i;
    }
    plan_submit(&rules, part, PLAN_BEFORE);
}

static void note_writes(const struct visit *visit)
{
    for (size_t i = 0; i < visit->reached_count; i++) {
        if (when(visit, &visit->reached[i]) & PLAN_AFTER)
            written_note(visit->reached[i].range.id);
    }
}

static void after(struct visit_part *part)
{
    const struct visit *visit = part->visit;
    plan_submit(&rules, part, PLAN_AFTER);
    note_writes(visit);
}

/* ---- what was found ---- */

/* A pointer whose memory was looked at. */
struct looked {
    const struct plan_item *item;
    int is_written;
    struct counted before, after;
    int has_figures;
    struct measured figures; /* before */
};

struct results {
    const struct visit *visit;
    struct looked looked[MOST_POINTERS];
    size_t count;
};

/* Whether words of unknown type are like numbers of float32: small integers are not, nor most bytes. -1 has the bits of a NaN,
 * but none that arithmetic makes. */
static int is_like_float(const struct measured *words)
{
    double low = -words->min, high = words->max, most = low > high ? low : high;
    uint64_t first = value_bits(VALUE_WORD, words->first);
    return words->finite ? most > 0x1p-66 && most < 0x1p66 : first == 0x7fffffff || (first & 0x7fffffff) == 0x7fc00000;
}

static void read_when(const struct plan_item *item, const uint8_t *results, unsigned when, struct counted *out,
                      struct measured *figures)
{
    const uint8_t *from = results + (when == PLAN_BEFORE ? item->before : item->after);
    if (plan_kernel(&rules, item, when) != MEASURE_FIGURES) {
        measure_count(from, item->bytes, out);
        return;
    }
    measure_read(from, item->bytes, item->type, figures);
    if (item->type == VALUE_WORD && !is_like_float(figures))
        return;
    out->nans = figures->nans;
    out->fresh = figures->fresh;
    out->first_nan = figures->first_nan;
    out->last_nan = figures->last_nan;
    out->infinities = when == PLAN_BEFORE ? figures->infinities : 0; /* where the first one is, they do not say */
}

static void read_all(struct results *out, const uint8_t *results)
{
    const struct plan *plan = (const struct plan *)(const void *)results;
    struct measured ignored;
    for (size_t i = 0; i < out->visit->reached_count && i < MOST_POINTERS; i++) {
        const struct plan_item *item = plan_find(results, i);
        struct looked *looked = &out->looked[out->count];
        if (!item)
            continue;
        *looked = (struct looked){.item = item,
                                  .is_written = (int)(plan->written >> i & 1),
                                  .has_figures = plan_kernel(&rules, item, PLAN_BEFORE) == MEASURE_FIGURES};
        read_when(item, results, PLAN_BEFORE, &looked->before, &looked->figures);
        if (item->after)
            read_when(item, results, PLAN_AFTER, &looked->after, &ignored);
        out->count++;
    }
}

/* ---- the finding ---- */

static struct nan_input input_of(const struct visit *visit, const struct looked *looked, char label[64])
{
    const struct reached *reached = &visit->reached[looked->item->reached];
    const struct measured none = {0}, *figures = looked->has_figures ? &looked->figures : &none;
    cufence_buffer buffer;
    int is_there = arguments_describe(&reached->range, &buffer);
    snprintf(label, 64, "%s", is_there ? buffer.label : "");
    return (struct nan_input){.argument = visit->function ? reached->argument : -1,
                              .at = visit->function ? reached->at : 0,
                              .buffer = reached->range.id,
                              .offset = reached->pointer - reached->range.address,
                              .count = looked->item->bytes / value_width(looked->item->type),
                              .label = label,
                              .type = looked->item->type,
                              .is_unwritten = !looked->is_written,
                              .fresh = looked->before.fresh,
                              .nans = looked->before.nans,
                              .infinities = looked->before.infinities,
                              .finite = figures->finite,
                              .zeros = figures->zeros,
                              .min = figures->min,
                              .max = figures->max,
                              .mean = figures->mean,
                              .deviation = figures->deviation};
}

/* What a report needs besides the fact. Too large for the stack. */
struct report_parts {
    struct stack_frame frames[STACK_READ];
    struct nan_input inputs[NAN_INPUTS];
    char labels[NAN_INPUTS][64];
    char plain[512];
    cufence_buffer buffer, fresh;
    struct order_details other;
};

/* Whether NaN may come from elements there that held the fill of fresh memory: 0 for no. It is likelier the higher. Those of an
 * output may only be about to be written. */
static int is_from(const struct looked *looked)
{
    if (!looked->before.fresh)
        return 0;
    if (!looked->item->after)
        return 3;
    return looked->after.fresh == looked->before.fresh ? 2 : looked->after.nans >= looked->before.fresh;
}

static const struct looked *find_fresh(const struct results *results)
{
    const struct looked *found = NULL;
    for (size_t i = 0; i < results->count; i++)
        if (is_from(&results->looked[i]) > (found ? is_from(found) : 0))
            found = &results->looked[i];
    return found;
}

/* Two launches that may both have made a NaN, told of when the first one was looked at. Used by the thread that finishes
 * visits.
 */
static struct pair {
    uint64_t address;
    int is_inf;
    struct order_position launches[2];
} pairs[PAIRS];
static unsigned pair_count;

static int is_at(const struct order_position *one, const struct order_position *other)
{
    return one->position == other->position && one->stream == other->stream;
}

/* Whether it was told of. Else notes it. */
static int is_told(uint64_t address, int is_inf, const struct order_position *launch, const struct order_position *other)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        const struct pair *pair = &pairs[i];
        if (pair->address == address && pair->is_inf == is_inf && is_at(&pair->launches[1], launch) &&
            is_at(&pair->launches[0], other))
            return 1;
    }
    pairs[pair_count++ % PAIRS] = (struct pair){address, is_inf, {*launch, *other}};
    return 0;
}

static void tell(const struct results *results, const struct looked *made, int is_inf, int is_of_unwritten)
{
    const struct visit *visit = results->visit;
    const struct reached *reached = &visit->reached[made->item->reached];
    const struct looked *fresh = is_inf ? NULL : find_fresh(results);
    struct report_parts *parts = calloc(1, sizeof *parts);
    if (!parts) {
        untold_for_ever();
        return;
    }
    arguments_describe(&reached->range, &parts->buffer);
    struct nan_fact fact = {.kind = is_inf ? FINDING_INF : FINDING_NAN,
                            .index = is_inf ? made->after.first_infinity : made->after.first_nan,
                            .made = is_inf ? made->after.infinities : made->after.nans,
                            .count = made->item->bytes / value_width(made->item->type),
                            .pointer = reached->pointer,
                            .argument = visit->function ? reached->argument : -1,
                            .type = made->item->type,
                            .buffer = &parts->buffer,
                            .buffer_frames = {stack_buffer_frames, NULL},
                            .inputs = parts->inputs,
                            .is_of_unwritten = is_of_unwritten || fresh,
                            .now_ns = monotonic_ns()};
    if (fresh && arguments_describe(&visit->reached[fresh->item->reached].range, &parts->fresh)) {
        fact.fresh = &parts->fresh;
        fact.fresh_count = fresh->before.fresh;
    }
    if (beside_find(visit, &reached->range, reached->pointer, reached->pointer + made->item->bytes, &parts->other))
        fact.other = &parts->other.use;
    uint64_t address = fact.pointer + fact.index * value_width(fact.type);
    if (fact.other && is_told(address, is_inf, &visit->position, &parts->other.where)) {
        free(parts);
        return;
    }
    names_launched(visit, &fact.by, parts->frames, parts->plain, sizeof parts->plain);
    for (size_t i = 0; i < results->count && i < NAN_INPUTS; i++)
        parts->inputs[fact.input_count++] = input_of(visit, &results->looked[i], parts->labels[i]);
    tell_nan(&fact, visit->device, watch.stops);
    free(parts);
}

static uint64_t number_of(const struct counted *counted, int is_inf)
{
    return is_inf ? counted->infinities : counted->nans;
}

/* Whether the launch has made some there. Memory that nobody had written may have held some before: then more of them, or some
 * at other places, are new. */
static int has_made(const struct looked *looked, int is_inf)
{
    const struct counted *before = &looked->before, *after = &looked->after;
    if (!looked->item->after || !number_of(after, is_inf))
        return 0;
    if (!number_of(before, is_inf))
        return 1;
    if (looked->is_written)
        return 0;
    if (number_of(after, is_inf) > number_of(before, is_inf))
        return 1;
    return !is_inf && (after->first_nan < before->first_nan || after->last_nan > before->last_nan);
}

/* Whether the launch has probably only read there: it may write, but the same are there. */
static int is_input(const struct looked *looked, int is_inf)
{
    return !looked->item->after ||
           (number_of(&looked->before, is_inf) == number_of(&looked->after, is_inf) && !has_made(looked, is_inf));
}

/* A launch that is given nothing but fresh memory, and leaves NaN in all of it, was asked to: PyTorch fills new tensors so with
 * deterministic algorithms. */
static int is_fill(const struct results *results, const struct looked *made)
{
    return results->count == 1 && !made->is_written && made->after.nans == made->item->bytes / value_width(made->item->type);
}

/* Memory that may be of another type than it was taken for, and cannot be of that throughout, as a library's workspace: its
 * bytes may be anything. */
static int is_mixed(const struct results *results, const struct looked *made)
{
    const struct heap_range *range = &results->visit->reached[made->item->reached].range;
    if (made->item->from == TYPE_SIGNATURE)
        return 0;
    for (size_t i = 0; i < results->count; i++) {
        const struct looked *other = &results->looked[i];
        if (results->visit->reached[other->item->reached].range.id == range->id && other->item->type != made->item->type)
            return 1;
    }
    return range->size % value_width(made->item->type) != 0;
}

/* Looks for the first pointer where the launch has made some of inputs without. */
static int look_for(const struct results *results, int is_inf)
{
    const struct looked *made = NULL;
    int is_of_unwritten = 0;
    for (size_t i = 0; i < results->count; i++) {
        const struct looked *looked = &results->looked[i];
        if (looked->is_written && (looked->before.nans || (is_inf && looked->before.infinities)))
            return 0; /* it has come from there */
        is_of_unwritten |= !looked->is_written && number_of(&looked->before, is_inf) && is_input(looked, is_inf);
        if (!made && has_made(looked, is_inf) && !is_mixed(results, looked))
            made = looked;
    }
    if (made && !is_inf && is_fill(results, made))
        return 0;
    if (made)
        tell(results, made, is_inf, is_of_unwritten);
    return made != NULL;
}

static void finished(const struct visit *visit, uint8_t *memory, size_t bytes, enum visit_end how)
{
    struct results *results = memory && bytes >= sizeof(struct plan) ? calloc(1, sizeof *results) : NULL;
    if (how == VISIT_NO_ROOM)
        note_writes(visit);
    watch.unseen += how != VISIT_DONE && visit->result == CUDA_SUCCESS;
    if (!results)
        return;
    results->visit = visit;
    read_all(results, memory);
    if (!look_for(results, 0) && watch.looks_for_inf)
        look_for(results, 1);
    free(results);
}

static void closed(void)
{
    if (watch.unseen)
        output_say("cufence: nan: %" PRIu64 " launch%s not looked at: the device was faster, or has faulted\n", watch.unseen,
                   watch.unseen == 1 ? " was" : "es were");
}

cufence_status nan_open(const struct options *options)
{
    static struct visit_user user = {.kernels = MEASURE_KERNELS,
                                     .looks_at_all = 1,
                                     .wants_graphs = 1,
                                     .wants_number = wants_number,
                                     .wants = wants,
                                     .size = size,
                                     .before = before,
                                     .after = after,
                                     .finished = finished,
                                     .closed = closed};
    if (options->nan == NAN_OFF)
        return CUFENCE_OK;
    watch.every = options->every;
    rules.has_fill = options->fill == 0xff;
    watch.looks_for_inf = options->nan >= NAN_REPORT_INF;
    watch.stops = options->nan == NAN_STOP || options->nan == NAN_STOP_INF;
    user.waits = watch.stops;
    user.ptx = measure_ptx();
    if (!written_table && !(written_table = calloc(ENTRIES, sizeof *written_table)))
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "nan: the host has no memory to note which buffers were written");
    visits_add(&user);
    return CUFENCE_OK;
}
