/*
 * What people are told of a launch: its kernels and who launched it. Thread safety: any thread.
 */
#pragma once

#include "finding/launch_finding.h"
#include "inspect/visits/visits.h"

/* Writes the kernel's name, or those of a graph's kernels: "gemm, softmax". */
void names_kernels(const struct visit *visit, char *out, size_t room);

/* What a finding says of the launch. It borrows frames and `plain`, which receive its stack and names_kernels(). */
void names_launched(const struct visit *visit, struct launched_fact *out, struct stack_frame frames[STACK_READ], char *plain,
                    size_t room);
