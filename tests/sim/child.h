/*
 * Helpers for tests that need a process of their own: cufence_init() takes effect once per process, and a fault poisons the
 * process. CHECK ends the child with a message: cmocka's asserts would make the child continue with the parent's other tests.
 */
#pragma once

#include "support/test.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <cuda.h>
#include <cufence.h>
#include <dirent.h>

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
        for (int await_ms = 0; await_ms < 60000 && !(condition); await_ms++)                                                   \
            usleep(1000);                                                                                                      \
    } while (0)
#define REPORT_MS 60000 /* for cufence_wait_reports() */
#define CHECK_OK(call) CHECK((call) == CUFENCE_OK)
#define CHECK_CU(call) CHECK((call) == CUDA_SUCCESS)

/* Checks the buffers of a device (-1: all). */
static inline uint64_t found_by_check(int device)
{
    uint64_t findings = UINT64_MAX;
    CHECK_OK(cufence_check(device, &findings));
    return findings;
}

/* Makes the device's primary context current. */
static inline CUcontext use_device(int device)
{
    CUcontext primary;
    CHECK_CU(cuDevicePrimaryCtxRetain(&primary, device));
    CHECK_CU(cuCtxSetCurrent(primary));
    return primary;
}

/* Keeps the stream busy until *flag is set. */
static inline void spin_on(CUmodule module, CUstream stream, uint32_t *flag)
{
    CUfunction spin;
    CHECK_CU(cuModuleGetFunction(&spin, module, "cusim_spin"));
    CHECK_CU(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&flag}, NULL));
}

/* How many files there are in a folder, but for hidden ones. */
static inline int count_files(const char *path)
{
    DIR *open = opendir(path);
    int count = 0;
    CHECK(open);
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(open);
    return count;
}

/* Called by LeakSanitizer. If libdw loads a debuginfod client, that loads libcrypto, which leaks the allocations of a thread
 * that has ended. */
__attribute__((visibility("default"), weak)) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libcrypto.so";
}

struct outcome {
    int status; /* exit status, or 128 + signal */
    char *err;  /* the child's stderr; free() it */
};

static inline int await_child(pid_t pid)
{
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
        alarm(200); /* before ctest ends this program */
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
    outcome.status = await_child(pid);
    return outcome;
}

/* Fails the test unless the story ends with the status, says `wanted`, and behind that no `unwanted`; either text may be NULL.
 */
static inline void expect_ending(void (*story)(void), int status, const char *wanted, const char *unwanted)
{
    struct outcome outcome = run_child(story);
    const char *said = outcome.err ? outcome.err : "", *found = wanted ? strstr(said, wanted) : said;
    int is_ok = outcome.status == status && found && (!unwanted || !strstr(found + (wanted != NULL), unwanted));
    if (!is_ok) /* not print_error(), which truncates sanitizer reports */
        fprintf(stderr, "the child ended with status %d instead of %d, without \"%s\" or with \"%s\", and said:\n%s\n",
                outcome.status, status, wanted ? wanted : "", unwanted ? unwanted : "", said);
    free(outcome.err); /* before an assertion jumps away */
    assert_true(is_ok);
}

/* Fails unless the story ends with the status, and says each of the lines, up to NULL, just once, but for those that begin with
 * '!': never. */
static inline void expect_lines(void (*story)(void), int status, const char *const *lines)
{
    struct outcome outcome = run_child(story);
    const char *wrong = NULL;
    for (; *lines && !wrong; lines++) {
        int is_unwanted = **lines == '!';
        const char *at = strstr(outcome.err, *lines + is_unwanted);
        wrong = is_unwanted ? at : at && !strstr(at + 1, *lines) ? NULL : *lines;
    }
    if (outcome.status != status || wrong)
        fprintf(stderr, "the child ended with status %d instead of %d, or not so: \"%s\":\n%s\n", outcome.status, status,
                wrong ? wrong : "", outcome.err);
    free(outcome.err);
    assert_true(outcome.status == status && !wrong);
}

#define FAULTED 86 /* the default of on_fault: a program that would have exited with 0 after a fault */

/* A case that is a process of its own, with CHECK instead of cmocka's assertions: STORY(name) {...} */
#define STORY_OF(name, status, wanted, unwanted)                                                                               \
    static void name(void);                                                                                                    \
    TEST(test_##name)                                                                                                          \
    {                                                                                                                          \
        expect_ending(name, status, wanted, unwanted);                                                                         \
    }                                                                                                                          \
    static void name(void)
#define LINES(name, status, ...)                                                                                               \
    static void name(void);                                                                                                    \
    TEST(test_##name)                                                                                                          \
    {                                                                                                                          \
        expect_lines(name, status, (const char *const[]){__VA_ARGS__, NULL});                                                  \
    }                                                                                                                          \
    static void name(void)
#define STORY(name) STORY_OF(name, 0, NULL, NULL)
#define FINDS(name, text) STORY_OF(name, FAULTED, text, NULL)
#define CLEAN(name) STORY_OF(name, 0, NULL, "SUMMARY")
#define SAYS_ONCE(name, text) STORY_OF(name, 0, text, text)

/* Has the kernel refuse a system call (EPERM) to this process and its children, as the seccomp filters of containers do.
 * Returns 0 if that does not go. */
static inline int refuse(unsigned call)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
