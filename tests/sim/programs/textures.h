/* Textures of 4 KiB of memory, and kernels that look a number up in one, or that are given a number which is none. */
#pragma once

#include "program.h"

#define TEXTURE_BYTES 4096u

static void lookup_kernel(const cusim_thread *thread, void *const *arguments)
{
    const void *(*memory_of)(unsigned long long) = (const void *(*)(unsigned long long))driver_of_sim("cusim_texture");
    const uint32_t *numbers = memory_of(*(const unsigned long long *)arguments[0]);
    (*(uint32_t **)arguments[1])[thread->thread_index[0]] = numbers[thread->thread_index[0]];
}

static void nothing(const cusim_thread *thread, void *const *arguments)
{
}

/* What tests/fixtures/cubins/textures.cu was compiled to. */
static const void *textures_code(void)
{
    static char code[32768];
    FILE *file = fopen(TEXTURES_CUBIN, "rb");
    if (!file || !fread(code, 1, sizeof code, file) || fclose(file))
        exit(3);
    return code;
}

static CUresult launch(const void *image, const char *name, cusim_kernel_function kernel, unsigned long long number,
                       CUdeviceptr out, CUstream stream)
{
    static const size_t sizes[] = {8, 8};
    CUmodule module;
    CUfunction function;
    driver_register_kernel(&(cusim_kernel){name, kernel, sizes, 2, "kernels.cu", 30, 4, 0, 0});
    MUST(cu.cuModuleLoadData(&module, image));
    MUST(cu.cuModuleGetFunction(&function, module, name));
    return cu.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, (void *[]){&number, &out}, NULL);
}

/* look_up(unsigned long long, unsigned *) */
static CUresult look_up(CUtexObject texture, CUdeviceptr out, CUstream stream)
{
    return launch(textures_code(), "_Z7look_upyPj", lookup_kernel, texture, out, stream);
}

static CUtexObject texture_of(CUdeviceptr buffer)
{
    CUtexObject texture = 0;
    const CUDA_RESOURCE_DESC linear = {
        .resType = CU_RESOURCE_TYPE_LINEAR,
        .res.linear = {
            .devPtr = buffer, .format = CU_AD_FORMAT_UNSIGNED_INT32, .numChannels = 1, .sizeInBytes = TEXTURE_BYTES}};
    MUST(cu.cuTexObjectCreate(&texture, &linear, &(CUDA_TEXTURE_DESC){0}, NULL));
    return texture;
}
