#include "types.h"

#include "declared.h"

#include "analysis/verdict/signature.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/hash.h"
#include "finding/finding.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct known_kernel {
    UT_hash_handle hh; /* by function */
    const struct launch_function *function;
    struct kernel_names names;
    enum value_type type; /* that its name speaks of, VALUE_TYPES if it does not */
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf */
static struct known_kernel *kernels;       /* under the lock */

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

/* "vectorized_elementwise_kernel<4, CUDAFunctor_add<c10::Half>, ...>" works on float16. A name that mentions several types, or
 * converts, or has several results, which may be of several types, does not say which pointer is which. */
static enum value_type type_of_name(const char *name)
{
    static const struct {
        const char *word;
        enum value_type type;
    } words[] = {{"float", VALUE_FLOAT32},
                 {"double", VALUE_FLOAT64},
                 {"c10::Half", VALUE_FLOAT16},
                 {"__half", VALUE_FLOAT16},
                 {"c10::BFloat16", VALUE_BFLOAT16},
                 {"__nv_bfloat16", VALUE_BFLOAT16},
                 {"long", VALUE_INT64},
                 {"short", VALUE_INT16},
                 {"signed", VALUE_INT8},
                 {"unsigned char", VALUE_UINT8}};
    enum value_type found = VALUE_TYPES;
    if (strstr(name, "multi_outputs") || strstr(name, "WithCast"))
        return VALUE_TYPES;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!has_word(name, words[i].word) || words[i].type == found)
            continue;
        if (found != VALUE_TYPES)
            return VALUE_TYPES;
        found = words[i].type;
    }
    return found != VALUE_TYPES && value_is_float(found) ? found : VALUE_TYPES;
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
    made->type = type_of_name(made->names.demangled);
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

/* Constant, once it is there. */
static const struct known_kernel *kernel_of(const struct launch_function *function)
{
    HOLD(&lock);
    return kernel_locked(function);
}

const struct kernel_names *types_names(const struct launch_function *function)
{
    const struct known_kernel *kernel = kernel_of(function);
    return kernel ? &kernel->names : NULL;
}

static int is_whole_argument(const struct launch_function *function, const struct reached *reached)
{
    return function->has_layout && reached->argument >= 0 && (uint32_t)reached->argument < function->argument_count &&
           function->arguments[reached->argument].size == 8;
}

struct known_type types_of(const struct launch_function *function, const struct reached *reached)
{
    const struct known_kernel *kernel = kernel_of(function);
    enum value_type type = declared_elements(reached);
    if (kernel && type == VALUE_TYPES && is_whole_argument(function, reached))
        type = signature_elements(kernel->names.demangled, function->argument_count, (size_t)reached->argument);
    if (type != VALUE_TYPES)
        return (struct known_type){type, TYPE_SIGNATURE};
    if (kernel && kernel->type != VALUE_TYPES)
        return (struct known_type){kernel->type, TYPE_NAME};
    return (struct known_type){VALUE_WORD, TYPE_UNKNOWN};
}

int types_is_const(const struct launch_function *function, const struct reached *reached)
{
    const struct kernel_names *names = is_whole_argument(function, reached) ? types_names(function) : NULL;
    return declared_is_const(reached) ||
           (names && signature_is_const(names->demangled, function->argument_count, (size_t)reached->argument));
}
