/*
 * Starts the rerun process (rerun.h): the `cufence` program beside libcufence.so, with a socket as its standard input.
 *
 * The program that faulted must not notice: the rerun process is the child of a process in between, which shares the program's
 * memory, waits for the rerun process and sends no signal when it ends. So there is no SIGCHLD, and wait() and waitpid(-1) see
 * neither, in a subreaper and in a container's first process too. The kernel kills both when the thread that started them ends,
 * whatever the rerun process is doing; so it ends with the program. It gets none of the program's descriptors, and none of its
 * variables for LD_PRELOAD, cufence, and the driver's debugging.
 *
 * Thread safety: all functions, any thread. The thread that calls rerun_process_start() must not end before
 * rerun_process_end().
 */
#include "rerun.h"

#include "base/files.h"
#include "base/clock.h"
#include "base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIPE 3 /* as MESSAGE_DUMP says */
#define STACK_BYTES ((size_t)64 << 10)
#define END_MS 1000 /* how long the end of a killed process may take */

/* Variables that the rerun process must not see. */
static const char *const dropped[] = {"LD_PRELOAD=",
                                      "CUFENCE_OPTIONS=",
                                      "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=",
                                      "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=",
                                      "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=",
                                      "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION=",
                                      "CUDA_COREDUMP_",
                                      "CUDA_LAUNCH_BLOCKING=",
                                      "CUDA_INJECTION"};

/* clone(), by the name that sanitizers don't replace: they take every clone for a fork. */
extern int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...);

static int is_dropped(const char *variable)
{
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (!strncmp(variable, dropped[i], strlen(dropped[i])))
            return 1;
    return 0;
}

/* Returns the environment without the dropped variables; the caller frees the array. */
static char **make_environment(void)
{
    size_t count = 0, kept = 0;
    while (environ && environ[count])
        count++;
    char **made = malloc((count + 1) * sizeof *made);
    for (size_t i = 0; made && i < count && environ[i]; i++)
        if (!is_dropped(environ[i]))
            made[kept++] = environ[i];
    if (made)
        made[kept] = NULL;
    return made;
}

static int find_program(char path[PATH_MAX])
{
    static const char *const folders[] = {"", "../bin/", "../../bin/", "../../../bin/"};
    Dl_info own;
    return dladdr((void *)(uintptr_t)rerun_process_start, &own) && own.dli_fname &&
           installation_find(own.dli_fname, folders, sizeof folders / sizeof *folders, "cufence", path);
}

struct plan {
    char *program;
    char **environment;
    char *stack; /* for the rerun process until it executes the program */
    int socket, pipe, is_verbose;
    pid_t caller, between;
    int started; /* a futex. 0: not yet; else that process's number, or a negative errno value */
};

/* Ends with its parent. Returns 0 if that has ended already. */
static int end_with(pid_t parent)
{
    return syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && syscall(SYS_getppid) == parent;
}

/* Runs in the new process, which shares this one's memory until it executes the program. */
static int become_rerun(void *user)
{
    const struct plan *plan = user;
    char name[] = "rerun";
    char *arguments[] = {plan->program, name, NULL};
    /* The pipe first: its number may be a standard stream's. dup2() leaves close-on-exec set if the numbers are the same. */
    if (!end_with(plan->between) || dup2(plan->pipe, PIPE) < 0 || fcntl(PIPE, F_SETFD, 0) != 0 ||
        dup2(plan->socket, STDIN_FILENO) < 0)
        _exit(127);
    syscall(SYS_close_range, PIPE + 1, ~0u, 0); /* Linux 5.9; before it, the program's inheritable files stay open */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(null, STDOUT_FILENO) < 0 || (!plan->is_verbose && dup2(null, STDERR_FILENO) < 0))
        _exit(127);
    execve(plan->program, arguments, plan->environment);
    _exit(127);
}

/*
 * Runs in the process in between until the rerun process has ended. It shares the memory of the thread that started it,
 * thread-local variables too, and runs beside that thread. So it makes system calls that do not fail, and nothing else.
 */
