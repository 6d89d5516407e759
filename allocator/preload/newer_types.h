/* Types of parameters that older toolkits' cuda.h lacks. Some of them only pass through: a pointer, or an enum of the same
 * size. */
#pragma once

#include <cuda.h>

#if CUDA_VERSION >= 13010
typedef CUstreamCigCaptureParams cig_parameters;
#else
typedef void cig_parameters;
#endif

#if CUDA_VERSION >= 13030
typedef CUgraphRecaptureCallback recapture_callback;
typedef CUlogicalEndpointId endpoint_id;
typedef CUlogicalEndpointProp endpoint_properties;
typedef CUlogicalEndpointIpcHandleType endpoint_handle_type;
#else
typedef void (*recapture_callback)(void);
typedef cuuint32_t endpoint_id;
typedef void endpoint_properties;
typedef int endpoint_handle_type;
#endif

#if CUDA_VERSION >= 13050
typedef CUtensorMapAllocClass map_class;
typedef CUDA_FABRIC_COPY_BATCH_OP fabric_copy;
#else
#define CU_FABRIC_COPY_OPERAND_TYPE_POINTER 1
typedef int map_class;
typedef struct fabric_copy {
    struct {
        int type; /* CU_FABRIC_COPY_OPERAND_TYPE_POINTER: op.ptr.ptr; else op.le */
        union {
            struct {
                CUdeviceptr ptr;
                int hint[2];
            } ptr;
            struct {
                endpoint_id id;
                cuuint64_t offset;
            } le;
        } op;
    } src, dst;
    size_t size; /* bytes */
    unsigned flags;
} fabric_copy;
#endif
