/* Stories about pinned memory that asynchronous copies use: `host_copies CASE`. The first cases are wrong, the others are not.
 */
#include "program.h"

#define BYTES 70000u /* more than is looked at in one piece */

static CUstream stream;
static CUdeviceptr buffer;
static char *pinned;
static char pageable[BYTES];

static CUevent recorded(void)
{
    CUevent event;
    MUST(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cu.cuEventRecord(event, stream));
    return event;
}

static void copy_in(void)
{
    MUST(cu.cuMemcpyHtoDAsync(buffer, pinned, BYTES, stream));
}

static void copy_out(void)
{
    MUST(cu.cuMemcpyDtoHAsync(pinned, buffer, BYTES, stream));
}

/* As what reads a result may ask, if cufence is there. */
static void read_result(const char *memory)
{
    int (*check)(const void *, size_t, const char *) =
        (int (*)(const void *, size_t, const char *))driver_of_cufence("cufence_check_host");
    if (check)
        check(memory + 100, 4, "read_result");
}

/* ---- wrong ---- */

CASE(host_copies, changed)
{
    copy_in();
    pinned[BYTES - 1]++;
    MUST(cu.cuStreamSynchronize(stream));
}

CASE(host_copies, changed_by_unified)
{
    MUST(cu.cuMemcpyAsync(buffer, (CUdeviceptr)(uintptr_t)pinned, BYTES, stream));
    pinned[0]++;
    MUST(cu.cuCtxSynchronize());
}

/* The loop that fills its only staging buffer again. */
CASE(host_copies, filled_again)
{
    for (int i = 0; i < 3; i++) {
        memset(pinned, i, BYTES);
        copy_in();
    }
    MUST(cu.cuStreamSynchronize(stream));
}

/* The event was recorded before the copy. */
CASE(host_copies, waited_too_early)
{
    CUevent event = recorded();
    copy_in();
    MUST(cu.cuEventSynchronize(event));
    pinned[5]++;
    MUST(cu.cuStreamSynchronize(stream));
}

CASE(host_copies, freed)
{
    copy_out();
    MUST(cu.cuMemFreeHost(pinned));
    MUST(cu.cuStreamSynchronize(stream));
}

CASE(host_copies, unregistered)
{
    char *own = calloc(2, BYTES);
    MUST(cu.cuMemHostRegister(own, 2 * BYTES, 0));
    MUST(cu.cuMemcpyHtoDAsync(buffer, own + 10, BYTES, stream));
    MUST(cu.cuMemHostUnregister(own));
    MUST(cu.cuStreamSynchronize(stream));
    free(own);
}

CASE(host_copies, read_early)
{
    copy_out();
    read_result(pinned);
    MUST(cu.cuStreamSynchronize(stream));
}

/* ---- not wrong ---- */

CASE(host_copies, waited)
{
    copy_in();
    MUST(cu.cuStreamSynchronize(stream));
    memset(pinned, 1, BYTES);
    copy_in();
    MUST(cu.cuEventSynchronize(recorded()));
    memset(pinned, 2, BYTES);
    copy_in();
    CUevent event = recorded();
    while (cu.cuEventQuery(event) != CUDA_SUCCESS)
        ;
    memset(pinned, 3, BYTES);
    copy_out();
    MUST(cu.cuStreamSynchronize(stream));
    read_result(pinned);
    MUST(cu.cuMemFreeHost(pinned));
}

/* Changed beside what is copied, and what is copied is not changed. */
CASE(host_copies, beside)
{
    MUST(cu.cuMemcpyHtoDAsync(buffer, pinned, BYTES / 2, stream));
    memset(pinned + BYTES / 2, 9, BYTES / 2);
    pinned[0] = pinned[0] + 0;
    MUST(cu.cuStreamSynchronize(stream));
}

CASE(host_copies, in_turn)
{
    char *other;
    MUST(cu.cuMemHostAlloc((void **)&other, BYTES, 0));
    char *both[] = {pinned, other};
    CUevent events[2] = {recorded(), recorded()};
    for (int i = 0; i < 6; i++) {
        MUST(cu.cuEventSynchronize(events[i % 2]));
        memset(both[i % 2], i, BYTES);
        MUST(cu.cuMemcpyHtoDAsync(buffer, both[i % 2], BYTES, stream));
        MUST(cu.cuEventRecord(events[i % 2], stream));
    }
    MUST(cu.cuCtxSynchronize());
}

/* Memory that is not pinned has been read when the call returns, and the result is there. */
CASE(host_copies, not_pinned)
{
    MUST(cu.cuMemcpyHtoDAsync(buffer, pageable, BYTES, stream));
#ifndef __SANITIZE_THREAD__ /* the simulated device reads it a little later */
    memset(pageable, 4, BYTES);
#endif
    MUST(cu.cuMemcpyDtoHAsync(pageable, buffer, BYTES, stream));
    read_result(pageable);
}

CASE(host_copies, copied_at_once)
{
    MUST(cu.cuMemcpyHtoD(buffer, pinned, BYTES));
    pinned[0]++;
    MUST(cu.cuMemcpyDtoH(pinned, buffer, BYTES));
    read_result(pinned);
}

CASE(host_copies, host_told)
{
    static uint32_t flag;
    copy_in();
    MUST(cu.cuLaunchHostFunc(stream, let_go, &flag));
    while (!__atomic_load_n(&flag, __ATOMIC_ACQUIRE))
        ;
    pinned[0]++;
    MUST(cu.cuStreamSynchronize(stream));
}

/* What a graph copies is read when it is launched. */
CASE(host_copies, in_a_graph)
{
    CUgraph graph;
    CUgraphExec executable;
    MUST(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    copy_in();
    MUST(cu.cuStreamEndCapture(stream, &graph));
    MUST(cu.cuGraphInstantiateWithFlags(&executable, graph, 0));
    pinned[0]++;
    MUST(cu.cuGraphLaunch(executable, stream));
    MUST(cu.cuStreamSynchronize(stream));
}

/* The context goes with its memory. */
CASE(host_copies, ended)
{
    copy_in();
    MUST(cu.cuDevicePrimaryCtxReset(0));
    use_device(0);
    void *perhaps_the_same = malloc(BYTES);
    MUST(!perhaps_the_same);
    memset(perhaps_the_same, 1, BYTES);
    MUST(cu.cuCtxSynchronize());
    free(perhaps_the_same);
}

/* Who asks how long it took knows that it is done. */
CASE(host_copies, timed)
{
    float ms;
    CUevent events[2];
    for (int i = 0; i < 2; i++)
        MUST(cu.cuEventCreate(&events[i], CU_EVENT_DEFAULT));
    copy_in();
    for (int i = 0; i < 2; i++)
        MUST(cu.cuEventRecord(events[i], stream));
    while (cu.cuEventElapsedTime(&ms, events[0], events[1]) != CUDA_SUCCESS)
        ;
    pinned[0]++;
    MUST(cu.cuStreamSynchronize(stream));
}

STORY(host_copies)
{
    start();
    stream = new_stream();
    MUST(cu.cuMemAlloc(&buffer, BYTES));
    MUST(cu.cuMemHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 7, BYTES);
    int status = play_case(count, arguments);
    puts(status ? "not played" : "played");
    return status;
}
