/* Which of many launches on record has faulted: the second launch tries them, on the simulated device. */
#include "second_launch.h"

static const char *sim_of_rerun; /* the simulated device of the rerun process; NULL: as this one's */

/* 80 launches with eight buffers, each with a length of its own: number `wrong` is one too long. Only one like that runs; the
 * others are on record. */
static void record_many(const char *kernel, int wrong, const char *options)
{
    void *buffers[8], **sixth = &buffers[5];
    start(options);
    if (sim_of_rerun)
        setenv("CUFENCE_SIM", sim_of_rerun, 1); /* this process has read it */
    for (int i = 0; i < 8; i++)
        buffers[i] = allocate(COUNT * 4);
    for (int i = 0; i < 80; i++)
        record_launch(kernel, (void *[]){i == wrong ? sixth : &buffers[i % 8], &(int){i == wrong ? COUNT : COUNT - 2 - i}}, 0);
    CUfunction function;
    CHECK_CU(cuModuleGetFunction(&function, module, kernel));
    CHECK_CU(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, NULL, (void *[]){sixth, &(int){COUNT}}, NULL));
    cuCtxSynchronize();
}

/* Each set of arguments has its turn, until the one that faults. */
TELLS(many, "0 bytes past the end of buffer #6", THREAD_PAST_THE_END, WRITTEN_PAST_THE_END, "arguments .*buffer #6 \\+0")
{
    record_many("write_last", 11, "explain=rerun");
}

/* If none of them faults, that is said of all. */
TELLS(none_of_many, "none of the 80 launches")
{
    record_many("write_once", -1, "explain=rerun");
}

TELLS(time_for_some_of_many, "1 of 80 launches that it may have been were", "wait_ms=1000/4000 was over")
{
    record_many("hang_later", -1, "explain=rerun,wait_ms=1000/4000");
}

/* The host's memory takes the place of what one launch reaches, but not of more. */
TELLS(room_for_some_of_many, "of launches that it may have been 2 did not",
      "fault, and the GPU has no room for what the others reach")
{
    sim_of_rerun = "fail=cuMemCreate:2:2"; /* CUDA_ERROR_OUT_OF_MEMORY */
    record_many("write_once", -1, "explain=rerun");
}
