#include "spawn.h"

#include "base/beside.h"
#include "base/error.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 << 10)
#define END_MS 1000 /* how long the end of a killed process may take */

/* Variables that the stage must not see. */
static const char *const dropped[] = {"LD_PRELOAD=",
                                      "CUFENCE_OPTIONS=",
                                      "CUDA_ENABLE_COREDUMP_ON_EXCEPTION=",
                                      "CUDA_ENABLE_USER_TRIGGERED_COREDUMP=",
                                      "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=",
                                      "CUDA_ENABLE_CPU_COREDUMP_ON_EXCEPTION=",
                                      "CUDA_COREDUMP_",
                                      "CUDA_LAUNCH_BLOCKING=",
                                      "CUDA_INJECTION"};

extern char **environ;

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
    return dladdr((void *)(uintptr_t)stage_start, &own) && own.dli_fname &&
           beside_find(own.dli_fname, folders, sizeof folders / sizeof *folders, "cufence", path);
}

struct plan {
    char *program;
    char **environment;
    char *stack; /* for the stage until it executes the program */
    int socket, is_verbose;
    pid_t pid; /* the stage; -1 with errno set */
};

/* Runs in the new process, which shares this one's memory until it executes the program. */
static int become_stage(void *user)
{
    const struct plan *plan = user;
    char name[] = "stage";
    char *arguments[] = {plan->program, name, NULL};
    int null = open("/dev/null", O_RDWR);
    if (dup2(plan->socket, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        (!plan->is_verbose && dup2(null, STDERR_FILENO) < 0))
        _exit(127);
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0); /* Linux 5.9; before it, the program's inheritable files stay open */
    execve(plan->program, arguments, plan->environment);
    _exit(127);
}

/* Runs in a process between the two, which ends at once: the stage then belongs to init, and the program never hears of it. */
static int start_stage(void *user)
{
    struct plan *plan = user;
    plan->pid = __clone(become_stage, plan->stack, CLONE_VM | CLONE_VFORK | SIGCHLD, plan);
    _exit(0);
}

cufence_status stage_start(int is_verbose, struct stage_process *process)
{
    char program[PATH_MAX];
    int sockets[2];
    if (!find_program(program))
        return error_set(CUFENCE_ERROR_NOT_FOUND, "there is no program `cufence` beside libcufence.so or in ../bin");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        return error_set(CUFENCE_ERROR_SYSTEM, "socketpair: %s", strerror(errno));
    char *stacks = malloc(2 * STACK_BYTES);
    struct plan plan = {program, make_environment(), stacks + STACK_BYTES, sockets[1], is_verbose, -1};
    errno = ENOMEM;
    /* Its exit signal is 0: no SIGCHLD, and only __WCLONE waits for it. */
    pid_t between =
        stacks && plan.environment ? __clone(start_stage, stacks + 2 * STACK_BYTES, CLONE_VM | CLONE_VFORK, &plan) : -1;
    int failed = errno;
    if (between > 0)
        waitpid(between, NULL, (int)__WCLONE);
    free(plan.environment);
    free(stacks);
    close(sockets[1]);
    if (plan.pid < 0) {
        close(sockets[0]);
        return error_set(CUFENCE_ERROR_SYSTEM, "the process cannot be started: %s", strerror(failed));
    }
    *process = (struct stage_process){plan.pid, sockets[0]};
    return CUFENCE_OK;
}

void stage_end(struct stage_process *process)
{
    struct pollfd end = {.fd = process->socket};
    /* While it has its socket, its number is no other process's. */
    if (poll(&end, 1, 0) == 0) {
        kill(process->pid, SIGKILL);
        poll(&end, 1, END_MS);
    }
    waitpid(process->pid, NULL, WNOHANG); /* in a container, the program may be init */
    close(process->socket);
}
