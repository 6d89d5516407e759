/*
 * A pipe that the program neither sees nor closes, and that leaves nothing behind: it has no name in a folder, and its number
 * is one in the table of descriptors that a thread of ours has for itself. In any thread of the process, the path below /proc
 * opens it, until that thread ends: with the process, whichever way, with exec, or with hidden_close(). The thread also sees
 * when something comes; it does so for a FIFO, too, where the pipe cannot be had.
 *
 * A number in the program's own table would not do: the driver opens the path at the fault and truncates what it finds there,
 * which is the program's file if the program has closed the number and used it anew.
 *
 * Thread safety: open and close: one thread at a time; hidden_wait() and hidden_stop(): any thread. One pipe for each process.
 */
#pragma once

#include <stddef.h>

/* Makes the pipe. Returns 0 if it cannot be had: the kernel or a seccomp filter refuses the thread a table of its own
 * (Linux 5.9, or unshare()), or /proc is not mounted. */
int hidden_open(char *path, size_t size);

/* The thread has two more, for requests from outside and for the answers: who may not trace the process opens neither.
 * A request is a byte: 'k' for --kill, 't'. hidden_request() takes the newest, for which hidden_wait() returns 1; 0: none. A
 * byte 0 ends an answer; one that begins with HIDDEN_FAILED says why there is none. */
#define HIDDEN_THREAD "cufence-pipe" /* its name */
#define HIDDEN_FAILED '\1'
enum { HIDDEN_REQUESTS = 1, HIDDEN_ANSWERS }; /* the numbers in its table */
char hidden_request(void);
void hidden_answer(const char *text);

/* Starts the thread for a FIFO, with descriptors in the program's table; NULL: for the pipe. Returns 0 on failure. */
int hidden_listen(const char *fifo);

/* Waits until bytes have come since the last call or, if is_begun, the last writer has closed the pipe: 1. Returns 0 after that
 * many milliseconds (-1: never), -1 after hidden_stop(). is_begun: some bytes of a dump have been read, and not its end. */
int hidden_wait(int ms, int is_begun);
void hidden_stop(void);

/* Ends the thread; whoever has opened the pipe keeps it. path: of the pipe or FIFO. */
void hidden_close(const char *path);

/* ---- spares: file descriptors that are kept from the start on, so that a fault is reported and its kernel launched again
 * where the program has used up its limit. They are lent while a report is made; what other threads open meanwhile may take
 * them. One thread at a time. ---- */

/* Takes the descriptors, as far as the limit allows. */
void spares_take(void);

/* Gives them up until the next spares_take(). One that the program has closed, and may have used anew, is left alone. */
void spares_lend(void);

/* Gives all of them up. */
void spares_end(void);
