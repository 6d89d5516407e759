/*
 * The cases of a test file; each file includes this, by itself or with one of the other headers of tests.
 *
 *     TEST(what_holds) {...}                           a case, with cmocka's assertions
 *     TEST_WITH(what_holds, set_up, tear_down) {...}   and what comes before and after it, or NULL
 *     TEST_GROUP(set_up, tear_down)                    what comes before and after all cases of the file; if they run
 * concurrently, each TEST_CONCURRENTLY                                the cases run side by side, each in a process of its own:
 * most of a fault's story is waiting. A case cannot see what another one has left in memory
 *
 * The program's arguments are the cases to run, all without one; -l lists them. CUFENCE_TEST_JOBS is how many run at once.
 * main() is here, unless TEST_OWN_MAIN is defined; that of the file calls test_run() then. Of a program of many files each has
 * its own (CMakeLists.txt).
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Sets figures of base/tunables.h for a cufence that starts later, here or in a child. */
static inline void tune(const char *figures)
{
    setenv("CUFENCE_TUNABLES", figures, 1);
}

/* How often the word is in the text. */
static inline size_t count_in(const char *text, const char *word)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        count++;
    return count;
}

#pragma GCC diagnostic ignored "-Wunused-parameter" /* a callback has the parameters that its caller wants */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* they work, in a plain build cases wait */
#define TEST_JOBS 4
#else
#define TEST_JOBS 8
#endif

/* Filled before main(), in the order of the file. */
static struct {
    struct CMUnitTest all[256];
    size_t count;
    CMFixtureFunction set_up, tear_down;
    int is_concurrent;
} test_cases;

#define TEST_CONSTRUCTOR(name) __attribute__((constructor)) static void name(void)
#define TEST_OF(name, set_up, tear_down, initial)                                                                              \
    static void name(void **state);                                                                                            \
    TEST_CONSTRUCTOR(name##_is_a_case)                                                                                         \
    {                                                                                                                          \
        test_cases.all[test_cases.count++] = (struct CMUnitTest){#name, name, set_up, tear_down, initial};                     \
    }                                                                                                                          \
    static void name(void **state)
#define TEST_WITH(name, set_up, tear_down) TEST_OF(name, set_up, tear_down, NULL)
#define TEST(name) TEST_OF(name, NULL, NULL, NULL)
#define TEST_GROUP(before, after)                                                                                              \
    TEST_CONSTRUCTOR(test_group)                                                                                               \
    {                                                                                                                          \
        test_cases.set_up = before, test_cases.tear_down = after;                                                              \
    }
#define TEST_CONCURRENTLY                                                                                                      \
    TEST_CONSTRUCTOR(test_concurrently)                                                                                        \
    {                                                                                                                          \
        test_cases.is_concurrent = 1;                                                                                          \
    }

struct test_process {
    pid_t pid;
    FILE *output;
    int status;
};

static inline void test_start(struct test_process *one, const struct CMUnitTest *test)
{
    one->output = tmpfile();
    fflush(NULL);
    one->pid = one->output ? fork() : -1;
    if (one->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* ctest ends this program if it takes too long */
    dup2(fileno(one->output), STDOUT_FILENO);
    dup2(fileno(one->output), STDERR_FILENO);
    exit(_cmocka_run_group_tests(test->name, test, 1, test_cases.set_up, test_cases.tear_down));
}

/* Waits for any of those that run. */
static inline void test_await(struct test_process *processes, size_t count)
{
    int status;
    pid_t pid = wait(&status);
    for (size_t i = 0; i < count; i++) {
        if (processes[i].pid == pid)
            processes[i].status = status;
    }
}

/* Returns 1 if the case has failed; only then is shown what it has printed. */
static inline int test_tell(const struct test_process *one, const char *name)
{
    char text[4096];
    int is_ok = one->pid > 0 && WIFEXITED(one->status) && WEXITSTATUS(one->status) == 0;
    printf("%s %s\n", is_ok ? "      ok" : "  FAILED", name);
    if (!is_ok && one->output) {
        rewind(one->output);
        for (size_t got; (got = fread(text, 1, sizeof text, one->output)) > 0;)
            fwrite(text, 1, got, stdout);
        printf("%s ended with status 0x%x\n", name, (unsigned)one->status);
    }
    if (one->output)
        fclose(one->output);
    return !is_ok;
}

static inline int test_run_concurrently(const struct CMUnitTest *tests, size_t count)
{
    static struct test_process processes[sizeof test_cases.all / sizeof *test_cases.all];
    const char *jobs = getenv("CUFENCE_TEST_JOBS");
    size_t limit = jobs ? strtoul(jobs, NULL, 10) : TEST_JOBS, running = 0;
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        if (running == (limit ? limit : 1)) {
            test_await(processes, count);
            running--;
        }
        test_start(&processes[i], &tests[i]);
        running += processes[i].pid > 0;
    }
    for (; running > 0; running--)
        test_await(processes, count);
    for (size_t i = 0; i < count; i++)
        failed += test_tell(&processes[i], tests[i].name);
    printf("%zu cases, %d failed\n", count, failed);
    return failed;
}

static inline int test_run(int argc, char **argv)
{
    static struct CMUnitTest wanted[sizeof test_cases.all / sizeof *test_cases.all];
    int is_list = argc == 2 && strcmp(argv[1], "-l") == 0;
    size_t count = 0;
    signal(SIGINT, SIG_DFL); /* background jobs of a shell ignore it, and so would what cases start */
    for (size_t i = 0; i < test_cases.count; i++) {
        int is_wanted = argc < 2;
        for (int j = 1; j < argc; j++)
            is_wanted |= strcmp(argv[j], test_cases.all[i].name) == 0;
        if (is_wanted)
            wanted[count++] = test_cases.all[i];
        if (is_list)
            puts(test_cases.all[i].name);
    }
    if (is_list || !count)
        return !is_list;
    return test_cases.is_concurrent ? test_run_concurrently(wanted, count)
                                    : _cmocka_run_group_tests("tests", wanted, count, test_cases.set_up, test_cases.tear_down);
}

#ifndef TEST_OWN_MAIN
int main(int argc, char **argv)
{
    return test_run(argc, argv);
}
#endif
