/* What the faulting address is made of, as facts and sentences: from struct origin, and the buffers that its addresses lie in.
 */
#include "parts.h"

#include "analysis/verdict/cause.h"
#include "analysis/verdict/launches.h"
#include "analysis/verdict/signature.h"
#include "base/reader.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>

#define MOST_UNIT 16u /* bytes of an element */

static int64_t value_of(const struct origin_term *term)
{
    return (int64_t)term->value;
}

/* The buffer of that time at the address, slack included; NULL if none is known. */
static const cufence_buffer *buffer_at(const struct diagnosis *diagnosis, uint64_t address)
{
    const struct fault_memory *memory = diagnosis->memory;
    const cufence_buffer *found = word_buffer(memory, address, diagnosis->arguments.time_ns);
    for (size_t i = 0; !found && i < memory->near_count; i++) {
        const cufence_buffer *buffer = &memory->near[i];
        if (buffer->is_mapped && !buffer->freed_ns && address >= buffer->mapping_start && address < buffer->mapping_end)
            found = buffer;
    }
    return found;
}

/* ---- what was loaded ---- */

/* The loaded value that adds most; NULL if there is none. */
static const struct origin_term *loaded_of(const struct origin *cause)
{
    const struct origin_term *most = NULL;
    uint64_t adds = 0;
    for (uint32_t i = 0; i < cause->term_count; i++) {
        uint64_t own = (int64_t)cause->terms[i].adds < 0 ? 0 - cause->terms[i].adds : cause->terms[i].adds;
        if (cause->terms[i].input == ORIGIN_LOADED && own > adds) {
            most = &cause->terms[i];
            adds = own;
        }
    }
    return most;
}

/* The last launch on record before the one that faulted, of all kernels, that was given a pointer into the buffer and may have
 * written there. */
static const struct launch_entry *last_writer(const struct diagnosis *diagnosis, const cufence_buffer *buffer)
{
    const struct fault_memory *memory = diagnosis->memory;
    const struct launch_entry *faulted = diagnosis->origin.launch ? diagnosis->origin.launch->entry : NULL, *last = NULL;
    for (size_t i = 0; faulted && i < memory->recent_count; i++) {
        const struct launch_entry *entry = &memory->recent[i];
        if (!entry->function || !entry->function->has_layout || entry->time_ns > faulted->time_ns ||
            entry->time_ns < buffer->allocated_ns || (entry->tid == faulted->tid && entry->sequence >= faulted->sequence) ||
            (last && entry->time_ns <= last->time_ns))
            continue;
        char *name = text_demangled(entry->function->name);
        for (uint32_t k = 0; k < entry->function->argument_count; k++) {
            struct launch_argument argument = entry->function->arguments[k];
            if (argument.size != sizeof(uint64_t) || argument.offset + sizeof(uint64_t) > entry->kept_bytes)
                continue;
            uint64_t word = load_u64(entry->bytes + argument.offset);
            if (word - buffer->address < buffer->size &&
                !(name && signature_is_const(name, entry->function->argument_count, k)))
                last = entry;
        }
        free(name);
    }
    return last;
}

static void take_loaded(struct cause_fact *fact, const struct diagnosis *diagnosis)
{
    const struct origin_term *term = loaded_of(diagnosis->cause);
    struct element_fact *element = &fact->loaded;
    if (!term)
        return;
    *element = (struct element_fact){.is_known = 1,
                                     .value = (int64_t)term->value,
                                     .address = term->from,
                                     .bytes = term->bytes,
                                     .place = &term->place,
                                     .argument = unnamed_argument,
                                     .buffer = buffer_at(diagnosis, term->from)};
    const cufence_buffer *buffer = element->buffer;
    if (!buffer)
        return;
    int64_t offset = (int64_t)(term->from - buffer->address);
    element->number = offset / term->bytes;
    element->count = buffer->size / term->bytes;
    if (offset < 0)
        element->from = BEFORE_START;
    else if ((uint64_t)offset + term->bytes > buffer->size)
        element->from = PAST_END;
    element->distance = offset < 0 ? (uint64_t)-offset : (uint64_t)offset > buffer->size ? (uint64_t)offset - buffer->size : 0;
    element->writer = last_writer(diagnosis, buffer);
}

/* ---- how it is made ---- */

/* The bytes of an element: those of the access, as far as all that is added is a multiple of them; a power of two. */
static uint64_t unit_of(const struct origin *cause, uint32_t access_bytes)
{
    uint64_t all = cause->constant | MOST_UNIT | access_bytes;
    for (uint32_t i = 0; i < cause->term_count; i++)
        all |= cause->terms[i].factor ? cause->terms[i].factor : cause->terms[i].adds;
    return all & (0 - all);
}