__attribute__((no_sanitize("address", "thread", "undefined"))) static int hold_rerun(void *user)
{
    struct plan *plan = user;
    static const uint64_t by_default[4]; /* the kernel's struct sigaction: a program may ignore SIGCHLD, and there is no waiting
                                          * then */
    pid_t child = -ESRCH;
    plan->between = (pid_t)syscall(SYS_getpid);
    if (end_with(plan->caller)) {
        syscall(SYS_rt_sigaction, SIGCHLD, by_default, NULL, sizeof(uint64_t));
        child = __clone(become_rerun, plan->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
        child = child < 0 ? -errno : child;
    }
    __atomic_store_n(&plan->started, child, __ATOMIC_RELEASE);
    syscall(SYS_futex, &plan->started, FUTEX_WAKE, 1, NULL, NULL, 0); /* the plan may be gone from here on */
    if (child > 0)
        syscall(SYS_wait4, child, NULL, 0, NULL);
    syscall(SYS_exit_group, 0);
    return 0;
}

/* Waits until the process in between has started the rerun process, or has ended. */
static int await(const struct plan *plan, pid_t between)
{
    const struct timespec rest = {.tv_sec = 1};
    int started;
    while ((started = __atomic_load_n(&plan->started, __ATOMIC_ACQUIRE)) == 0) {
        syscall(SYS_futex, &plan->started, FUTEX_WAIT, 0, &rest, NULL, 0);
        if (waitpid(between, NULL, (int)__WCLONE | WNOHANG) != 0 && !__atomic_load_n(&plan->started, __ATOMIC_ACQUIRE))
            return -ECHILD; /* killed by someone else */
    }
    return started;
}

/* Starts both processes with all signals blocked: the program's handlers are none of theirs. */
static pid_t start_between(struct plan *plan, char *stack_end)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* Its exit signal is 0: no SIGCHLD, and only __WCLONE waits for it. CLONE_FILES: what the program closes is closed. */
    pid_t between = __clone(hold_rerun, stack_end, CLONE_VM | CLONE_FILES, plan);
    plan->started = between < 0 ? -errno : plan->started;
    if (between > 0)
        plan->started = await(plan, between);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return between;
}

/* Frees what the process in between needs, once it has ended. One that has not keeps its memory. */
static void forget_between(pid_t between, char *stack)
{
    const struct timespec rest = {.tv_nsec = 200000};
    for (uint64_t end = monotonic_ms() + END_MS; waitpid(between, NULL, (int)__WCLONE | WNOHANG) == 0;) {
        if (monotonic_ms() > end)
            return;
        nanosleep(&rest, NULL);
    }
    free(stack);
}

/* Makes two sockets with numbers behind the pipe's, which the rerun process overwrites. Returns 0 on failure and sets errno.
 */
static int make_sockets(int sockets[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return 0;
    for (int i = 0; i < 2; i++) {
        int low = sockets[i];
        if (low > PIPE)
            continue;
        sockets[i] = fcntl(low, F_DUPFD_CLOEXEC, PIPE + 1);
        close(low);
    }
    return sockets[0] >= 0 && sockets[1] >= 0;
}

cufence_status rerun_process_start(const char *named, int is_verbose, int pipe, struct rerun_process *process)
{
    char program[PATH_MAX];
    int sockets[2];
    if (named)
        snprintf(program, sizeof program, "%s", named);
    else if (!find_program(program))
        return error_set(CUFENCE_ERROR_NOT_FOUND, "there is no program `cufence` in the folder of libcufence.so or in ../bin");
    if (!make_sockets(sockets))
        return error_set(CUFENCE_ERROR_SYSTEM, "socketpair: %s", strerror(errno));
    char *stacks = malloc(2 * STACK_BYTES);
    struct plan plan = {.program = program,
                        .environment = make_environment(),
                        .stack = stacks + STACK_BYTES,
                        .socket = sockets[1],
                        .pipe = pipe,
                        .is_verbose = is_verbose && pipe != STDERR_FILENO, /* the program has closed its own */
                        .caller = getpid(),
                        .started = -ENOMEM};
    pid_t between = -1;
    if (stacks && plan.environment) {
        plan.started = 0;
        between = start_between(&plan, stacks + 2 * STACK_BYTES);
    }
    free(plan.environment);
    close(sockets[1]);
    if (plan.started < 0) {
        if (between > 0)
            forget_between(between, stacks);
        else
            free(stacks);
        close(sockets[0]);
        return error_set(CUFENCE_ERROR_SYSTEM, "the process cannot be started: %s", strerror(-plan.started));
    }
    *process = (struct rerun_process){plan.started, sockets[0], between, stacks};
    return CUFENCE_OK;
}

void rerun_process_kill(const struct rerun_process *process)
{
    struct pollfd end = {.fd = process->socket};
    if (poll(&end, 1, 0) == 0) /* while it has its socket, its number is no other process's */
        kill(process->pid, SIGKILL);
}

void rerun_process_end(struct rerun_process *process)
{
    struct pollfd end = {.fd = process->socket};
    rerun_process_kill(process);
    poll(&end, 1, END_MS);
    close(process->socket);
    forget_between(process->between, process->stack);
}
