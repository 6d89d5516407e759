/*
 * Runs programs that know nothing about cufence (programs/), with and without the preload library, on the simulated device.
 * CMake (tests/CMakeLists.txt) passes the programs' folder and the library to tests that include this. Such a test uses
 * finish() as the teardown of its cases: a difference is printed at once, and the case fails at its end.
 */
#pragma once

#include "support/test.h"

#include <sys/mman.h>

#define NO_PRELOAD NULL
#define FAULTED 86 /* the default of on_fault: a program that would have exited with 0 after a fault */

/* A way to find the driver: a program, and the value of LOOKUP for it. */
struct way {
    const char *program, *lookup;
};

static const struct way by_dlsym = {"program_dlsym", NULL};
static const struct way ways[] = {
    {"program_dlsym", NULL},
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* that each is found shows a plain build */
    {"program_proc", "v2"},      {"program_proc", "v1"},        {"program_proc", "v1-ptds"}, {"program_linked", NULL},
#endif
    {"program_proc", "v2-ptds"}, {"program_linked_ptds", NULL},
};
#define WAYS (sizeof ways / sizeof ways[0])

static struct {
    const struct way *way;
    char told[1200]; /* the story and the settings */
    int status;      /* exit status, or 128 + signal */
    char out[16384], err[65536];
} last; /* run() */

/* What has been written to the file, which is closed. */
static inline void take(int file, char *to, size_t capacity)
{
    ssize_t got = pread(file, to, capacity - 1, 0);
    to[got > 0 ? got : 0] = '\0';
    close(file);
}

static inline void set(const char *name, const char *value)
{
    if (value != NULL)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* `story` is the arguments of the program, `settings` CUFENCE_OPTIONS, `device` CUFENCE_SIM. */
static inline void run(const struct way *way, const char *story, const char *preload, const char *settings, const char *device)
{
    char command[1024];
    int out = memfd_create("out", MFD_CLOEXEC), err = memfd_create("err", MFD_CLOEXEC), status = -1;
    snprintf(command, sizeof command, "exec %s/%s %s", PROGRAMS_FOLDER, way->program, story);
    assert_true(out >= 0 && err >= 0);
    memset(&last, 0, sizeof last);
    last.way = way;
    snprintf(last.told, sizeof last.told, "%s (%s)", story, settings ? settings : "");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        set("CUFENCE_DRIVER", NULL);
        set("CUFENCE_OPTIONS", settings);
        set("CUFENCE_SIM", device);
        set("LOOKUP", way->lookup);
        set("LD_LIBRARY_PATH", LIBCUDA_FOLDER);
        alarm(200);
        /* Don't preload into the shell. */
        if (preload != NULL) {
            char with_preload[1400];
            snprintf(with_preload, sizeof with_preload, "LD_PRELOAD='%s' %s", preload, command);
            execl("/bin/sh", "sh", "-c", with_preload, (char *)NULL);
        }
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    take(out, last.out, sizeof last.out);
    take(err, last.err, sizeof last.err);
    last.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int has_failed; /* in this test: a difference was printed, and the test fails at its end */

static inline void complain(const char *what, const char *wanted)
{
    has_failed = 1;
    fprintf(stderr, "%s %s %s: %s: %s\nended with %d and printed:\n%s\n%s\n", last.way->program,
            last.way->lookup ? last.way->lookup : "", last.told, what, wanted, last.status, last.out, last.err);
}

static inline void expect_status(int wanted)
{
    char text[32];
    snprintf(text, sizeof text, "%d", wanted);
    if (last.status != wanted)
        complain("the status is not", text);
}

static inline void expect_out(const char *wanted)
{
    if (strcmp(last.out, wanted) != 0)
        complain("the output is not", wanted);
}

static inline void expect_in(const char *text, const char *wanted)
{
    if (strstr(text, wanted) == NULL)
        complain("missing", wanted);
}

/* Each of the texts on stderr. */
#define expect_err(...) expect_all((const char *const[]){__VA_ARGS__, NULL})
static inline void expect_all(const char *const *wanted)
{
    for (; *wanted; wanted++)
        expect_in(last.err, *wanted);
}

static inline void expect_run(const struct way *way, const char *story, const char *preload, const char *settings,
                              const char *device, int status, const char *out)
{
    run(way, story, preload, settings, device);
    expect_status(status);
    expect_out(out);
}

/* Runs with the preload library. A busy machine may need more than the second that the end waits for the devices. */
static inline void run_guarded(const struct way *way, const char *story, const char *settings, int status, const char *out)
{
    char patient[1024];
    snprintf(patient, sizeof patient, "wait_ms=20000%s%s", settings && *settings ? "," : "", settings ? settings : "");
    expect_run(way, story, PRELOAD, settings && strstr(settings, "wait_ms=") ? settings : patient, NULL, status, out);
}

/* Nothing on stderr but the lines that every process ends with where nothing was found. */
static inline int is_silent(const char *err)
{
    static const char *const closing[] = {"no faults; ",
                                          "use after free: ", "NOTHING WAS GUARDED: ", "not guarded: ", "packed: "};
    for (const char *end; *err; err = end + 1) {
        int is_closing = 0;
        char *text;
        if ((end = strchr(err, '\n')) == NULL || strncmp(err, "==", 2) != 0 || strtol(err + 2, &text, 10) <= 0)
            return 0;
        for (size_t i = 0; i < sizeof closing / sizeof closing[0]; i++) {
            char line[64];
            snprintf(line, sizeof line, "== cufence: %s", closing[i]);
            is_closing |= !strncmp(text, line, strlen(line));
        }
        if (!is_closing)
            return 0;
    }
    return 1;
}

static inline void expect_silence(void)
{
    if (!is_silent(last.err))
        complain("not silent on stderr", "");
}

static inline int finish(void **state)
{
    int failed = has_failed;
    has_failed = 0;
    return failed ? -1 : 0;
}

/* Expects this status and output, and nothing on stderr, for every way. Without the library the ways don't differ in anything
 * relevant, so only two of them are run. */
static inline void expect_alike(const char *story, const char *preload, const char *device, int status, const char *out)
{
    for (size_t i = 0; i < WAYS; i++) {
        if (preload == NO_PRELOAD && i != 0 && i != WAYS - 1)
            continue;
        expect_run(&ways[i], story, preload, NULL, device, status, out);
        expect_silence();
    }
}

/* Runs with the preload library in every way, and expects each of the texts on stderr. */
#define expect_every_way(story, settings, status, out, ...)                                                                    \
    do {                                                                                                                       \
        for (size_t way_ = 0; way_ < WAYS; way_++) {                                                                           \
            run_guarded(&ways[way_], story, settings, status, out);                                                            \
            expect_err(__VA_ARGS__);                                                                                           \
        }                                                                                                                      \
    } while (0)

/* What `cufence explain` prints of a file or folder. Returns its status. */
static inline int explain(const char *path, char *text, size_t size)
{
    char command[4096 + 256];
    snprintf(command, sizeof command, "%s explain %s", CUFENCE_CLI, path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    text[fread(text, 1, size - 1, pipe)] = '\0';
    return pclose(pipe);
}

static inline void remove_all(const char *folder)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* Copies the first finding in a file of json=, behind the line with which a run begins. */
static inline void read_finding(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    line[0] = '\0';
    while (!strstr(line, "\"headline\"") && fgets(line, size, file))
        ;
    fclose(file);
}

/* Expects the same results with and without the library. */
static inline void expect_the_same(const char *story, const char *out)
{
    expect_alike(story, NO_PRELOAD, NULL, 0, out);
    expect_alike(story, PRELOAD, NULL, 0, out);
}
