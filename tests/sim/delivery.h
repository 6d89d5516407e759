/*
 * Stories on the simulated device, each in a program of its own, which the test becomes when it is started with the story's
 * name: what a program's descriptors were at its start matters.
 */
#pragma once

/* TEST_NAME is the name of the file that includes this, by which a program of many files finds it. */
#define TEST_OWN_MAIN
#include "child.h"
#include "support/folder.h"

#include <sim.h>

#define COUNT 1000
#define FIRST_LINE "cufence: a kernel has faulted on GPU 0; reading the driver's core dump\n"

static inline void write_past(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[0];
    if (t->thread_index[0] == 0)
        out[COUNT] = 1.0f;
}

static inline void start(const char *options)
{
    static const size_t pointer[] = {8};
    static const cusim_kernel kernel = {"write_past", write_past, pointer, 1, "model.cu", 12, 4, 0, 0};
    cusim_register_kernel(&kernel);
    CHECK_OK(cufence_init(options));
    use_device(0);
}

/* In the current context. */
static inline void overrun(void)
{
    CUmodule module;
    CUfunction function;
    void *pointer = NULL;
    CHECK_OK(cufence_malloc(&pointer, COUNT * 4, -1, NULL));
    CHECK_CU(cuModuleLoadData(&module, "any"));
    CHECK_CU(cuModuleGetFunction(&function, module, "write_past"));
    CHECK_CU(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&pointer}, NULL));
    cuCtxSynchronize();
}

static inline void faults(const char *options)
{
    start(options);
    overrun();
    CHECK_OK(cufence_wait_reports(20000));
    CHECK(cufence_fault_count() == 1);
}

/* ---- stories by their names ---- */

static struct {
    const char *name;
    void (*run)(void);
} stories[32];
static size_t story_count;

#define NAMED(word)                                                                                                            \
    static void word(void);                                                                                                    \
    __attribute__((constructor)) static void word##_has_a_name(void)                                                           \
    {                                                                                                                          \
        stories[story_count].name = #word;                                                                                     \
        stories[story_count++].run = word;                                                                                     \
    }                                                                                                                          \
    static void word(void)

/* The story that the arguments name, or the tests. */
static inline int run_named(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < story_count; i++) {
        if (strcmp(argv[1], stories[i].name) == 0) {
            snprintf(folder, sizeof folder, "%s", getenv("DELIVERY_FOLDER")); /* the test's */
            stories[i].run();
            return 0;
        }
    }
    return test_run(argc, argv);
}

/* ---- what the parent sees ---- */

/* Starts this program for a story, with `standard_error` as its descriptor 2; -1: closed. */
static inline pid_t launch(const char *story, int standard_error)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        alarm(300);
        if (standard_error < 0)
            close(2);
        else
            dup2(standard_error, 2);
        for (int i = 3; i < 64; i++)
            close(i);
        setenv("CUFENCE_SIM", "devices=3", 1);
        setenv("DELIVERY_FOLDER", folder, 1);
        execl("/proc/self/exe", TEST_NAME, story, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static char text[1 << 16];

/* All that comes until the end. */
static inline void read_all(int fd)
{
    size_t size = 0;
    for (ssize_t got; size < sizeof text - 1 && (got = read(fd, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)got;
    text[size] = '\0';
    close(fd);
}

/* Returns the exit status; what the story prints is in `text`. */
static inline int run_story(const char *story)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = launch(story, ends[1]);
    close(ends[1]);
    read_all(ends[0]);
    return await_child(pid);
}

static inline void expect(const char *story, int status)
{
    int ended = run_story(story);
    if (ended != status)
        print_error("%s ended with %d:\n%s\n", story, ended, text);
    assert_int_equal(ended, status);
}

static inline void expect_text(const char *wanted)
{
    if (!strstr(text, wanted))
        print_error("not there: %s\nin:\n%s\n", wanted, text);
    assert_non_null(strstr(text, wanted));
}
