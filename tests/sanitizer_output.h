/*
 * What compute-sanitizer has printed, recorded: with kernels of others from public issues (NVIDIA/cudf 8873 and 23900,
 * NVIDIA/cccl 1891 and 2104, kokkos 6217, JuliaGPU/CUDAnative.jl 61), shortened, their paths too. The memcheck case has the
 * form of NVIDIA's manual. None was recorded with cufence's own replay.
 */
#pragma once

#define PRINTED_MEMCHECK                                                                                                       \
    "========= COMPUTE-SANITIZER\n"                                                                                            \
    "========= Invalid __global__ write of size 4 bytes\n"                                                                     \
    "=========     at unaligned_kernel()+0x160 in /src/memcheck_demo.cu:34\n"                                                  \
    "=========     by thread (0,0,0) in block (0,0,0)\n"                                                                       \
    "=========     Address 0x7fb6c5800001 is misaligned\n"                                                                     \
    "=========     Saved host backtrace up to driver entry point at kernel launch time\n"                                      \
    "=========         Host Frame: run_unaligned() in memcheck_demo.cu:49 [0xb7f3]\n"                                          \
    "========= \n"                                                                                                             \
    "========= Invalid __global__ write of size 4 bytes\n"                                                                     \
    "=========     at unaligned_kernel()+0x160 in /src/memcheck_demo.cu:34\n"                                                  \
    "=========     by thread (1,0,0) in block (0,0,0)\n"                                                                       \
    "=========     Address 0x7fb6c5800005 is misaligned\n"                                                                     \
    "========= \n"                                                                                                             \
    "========= ERROR SUMMARY: 2 errors\n"

#define PRINTED_RACECHECK                                                                                                      \
    "========= COMPUTE-SANITIZER\n"                                                                                            \
    "========= Error: Race reported between Write access at delta_binary_decoder::calc_mini_block_pass(unsigned int, const "   \
    "cooperative_groups::__v1::thread_block_tile<(unsigned int)32, cooperative_groups::__v1::thread_block> &)+0xd790 in "      \
    "delta_binary.cuh:324\n"                                                                                                   \
    "=========     and Read access at delta_binary_decoder::calc_mini_block_pass(unsigned int)+0xd5c0 in "                     \
    "delta_binary.cuh:312 [16 hazards]\n"                                                                                      \
    "=========     and Read access at delta_binary_decoder::calc_mini_block_pass(unsigned int)+0xd5e0 in "                     \
    "delta_binary.cuh:312 [32 hazards]\n"                                                                                      \
    "=========\n"                                                                                                              \
    "========= Warning: Race reported between Read access at 0x1f20 in "                                                       \
    "/include/Cuda/Kokkos_Cuda_Parallel_Range.hpp:249:Kokkos::Impl::ParallelReduce<double>::operator ()() const\n"             \
    "=========     and Write access at 0x14b0 in /include/Cuda/Kokkos_Cuda_ReduceScan.hpp:349:scalar_intra_block [4 "          \
    "hazards]\n"                                                                                                               \
    "========= \n"                                                                                                             \
    "Test complete\n"                                                                                                          \
    "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)\n"

#define PRINTED_INITCHECK                                                                                                      \
    "========= COMPUTE-SANITIZER\n"                                                                                            \
    "========= Uninitialized __global__ memory read of size 1 bytes\n"                                                         \
    "=========     at 0x150 in void cudf::count_set_bits_kernel<int=256>(unsigned int const *,int,int,int*)\n"                 \
    "=========     by thread (0,0,0) in block (0,0,0)\n"                                                                       \
    "=========     Address 0x7fc406200400\n"                                                                                   \
    "========= \n"                                                                                                             \
    "========= Uninitialized __global__ memory read of size 8 bytes\n"                                                         \
    "=========     at std::iterator_traits<T2>::value_type cub::ThreadLoad<(cub::CacheLoadModifier)2, const unsigned long "    \
    "long *>(T2)+0x8a70 in /cub/thread/thread_load.cuh:260\n"                                                                  \
    "=========     by thread (16,0,0) in block (80,0,0)\n"                                                                     \
    "=========     Address 0x7f615d40daf0\n"                                                                                   \
    "=========     Device Frame:void cub::IterateThreadLoad<(int)0>() [0x8a70]\n"                                              \
    "========= \n"                                                                                                             \
    "========= ERROR SUMMARY: 2 errors\n"

#define PRINTED_SYNCCHECK                                                                                                      \
    "========= COMPUTE-SANITIZER\n"                                                                                            \
    "========= Barrier error detected. Divergent thread(s) in warp\n"                                                          \
    "=========     at 0x000046b8 in /src/device/cuda_intrinsics/synchronization.jl:12:ptxcall_computeBetas_3\n"                \
    "=========     by thread (2,0,0) in block (0,0,0)\n"                                                                       \
    "=========     Device Frame:/src/device/synchronization.jl:12:ptxcall_computeBetas_3 (ptxcall_computeBetas_3 : 0x46c0)\n"  \
    "=========\n"                                                                                                              \
    "========= ERROR SUMMARY: 1 error\n"

#define PRINTED_NOTHING "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
