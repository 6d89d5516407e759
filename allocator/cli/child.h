/*
 * Runs a program with a time limit and captures its output. Thread safety: no global state.
 */
#ifndef CUFENCE_CLI_CHILD_H
#define CUFENCE_CLI_CHILD_H

struct child {
    int is_started;
    int is_timed_out;             /* and was killed with its process group */
    int status;                   /* from waitpid() */
    char out[16384], error[4096]; /* stdout and stderr, cut to fit; with is_started = 0 `error` says why */
};

/*
 * Runs argv, searching argv[0] in PATH unless it has a slash. `changes` ends with NULL: "NAME=value" sets a variable for the
 * program, "NAME" unsets it. Its stdin is /dev/null.
 */
void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child);

#endif
