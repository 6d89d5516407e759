/*
 * Runs a program and takes what it says, for a limited time. Thread safety: none needed; nothing global.
 */
#ifndef CUFENCE_CLI_CHILD_H
#define CUFENCE_CLI_CHILD_H

struct child {
    int is_started;
    int is_timed_out;             /* and was killed, with whatever it had started */
    int status;                   /* of waitpid() */
    char out[16384], error[4096]; /* stdout and stderr, cut to fit; with is_started = 0 `error` says why */
};

/*
 * argv[0] is looked for in PATH unless it has a slash. `changes` ends with NULL: "NAME=value" sets a variable for it, "NAME"
 * takes it away. Its stdin is /dev/null.
 */
void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child);

#endif
