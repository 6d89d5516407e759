/*
 * The second process: a process that launches a faulted kernel again, on copies of the memory as the fault left it. First with
 * pages full of a pattern in the guards, which shows what the kernel writes out of bounds; then with the guards unmapped, so
 * that it faults and the driver dumps it. `cufence` is started for it, with a socket to the process that faulted (see input.h).
 */
#ifndef CUFENCE_RERUN_RERUN_H
#define CUFENCE_RERUN_RERUN_H

/* Plays the input that comes over the socket. Returns the exit status. A fault ends the process. */
int rerun_play(int socket);

#endif
