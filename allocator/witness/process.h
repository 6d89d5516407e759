/*
 * What a finding says about the process: host, command line, job. Thread safety: process_open() once; process_now(), any
 * thread.
 */
#ifndef CUFENCE_WITNESS_PROCESS_H
#define CUFENCE_WITNESS_PROCESS_H

#include "finding/finding.h"

/* Reads host, command line and environment. Called early, because the program may change its environment later. */
void process_open(void);

/* Returns the process, with the present time. `time` receives the text for the field of that name. */
struct finding_process process_now(char time[32]);

#endif
