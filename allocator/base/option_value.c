#include "option_value.h"
#include "filter.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define KIB UINT64_C(1024)

struct span {
    const char *start;
    size_t length;
};

static int is_text(struct span span, const char *text)
{
    return strlen(text) == span.length && !memcmp(span.start, text, span.length);
}

static int is_text_any_case(struct span span, const char *text)
{
    return strlen(text) == span.length && !strncasecmp(span.start, text, span.length);
}

/* Accepts digits only; strtoull would accept signs, blanks and other bases. */
static int parse_digits(struct span *span, uint64_t *value)
{
    *value = 0;
    size_t digits = 0;
    for (; digits < span->length && isdigit((unsigned char)span->start[digits]); digits++) {
        uint64_t digit = (uint64_t)(span->start[digits] - '0');
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, digit, value))
            return 0;
    }
    span->start += digits;
    span->length -= digits;
    return digits > 0;
}

static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = letter ? strchr(digits, tolower((unsigned char)letter)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Accepts "off", "nan" and "0xNN". */
static int parse_fill(struct span span, uint64_t *value)
{
    int high = span.length == 4 ? digit_of(span.start[2]) : -1, low = span.length == 4 ? digit_of(span.start[3]) : -1;
    if (is_text(span, "off"))
        *value = FILL_OFF;
    else if (is_text(span, "nan"))
        *value = 0xff;
    else if (high >= 0 && low >= 0 && (!memcmp(span.start, "0x", 2) || !memcmp(span.start, "0X", 2)))
        *value = (uint64_t)(high * 16 + low);
    else
        return 0;
    return 1;
}

static const char suffixes[] = "KMGT";

static int parse_bytes(struct span span, uint64_t *value)
{
    if (!parse_digits(&span, value))
        return 0;
    const char *suffix = span.length ? strchr(suffixes, toupper((unsigned char)span.start[0])) : NULL;
    if (suffix && *suffix) {
        uint64_t unit = KIB << (10 * (suffix - suffixes));
        if (__builtin_mul_overflow(*value, unit, value))
            return 0;
        span.start++;
        span.length--;
        if (is_text_any_case(span, "iB"))
            return 1;
    }
    return span.length == 0 || is_text_any_case(span, "B");
}

int option_choice(const char *allowed, const char *value, size_t value_length)
{
    int position = 0;
    for (const char *at = allowed;; position++) {
        size_t length = strcspn(at, " ,");
        if (length == value_length && !memcmp(at, value, length))
            return position;
        at += length;
        if (*at != ' ')
            return -1;
        at += strlen(" | ");
    }
}

/* Checks the escapes when the option is parsed: at a fault it would be too late to complain. */
static int is_path_pattern(struct span value)
{
    for (size_t i = 0; i < value.length; i++) {
        if (value.start[i] != '%')
            continue;
        if (++i == value.length || !value.start[i] || !strchr("prh%", value.start[i]))
            return 0;
    }
    return 1;
}

static int is_filter(struct span value)
{
    char text[FILTER_BYTES];
    struct filter filter;
    if (value.length >= sizeof text)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)value.length, value.start);
    return filter_parse(&filter, text);
}

static int is_allowed_text(enum option_type type, struct span value)
{
    struct rules rules;
    switch (type) {
    case OPTION_PATH:
        return !is_text(value, "-") && is_path_pattern(value);
    case OPTION_RULES:
        return rules_parse(&rules, value.start, value.length);
    default:
        return is_filter(value);
    }
}

static int set_text(const struct option_row *row, struct span value, char *field)
{
    if (value.length >= row->maximum || !is_allowed_text(row->type, value))
        return 0;
    snprintf(field, row->maximum, "%.*s", (int)value.length, value.start);
    return 1;
}

_Static_assert(sizeof(enum option_uaf) == sizeof(int), "choices are stored as int");

static int set_choice(const struct option_row *row, struct span value, void *field)
{
    int choice = option_choice(row->allowed, value.start, value.length);
    if (choice < 0)
        return 0;
    if (row->type == OPTION_SWITCH)
        choice = choice == 0; /* "on" is the first choice and has the value 1 */
    memcpy(field, &choice, sizeof choice);
    return 1;
}

