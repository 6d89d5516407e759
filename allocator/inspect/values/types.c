#include "types.h"

#include "analysis/verdict/signature.h"
#include "base/lock.h"
#include "base/text.h"
#include "base/hash.h"
#include "finding/finding.h"

#include "inspect/code/code.h"

#include <ctype.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#define HIDDEN_MOST 2 /* pointers to scratch memory that Triton adds behind the arguments */

struct known_kernel {
    UT_hash_handle hh; /* by function */
    const struct launch_function *function;
    struct kernel_names names;
    enum value_type type; /* that its name speaks of, VALUE_TYPES if it does not */
};

static struct lock lock = LOCK(RANK_LEAF);
static struct known_kernel *kernels; /* under the lock */

static int is_part_of_word(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

static int mentions(const char *text, const char *word)
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
        if (!mentions(name, words[i].word) || words[i].type == found)
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
    finding_kernel(&(const struct evidence_stop){.kernel = made->names.demangled}, made->names.plain, sizeof made->names.plain);
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

void names_kernels(const struct visit *visit, char *out, size_t room)
{
    size_t count = visit->function ? 1 : visit->graph_function_count, used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count && used < room; i++) {
        const struct kernel_names *known = types_names(visit->function ? visit->function : visit->graph_functions[i]);
        int length = snprintf(out + used, room - used, "%s%s", used ? ", " : "", known ? known->plain : "a kernel");
        used += length > 0 ? (size_t)length : 0;
    }
}

void names_launched(const struct visit *visit, struct launched_fact *out, struct stack_frame frames[STACK_READ], char *plain,
                    size_t room)
{
    const struct kernel_names *known = visit->function ? types_names(visit->function) : NULL;
    names_kernels(visit, plain, room);
    *out = (struct launched_fact){.kernel = known ? known->demangled : NULL,
                                  .symbol = known ? known->mangled : NULL,
                                  .graph_kernels = known ? NULL : plain,
                                  .plain = plain,
                                  .launch = visit->number,
                                  .stream = (uint64_t)(uintptr_t)visit->handle,
                                  .tid = visit->tid,
                                  .frames = frames,
                                  .frame_count = stack_frames(&visit->stack, frames, STACK_READ)};
    memcpy(out->grid, visit->grid, sizeof out->grid);
    memcpy(out->block, visit->block, sizeof out->block);
}

/* ---- what the compiler declares ---- */

struct declared_argument {
    const char *name, *type; /* in the kernel's text */
};

struct declared_kernel {
    UT_hash_handle hh;            /* by handle */
    struct declared_kernel *next; /* among those that are out of the table: others may still read them */
    CUfunction handle;
    const void *module; /* NULL if unknown */
    char *symbol, *text;
    size_t count;
    struct declared_argument arguments[];
};

static struct declared_kernel *declared, *gone; /* under the lock */

static void take_out(struct declared_kernel *kernel)
{
    lock_expect(RANK_LEAF);
    HASH_DEL(declared, kernel);
    LL_PREPEND(gone, kernel);
}

/* Cuts "NAME TYPE\nNAME TYPE" up. Returns 0 if it has another form. */
static int cut(struct declared_kernel *kernel)
{
    for (char *at = kernel->text; *at;) {
        char *space = strchr(at, ' '), *end = at + strcspn(at, "\n");
        if (!space || space > end || space == at || space + 1 == end)
            return 0;
        kernel->arguments[kernel->count++] = (struct declared_argument){at, space + 1};
        at = end + (*end == '\n');
        *space = *end = '\0';
    }
    return 1;
}

static void free_kernel(struct declared_kernel *kernel)
{
    if (kernel) {
        free(kernel->symbol);
        free(kernel->text);
    }
    free(kernel);
}

static struct declared_kernel *make_declared(CUfunction handle, const char *symbol, const char *arguments)
{
    size_t lines = 1;
    for (const char *at = arguments; *at; at++)
        lines += *at == '\n';
    struct declared_kernel *made = calloc(1, sizeof *made + lines * sizeof made->arguments[0]);
    if (!made)
        return NULL;
    made->handle = handle;
    made->symbol = strdup(symbol);
    made->text = strdup(arguments);
    if (made->symbol && made->text && cut(made))
        return made;
    free_kernel(made);
    return NULL;
}

void declared_add(CUfunction handle, const char *symbol, const char *arguments)
{
    struct declared_kernel *made = handle && symbol && arguments ? make_declared(handle, symbol, arguments) : NULL, *old;
    if (!made)
        return;
    made->module = code_module_of(handle);
    HOLD(&lock);
    HASH_FIND_PTR(declared, &handle, old);
    if (old)
        take_out(old);
    HASH_ADD_PTR(declared, handle, made);
}

void declared_gone(const void *module)
{
    struct declared_kernel *kernel, *next;
    HOLD(&lock);
    HASH_ITER(hh, declared, kernel, next)
    {
        if (kernel->module == module)
            take_out(kernel);
    }
}

/* Whether the declaration is that of the kernel: pointers are 8 bytes, tensor maps 128, and i32 and i64 what they say. */
static int fits(const struct declared_kernel *kernel, const struct launch_function *function)
{
    if (strcmp(kernel->symbol, function->name) != 0 || function->argument_count < kernel->count ||
        function->argument_count - kernel->count > HIDDEN_MOST)
        return 0;
    for (size_t i = 0; i < function->argument_count; i++) {
        const char *type = i < kernel->count ? kernel->arguments[i].type : "*";
        uint32_t size = *type == '*' || !strcmp(type, "i64") || !strcmp(type, "u64") ? 8
                        : !strcmp(type, "i32") || !strcmp(type, "u32")               ? 4
                        : !strcmp(type, "nvTmaDesc")                                 ? 128
                                                                                     : 0;
        if (size && function->arguments[i].size != size)
            return 0;
    }
    return 1;
}

static const struct declared_argument *find(CUfunction handle, const struct launch_function *function, int argument)
{
    if (!handle || !function || !function->has_layout || argument < 0)
        return NULL;
    const struct declared_kernel *kernel;
    lock_take(&lock);
    HASH_FIND_PTR(declared, &handle, kernel);
    lock_release(&lock);
    return kernel && (size_t)argument < kernel->count && fits(kernel, function) ? &kernel->arguments[argument] : NULL;
}

/* Of a pointer that is an argument by itself. NULL if it has no declaration that fits the kernel's layout. */
static const char *pointer_type(const struct reached *reached)
{
    const struct declared_argument *argument = find(reached->handle, reached->function, reached->argument);
    return argument && argument->type[0] == '*' && !reached->at ? argument->type + 1 : NULL;
}

static int declared_is_const(const struct reached *reached)
{
    const char *type = pointer_type(reached);
    return type && type[0] == 'k';
}

static enum value_type declared_elements(const struct reached *reached)
{
    const char *type = pointer_type(reached);
    if (!type)
        return VALUE_TYPES;
    type += type[0] == 'k';
    return value_named(type, strlen(type));
}

const char *declared_name(CUfunction handle, const struct launch_function *function, int argument)
{
    const struct declared_argument *found = find(handle, function, argument);
    return found ? found->name : NULL;
}

/* ---- types ---- */

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
