/*
 * Arms GPU core dumps: makes a pipe and tells the driver to write dumps to it, lightweight, on every exception, without
 * aborting the process. Thread safety: none, but as functions say; called at the start and the
 * end of the process.
 */
#pragma once

#include <cufence.h>
#include <sys/types.h>

/* A pipe without a name in the file system (descriptors.h). Where there is none: a FIFO. */
struct dump_pipe {
    char path[280];
    char folder[256]; /* of the FIFO: a new one in TMPDIR or /tmp, open to this user alone; else "" */
    int end;          /* atomic: that is read; -1 before dumps_listen(). The program may close it and use its number anew */
    dev_t device;     /* of the pipe, as is the next */
    ino_t inode;
};

/*
 * Makes the pipe and arms dumps into it, for contexts created from now on. On error, nothing is left behind but what the
 * program itself has asked for (program_dump.h). Errors: UNSUPPORTED (a driver older than CUDA 12.1; variables that the driver
 * has seen; an existing context), SYSTEM (neither pipe nor FIFO can be made), OUT_OF_MEMORY (no thread, no descriptors),
 * DRIVER.
 */
cufence_status dumps_arm(struct dump_pipe *pipe);
void dumps_disarm(void);

/*
 * Whether the driver seems to be making a dump that it has not begun to write: for a device whose multiprocessors are all full
 * that takes 5 to 8 s. At a fault it starts seven more threads named "cuda-EvtHandlr" (measured: driver 580.159, H100; one
 * belongs to each context).
 */
int dumps_seem_begun(size_t contexts);

/* Asks the driver for a dump of what runs, by the program's trigger pipe or one that it makes for this. Any thread. Returns 0
 * if that fails; the detail says why. Measured (580.159): it may be switched on when contexts exist; before cuInit() it
 * crashes.
 */
int dumps_ask(void);

/* Opens the end that is read, without waiting for a writer. Returns 0 on failure and sets errno. */
int dumps_listen(struct dump_pipe *pipe);
void dumps_close(struct dump_pipe *pipe);

/* Opens it again if the number is the pipe's no more. Returns 0 if that fails. By the thread that reads. */
int dumps_renew(struct dump_pipe *pipe);

/* Returns 1 if bytes are waiting: they are written but not yet read. Any thread. */
int dumps_have_bytes(const struct dump_pipe *pipe);

/* Removes what the file system has of the pipe. */
void dumps_remove_name(const struct dump_pipe *pipe);
/* And the pipe. */
void dumps_forget_pipe(const struct dump_pipe *pipe);