/* The argument at an offset in the parameters. */
static struct argument_name name_at(const struct diagnosis *diagnosis, int32_t at)
{
    const struct launch_function *layout = diagnosis->arguments.layout;
    struct argument_name name = {at / 8, -1, 0};
    for (uint32_t i = 0; layout && i < layout->argument_count; i++)
        if ((uint32_t)at - layout->arguments[i].offset < layout->arguments[i].size)
            name = (struct argument_name){at / 8, (int)i, (uint32_t)at - layout->arguments[i].offset};
    return name;
}

static void take_term(struct term_fact *fact, const struct diagnosis *diagnosis, const struct origin_term *term)
{
    static const char *const inputs[] = {"loaded", "block", "thread", ""};
    *fact =
        (struct term_fact){.value = (int64_t)term->value, .adds = (int64_t)term->adds, .times = unnamed_argument, .term = term};
    if (term->input == ORIGIN_PARAMETER)
        part_append_argument(fact->input, sizeof fact->input, name_at(diagnosis, (int32_t)term->at));
    else
        part_add(fact->input, "%s", inputs[term->input]);
    if (term->input == ORIGIN_BLOCK || term->input == ORIGIN_THREAD)
        part_add(fact->input, ".%c", "xyz"[term->at % 3]);
    if (term->times >= 0)
        fact->times = name_at(diagnosis, term->times);
}

static void take_formula(struct cause_fact *fact, const struct diagnosis *diagnosis)
{
    const struct origin *cause = diagnosis->cause;
    if (!cause->has_formula)
        return;
    fact->unit = unit_of(cause, fault_stop(diagnosis)->access_bytes);
    fact->index = (int64_t)(cause->address - cause->base) / (int64_t)fact->unit;
    fact->constant = (int64_t)cause->constant;
    for (; fact->term_count < cause->term_count; fact->term_count++)
        take_term(&fact->terms[fact->term_count], diagnosis, &cause->terms[fact->term_count]);
}

/* ---- the sentences ---- */

static char *say(struct cause_fact *fact, enum certainty certainty)
{
    struct note_fact *note = &fact->said.list[fact->said.count++];
    note->certainty = certainty;
    return note->text;
}

#define TEXT sizeof(((struct note_fact *)0)->text)

static void say_buffer(char *text, const cufence_buffer *buffer, struct argument_name argument)
{
    part_append(text, TEXT, "buffer #%" PRIu64, buffer->id);
    if (buffer->label[0])
        part_append(text, TEXT, " \"%s\"", buffer->label);
    if (argument.word < 0)
        return;
    part_append(text, TEXT, " (");
    part_append_argument(text, TEXT, argument);
    part_append(text, TEXT, ")");
}

static void say_place(char *text, const struct origin_place *place)
{
    if (place->line)
        part_append(text, TEXT, " in %s:%d", place->file, (int)place->line);
}

/* Where inputs are mixed, as in `i * stride`, it may be a factor. */
static void say_loaded(struct cause_fact *fact)
{
    const struct element_fact *element = &fact->loaded;
    char *text = say(fact, fact->certainty);
    part_append(text, TEXT, fact->term_count ? "index %" PRId64 " was loaded" : "the address depends on %" PRId64 ", loaded",
                element->value);
    say_place(text, element->place);
    part_append(text, TEXT, " from ");
    if (!element->buffer) {
        part_append(text, TEXT, "0x%" PRIx64 ", which is in no buffer that is known", element->address);
        return;
    }
    say_buffer(text, element->buffer, element->argument);
    part_append(text, TEXT, ", element %" PRId64 " of %" PRIu64 " (%" PRIu32 " byte%s each)", element->number, element->count,
                element->bytes, plural(element->bytes));
    if (element->from)
        part_append(text, TEXT, ", %" PRIu64 " byte%s %s", element->distance, plural(element->distance),
                    element->from == PAST_END ? "past its end" : "before its start");
}

static void say_writer(struct cause_fact *fact)
{
    const struct element_fact *element = &fact->loaded;
    char kernel[160], *text;
    if (!element->writer)
        return;
    finding_kernel_of(element->writer->function->name, kernel, sizeof kernel);
    text = say(fact, CERTAIN_CANDIDATE);
    part_append(text, TEXT, "of the launches on record, the last one that may have written buffer #%" PRIu64 " is %s",
                element->buffer->id, kernel[0] ? kernel : "one without a name");
}

static void take_wrap(struct cause_fact *fact, const struct origin_wrap *wrap)
{
    struct wrap_fact *to = &fact->wrap;
    if (!wrap)
        return;
    int64_t second =
        wrap->kind == ORIGIN_WRAPPED_SHIFT ? (int64_t)1 << (wrap->b & 31) : wrap->b; /* it was a product in the source */
    *to = (struct wrap_fact){.is_known = 1, .wrapped = wrap->wrapped, .exact = wrap->exact, .address = wrap->address};
    to->place = &wrap->place;
    part_add(to->what, "%" PRId64 " %s %" PRId64, wrap->a, wrap->kind == ORIGIN_WRAPPED_SUM ? "+" : "*", second);
    if (wrap->c)
        part_add(to->what, " + %" PRId64, wrap->c);
}

