/* The forms for per-thread default streams; names that have none are weak, and there twice. */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "stub.c"
