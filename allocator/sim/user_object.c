/* User objects: a program attaches them to graphs, to be told when nothing can launch them any more. */
#include "call.h"
#include "capture.h"
#include "handle.h"

#include <limits.h>
#include <stdlib.h>

struct CUuserObject_st {
    atomic_uint references;
    CUhostFn destroy;
    void *user;
};

void user_object_retain(CUuserObject object)
{
    atomic_fetch_add(&object->references, 1);
}

static void release(CUuserObject object, unsigned count)
{
    if (atomic_fetch_sub(&object->references, count) != count)
        return;
    handle_remove(HANDLE_USER_OBJECT, object);
    object->destroy(object->user);
    free(object);
}

void user_object_release(CUuserObject object)
{
    release(object, 1);
}

SIM_API CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                                    unsigned int flags)
{
    CALL_ENTER("cuUserObjectCreate");
    if (object_out == NULL || destroy == NULL || initialRefcount == 0 || initialRefcount > INT_MAX ||
        flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    CUuserObject object = handle_create(HANDLE_USER_OBJECT, sizeof *object, NULL);
    CALL_REFUSE(object == NULL, OUT_OF_MEMORY);
    atomic_init(&object->references, initialRefcount);
    object->destroy = destroy;
    object->user = ptr;
    *object_out = object;
    return CUDA_SUCCESS;
}

SIM_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    CALL_ENTER("cuUserObjectRelease");
    if (!handle_is_valid(HANDLE_USER_OBJECT, object) || count == 0 || count > atomic_load(&object->references))
        return CUDA_ERROR_INVALID_VALUE;
    release(object, count);
    return CUDA_SUCCESS;
}

SIM_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
    CALL_ENTER("cuGraphRetainUserObject");
    if (!handle_is_valid(HANDLE_GRAPH, graph) || !handle_is_valid(HANDLE_USER_OBJECT, object) || count == 0 ||
        count > INT_MAX || (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        CALL_REFUSE(recording_add_object(graph->recording, object) != 0, OUT_OF_MEMORY);
        if (flags == 0)
            user_object_retain(object);
    }
    return CUDA_SUCCESS;
}
