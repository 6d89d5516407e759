
#include "report_common.h"
#include "analysis/verdict/signature.h"
#include "parts.h"

#include <inttypes.h>

#define FIGURES_FIRST 4
#define FIRST_WORDS 2             /* each is printed twice */
#define EXACT_LIMIT 0x1p53        /* a double has all integers up to this */
#define PLAIN_LIMIT 1000000000000 /* 8-byte values beyond this are probably no counts, and are printed in hex */

/* ---- taking ---- */

static const struct figures *find(const struct rerun_result *rerun, const struct value_fact *value)
{
    for (size_t i = 0; i < rerun->figure_count; i++) {
        const struct figures *figures = &rerun->figures[i];
        if (figures->address == value->bits &&
            figures->address + figures->bytes == value->target->address + value->target->size)
            return figures;
    }
    return NULL;
}

static struct scalar scalar_of(enum value_type type, double value)
{
    int is_whole = !value_is_float(type) && value < EXACT_LIMIT && value > -EXACT_LIMIT;
    return (struct scalar){value, is_whole ? (int64_t)value : 0, is_whole ? SCALAR_WHOLE : SCALAR_REAL};
}

/* The bits of one of the first elements. */
static uint64_t first_bits(const struct value_fact *value, size_t index)
{
    return value_bits(value->summary.type, value->figures->first + index * value_width(value->summary.type));
}

/* Fills in the summary of the figures. */
static void describe(struct value_fact *value)
{
    enum value_type type = value->summary.type;
    const struct type_figures *figures = figures_for(value->figures, type);
    struct figures_fact *summary = &value->summary;
    summary->is_float = value_is_float(type);
    summary->has_finite = figures->finite != 0;
    summary->count = value->figures->bytes / value_width(type);
    summary->seen = value->figures->seen;
    summary->min = scalar_of(type, figures->min);
    summary->max = scalar_of(type, figures->max);
    summary->mean = figures->mean;
    summary->zeros = figures->zeros;
    summary->nans = figures->nans;
    summary->infinities = figures->infinities;
    uint64_t count = summary->seen / value_width(type);
    summary->first_count = count < FIGURES_FIRST ? (size_t)count : FIGURES_FIRST;
    for (size_t i = 0; i < summary->first_count; i++)
        summary->first[i] = scalar_of(type, value_of_bits(type, first_bits(value, i)));
}

static void take(const struct finding *finding, struct value_fact *value, size_t argument_count)
{
    const struct figures *figures = find(finding->rerun, value);
    if (!figures)
        return;
    value->summary.type = VALUE_TYPES;
    if (!value->is_member)
        value->summary.type = signature_elements(finding->where.stop.kernel, argument_count, value->number);
    if (value->summary.type >= VALUE_COUNTED)
        value->summary.type = VALUE_WORD;
    if (figures->seen < value_width(value->summary.type))
        return;
    value->figures = figures;
    describe(value);
}

void figures_take(struct finding *finding, const struct launch_function *layout)
{
    if (!finding->rerun || !layout)
        return;
    for (size_t i = 0; i < finding->arguments.count; i++) {
        struct value_fact *value = &finding->arguments.list[i];
        if (value->target)
            take(finding, value, layout->argument_count);
        for (size_t k = 0; k < value->member_count; k++)
            take(finding, &value->members[k], layout->argument_count);
    }
}

/* ---- putting ---- */

/* A line that is continued on another one where it is full. */
struct flow {
    struct report *report;
    int indent;
    enum certainty certainty; /* for the end of the first line */
};

static void put_part(struct flow *flow, const char *gap, const char *text)
{
    flow->certainty = report_flow(flow->report, "", NULL, flow->indent, gap, text, flow->certainty);
}

static struct amount whole_of(enum value_type type, uint64_t bits)
{
    int64_t number = value_of_integer(type, bits);
    if (value_is_signed(type) && number < 0)
        return amount_text("%" PRId64, number);
    return amount_text(bits < PLAIN_LIMIT ? "%" PRIu64 : "0x%" PRIx64, bits);
}

/* Puts a minimum or maximum, which for integers is one. */
static struct amount bound_of(enum value_type type, double value)
{
    int is_plain = value < (double)PLAIN_LIMIT && value > -(double)PLAIN_LIMIT; /* no NaN, whoever sent it */
    return value_is_float(type) || !is_plain ? real_of(value) : amount_text("%" PRId64, (int64_t)value);
}

/* Whole MiB: a few bytes may be missing, so that elements are not cut. */
static struct amount seen_of(const struct figures *figures)
{
    uint64_t mib = (figures->seen + MIB / 2) / MIB;
    return mib ? amount_in(mib, 1, "MiB") : amount_in(figures->seen, 1, "bytes");
}

static void put_range(struct flow *flow, const struct value_fact *value)
{
    const struct type_figures *figures = figures_for(value->figures, value->summary.type);
    char text[192] = "";
    const char *gap = "  ";
    if (value->figures->seen < value->figures->bytes) {
        put_part(flow, gap, amount_text("of %.40s", seen_of(value->figures).text).text);
        gap = ": ";
    }
    if (figures->finite && figures->zeros == figures->finite)
        part_add(text, figures->nans || figures->infinities ? "all finite are 0" : "all are 0");
    else if (figures->finite)
        part_add(text, "min %s max %s mean %s", bound_of(value->summary.type, figures->min).text,
                 bound_of(value->summary.type, figures->max).text, real_of(figures->mean).text);
    else
        part_add(text, "no finite number");
    put_part(flow, gap, text);
}

static void put_count(struct flow *flow, uint64_t count, const char *what)
{
    put_part(flow, ", ", amount_text("%" PRIu64 " %s", count, what).text);
}

static void put_first(struct flow *flow, const struct value_fact *value)
{
    char text[256] = "first";
    size_t count = value->summary.first_count, most = value->summary.type == VALUE_WORD ? FIRST_WORDS : FIGURES_FIRST;
    for (size_t i = 0; i < count && i < most; i++) {
        uint64_t bits = first_bits(value, i);
        if (value->summary.type == VALUE_WORD)
            part_add(text, " 0x%08" PRIx64, bits);
        part_add(text, value->summary.type == VALUE_WORD ? " (%s)" : " %s",
                 value_is_float(value->summary.type) ? real_of(value_of_bits(value->summary.type, bits)).text
                                                     : whole_of(value->summary.type, bits).text);
    }
    put_part(flow, "; ", text);
}

void figures_lines(struct report *report, const struct value_fact *value)
{
    struct flow flow = {report, value->is_member ? 5 : 3, CERTAIN_RERUN};
    if (!value->figures)
        return;
    const struct type_figures *figures = figures_for(value->figures, value->summary.type);
    report_begin(report, "", NULL);
    report_put(report, "%*s%s[%" PRIu64 "]", flow.indent, "", value_names[value->summary.type],
               value->figures->bytes / value_width(value->summary.type));
    put_range(&flow, value);
    if (figures->zeros && figures->zeros < figures->finite)
        put_count(&flow, figures->zeros, figures->zeros == 1 ? "zero" : "zeros");
    if (value_is_float(value->summary.type))
        put_count(&flow, figures->nans, "NaN");
    if (figures->infinities)
        put_count(&flow, figures->infinities, "Inf");
    put_first(&flow, value);
    report_end(report, flow.certainty);
}
