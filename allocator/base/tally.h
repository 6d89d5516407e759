/*
 * What the processes of a program tell of themselves, so that one of them, or the command that started them, can say at the end
 * whether anything was guarded.
 *
 * CUFENCE_TALLY names files, with colons between them, that hold TALLY_HEAD and a struct tally; every process counts a letter
 * in each for what happens to it. Those of commands lie in memory and are named /proc/PROCESS/fd/NUMBER. PROCESS reads its own
 * at the end: a command that waits for the program, or the program's first process, which has inherited the descriptor.
 *
 * Thread safety: all functions, any thread.
 */
#pragma once

#include <stddef.h>

#define TALLY_VARIABLE "CUFENCE_TALLY"
#define TALLY_HEAD "cufence tally 2"
#define TALLY_LINK "/memfd:cufence-tally" /* how the link of its descriptor begins */
enum { TALLY_NAME = 256 };                /* bytes of a file's name, with the NUL */
enum { TALLY_STATUS = 87 };               /* the exit status for no verdict (docs/exit-status.md) */

enum tally_letter {
    TALLY_NO_DEVICE = 'n', /* cuInit has failed */
    TALLY_STARTED = 'i',   /* cuInit has not */
    TALLY_UNGUARDED = 'u', /* cufence could not start, and has said why */
    TALLY_CONTEXT = 'c',   /* a context was created */
    TALLY_GUARDED = 'g',   /* the first allocation was guarded */
    TALLY_SAID = 's',      /* the process has said at its end what was guarded */
    TALLY_LEFT = 'l',      /* it has not, but ended by _exit, or executed another program */
    TALLY_BLIND = 'b',     /* it may have missed a finding, or could not write all that it had to tell, and has said why */
    TALLY_FOUND = 'f',     /* it has reported a finding */
    /* of the command */
    TALLY_TORCH = 't',    /* a process that has not loaded PyTorch says nothing */
    TALLY_REQUIRED = 'r', /* something has to be guarded: else 0 becomes TALLY_STATUS */
    TALLY_EXITCODE = 'e', /* no count: what 0 becomes if something was found */
};

/* How many processes have written each letter. */
struct tally {
    unsigned counts[128];
};

/* Counts the letter, unless this process has done so before. Makes system calls the first time only. */
void tally_note(enum tally_letter letter);

/* Counts TALLY_LEFT for a process that has counted TALLY_CONTEXT, and not TALLY_SAID. */
void tally_note_left(void);

/* Takes that back: the other program could not be executed. */
void tally_note_stayed(void);

/* Whether there is a tally. */
int tally_is_kept(void);

/* Makes a tally. Fills in its name, and returns its descriptor, which children and executed programs inherit; or -1. */
int tally_make(char name[TALLY_NAME]);

/* Puts the name in front of those in the environment. Returns 0 without memory. */
int tally_set(const char *name);

/* Sets the letter's count. Nothing is written, for that could be beyond the program's limit for files. Returns 0 on failure. */
int tally_put(int fd, enum tally_letter letter, unsigned count);

/* Reads a tally. Returns 0 if the descriptor is not one. */
int tally_read(int fd, struct tally *tally);

/*
 * The last word on a program: the status that `status` becomes, and lines that say why, or that nothing was guarded ("": there
 * is no need for any). `running`: processes that it started still run. is_silent: no word where nothing is changed.
 */
int tally_judge(const struct tally *tally, int status, size_t running, int is_silent, char *lines, size_t size);

/* What has to be guarded is judged when all that the program started has ended: this process, at its end, executes `cufence
 * await`, which waits for that, for others may wait for this one's end. is_heard: descriptor 2 is standard error still. Returns
 * if it cannot be executed. */
void tally_await(int fd, int is_silent, int is_heard);
