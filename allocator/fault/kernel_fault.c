#include "kernel_fault.h"

#include "analysis/verdict/cause.h"
#include "analysis/verdict/launches.h"
#include "rerun_source.h"
#include "saving.h"

#include <stdlib.h>

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

void fault_begin(struct fault *fault, const struct options *options)
{
    if (rerun_source_is_wanted(options)) /* first: the driver ends the context soon */
        fault->variables = variables_keep(fault);
    fault->around = surroundings_of(fault->evidence, fault->device);
    if (!fault->around)
        return;
    boxes_place(fault->evidence, &fault->around->memory);
    fault_diagnose(fault->evidence, &fault->around->memory, &fault->diagnosis);
    fault->saving = saving_begin(options);
    fault->source = rerun_source_begin(options, fault);
}

void fault_finish(struct fault *fault)
{
    struct diagnosis *diagnosis = &fault->diagnosis;
    if (fault->source) {
        struct rerun_result *rerun = rerun_source_finish(fault->source);
        rerun_result_name_buffers(rerun, &fault->around->memory);
        diagnosis_take_rerun(diagnosis, rerun);
        rerun_source_trace(fault->source, diagnosis);
        cause_take(diagnosis, &rerun->cause);
        fault->rerun = rerun;
    }
    if (!diagnosis->cause)
        cause_in_dump(&fault->opened, diagnosis, &fault->cause);
}

void fault_close(struct fault *fault)
{
    rerun_source_free(fault->source);
    variables_free(fault->variables);
    free(fault->around);
    coredump_close(&fault->opened);
    evidence_free(fault->evidence);
}
