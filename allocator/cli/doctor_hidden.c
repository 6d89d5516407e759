/*
 * Finds what keeps overruns inside one allocation, where there is no guard. Inductor's settings and defaults are those of
 * PyTorch 2.11, torch/_inductor/config.py.
 */
#include "doctor.h"

#include <stdio.h>
#include <string.h>

static const struct setting {
    const char *what;
    const char *variable;
    int is_on_by_default;
    const char *harm;
} settings[] = {
    {"memory planning", "TORCHINDUCTOR_MEMORY_PLANNING", 0, "puts the intermediates of a graph into one allocation"},
    {"stride padding", "TORCHINDUCTOR_COMPREHENSIVE_PADDING", 1,
     "makes rows of large tensors longer than asked for, so that they end in bytes that belong to the tensor"},
    {"shape padding", "TORCHINDUCTOR_SHAPE_PADDING", 1,
     "pads the operands of a matmul, which then end after their last element"},
    {"in-place padding", "TORCHINDUCTOR_INPLACE_PADDING", 1, "leaves room after a tensor to pad it in place"},
};

static void judge_setting(struct findings *findings, const struct setting *setting, environment_lookup environment)
{
    char remedy[128];
    const char *value = environment(setting->variable);
    /* Inductor takes only "1" for on. */
    int is_on = value ? strcmp(value, "1") == 0 : setting->is_on_by_default;
    snprintf(remedy, sizeof remedy, "%s=0", setting->variable);
    if (is_on)
        found(findings, FOUND_NO, setting->what, remedy, "torch.compile %s (%s)", setting->harm,
              value ? "it is switched on" : "the default");
    else
        found(findings, FOUND_YES, setting->what, NULL, "%s is off", setting->variable);
}

static void judge_inductor(struct findings *findings, environment_lookup environment)
{
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        judge_setting(findings, &settings[i], environment);
    found(findings, FOUND_NO, "buffer reuse", "torch._inductor.config.allow_buffer_reuse = False, and inplace_buffers = False",
          "torch.compile reuses a buffer that is done for another tensor of the graph, which may be smaller (the default)");
}

/* Library pools that divide up large allocations. */
static void judge_pools(struct findings *findings, json_t *facts)
{
    const char *rmm = package_version(facts, (const char *const[]){"rmm", "rmm-cu13", "rmm-cu12", "rmm-cu11", NULL});
    if (rmm)
        found(findings, FOUND_NO, "RMM", "rmm.reinitialize(pool_allocator=False), and no pool in C++",
              "%s: a pool of RMM's is one buffer to cufence", rmm);
    found(findings, FOUND_NEITHER, "AOTI constants",
          "load the weights with user_managed=true, one buffer each (`cufence docs aoti`)",
          "a model of AOTInductor has its constants in one allocation, at steps of 64 bytes");
    found(findings, FOUND_NEITHER, "caches and slabs", "while you look for the bug, give the suspect an allocation of its own",
          "a KV cache, a flat buffer of weights or gradients and a library's workspace are one buffer each");
}

void judge_hidden(struct findings *findings, json_t *facts, environment_lookup environment)
{
    findings_section(findings, "what hides overruns inside one allocation");
    if (package_version(facts, (const char *const[]){"torch", NULL}))
        judge_inductor(findings, environment);
    judge_pools(findings, facts);
}