static int parse_number(struct span value, uint64_t *number)
{
    return parse_digits(&value, number) && !value.length;
}

static int set_number(const struct option_row *row, struct span value, void *field)
{
    uint64_t number = 0;
    int is_number = row->type == OPTION_NUMBER ? parse_number(value, &number) : parse_bytes(value, &number);
    if (!is_number || number < row->minimum || number > row->maximum || (row->type == OPTION_ALIGN && (number & (number - 1))))
        return 0;
    memcpy(field, &number, sizeof number);
    return 1;
}

int option_set_field(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    const struct span span = {value, length};
    void *field = (char *)options + row->offset;
    switch (row->type) {
    case OPTION_CHOICE:
    case OPTION_SWITCH:
        return set_choice(row, span, field);
    case OPTION_PATH:
    case OPTION_RULES:
    case OPTION_FILTER:
        return set_text(row, span, field);
    case OPTION_FILL:
        return parse_fill(span, field);
    case OPTION_ALIGN:
        if (is_text(span, "auto"))
            return memcpy(field, &(uint64_t){OPTION_ALIGN_AUTO}, sizeof(uint64_t)) != NULL;
        break;
    case OPTION_BYTES:
    case OPTION_NUMBER:
        break;
    }
    return set_number(row, span, field);
}

int option_set_parts(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    const struct option_row *rest = row->rest;
    const char *joint = rest ? memmem(value, length, row->joint, strlen(row->joint)) : NULL;
    const char *behind = joint ? joint + strlen(row->joint) : rest ? rest->default_value : NULL;
    return option_set_field(row, value, joint ? (size_t)(joint - value) : length, options) &&
           (!rest || option_set(rest, behind, joint ? (size_t)(value + length - behind) : strlen(behind), options));
}

int option_set(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return (row->set ? row->set : option_set_parts)(row, value, length, options);
}

/* ---- options that set several fields ---- */

static size_t begins_with(const char *value, size_t length, const char *word)
{
    size_t of_word = strlen(word);
    return length >= of_word && !memcmp(value, word, of_word) ? of_word : 0;
}

int set_guard(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    if (!option_set_parts(row, value, length, options))
        return 0;
    if (options->guard_max < options->guard && !memmem(value, length, row->joint, strlen(row->joint)))
        options->guard_max = options->guard;
    return options->guard_max >= options->guard;
}

int set_skip(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    static const char smaller[] = "smaller:";
    char rules[sizeof options->skip] = "";
    const char *bytes = row->rest->default_value;
    size_t used = 0, of_bytes = strlen(bytes), part;
    for (size_t at = 0; at < length; at += part + 1) {
        const char *semicolon = memchr(value + at, ';', length - at);
        part = semicolon ? (size_t)(semicolon - value) - at : length - at;
        if (begins_with(value + at, part, smaller)) {
            bytes = value + at + strlen(smaller);
            of_bytes = part - strlen(smaller);
        } else {
            if (used + part + 2 > sizeof rules)
                return 0;
            used += (size_t)snprintf(rules + used, sizeof rules - used, "%s%.*s", used ? ";" : "", (int)part, value + at);
        }
    }
    return option_set_field(row->rest, bytes, of_bytes, options) && option_set_field(row, rules, used, options);
}

int set_on_fault(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return *row->joint == *value && length ? option_set(row->rest, value + 1, length - 1, options)
                                           : option_set_parts(row, value, length, options);
}

/* What keep= had before; its message says what serves. */
static int is_old_keep(const char *value, size_t length)
{
    return begins_with(value, length, "dump=") || begins_with(value, length, "replay=");
}

int set_keep(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return !is_old_keep(value, length) && (!length || *value != *row->joint) && option_set_parts(row, value, length, options);
}

int set_save_values(const struct option_row *row, const char *value, size_t length, struct options *options)
{
    return option_set_parts(row, value, length, options) && !*options->save_values == !*options->saved;
}

const char *option_path_in(const struct option_row *row, const char *value)
{
    const char *equals = strchr(value, '=');
    if (row->set == set_keep && is_old_keep(value, strlen(value)))
        return NULL;
    return row->type == OPTION_PATH ? value : row->type == OPTION_FILTER && equals ? equals + 1 : NULL;
}
