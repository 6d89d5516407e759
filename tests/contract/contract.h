/*
 * The contract: what a correct CUDA program may rely on, as small programs. Each is a promise with a name and the sentence of
 * CUDA's documentation that it rests on; it prints lines, which must be the same natively and guarded, on a GPU and on the
 * simulated device. contract.py runs and compares them.
 *
 *   contract NAME     plays one
 *   contract --list   prints the names and sentences
 *
 * What a call waits for is told by a kernel that waits for the host: held() occupies a stream with it, and TIMED() says whether
 * the call returned before the kernel was let go ("at once") or behind it ("waits").
 */
#pragma once

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* PROMISE(name, gpus, sentence) { ... }: `gpus` is how many it needs. */
struct promise {
    const char *name, *sentence;
    int gpus;
    void (*play)(void);
    struct promise *next;
};
void promise_add(struct promise *promise);
#define PROMISE(name_, gpus_, sentence_)                                                                                       \
    static void play_##name_(void);                                                                                            \
    __attribute__((constructor)) static void add_##name_(void)                                                                 \
    {                                                                                                                          \
        static struct promise promise = {#name_, sentence_, gpus_, play_##name_, NULL};                                        \
        promise_add(&promise);                                                                                                 \
    }                                                                                                                          \
    static void play_##name_(void)

/* The result without its prefix: "SUCCESS", "INVALID_VALUE". */
const char *result_name(CUresult result);

/* A step that is no part of the promise: ends the program if it fails. */
#define MUST(call) must(call, #call, __FILE__, __LINE__)
void must(CUresult result, const char *call, const char *file, int line);

/* Prints "CALL: RESULT" and returns the result. */
#define ASK(call) ask(#call, call)
CUresult ask(const char *text, CUresult result);

/* The same, and whether the call has waited for what held() holds, which is let go by then. BESIDE_WORK: a stream of its own.
 */
#define TIMED(call) (timed_begin(), timed_end(#call, call))
#define BESIDE_WORK(call) (held(stream_new()), timed_begin(), timed_end(#call, call))
void timed_begin(void);
CUresult timed_end(const char *text, CUresult result);

/* Keeps the stream busy until let_go(), which also waits for the stream; or, with TIMED(), for a second. One at a time. */
void held(CUstream stream);
void let_go(void);

/* What a promise begins with; each ends the program if it fails. */
CUcontext primary(int device); /* retained and made current */
CUcontext context_new(void);   /* of device 0, and current */
CUgreenCtx green_new(CUstream *stream);
CUstream stream_new(void); /* does not synchronise with the legacy stream */
CUevent event_new(void);
CUdeviceptr plain_memory(size_t bytes);                       /* of cuMemAlloc */
CUdeviceptr filled_memory(size_t bytes, unsigned char value); /* the same */
CUdeviceptr pool_memory(size_t bytes, CUstream stream);
CUdeviceptr ready_memory(size_t bytes, CUstream stream); /* the same, and the stream has been awaited */
void free_and_await(CUdeviceptr pointer, CUstream stream);
CUmemoryPool pool_of_device(void);
CUmemoryPool pool_new(int device, size_t most); /* 0: no limit */
CUgraph graph_new(void);
void capture_begin(CUstream stream); /* relaxed */
CUgraph capture_end(CUstream stream);
CUgraphExec instantiated(CUgraph graph, unsigned long long flags);

/* Of device 0, for cuMemCreate. */
static const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};

CUfunction kernel(
    const char *name); /* contract_fill(to, bytes, value), contract_fetch(texture, to, floats), contract_hold(flag, expired) */
void fill(CUstream stream, CUdeviceptr to, uint64_t bytes, uint32_t value); /* by a kernel */

/* The first and the last of `bytes` bytes, by a copy: "7 7", or the error. */
const char *ends_of(CUdeviceptr from, size_t bytes);

/* Of the device's memory, in whole pages of 2 MiB. */
size_t share(unsigned per_cent);
unsigned free_per_cent(void); /* rounded to five; less what was taken when the program began */

/* What captures forbid: a sentence for several promises. */
#define FORBIDS                                                                                                                \
    "cuda.h, cuThreadExchangeStreamCaptureMode: a thread is prohibited from potentially unsafe calls by its own capture "      \
    "unless relaxed, "                                                                                                         \
    "and by those of other threads that are global"
