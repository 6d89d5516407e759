#include "writer.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 100      /* of a line, unless text from the program is longer */
#define LONGEST_MARK 9 /* "candidate" */
#define KEY_WIDTH 11
#define SUBKEY_WIDTH 14
#define LEAST_PLAIN 0.999999e-6 /* smaller numbers have an exponent; 1e-6f is less than 1e-6 */
#define MOST_PLAIN 1e9          /* and larger ones too */

struct amount amount_text(const char *format, ...)
{
    struct amount amount;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(amount.text, sizeof amount.text, format, arguments);
    va_end(arguments);
    return amount;
}

struct amount amount_in(uint64_t value, uint64_t unit, const char *name)
{
    if (value % unit == 0)
        return amount_text("%" PRIu64 " %s", value / unit, name);
    return amount_text("%" PRIu64 ".%" PRIu64 " %s", value / unit, value % unit * 10 / unit, name);
}

/* Small sizes stay exact, so that off-by-one errors are visible. */
struct amount amount_of(uint64_t bytes)
{
    if (bytes >= GIB)
        return amount_in(bytes, GIB, "GiB");
    if (bytes >= 10 * MIB || (bytes >= MIB && bytes % MIB == 0))
        return amount_in(bytes, MIB, "MiB");
    return amount_text("%" PRIu64, bytes);
}

struct amount bytes_of(uint64_t bytes)
{
    const struct amount amount = amount_of(bytes);
    return strchr(amount.text, 'B') ? amount : amount_in(bytes, 1, "bytes");
}

static void trim_zeros(char *text)
{
    for (size_t length = strlen(text); text[length - 1] == '0' && text[length - 2] != '.'; length--)
        text[length - 1] = '\0';
}

/* Writes a number that is far from 1, as "1.5e-12". */
static struct amount exponential_of(const char *sign, double magnitude)
{
    int exponent = 0;
    for (; magnitude >= 10; exponent++)
        magnitude /= 10;
    for (; magnitude < 1; exponent--)
        magnitude *= 10;
    uint64_t scaled = (uint64_t)(magnitude * 100000 + 0.5);
    if (scaled >= 1000000) {
        scaled /= 10;
        exponent++;
    }
    struct amount amount = amount_text("%s%" PRIu64 ".%05" PRIu64, sign, scaled / 100000, scaled % 100000);
    trim_zeros(amount.text);
    return amount_text("%.40se%+03d", amount.text, exponent);
}

/* Six significant digits, at least one of them behind the point. */
struct amount real_of(double value)
{
    double magnitude = value < 0 ? -value : value;
    const char *sign = value < 0 ? "-" : "";
    uint64_t scale = 10;
    int decimals = 1;
    if (value != value)
        return amount_text("NaN");
    if (value - value != 0)
        return amount_text("%sInf", sign);
    if (magnitude >= MOST_PLAIN || (magnitude > 0 && magnitude < LEAST_PLAIN))
        return exponential_of(sign, magnitude);
    for (double least = 1e4; magnitude < least && decimals < 11; least /= 10) {
        scale *= 10;
        decimals++;
    }
    uint64_t scaled = (uint64_t)(magnitude * (double)scale + 0.5);
    char fraction[24];
    snprintf(fraction, sizeof fraction, "%020" PRIu64, scaled % scale);
    struct amount amount = amount_text("%s%" PRIu64 ".%s", sign, scaled / scale, fraction + 20 - decimals);
    trim_zeros(amount.text);
    return amount;
}

