
#include "report_common.h"
#include "parts.h"

#include <inttypes.h>
#include <string.h>

#define MOST_RANGES 4
#define MOST_VALUES 8
#define MOST_BYTES 16
#define SPARE 14                  /* columns for " ..." and the certainty */
#define PLAIN_LIMIT 1000000000000 /* 8-byte values beyond this are probably no counts, and are printed in hex */
#define LEAST_FLOAT 0.999999e-6   /* floating-point numbers out of this range are probably none; 1e-6f is less than 1e-6 */
#define MOST_FLOAT 1e6

/* How the values of a range are printed. */
enum form { FORM_BYTES, FORM_HEX, FORM_INTEGER, FORM_FLOAT };

static uint64_t bits_at(const struct rerun_write *write, size_t at, size_t width)
{
    uint64_t bits = 0;
    memcpy(&bits, write->values + at, width);
    return bits;
}

static double float_of(uint64_t bits, size_t width)
{
    return value_of_bits(width == sizeof(float) ? VALUE_FLOAT32 : VALUE_FLOAT64, bits);
}

/* Returns 1 if the bits look like a floating-point number of 4 or 8 bytes. False for NaN and infinity. */
static int is_like_float(uint64_t bits, size_t width)
{
    double value = float_of(bits, width), magnitude = value < 0 ? -value : value;
    return magnitude == 0 || (magnitude >= LEAST_FLOAT && magnitude <= MOST_FLOAT);
}

/* Returns 1 if the bits also look like two numbers of 4 bytes: a double that people write has zeros in its low half. */
static int is_like_pair(uint64_t bits)
{
    return (uint32_t)bits && is_like_float((uint32_t)bits, 4) && is_like_float(bits >> 32, 4);
}

static enum form form_of(const struct rerun_write *write, uint64_t width)
{
    int are_floats = 1, are_pairs = width == 8;
    uint64_t any = 0;
    if ((width != 2 && width != 4 && width != 8) || write->address % width || write->bytes % width ||
        write->value_bytes < width)
        return FORM_BYTES;
    if (width == 2) /* half, bfloat16 or an integer */
        return FORM_HEX;
    for (size_t at = 0; at + width <= write->value_bytes; at += width) {
        uint64_t bits = bits_at(write, at, width);
        are_floats &= is_like_float(bits, width);
        are_pairs &= is_like_pair(bits);
        any |= bits;
    }
    if (are_pairs)
        return FORM_HEX;
    return are_floats && any ? FORM_FLOAT : FORM_INTEGER;
}

static void write_value(char *out, size_t size, enum form form, uint64_t bits, size_t width)
{
    unsigned shift = (unsigned)(64 - 8 * width);
    int64_t number = (int64_t)(bits << shift) >> shift;
    if (form == FORM_BYTES)
        snprintf(out, size, "%02" PRIx64, bits);
    else if (form == FORM_FLOAT)
        snprintf(out, size, "%s", real_of(float_of(bits, width)).text);
    else if (form == FORM_INTEGER && number < PLAIN_LIMIT && number > -PLAIN_LIMIT)
        snprintf(out, size, "%" PRId64, number);
    else
        snprintf(out, size, "0x%0*" PRIx64, (int)(2 * width), bits);
}

/* Returns the width of the values, 1 if it is unknown, 0 if they tell nothing: those of an atomic depend on what was there. */
static uint64_t width_of(const struct access_fact *access)
{
    if (access->kind == ACCESS_ATOMIC)
        return 0;
    return access->kind == ACCESS_WRITE && access->bytes ? access->bytes : 1;
}

void written_put_values(struct report *report, const struct rerun_write *write, uint64_t width)
{
    enum form form = form_of(write, width);
    size_t step = form == FORM_BYTES ? 1 : (size_t)width, most = form == FORM_BYTES ? MOST_BYTES : MOST_VALUES;
    const char *gap = ": ";
    size_t at = 0;
    for (; at + step <= write->value_bytes && at < most * step; at += step) {
        char text[48];
        write_value(text, sizeof text, form, bits_at(write, at, step), step);
        if (report_room(report) < (int)(strlen(gap) + strlen(text)) + SPARE)
            break;
        report_put(report, "%s%s", gap, text);
        gap = " ";
    }
    if (at && at < write->bytes)
        report_put(report, " ...");
}

char *written_values(const struct finding *finding, size_t i)
{
    struct report report;
    uint64_t width = width_of(&finding->access);
    if (!width || !report_open(&report, 0))
        return NULL;
    written_put_values(&report, &finding->rerun->writes[i], width);
    return report_close(&report);
}

/* Puts "96 bytes past the end", "8 bytes, ending 64 bytes before the start of buffer #2". */
static void put_range(struct report *report, const struct rerun_write *write, const cufence_buffer *own)
{
    static const char *const sides[] = {"past the end", "before the start"};
    uint64_t distance = write->distance;
    report_put(report, "%" PRIu64 " byte%s", write->bytes, plural(write->bytes));
    if (!write->buffer) {
        report_put(report, " at 0x%" PRIx64, write->address);
        return;
    }
    if (distance)
        report_put(report, ", %s %" PRIu64 " byte%s", write->is_before ? "ending" : "beginning", distance, plural(distance));
    report_put(report, " %s", sides[!!write->is_before]);
    if (!own || own->id != write->buffer->id)
        report_put(report, " of buffer #%" PRIu64, write->buffer->id);
    if (write->is_slack)
        report_put(report, " (mapped: no fault)");
}

/* Says how much is not shown. There may be more ranges than are known. */
static void put_rest(struct report *report, const struct rerun_result *rerun)
{
    uint64_t known = 0;
    for (size_t i = 0; i < rerun->write_count; i++)
        known += rerun->writes[i].bytes;
    int has_more = known < rerun->written_bytes;
    if (rerun->write_count <= MOST_RANGES && !has_more)
        return;
    report_begin(report, "", NULL);
    if (has_more)
        report_put(report, "and more, %" PRIu64 " bytes in all", rerun->written_bytes);
    else
        report_put(report, "and %zu more", rerun->write_count - MOST_RANGES);
    report_end(report, CERTAIN_NOT);
}

void written_lines(struct report *report, const struct finding *finding)
{
    const struct rerun_result *rerun = finding->rerun;
    uint64_t width = width_of(&finding->access);
    for (size_t i = 0; i < rerun->write_count && i < MOST_RANGES; i++) {
        report_begin(report, i ? "" : "written", NULL);
        put_range(report, &rerun->writes[i], finding->buffer.buffer);
        if (width)
            written_put_values(report, &rerun->writes[i], width);
        report_end(report, i ? CERTAIN_NOT : CERTAIN_RERUN);
    }
    put_rest(report, rerun);
}
