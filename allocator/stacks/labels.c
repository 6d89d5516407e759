#include "labels.h"

#include "base/lock.h"
#include "base/thread.h"
#include "base/error.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

struct label {
    UT_hash_handle hh;
    char text[];
};

static struct lock lock = LOCK(RANK_LEAF); /* a leaf */
static struct label *labels;               /* under the lock */
struct stack {
    const char *texts[LABEL_DEPTH];
    unsigned depth;
};
static struct thread_memory stacks = {.size = sizeof(struct stack)};
/* The top of the stack. Read at each allocation, so it is plain TLS that needs no function call. */
static HOT_TLS const char *current;

/* NULL if out of host memory. */
static struct label *add(const char *text, size_t length)
{
    struct label *label = malloc(sizeof *label + length + 1);
    if (!label)
        return NULL;
    memcpy(label->text, text, length);
    label->text[length] = 0;
    HASH_ADD_KEYPTR(hh, labels, label->text, length, label);
    return HASH_KEPT(label);
}

static const char *intern(const char *text)
{
    struct label *label;
    size_t length = strnlen(text, LABEL_BYTES - 1);
    lock_take(&lock);
    HASH_FIND(hh, labels, text, length, label);
    int is_full = !label && HASH_COUNT(labels) == LABEL_TEXTS;
    if (!label && !is_full)
        label = add(text, length);
    lock_release(&lock);
    if (is_full)
        return LABEL_OF_TOO_MANY;
    return label ? label->text : NULL;
}

cufence_status label_push(const char *label)
{
    if (!label)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "the label is NULL");
    struct stack *stack = thread_memory(&stacks);
    if (stack && stack->depth == LABEL_DEPTH)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "label \"%.40s\" is nested deeper than %d; a pop is missing", label,
                         LABEL_DEPTH);
    const char *text = stack ? intern(label) : NULL;
    if (!text)
        return error_set(CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for the label \"%.40s\"", label);
    stack->texts[stack->depth++] = text;
    current = text;
    return CUFENCE_OK;
}

cufence_status label_pop(void)
{
    struct stack *stack = thread_memory(&stacks);
    if (!stack || stack->depth == 0)
        return error_set(CUFENCE_ERROR_INVALID_ARGUMENT, "a label was popped that was not pushed on this thread");
    stack->depth--;
    current = stack->depth ? stack->texts[stack->depth - 1] : NULL;
    return CUFENCE_OK;
}

const char *label_current(void)
{
    return current;
}
