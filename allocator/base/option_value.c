#include "option_value.h"
#include "filter.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define KIB UINT64_C(1024)

static struct option_text text_of(const char *text)
{
    return (struct option_text){text, strlen(text)};
}

static int is_text(struct option_text value, const char *text)
{
    return strlen(text) == value.length && !memcmp(value.start, text, value.length);
}

static int is_text_any_case(struct option_text value, const char *text)
{
    return strlen(text) == value.length && !strncasecmp(value.start, text, value.length);
}

static int begins_with(struct option_text value, const char *word)
{
    return value.length >= strlen(word) && !memcmp(value.start, word, strlen(word));
}

static struct option_text from(struct option_text value, size_t bytes)
{
    return (struct option_text){value.start + bytes, value.length - bytes};
}

/* Accepts digits only; strtoull would accept signs, blanks and other bases. */
static int parse_digits(struct option_text *text, uint64_t *value)
{
    *value = 0;
    size_t digits = 0;
    for (; digits < text->length && isdigit((unsigned char)text->start[digits]); digits++) {
        uint64_t digit = (uint64_t)(text->start[digits] - '0');
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, digit, value))
            return 0;
    }
    *text = from(*text, digits);
    return digits > 0;
}

static int digit_of(char letter)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = letter ? strchr(digits, tolower((unsigned char)letter)) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Accepts "off", "nan" and "0xNN". */
static int parse_fill(struct option_text text, uint64_t *value)
{
    int high = text.length == 4 ? digit_of(text.start[2]) : -1, low = text.length == 4 ? digit_of(text.start[3]) : -1;
    if (is_text(text, "off"))
        *value = FILL_OFF;
    else if (is_text(text, "nan"))
        *value = 0xff;
    else if (high >= 0 && low >= 0 && (begins_with(text, "0x") || begins_with(text, "0X")))
        *value = (uint64_t)(high * 16 + low);
    else
        return 0;
    return 1;
}

static int parse_bytes(struct option_text text, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    if (!parse_digits(&text, value))
        return 0;
    const char *suffix = text.length ? strchr(suffixes, toupper((unsigned char)text.start[0])) : NULL;
    if (suffix && *suffix) {
        if (__builtin_mul_overflow(*value, KIB << (10 * (suffix - suffixes)), value))
            return 0;
        text = from(text, 1);
        if (is_text_any_case(text, "iB"))
            return 1;
    }
    return text.length == 0 || is_text_any_case(text, "B");
}

/* The position of a value in a list such as "off | strict", -1 if it is not in the list. */
static int choice_of(const char *allowed, struct option_text value)
{
    int position = 0;
    for (const char *at = allowed;; position++) {
        size_t length = strcspn(at, " ,");
        if (length == value.length && !memcmp(at, value.start, length))
            return position;
        at += length;
        if (*at != ' ')
            return -1;
        at += strlen(" | ");
    }
}

/* Checks the escapes when the option is parsed: at a fault it would be too late to complain. */
static int is_path_pattern(struct option_text value)
{
    for (size_t i = 0; i < value.length; i++) {
        if (value.start[i] != '%')
            continue;
        if (++i == value.length || !value.start[i] || !strchr("prh%", value.start[i]))
            return 0;
    }
    return 1;
}

static int is_filter(struct option_text value)
{
    char text[FILTER_BYTES];
    struct filter filter;
    if (value.length >= sizeof text)
        return 0;
    snprintf(text, sizeof text, "%.*s", (int)value.length, value.start);
    return filter_parse(&filter, text);
}

static int is_allowed_text(enum option_type type, struct option_text value)
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

static int set_text(const struct option_row *row, struct option_text value, char *field)
{
    if (value.length >= row->maximum || !is_allowed_text(row->type, value))
        return 0;
    snprintf(field, row->maximum, "%.*s", (int)value.length, value.start);
    return 1;
}

_Static_assert(sizeof(enum option_uaf) == sizeof(int), "choices are stored as int");

static int set_choice(const struct option_row *row, struct option_text value, void *field)
{
    int choice = choice_of(row->allowed, value);
    if (choice < 0)
        return 0;
    if (row->type == OPTION_SWITCH)
        choice = choice == 0; /* "on" is the first choice and has the value 1 */
    memcpy(field, &choice, sizeof choice);
    return 1;
}

