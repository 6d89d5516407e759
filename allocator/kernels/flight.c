#include "flight.h"

#include "mark.ptx.h"

#include <string.h>

void flight_begin(struct flight *flight, struct stream *stream, uint32_t *words, unsigned count)
{
    memset(words, 0, count * sizeof *words);
    flight->turn++;
    flight->on = stream_ref(stream);
    flight->words = words;
    flight->count = count;
    flight->over = 0;
    flight->is_begun = 1;
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

int flight_is_over(struct flight *flight)
{
    if (!flight->is_begun)
        return 1;
    while (flight->over < flight->count && __atomic_load_n(&flight->words[flight->over], __ATOMIC_ACQUIRE))
        flight->over++;
    return flight->over == flight->count;
}

void flight_end(struct flight *flight)
{
    flight->is_begun = 0;
}

int flight_load_mark(CUfunction *mark)
{
    static const char *const names[] = {"cufence_mark"};
    return kernels_load(mark_ptx, names, mark, 1);
}

CUresult flight_mark(struct flight *flight, CUfunction mark, struct stream *stream, CUstream handle, uint32_t *words)
{
    void *arguments[] = {&words};
    flight_begin(flight, stream, words, 1);
    CUresult result = kernels_launch(mark, 1, 1, handle, arguments);
    if (result != CUDA_SUCCESS)
        flight_end(flight);
    return result;
}
