#include "declared.h"

#include "base/lock.h"
#include "base/hash.h"

#include "inspect/code/code.h"

#include <stdlib.h>
#include <string.h>

#include <utlist.h>

#define HIDDEN_MOST 2 /* pointers to scratch memory that Triton adds behind the arguments */

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

static struct lock lock = LOCK(RANK_LEAF);
static struct declared_kernel *kernels, *gone; /* under the lock */

static void take_out(struct declared_kernel *kernel)
{
    lock_expect(RANK_LEAF);
    HASH_DEL(kernels, kernel);
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

static struct declared_kernel *make(CUfunction handle, const char *symbol, const char *arguments)
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
    struct declared_kernel *made = handle && symbol && arguments ? make(handle, symbol, arguments) : NULL, *old;
    if (!made)
        return;
    made->module = code_module_of(handle);
    HOLD(&lock);
    HASH_FIND_PTR(kernels, &handle, old);
    if (old)
        take_out(old);
    HASH_ADD_PTR(kernels, handle, made);
}

void declared_gone(const void *module)
{
    struct declared_kernel *kernel, *next;
    HOLD(&lock);
    HASH_ITER(hh, kernels, kernel, next)
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
    HASH_FIND_PTR(kernels, &handle, kernel);
    lock_release(&lock);
    return kernel && (size_t)argument < kernel->count && fits(kernel, function) ? &kernel->arguments[argument] : NULL;
}

static const char *pointer_type(const struct reached *reached)
{
    const struct declared_argument *argument = find(reached->handle, reached->function, reached->argument);
    return argument && argument->type[0] == '*' && !reached->at ? argument->type + 1 : NULL;
}

int declared_is_const(const struct reached *reached)
{
    const char *type = pointer_type(reached);
    return type && type[0] == 'k';
}

enum value_type declared_elements(const struct reached *reached)
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