static int parse_number(struct option_text value, uint64_t *number)
{
    return parse_digits(&value, number) && !value.length;
}

static int set_number(const struct option_row *row, struct option_text value, void *field)
{
    uint64_t number = 0;
    int is_number = row->type == OPTION_NUMBER ? parse_number(value, &number) : parse_bytes(value, &number);
    if (!is_number || number < row->minimum || number > row->maximum || (row->type == OPTION_ALIGN && (number & (number - 1))))
        return 0;
    memcpy(field, &number, sizeof number);
    return 1;
}

/* The row's field alone. */
static int set_field(const struct option_row *row, struct option_text value, struct options *options)
{
    void *field = (char *)options + row->offset;
    switch (row->type) {
    case OPTION_CHOICE:
    case OPTION_SWITCH:
        return set_choice(row, value, field);
    case OPTION_PATH:
    case OPTION_RULES:
    case OPTION_FILTER:
        return set_text(row, value, field);
    case OPTION_FILL:
        return parse_fill(value, field);
    case OPTION_ALIGN:
        if (is_text(value, "auto"))
            return memcpy(field, &(uint64_t){OPTION_ALIGN_AUTO}, sizeof(uint64_t)) != NULL;
        break;
    case OPTION_BYTES:
    case OPTION_NUMBER:
        break;
    }
    return set_number(row, value, field);
}

/* The row's field, and that of row->rest. */
static int set_parts(const struct option_row *row, struct option_text value, struct options *options)
{
    const char *joint = row->rest ? memmem(value.start, value.length, row->joint, strlen(row->joint)) : NULL;
    struct option_text first = {value.start, joint ? (size_t)(joint - value.start) : value.length};
    struct option_text rest = row->rest ? text_of(row->rest->default_value) : value;
    if (joint)
        rest = from(value, first.length + strlen(row->joint));
    return set_field(row, first, options) && (!row->rest || option_set(row->rest, rest, options));
}

int option_set(const struct option_row *row, struct option_text value, struct options *options)
{
    return (row->set ? row->set : set_parts)(row, value, options);
}

/* ---- options that set several fields ---- */

int set_guard(const struct option_row *row, struct option_text value, struct options *options)
{
    if (!set_parts(row, value, options))
        return 0;
    if (options->guard_max < options->guard && !memmem(value.start, value.length, row->joint, strlen(row->joint)))
        options->guard_max = options->guard;
    return options->guard_max >= options->guard;
}

int set_skip(const struct option_row *row, struct option_text value, struct options *options)
{
    static const char smaller[] = "smaller:";
    char rules[sizeof options->skip] = "";
    struct option_text bytes = text_of(row->rest->default_value);
    size_t used = 0;
    while (value.length) {
        const char *semicolon = memchr(value.start, ';', value.length);
        struct option_text part = {value.start, semicolon ? (size_t)(semicolon - value.start) : value.length};
        value = from(value, part.length + (semicolon != NULL));
        if (begins_with(part, smaller)) {
            bytes = from(part, strlen(smaller));
        } else {
            if (used + part.length + 2 > sizeof rules)
                return 0;
            used +=
                (size_t)snprintf(rules + used, sizeof rules - used, "%s%.*s", used ? ";" : "", (int)part.length, part.start);
        }
    }
    return set_field(row->rest, bytes, options) && set_field(row, (struct option_text){rules, used}, options);
}

int set_on_fault(const struct option_row *row, struct option_text value, struct options *options)
{
    return begins_with(value, row->joint) ? option_set(row->rest, from(value, 1), options) : set_parts(row, value, options);
}

/* What keep= had before the first release. */
static int is_old_keep(struct option_text value)
{
    return begins_with(value, "dump=") || begins_with(value, "replay=");
}

int set_keep(const struct option_row *row, struct option_text value, struct options *options)
{
    return !is_old_keep(value) && !begins_with(value, row->joint) && set_parts(row, value, options);
}

int set_save_values(const struct option_row *row, struct option_text value, struct options *options)
{
    return set_parts(row, value, options) && !*options->save_values == !*options->saved;
}

const char *option_path_in(const struct option_row *row, const char *value)
{
    const char *equals = strchr(value, '=');
    if (row->set == set_keep && is_old_keep(text_of(value)))
        return NULL;
    return row->type == OPTION_PATH ? value : row->type == OPTION_FILTER && equals ? equals + 1 : NULL;
}
