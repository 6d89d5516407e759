/*
 * What is allocated, by place of allocation: printed on request and at exit, or reported as leaks. Thread safety: any thread,
 * while cufence runs.
 */
#ifndef CUFENCE_API_USE_H
#define CUFENCE_API_USE_H

/* Prints what is live on a device (-1: all), and writes it to the file of json=. when: "at exit", or NULL. */
void use_print(int device, const char *when);

/* Reports each place that still has live buffers as a finding of kind "leak". Call at exit, after the last fault. */
void use_report_leaks(void);

#endif