/* The clock that stamps events ticks every 1 to 10 ms (CONFIG_HZ). */
struct amount age_of(uint64_t ns)
{
    static const struct {
        uint64_t unit;
        const char *name;
    } units[] = {{UINT64_C(3600000000000), "h"}, {UINT64_C(60000000000), "min"}, {1000000000, "s"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (ns >= units[i].unit)
            return amount_in(ns, units[i].unit, units[i].name);
    return ns >= 10000000 ? amount_in(ns, 1000000, "ms") : (struct amount){"less than 10 ms"};
}

static void put(struct report *report, const char *format, va_list arguments)
{
    char *text = NULL;
    report->has_failed |= vasprintf(&text, format, arguments) < 0;
    if (report->has_failed)
        return;
    text_put(report->out, text);
    free(text);
}

void report_put(struct report *report, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(report, format, arguments);
    va_end(arguments);
}

void report_put_age(struct report *report, uint64_t now_ns, uint64_t then_ns)
{
    if (now_ns >= then_ns)
        report_put(report, "%s ago ", age_of(now_ns - then_ns).text);
}

void report_begin(struct report *report, const char *key, const char *subkey)
{
    fflush(report->out);
    report->line = report->size;
    if (report->pid)
        report_put(report, "==%d== ", report->pid);
    if (key)
        report_put(report, "  %-*s", KEY_WIDTH, key);
    if (subkey)
        report_put(report, "%-*s", SUBKEY_WIDTH, subkey);
}

/* Counts characters, not bytes: continuation bytes of UTF-8 take no column. */
static int line_width(struct report *report)
{
    int width = 0;
    if (fflush(report->out))
        return 0;
    for (size_t i = report->line; i < report->size; i++)
        width += ((unsigned char)report->text[i] & 0xc0) != 0x80;
    return width;
}

int report_room(struct report *report)
{
    return WIDTH - line_width(report);
}

static const char *const marks[] = {NULL, "candidate", "derived", "re-run", "exact"};

void report_end(struct report *report, enum certainty certainty)
{
    if (marks[certainty]) {
        int column = report_room(report) - (int)strlen(marks[certainty]);
        report_put(report, "%*s%s", column > 2 ? column : 2, "", marks[certainty]);
    }
    fputc('\n', report->out);
}

enum certainty report_flow(struct report *report, const char *key, const char *subkey, int indent, const char *gap,
                           const char *text, enum certainty certainty)
{
    size_t mark = marks[certainty] ? 2 + strlen(marks[certainty]) : 0;
    if (report_room(report) < (int)(strlen(gap) + strlen(text) + mark)) {
        report_put(report, "%.*s", (int)strcspn(gap, " "), gap);
        report_end(report, certainty);
        report_begin(report, key, subkey);
        report_put(report, "%*s%s", indent, "", text);
        return CERTAIN_NOT;
    }
    report_put(report, "%s%s", gap, text);
    return certainty;
}

enum certainty report_put_more(struct report *report, const char *subkey, const char *text, enum certainty certainty)
{
    return report_flow(report, "", subkey, 0, ", ", text, certainty);
}

void report_line(struct report *report, const char *key, const char *subkey, enum certainty certainty, const char *format, ...)
{
    va_list arguments;
    report_begin(report, key, subkey);
    va_start(arguments, format);
    put(report, format, arguments);
    va_end(arguments);
    report_end(report, certainty);
}

void report_sentence(struct report *report, const char *key, const char *text, enum certainty certainty)
{
    for (size_t length = strlen(text), line; length; key = "") {
        size_t most = (size_t)(WIDTH - report->prefix - KEY_WIDTH - 2 - (certainty ? LONGEST_MARK + 2 : 0));
        line = length;
        if (line > most) {
            for (line = most; line && text[line] != ' '; line--)
                ;
            line = line ? line : length;
        }
        report_begin(report, key, NULL);
        text_put_part(report->out, text, line);
        report_end(report, certainty);
        certainty = CERTAIN_NOT;
        text += line;
        length -= line;
        length -= *text == ' ';
        text += *text == ' ';
    }
}

int report_open(struct report *report, int pid)
{
    *report = (struct report){.pid = pid, .prefix = pid ? snprintf(NULL, 0, "==%d== ", pid) : 0};
    report->out = open_memstream(&report->text, &report->size);
    return report->out != NULL;
}

char *report_close(struct report *report)
{
    int is_complete = !ferror(report->out) && !report->has_failed;
    if (fclose(report->out) || !is_complete) {
        free(report->text);
        return NULL;
    }
    text_make_lines_plain(report->text);
    return report->text;
}
