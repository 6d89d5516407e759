/*
 * The cases of a test program side by side, each in a process of its own: most of a fault's story is waiting, for the driver's
 * debugger to come to rest, for memory that must not be given back. In place of cmocka_run_group_tests():
 *
 *     return run_concurrently(argc, argv, tests, sizeof tests / sizeof *tests);
 *
 * The program's arguments are the cases to run, all without one; -l lists them. CUFENCE_TEST_JOBS is how many run at once.
 * A case cannot see what another one has left in memory, and prints only if it fails. Include it behind cmocka.h.
 */
#ifndef CUFENCE_TESTS_CONCURRENTLY_H
#define CUFENCE_TESTS_CONCURRENTLY_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONCURRENT_CASES 256

struct concurrent_case {
    pid_t pid;
    FILE *output;
    int status;
};

static inline void concurrent_start(struct concurrent_case *one, const struct CMUnitTest *test)
{
    one->output = tmpfile();
    fflush(NULL);
    one->pid = one->output ? fork() : -1;
    if (one->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ctest ends this program if it takes too long */
    dup2(fileno(one->output), STDOUT_FILENO);
    dup2(fileno(one->output), STDERR_FILENO);
    exit(_cmocka_run_group_tests(test->name, test, 1, NULL, NULL));
}

/* Waits for any of those that run. */
static inline void concurrent_await(struct concurrent_case *cases, size_t count)
{
    int status;
    pid_t pid = wait(&status);
    for (size_t i = 0; i < count; i++) {
        if (cases[i].pid == pid)
            cases[i].status = status;
    }
}

/* Returns 1 if the case has failed. */
static inline int concurrent_tell(const struct concurrent_case *one, const char *name)
{
    char text[4096];
    int is_well = one->pid > 0 && WIFEXITED(one->status) && WEXITSTATUS(one->status) == 0;
    printf("%s %s\n", is_well ? "      ok" : "  FAILED", name);
    if (!is_well && one->output) {
        rewind(one->output);
        for (size_t got; (got = fread(text, 1, sizeof text, one->output)) > 0;)
            fwrite(text, 1, got, stdout);
        printf("%s ended with status 0x%x\n", name, (unsigned)one->status);
    }
    if (one->output)
        fclose(one->output);
    return !is_well;
}

static inline int concurrent_is_wanted(int argc, char **argv, const char *name)
{
    int is_wanted = argc < 2;
    for (int i = 1; i < argc; i++)
        is_wanted |= strcmp(argv[i], name) == 0;
    return is_wanted;
}

static inline int run_concurrently(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    static struct concurrent_case cases[CONCURRENT_CASES];
    const char *jobs = getenv("CUFENCE_TEST_JOBS");
    size_t limit = jobs ? strtoul(jobs, NULL, 10) : 8, running = 0, started = 0;
    int failed = 0;
    if (count > CONCURRENT_CASES) {
        fprintf(stderr, "%zu cases, and CONCURRENT_CASES is %d\n", count, CONCURRENT_CASES);
        return 2;
    }
    for (size_t i = 0; i < count; i++) {
        if (argc == 2 && strcmp(argv[1], "-l") == 0)
            puts(tests[i].name);
        if (!concurrent_is_wanted(argc, argv, tests[i].name))
            continue;
        if (running == (limit ? limit : 1)) {
            concurrent_await(cases, count);
            running--;
        }
        concurrent_start(&cases[i], &tests[i]);
        running += cases[i].pid > 0;
        started++;
    }
    for (; running > 0; running--)
        concurrent_await(cases, count);
    for (size_t i = 0; i < count; i++) {
        if (cases[i].pid != 0)
            failed += concurrent_tell(&cases[i], tests[i].name);
    }
    printf("%zu of %zu cases, %d failed\n", started, count, failed);
    return failed || (!started && argc > 1 && strcmp(argv[1], "-l") != 0);
}

#endif
