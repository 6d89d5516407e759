#include "rules.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

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