static void say_wrap(struct cause_fact *fact)
{
    char *text = say(fact, fact->certainty);
    part_append(text, TEXT, "%s wrapped at 32 bits", fact->wrap.what);
    say_place(text, fact->wrap.place);
    part_append(text, TEXT, ": %" PRId64 " instead of %" PRId64 "; 64-bit arithmetic gives an address inside ",
                fact->wrap.wrapped, fact->wrap.exact);
    say_buffer(text, fact->base, unnamed_argument);
}

/* Appends "block.x 7 * 128", "thread.y 3 * 64 (argument 3)", "20 by thread.x 37", "5 (loaded)". */
static void say_term(char *text, const struct term_fact *fact, int64_t unit)
{
    const struct origin_term *term = fact->term;
    int64_t factor = (int64_t)term->factor / unit, times = (int64_t)term->times_value;
    if (!term->factor) {
        part_append(text, TEXT, "%" PRId64 " by %s %" PRId64, (int64_t)term->adds / unit, fact->input, value_of(term));
        return;
    }
    if (term->input == ORIGIN_LOADED)
        part_append(text, TEXT, "%" PRId64, value_of(term));
    else
        part_append(text, TEXT, "%s %" PRId64, fact->input, value_of(term));
    if (term->times >= 0 && factor % times == 0) {
        if (factor != times)
            part_append(text, TEXT, " * %" PRId64, factor / times);
        part_append(text, TEXT, " * %" PRId64 " (", times);
        part_append_argument(text, TEXT, fact->times);
        part_append(text, TEXT, ")");
    } else if (factor != 1) {
        part_append(text, TEXT, " * %" PRId64, factor);
    }
}

static void say_formula(struct cause_fact *fact)
{
    int64_t unit = (int64_t)fact->unit, constant = fact->constant / unit;
    if (!fact->term_count || (fact->term_count == 1 && fact->loaded.is_known && !constant && fact->terms[0].term->times < 0))
        return; /* the sentence about what was loaded says it */
    char *text = say(fact, fact->certainty);
    part_append(text, TEXT, "element %" PRId64 " of %" PRId64 " byte%s from ", fact->index, unit, plural(fact->unit));
    if (fact->argument.word >= 0)
        part_append_argument(text, TEXT, fact->argument);
    else
        part_append(text, TEXT, "the pointer loaded from 0x%" PRIx64, fact->base_from);
    part_append(text, TEXT, " on: ");
    for (size_t i = 0; i < fact->term_count; i++) {
        part_append(text, TEXT, "%s", i ? " + " : "");
        say_term(text, &fact->terms[i], unit);
    }
    if (constant)
        part_append(text, TEXT, " %c %" PRId64, constant < 0 ? '-' : '+', constant < 0 ? -constant : constant);
}

/* The thread's path is emulated; that it ends at an address which hardware has shown confirms it. */
static enum certainty certainty_of(const struct diagnosis *diagnosis)
{
    int is_shown = diagnosis->access.certainty >= CERTAIN_RERUN;
    return is_shown ? CERTAIN_RERUN : CERTAIN_DERIVED;
}

void cause_facts_take(struct finding *finding, const struct diagnosis *diagnosis)
{
    const struct origin *cause = diagnosis->cause;
    struct cause_fact *fact = &finding->cause;
    if (!cause || (finding->address.lanes &&
                   finding->where.stop.lane_count > 1)) /* it is the cause of one of them, and that need not have faulted */
        return;
    *fact =
        (struct cause_fact){.certainty = certainty_of(diagnosis), .argument = unnamed_argument, .base_from = cause->base_from};
    fact->base = buffer_at(diagnosis, cause->base);
    if (cause->base_at >= 0)
        fact->argument = name_at(diagnosis, cause->base_at);
    take_wrap(fact, cause_wrap(diagnosis));
    take_loaded(fact, diagnosis);
    if (!fact->wrap.is_known)
        take_formula(fact, diagnosis);
    for (size_t i = 0; fact->loaded.buffer && i < finding->arguments.count; i++)
        if (finding->arguments.list[i].target && finding->arguments.list[i].target->id == fact->loaded.buffer->id)
            fact->loaded.argument = name_at(diagnosis, (int32_t)diagnosis->arguments.layout->arguments[i].offset);
    if (fact->loaded.is_known)
        say_loaded(fact);
    say_writer(fact);
    if (fact->wrap.is_known && fact->base)
        say_wrap(fact);
    if (fact->term_count)
        say_formula(fact);
}
