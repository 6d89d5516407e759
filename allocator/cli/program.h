/*
 * Which file a command names, whether a library given in LD_PRELOAD can act in it, where cufence's own files are; and a program
 * as a process of its own, for what has to be done after its end: one at a time, not thread-safe.
 */
#pragma once

#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

/* Exit statuses, the same as a shell's. */
enum { PROGRAM_FITS = 0, PROGRAM_UNFIT = 126, PROGRAM_MISSING = 127 };

/*
 * Finds the file that `command` names, as a shell does: as it is if it holds a slash, else in the folders of `path`
 * (NULL: the system's default). `found` gets it.
 * Returns PROGRAM_FITS, or PROGRAM_MISSING / PROGRAM_UNFIT with a sentence in error_detail().
 */
int program_find(const char *command, const char *path, char found[PATH_MAX]);

/* The program that runs scripts with such a name: "python" for x.py, "sh" for x.sh; NULL for other names. */
const char *program_runner(const char *name);

/*
 * Judges a file that is to be run with LD_PRELOAD: follows #! lines as the kernel does, and looks at the ELF header of what
 * would run in the end. What cannot be read, or is no program, fits: execve() says so.
 * Returns as program_find() does; the sentence says what is in the way and what to do.
 */
int program_judge(const char *path);

/* Executes the file in a process that is ended before its first instruction. Returns errno if that can't be done; 0 if it can,
 * or if nobody may trace a process here. */
int program_try(const char *path, char **argv);

/* ---- cufence's own files, relative to the folder of the running program: in an installation, a build or a wheel ---- */

#define INSTALLED_PRELOAD "libcufence_preload.so"
/* Where the library is looked for, relative to the program's folder; for messages. */
#define INSTALLED_PLACES "the same folder, ../lib, ../lib64, ../lib/x86_64-linux-gnu, ../lib/aarch64-linux-gnu, ../cufence/lib"

/* Gets the path of the running program, resolved from /proc/self/exe so that its libraries can be found beside it. Returns 0
 * with errno if it is unknown. */
int installed_program(char path[PATH_MAX]);

/* Gets the real path of the preload library. Returns 0 with "" if it is in none of INSTALLED_PLACES. */
int installed_preload(const char *program, char path[PATH_MAX]);

/* Gets the folder of the pages that messages name as docs/NAME.md, likewise. */
int installed_pages(const char *program, char path[PATH_MAX]);

/* Gets the folder of the Python package's sitecustomize.py, likewise. */
int installed_bootstrap(const char *program, char path[PATH_MAX]);

/* ---- a program as a process of its own ---- */

/* The signals that end this command: how many have come so far, and the first. */
extern volatile sig_atomic_t child_signals, child_first_signal;

/* From now on SIGINT, SIGTERM and SIGHUP, unless they are ignored, are passed on to the child; the second one kills it. */
void child_pass_signals(void);

/*
 * Calls become(argument) in a new process, which returns only if the program can't be run: the exit status, after a message.
 * The process does not outlive this one, and gets a group of its own if is_grouped. Returns it, or -1 after a message that
 * begins with the sub-command. *refusal: 0, or the exit status if the program could not be run.
 */
pid_t child_start(const char *command, int (*become)(void *argument), void *argument, int is_grouped, int *refusal);

/* Waits for the child's end up to so many milliseconds, or until a signal comes. Returns whether it has ended. */
int child_wait(unsigned milliseconds, int *status);

/* How long a program's end is waited for when its first process has ended: a daemon never ends. */
enum { CHILD_REST_S = 30 };

/* Waits, behind the child's end, for all processes that it has started, whatever has become of their parents, up to
 * CHILD_REST_S or until a signal comes, or has come twice; says so on stderr, behind the sub-command's name, if it takes long.
 * Returns how many still run. tally: there was no child_start(), and it is those whose environment has the tally of that name
 * (base/tally.h). */
size_t child_wait_rest(const char *command, const char *tally);
