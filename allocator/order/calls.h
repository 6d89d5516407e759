/*
 * The latest copies and sets on buffers, with who called: launches have a ring of their own in launch/. The caller serialises.
 */
#ifndef CUFENCE_ORDER_CALLS_H
#define CUFENCE_ORDER_CALLS_H

#include "stacks/stack.h"

#define CALLS_KEPT 256u

struct call_record {
    uint64_t turn; /* the number of the call, from 1 */
    const char *name;
    uint64_t time_ns;
    struct stack stack;
};

struct calls {
    uint64_t count;
    struct call_record records[CALLS_KEPT];
};

/* Records a call of the driver function `name`. `frame` as for stack_capture_from(). Returns where it is kept. */
const struct call_record *calls_add(struct calls *calls, const char *name, const void *frame);

#endif
