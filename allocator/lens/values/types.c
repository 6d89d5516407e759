#include "types.h"

#include "machine.h"
#include "declared.h"

#include "analysis/values/figures.h"
#include "analysis/verdict/signature.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/hash.h"
#include "finding/finding.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OVERRIDES 16
#define LEAST_BYTES 256u /* of a guess that is remembered */
#define LEAST_FIT 0.3    /* bytes that fit every type worse than that are taken for nothing */

const enum value_type type_candidates[TYPE_CANDIDATES] = {VALUE_FLOAT32, VALUE_FLOAT16, VALUE_BFLOAT16, VALUE_FLOAT64,
                                                          VALUE_INT32,   VALUE_INT64,   VALUE_UINT8};

struct guess {
    struct guess *next;
    CUfunction handle; /* kernels of one name may work on different types, as Triton's do */
    int argument;
    uint32_t at;
    enum value_type type;
};

struct known_kernel {
    UT_hash_handle hh; /* by function */
    const struct launch_function *function;
    struct kernel_names names;
    enum value_type hint;  /* the floating-point type that its name mentions, VALUE_TYPES if there is none, or several */
    struct guess *guesses; /* under the lock */
};

struct override {
    char kernel[128]; /* a glob, "*" for all */
    int argument;     /* -1: all */
    enum value_type type;
};

static struct lock lock = LOCK(RANK_LEAF);   /* a leaf */
static struct known_kernel *kernels;         /* under the lock */
static struct override overrides[OVERRIDES]; /* constant after the start, with their number */
static size_t override_count;

/* ---- what the user says ---- */

/* Cuts "/2" off the kernel. */
static int take_argument(const char *kernel, size_t *length)
{
    const char *slash = memrchr(kernel, '/', *length);
    const char *end = kernel + *length;
    if (!slash || slash + 1 == end || end - slash > 5)
        return -1;
    for (const char *at = slash + 1; at < end; at++) {
        if (!isdigit((unsigned char)*at))
            return -1;
    }
    *length = (size_t)(slash - kernel);
    return atoi(slash + 1);
}

static int add_override(const char *text, size_t length)
{
    struct override made = {.kernel = "*", .argument = -1};
    const char *colon = memrchr(text, ':', length);
    const char *type = colon ? colon + 1 : text;
    size_t kernel = colon ? (size_t)(colon - text) : 0;
    made.type = value_named(type, (size_t)(text + length - type));
    if (made.type == VALUE_TYPES || override_count == OVERRIDES || kernel >= sizeof made.kernel || (colon && !kernel))
        return 0;
    if (kernel) {
        made.argument = take_argument(text, &kernel);
        snprintf(made.kernel, sizeof made.kernel, "%.*s", kernel ? (int)kernel : 1, kernel ? text : "*");
    }
    overrides[override_count++] = made;
    return 1;
}

int types_override(const char *text, char *problem, size_t size)
{
    override_count = 0;
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "+");
        if (!add_override(at, length)) {
            snprintf(problem, size,
                     "'%.*s' is not of the form [KERNEL[/ARGUMENT]:]TYPE, such as *gemm*/2:float16; types: float32, float16, "
                     "bfloat16, float64, f8e4m3, f8e5m2, int8, uint8, ..., uint64; at most %d, joined by +",
                     (int)length, at, OVERRIDES);
            return 0;
        }
        at += length + (at[length] == '+');
    }
    return 1;
}

static int is_called(const char *glob, const struct kernel_names *names)
{
    return fnmatch(glob, names->mangled, 0) == 0 || fnmatch(glob, names->demangled, 0) == 0 ||
           fnmatch(glob, names->plain, 0) == 0;
}

static enum value_type overridden(const struct kernel_names *names, int argument)
{
    for (size_t i = 0; i < override_count; i++) {
        if ((overrides[i].argument < 0 || overrides[i].argument == argument) && is_called(overrides[i].kernel, names))
            return overrides[i].type;
    }
    return VALUE_TYPES;
}

/* ---- kernels ---- */

static int is_part_of_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

static int has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length) {
        if ((at == text || !is_part_of_word(at[-1])) && !is_part_of_word(at[length]))
            return 1;
    }
    return 0;
}

/* "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n" and "ampere_sgemm_128x64_nn", as libraries call kernels: float32. VALUE_TYPES if the
 * name has several types or none. */
