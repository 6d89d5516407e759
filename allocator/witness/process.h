/*
 * What a finding says of the process: host, command line, job. Thread safety: process_open() once; process_now(), any thread.
 */
#ifndef CUFENCE_WITNESS_PROCESS_H
#define CUFENCE_WITNESS_PROCESS_H

#include "finding/finding.h"

/* Reads it: of the environment as it is now, because the program may change it later while others read. */
void process_open(void);

/* The process at this moment. `time` gets the text of *time. */
struct finding_process process_now(char time[32]);

#endif
