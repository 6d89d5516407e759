#include "filter.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

static const char label[] = "label:";

/* ---- parsing ---- */

static int parse_number(const char **at, uint64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)**at))
        return 0;
    *value = strtoull(*at, &end, 10);
    *at = end;
    return 1;
}

static int parse_numbers(const char *text, struct filter_term *term)
{
    if (!parse_number(&text, &term->first) || !term->first)
        return 0;
    term->last = term->first;
    if (*text == '-' && !*++text)
        term->last = UINT64_MAX;
    else if (text[-1] == '-' && !parse_number(&text, &term->last))
        return 0;
    return !*text && term->last >= term->first;
}

/* Cuts the line off the file's name. */
static int parse_place(char *text, struct filter_term *term)
{
    char *colon = strrchr(text, ':');
    const char *line = colon ? colon + 1 : "";
    if (colon && !(parse_number(&line, &term->first) && !*line && term->first))
        return 0;
    if (colon)
        *colon = '\0';
    term->glob = text;
    return *text != '\0';
}

static int parse_term(char *text, struct filter_term *term)
{
    switch (text[0]) {
    case '#':
        if (!strcmp(text, "#new")) {
            term->kind = FILTER_NEW;
            return 1;
        }
        term->kind = FILTER_NUMBER;
        return parse_numbers(text + 1, term);
    case '@':
        term->kind = FILTER_PLACE;
        return parse_place(text + 1, term);
    default:
        term->kind = strncmp(text, label, sizeof label - 1) == 0 ? FILTER_LABEL : FILTER_KERNEL;
        term->glob = term->kind == FILTER_LABEL ? text + sizeof label - 1 : text;
        return *term->glob != '\0';
    }
}

static char *trimmed(char *text, size_t length)
{
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text + strspn(text, " \t");
}

int filter_parse(struct filter *filter, const char *text)
{
    int begins_choice = 1;
    *filter = (struct filter){.count = 0};
    if (strlen(text) >= sizeof filter->text)
        return 0;
    strcpy(filter->text, text);
    for (char *at = filter->text; *text;) {
        size_t length = strcspn(at, "&|");
        char separator = at[length];
        struct filter_term *term = &filter->terms[filter->count];
        if (filter->count == FILTER_TERMS || !parse_term(trimmed(at, length), term))
            return 0;
        term->begins_choice = begins_choice;
        filter->count++;
        begins_choice = separator == '|';
        if (!separator)
            break;
        at += length + 1;
    }
    return 1;
}

/* ---- choosing ---- */

static int is_like(const char *glob, const char *text)
{
    return text && fnmatch(glob, text, 0) == 0;
}

static int has_name(const struct filter_term *term, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (is_like(term->glob, names[i]))
            return 1;
    }
    return 0;
}

/* Whether the glob fits the file's path or a last part of it: "model.py", "nn/model.py". */
static int is_file(const char *glob, const char *file)
{
    for (const char *at = file; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (*at && is_like(glob, at))
            return 1;
    }
    return is_like(glob, file);
}

static int has_place(const struct filter_term *term, const struct filter_launch *launch)
{
    for (size_t i = 0; i < launch->place_count; i++) {
        const struct filter_place *place = &launch->places[i];
        if ((!term->first || (uint64_t)place->line == term->first) && is_file(term->glob, place->file))
            return 1;
    }
    return 0;
}

static int holds(const struct filter_term *term, const struct filter_launch *launch)
{
    switch (term->kind) {
    case FILTER_KERNEL:
        return has_name(term, launch->names, launch->name_count);
    case FILTER_NUMBER:
        return launch->number >= term->first && launch->number <= term->last;
    case FILTER_NEW:
        return 1;
    case FILTER_PLACE:
        return has_place(term, launch);
    default:
        return is_like(term->glob, launch->label);
    }
}

/* launch: NULL to ask about the names alone. */
static int chooses(const struct filter *filter, const struct filter_launch *launch, const char *const *names, size_t count)
{
    int is_chosen = 0;
    for (size_t i = 0; i < filter->count; i++) {
        const struct filter_term *term = &filter->terms[i];
        if (term->begins_choice && is_chosen)
            return 1;
        if (term->begins_choice)
            is_chosen = 1;
        if (launch)
            is_chosen = is_chosen && holds(term, launch);
        else if (term->kind == FILTER_KERNEL)
            is_chosen = is_chosen && has_name(term, names, count);
    }
    return is_chosen;
}

int filter_chooses(const struct filter *filter, const struct filter_launch *launch)
{
    return chooses(filter, launch, NULL, 0);
}

int filter_may_choose(const struct filter *filter, const char *const *names, size_t count)
{
    return chooses(filter, NULL, names, count);
}

static int has_kind(const struct filter *filter, enum filter_kind kind)
{
    for (size_t i = 0; i < filter->count; i++) {
        if (filter->terms[i].kind == kind)
            return 1;
    }
    return 0;
}

int filter_needs_places(const struct filter *filter)
{
    return has_kind(filter, FILTER_PLACE);
}

int filter_wants_new(const struct filter *filter)
{
    return has_kind(filter, FILTER_NEW);
}

/* ---- rules that name allocations ---- */

static int kind_of(const char *text, size_t length)
{
    static const char *const names[RULE_KINDS] = {"label", "func", "file", "lib"};
    for (int kind = 0; kind < RULE_KINDS; kind++) {
        if (strlen(names[kind]) == length && !memcmp(names[kind], text, length))
            return kind;
    }
    return -1;
}

static int parse_rule(struct rules *rules, const char *text, size_t length)
{
    while (length && isspace((unsigned char)*text)) {
        text++;
        length--;
    }
    const char *colon = memchr(text, ':', length);
    int kind = colon ? kind_of(text, (size_t)(colon - text)) : -1;
    size_t glob = colon ? length - (size_t)(colon - text) - 1 : 0;
    if (kind < 0 || !glob || glob >= sizeof rules->all[0].glob || rules->count == RULES_MOST)
        return 0;
    struct rule *rule = &rules->all[rules->count++];
    rule->kind = (enum rule_kind)kind;
    memcpy(rule->glob, colon + 1, glob);
    rule->glob[glob] = '\0';
    rules->kinds |= 1u << kind;
    return 1;
}

int rules_parse(struct rules *rules, const char *text, size_t length)
{
    *rules = (struct rules){.count = 0};
    while (length) {
        const char *end = memchr(text, ';', length);
        size_t part = end ? (size_t)(end - text) : length;
        if (!parse_rule(rules, text, part))
            return 0;
        text += part + (end != NULL);
        length -= part + (end != NULL);
    }
    return 1;
}

int rules_fit(const struct rules *rules, enum rule_kind kind, const char *text)
{
    const char *slash = text && kind == RULE_FILE ? strrchr(text, '/') : NULL;
    for (size_t i = 0; text && i < rules->count; i++) {
        if (rules->all[i].kind == kind &&
            (fnmatch(rules->all[i].glob, text, 0) == 0 || (slash && fnmatch(rules->all[i].glob, slash + 1, 0) == 0)))
            return 1;
    }
    return 0;
}