static enum value_type hint_of_library(const char *name)
{
    static const struct {
        const char *word;
        enum value_type type;
    } words[] = {{"f32", VALUE_FLOAT32},     {"fp32", VALUE_FLOAT32},  {"_sgemm_", VALUE_FLOAT32}, {"f64", VALUE_FLOAT64},
                 {"_dgemm_", VALUE_FLOAT64}, {"bf16", VALUE_BFLOAT16}, {"_f16", VALUE_FLOAT16},    {"fp16", VALUE_FLOAT16}};
    enum value_type hint = VALUE_TYPES;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strstr(name, words[i].word) || words[i].type == hint)
            continue;
        if (hint != VALUE_TYPES)
            return VALUE_TYPES;
        hint = words[i].type;
    }
    return hint;
}

/* "vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>, ...>" works on float16, most likely, also where it computes in
 * float32. */
static enum value_type hint_of(const char *name)
{
    int is_half = has_word(name, "c10::Half") || has_word(name, "__half");
    int is_bfloat = has_word(name, "c10::BFloat16") || has_word(name, "__nv_bfloat16");
    int is_float = has_word(name, "float"), is_double = has_word(name, "double");
    if (is_half != is_bfloat)
        return is_half ? VALUE_FLOAT16 : VALUE_BFLOAT16;
    if (!strchr(name, '('))
        return hint_of_library(name);
    if (is_half || is_float == is_double)
        return VALUE_TYPES;
    return is_float ? VALUE_FLOAT32 : VALUE_FLOAT64;
}

static struct known_kernel *make(const struct launch_function *function)
{
    struct known_kernel *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    const char *demangled = text_demangled(function->name);
    made->function = function;
    made->names.mangled = function->name;
    made->names.demangled = demangled ? demangled : function->name;
    made->hint = hint_of(made->names.demangled);
    finding_kernel(&(const struct evidence_site){.kernel = made->names.demangled}, made->names.plain, sizeof made->names.plain);
    return made;
}

static struct known_kernel *kernel_locked(const struct launch_function *function)
{
    struct known_kernel *kernel;
    lock_expect(RANK_LEAF);
    HASH_FIND_PTR(kernels, &function, kernel);
    if (kernel || !(kernel = make(function)))
        return kernel;
    HASH_ADD_PTR(kernels, function, kernel);
    return HASH_KEPT(kernel);
}

const struct kernel_names *types_names(const struct launch_function *function)
{
    HOLD(&lock);
    const struct known_kernel *kernel = kernel_locked(function);
    return kernel ? &kernel->names : NULL;
}

static struct guess *guess_locked(struct known_kernel *kernel, const struct reached *reached)
{
    struct guess *guess = kernel ? kernel->guesses : NULL;
    while (guess && !(guess->handle == reached->handle && guess->argument == reached->argument && guess->at == reached->at))
        guess = guess->next;
    return guess;
}

static enum value_type guessed(const struct launch_function *function, const struct reached *reached)
{
    HOLD(&lock);
    const struct guess *guess = guess_locked(kernel_locked(function), reached);
    return guess ? guess->type : VALUE_TYPES;
}

static int is_whole_argument(const struct launch_function *function, const struct reached *reached)
{
    return function->has_layout && reached->argument >= 0 && (uint32_t)reached->argument < function->argument_count &&
           function->arguments[reached->argument].size == 8;
}

struct known_type types_of(const struct launch_function *function, const struct reached *reached)
{
    const struct kernel_names *names = types_names(function);
    if (!names)
        return (struct known_type){VALUE_TYPES, TYPE_UNKNOWN};
    enum value_type type = overridden(names, reached->argument);
    if (type != VALUE_TYPES)
        return (struct known_type){type, TYPE_OPTION};
    type = declared_elements(reached);
    if (type == VALUE_TYPES && is_whole_argument(function, reached))
        type = signature_elements(names->demangled, function->argument_count, (size_t)reached->argument);
    if (type != VALUE_TYPES)
        return (struct known_type){type, TYPE_SIGNATURE};
    type = guessed(function, reached);
    return (struct known_type){type, type == VALUE_TYPES ? TYPE_UNKNOWN : TYPE_GUESSED};
}

int types_is_const(const struct launch_function *function, const struct reached *reached)
{
    const struct kernel_names *names = is_whole_argument(function, reached) ? types_names(function) : NULL;
    return declared_is_const(reached) ||
           (names && signature_is_const(names->demangled, function->argument_count, (size_t)reached->argument));
}

/* ---- guesses ---- */

