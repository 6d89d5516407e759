/*
 * Chooses launches by what a user has written:
 *
 *   *gemm*            the kernel's name: mangled, demangled, or short (without types); * ? [ ] as in file names
 *   #120  #10-20  #9- the number of the launch in the process, from 1
 *   #new              of those that the rest chooses, the first of each shape: filter_wants_new()
 *   @train.py:41      a place that it is launched from: any frame of this file, or of this line; "@*.py:41", "@model.py"
 *   label:encoder*    the launching thread's label
 *   A&B  A|B          both; either (& binds closer)
 *
 * Thread safety: a filter is constant once it is parsed.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define FILTER_TERMS 16
#define FILTER_BYTES 256 /* the most text, with the NUL */

enum filter_kind { FILTER_KERNEL, FILTER_NUMBER, FILTER_NEW, FILTER_PLACE, FILTER_LABEL };

struct filter_term {
    enum filter_kind kind;
    const char *glob;     /* in the filter's text; of a kernel, a file or a label */
    uint64_t first, last; /* numbers of launches; a line: first, 0 for any */
    int begins_choice;    /* behind a | */
};

struct filter {
    char text[FILTER_BYTES];
    struct filter_term terms[FILTER_TERMS];
    size_t count; /* 0: chooses nothing */
};

/* Returns 0 if the text is none. Options are checked when they are parsed, so whoever uses one need not. */
int filter_parse(struct filter *filter, const char *text);

struct filter_place {
    const char *file; /* "" if unknown */
    int line;         /* 0 if unknown */
};

/* What is known about a launch. */
struct filter_launch {
    const char *const *names; /* of its kernel, or of those of its graph */
    size_t name_count;
    uint64_t number;
    const char *label; /* NULL: none */
    const struct filter_place *places;
    size_t place_count;
};

int filter_chooses(const struct filter *filter, const struct filter_launch *launch);

/* Whether it may choose a launch of a kernel with these names. */
int filter_may_choose(const struct filter *filter, const char *const *names, size_t count);

/* Whether it asks for places, so that filter_chooses() needs them. */
int filter_needs_places(const struct filter *filter);

/* Whether of the launches that it chooses only the first of each shape is meant, which the caller sees to: `#new`. */
int filter_wants_new(const struct filter *filter);

/* ---- allocations ---- */

/*
 * Rules that name allocations: the value of skip=, "KIND:GLOB;KIND:GLOB".
 *
 *   label:GLOB   the innermost label at the allocation
 *   func:GLOB    a function in its call stack, Python's or native
 *   file:GLOB    a source file in its call stack: the whole name, or what follows the last slash
 *   lib:GLOB     the program or library that called CUDA, by its file name: the first one outside of CUDA's own libraries
 *
 * A glob has * (any text), ? (any letter) and [a-z].
 */
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
