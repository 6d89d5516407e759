/*
 * The stage: a process that launches a faulted kernel again, on copies of the memory as the fault left it. First with pages
 * full of a pattern in the guards, which shows what the kernel writes out of bounds; then with the guards unmapped, so that it
 * faults and the driver dumps it. `cufence` is started for it, with a socket to the process that faulted (see scene.h).
 */
#ifndef CUFENCE_RESTAGE_STAGE_H
#define CUFENCE_RESTAGE_STAGE_H

/* Plays the scene that comes over the socket. Returns the exit status. A fault ends the process. */
int stage_play(int socket);

#endif