/* Whether nearly all elements would be NaN, of the kind that hosts and devices make: all bits but the sign, or quiet. */
static int is_full_of_nan(const uint8_t *bytes, size_t size, enum value_type type)
{
    const struct value_format format = value_format(type);
    const uint64_t sign = UINT64_C(1) << (format.exponent_bits + format.mantissa_bits);
    const uint64_t quiet = sign - (UINT64_C(1) << (format.mantissa_bits - 1));
    size_t width = value_width(type), count = size / width, found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = value_bits(type, bytes + i * width);
        found += bits == sign - 1 || (bits & ~sign) == quiet;
    }
    return count && found * 10 >= count * 9;
}

/* What a guess may build on. */
struct clue {
    enum value_type hint; /* preferred to another floating-point type that does not fit much better; VALUE_TYPES: none */
    unsigned widest;      /* bytes of an element, at most; 0: any */
};

static int is_possible(const struct clue *clue, enum value_type type)
{
    return !clue->widest || value_width(type) <= clue->widest;
}

static struct clue clue_of(const struct launch_function *function, const struct reached *reached)
{
    struct machine_elements code = machine_elements_of(reached);
    struct clue clue = {code.type, code.widest};
    HOLD(&lock);
    const struct known_kernel *kernel = kernel_locked(function);
    if (kernel && clue.hint == VALUE_TYPES && kernel->hint != VALUE_TYPES && is_possible(&clue, kernel->hint))
        clue.hint = kernel->hint;
    return clue;
}

int types_may_be_wider(const struct launch_function *function, const struct reached *reached, enum value_type guess)
{
    enum value_type hint = clue_of(function, reached).hint;
    return value_is_float(guess) && hint != VALUE_TYPES && value_width(hint) > value_width(guess);
}

static enum value_type full_of_nan(const uint8_t *bytes, size_t size, const struct clue *clue)
{
    static const enum value_type widest_first[] = {VALUE_FLOAT64, VALUE_FLOAT32, VALUE_FLOAT16, VALUE_BFLOAT16};
    if (clue->hint != VALUE_TYPES && is_full_of_nan(bytes, size, clue->hint))
        return clue->hint;
    for (size_t i = 0; i < TYPE_FLOATS; i++) {
        if (is_possible(clue, widest_first[i]) && is_full_of_nan(bytes, size, widest_first[i]))
            return widest_first[i];
    }
    return VALUE_TYPES;
}

/* Returns VALUE_TYPES if the bytes look like nothing. *is_best: no other type fits better, whatever the clue says. */
static enum value_type likeliest(const uint8_t *bytes, size_t size, const struct clue *clue, int *is_best)
{
    struct figures figures = {.bytes = size};
    struct figures_count *count = figures_begin();
    if (!count)
        return VALUE_TYPES;
    figures_add(count, bytes, size);
    figures_end(count, &figures);
    enum value_type best = VALUE_TYPES;
    double most = 0;
    for (size_t i = 0; i < TYPE_CANDIDATES; i++) {
        enum value_type type = type_candidates[i];
        most = figures.types[type].fit > most ? figures.types[type].fit : most;
        if (is_possible(clue, type) && figures.types[type].fit >= LEAST_FIT &&
            (best == VALUE_TYPES || figures.types[type].fit > figures.types[best].fit))
            best = type;
    }
    int is_float = best != VALUE_TYPES && value_is_float(best);
    enum value_type hint = clue->hint;
    best = is_float && hint != VALUE_TYPES && figures.types[hint].fit * 2 >= figures.types[best].fit ? hint : best;
    *is_best = best != VALUE_TYPES && figures.types[best].fit >= most;
    return best;
}

static void remember(const struct launch_function *function, const struct reached *reached, enum value_type type)
{
    HOLD(&lock);
    struct known_kernel *kernel = kernel_locked(function);
    struct guess *guess = guess_locked(kernel, reached);
    if (!guess && kernel && (guess = calloc(1, sizeof *guess)) != NULL) {
        *guess = (struct guess){kernel->guesses, reached->handle, reached->argument, reached->at, type};
        kernel->guesses = guess;
    }
}

enum value_type types_guess(const struct launch_function *function, const struct reached *reached, const uint8_t *bytes,
                            size_t size)
{
    const struct clue clue = clue_of(function, reached);
    enum value_type type = full_of_nan(bytes, size, &clue);
    if (type != VALUE_TYPES)
        return type;
    int is_best = 0;
    type = likeliest(bytes, size, &clue, &is_best);
    int is_zero = size && !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);
    if (is_best && size >= LEAST_BYTES && !is_zero && !types_may_be_wider(function, reached, type))
        remember(function, reached, type);
    return type;
}
