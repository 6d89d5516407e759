#include "told.h"

#include "base/lock.h"

#include "lens/code/code.h"
#include "types.h"
#include "lens/visits/visits.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024u
#define HIDDEN_MOST 2 /* pointers to scratch memory that Triton adds behind the arguments */

struct told_argument {
    const char *name, *type; /* in the kernel's text */
};

struct told_kernel {
    struct told_kernel *next;
    CUfunction handle;  /* NULL: it is gone */
    const void *module; /* NULL if unknown */
    char *symbol, *text;
    size_t count;
    struct told_argument arguments[];
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf; guards the table. Entries stay */
static struct told_kernel *buckets[BUCKETS];

static struct told_kernel **bucket_of(CUfunction handle)
{
    return &buckets[((uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 32) % BUCKETS];
}

/* Cuts "NAME TYPE\nNAME TYPE" up. Returns 0 if it has another form. */
static int cut(struct told_kernel *kernel)
{
    for (char *at = kernel->text; *at;) {
        char *space = strchr(at, ' '), *end = at + strcspn(at, "\n");
        if (!space || space > end || space == at || space + 1 == end)
            return 0;
        kernel->arguments[kernel->count++] = (struct told_argument){at, space + 1};
        at = end + (*end == '\n');
        *space = *end = '\0';
    }
    return 1;
}

static void free_kernel(struct told_kernel *kernel)
{
    if (kernel) {
        free(kernel->symbol);
        free(kernel->text);
    }
    free(kernel);
}

static struct told_kernel *make(CUfunction handle, const char *symbol, const char *arguments)
{
    size_t lines = 1;
    for (const char *at = arguments; *at; at++)
        lines += *at == '\n';
    struct told_kernel *made = calloc(1, sizeof *made + lines * sizeof made->arguments[0]);
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

static void forget_locked(CUfunction handle)
{
    for (struct told_kernel *kernel = *bucket_of(handle); kernel; kernel = kernel->next)
        kernel->handle = kernel->handle == handle ? NULL : kernel->handle;
}

void told_add(CUfunction handle, const char *symbol, const char *arguments)
{
    if (!handle || !symbol || !arguments)
        return;
    struct told_kernel *made = make(handle, symbol, arguments);
    if (!made)
        return;
    made->module = code_module_of(handle);
    lock_take(&lock);
    forget_locked(handle);
    made->next = *bucket_of(handle);
    *bucket_of(handle) = made;
    lock_release(&lock);
}

void told_gone(const void *module)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        lock_take(&lock);
        for (struct told_kernel *kernel = buckets[i]; kernel; kernel = kernel->next)
            kernel->handle = kernel->module == module ? NULL : kernel->handle;
        lock_release(&lock);
    }
}

/* Whether the arguments that were told are those of the kernel: pointers are 8 bytes, and i32 and i64 what they say. */
static int fits(const struct told_kernel *kernel, const struct launch_function *function)
{
    if (strcmp(kernel->symbol, function->name) != 0 || function->argument_count < kernel->count ||
        function->argument_count - kernel->count > HIDDEN_MOST)
        return 0;
    for (size_t i = 0; i < function->argument_count; i++) {
        const char *type = i < kernel->count ? kernel->arguments[i].type : "*";
        uint32_t size = *type == '*' || !strcmp(type, "i64") || !strcmp(type, "u64") ? 8
                        : !strcmp(type, "i32") || !strcmp(type, "u32")               ? 4
                                                                                     : 0;
        if (size && function->arguments[i].size != size)
            return 0;
    }
    return 1;
}

static const struct told_argument *find(CUfunction handle, const struct launch_function *function, int argument)
{
    if (!handle || !function || !function->has_layout || argument < 0)
        return NULL;
    lock_take(&lock);
    const struct told_kernel *kernel = *bucket_of(handle);
    while (kernel && kernel->handle != handle)
        kernel = kernel->next;
    lock_release(&lock);
    return kernel && (size_t)argument < kernel->count && fits(kernel, function) ? &kernel->arguments[argument] : NULL;
}

static const char *pointer_type(const struct reached *reached)
{
    const struct told_argument *argument = find(reached->handle, reached->function, reached->argument);
    return argument && argument->type[0] == '*' && !reached->at ? argument->type + 1 : NULL;
}

int told_is_const(const struct reached *reached)
{
    const char *type = pointer_type(reached);
    return type && type[0] == 'k';
}

enum value_type told_elements(const struct reached *reached)
{
    const char *type = pointer_type(reached);
    if (!type)
        return VALUE_TYPES;
    type += type[0] == 'k';
    return types_named(type, strlen(type));
}

const char *told_name(CUfunction handle, const struct launch_function *function, int argument)
{
    const struct told_argument *found = find(handle, function, argument);
    return found ? found->name : NULL;
}
