/*
 * Helpers for tests that need a process of their own: cufence_init() takes effect once per process, and a fault poisons the
 * process. CHECK ends the child with a message: cmocka's asserts would make the child continue with the parent's other tests.
 */
#ifndef CUFENCE_TESTS_CHILD_H
#define CUFENCE_TESTS_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <cufence.h>

#define CHECK(condition)                                                                                                       \
    do {                                                                                                                       \
        if (!(condition)) {                                                                                                    \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, cufence_error_detail());   \
            _exit(99);                                                                                                         \
        }                                                                                                                      \
    } while (0)
/* Until the condition holds, or a minute has passed: how long another thread takes is the machine's business. */
#define AWAIT(condition)                                                                                                       \
    do {                                                                                                                       \
        for (int waited = 0; waited < 60000 && !(condition); waited++)                                                         \
            usleep(1000);                                                                                                      \
    } while (0)
#define REPORT_MS 60000 /* for cufence_wait_reports() */
#define CHECK_OK(call) CHECK((call) == CUFENCE_OK)
#define CHECK_CU(call) CHECK((call) == CUDA_SUCCESS)

/* Called by LeakSanitizer. If libdw loads a debuginfod client, that loads libcrypto, which leaks the allocations of a thread
 * that has ended. */
__attribute__((visibility("default"), weak)) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcrypto.so";
}

struct outcome {
    int status; /* from waitpid */
    char *err;  /* the child's stderr; free() it */
};

/* Runs story() in a child. The exit status is 0 if it returns, unless an exit handler changes it. */
static inline struct outcome run_child(void (*story)(void))
{
    struct outcome outcome = {0};
    int out[2];
    size_t size = 0, capacity = 1 << 16;
    if (pipe(out) != 0)
        return (struct outcome){.status = -1};
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        alarm(300);
        story();
        exit(0);
    }
    close(out[1]);
    outcome.err = malloc(capacity + 1);
    for (ssize_t got; outcome.err && (got = read(out[0], outcome.err + size, capacity - size)) > 0 && size < capacity;)
        size += (size_t)got;
    if (outcome.err)
        outcome.err[size] = '\0';
    close(out[0]);
    waitpid(pid, &outcome.status, 0);
    return outcome;
}

/* Fails the test unless the story exits with status 0. */
static inline void expect_well(void (*story)(void))
{
    struct outcome outcome = run_child(story);
    int is_well = WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == 0;
    if (!is_well) /* not print_error(), which truncates sanitizer reports */
        fprintf(stderr, "the child ended with status 0x%x and said:\n%s\n", (unsigned)outcome.status,
                outcome.err ? outcome.err : "");
    free(outcome.err); /* before an assertion jumps away */
    assert_true(is_well);
}

#endif
