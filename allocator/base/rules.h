/*
 * Rules that name allocations: the value of skip=, "KIND:GLOB;KIND:GLOB".
 *
 *   label:GLOB   the innermost label at the allocation
 *   func:GLOB    a function in its call stack, Python's or native
 *   file:GLOB    a source file in its call stack: the whole name, or what follows the last slash
 *   lib:GLOB     the program or library that called CUDA, by its file name: the first one outside of CUDA's own libraries
 *
 * A glob has * (any text), ? (any letter) and [a-z]. Thread safety: plain data, without state.
 */
#pragma once

#include <stddef.h>

#define RULES_ALLOWED "KIND:GLOB;KIND:GLOB with the kinds label, func, file and lib"
#define RULES_MOST 16u

enum rule_kind { RULE_LABEL, RULE_FUNC, RULE_FILE, RULE_LIB, RULE_KINDS };

struct rule {
    enum rule_kind kind;
    char glob[120];
};

struct rules {
    struct rule all[RULES_MOST];
    size_t count;
    unsigned kinds; /* a bit for each kind that occurs */
};

/* Reads `length` bytes of text. "" gives no rules. Returns 0 if they are not rules; *rules is then undefined. */
int rules_parse(struct rules *rules, const char *text, size_t length);

/* Whether a rule of that kind fits the text. NULL fits no rule. */
int rules_fit(const struct rules *rules, enum rule_kind kind, const char *text);
