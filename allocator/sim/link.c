/* The linker. It compiles nothing: PTX becomes the cubin in the file that its directive .file names. */
#include "call.h"
#include "context.h"

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUBIN_MOST (1u << 20)

struct CUlinkState_st {
    char file[512];
    unsigned char cubin[CUBIN_MOST];
};

SIM_API CUresult cuLinkCreate(unsigned int numOptions, CUjit_option *options, void **optionValues, CUlinkState *stateOut)
{
    CALL_ENTER("cuLinkCreate");
    CALL_TRY(context_check());
    CALL_REFUSE(stateOut == NULL || (numOptions != 0 && (options == NULL || optionValues == NULL)), INVALID_VALUE);
    *stateOut = calloc(1, sizeof **stateOut);
    return *stateOut == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

SIM_API CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t size, const char *name,
                               unsigned int numOptions, CUjit_option *options, void **optionValues)
{
    CALL_ENTER("cuLinkAddData");
    (void)name;
    CALL_REFUSE(state == NULL || data == NULL || (numOptions != 0 && (options == NULL || optionValues == NULL)), INVALID_VALUE);
    const char *text = data;
    CALL_REFUSE(type != CU_JIT_INPUT_PTX || size == 0 || text[size - 1] != '\0', INVALID_PTX);
    const char *file = strstr(text, ".file");
    return file != NULL && sscanf(file, ".file%*d \"%511[^\"]", state->file) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
}

SIM_API CUresult cuLinkComplete(CUlinkState state, void **cubinOut, size_t *sizeOut)
{
    CALL_ENTER("cuLinkComplete");
    CALL_REFUSE(state == NULL || cubinOut == NULL || sizeOut == NULL, INVALID_VALUE);
    FILE *file = fopen(state->file, "rb");
    *cubinOut = state->cubin;
    *sizeOut = file == NULL ? 0 : fread(state->cubin, 1, sizeof state->cubin, file);
    if (file != NULL)
        fclose(file);
    return *sizeOut == 0 ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

SIM_API CUresult cuLinkDestroy(CUlinkState state)
{
    CALL_ENTER("cuLinkDestroy");
    free(state);
    return CUDA_SUCCESS;
}
