#include "scene.h"

#include "surroundings.h"

cufence_status fault_open(struct fault *fault, const struct dump *dump, struct problem *problem)
{
    *fault = (struct fault){.dump = dump, .device = -1};
    if (!dump_is_complete(dump))
        return problem_set(problem, CUFENCE_ERROR_OUT_OF_MEMORY, "the host has no memory for all of it");
    cufence_status status = coredump_open(dump->bytes, dump->size, &fault->opened, problem);
    status = status ?: evidence_read(&fault->opened, &fault->evidence, problem);
    if (status == CUFENCE_OK)
        fault->device = faulted_device(fault->evidence);
    return status;
}

void fault_close(struct fault *fault)
{
    coredump_close(&fault->opened);
    evidence_free(fault->evidence);
}
