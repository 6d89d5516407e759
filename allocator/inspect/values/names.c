#include "names.h"

#include "types.h"

#include <stdio.h>
#include <string.h>

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
