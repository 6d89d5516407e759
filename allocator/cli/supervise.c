#include "cli/supervise.h"

#include "arguments.h"
#include "cli/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define complain(status, ...) arguments_complain("run", status, __VA_ARGS__)

static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};

static void watch(sigset_t *watched, sigset_t *before)
{
    struct sigaction action;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the program ended */
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(watched, passed_on[i]);
    sigprocmask(SIG_BLOCK, watched, before);
}

/* Waits for the program's end. What a terminal sends has reached the program too. */
static int wait_for(pid_t pid, const sigset_t *watched)
{
    const struct timespec pause = {.tv_sec = 1};
    siginfo_t got;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        int signal = sigtimedwait(watched, &got, &pause);
        if (signal > 0 && signal != SIGCHLD && got.si_code != SI_KERNEL)
            kill(pid, signal);
    }
    return status;
}

/* Starts the program. *refusal: the exit status if it could not be run. Returns its process, -1 after a message. */
static pid_t start(int (*become)(void *argument), void *argument, const sigset_t *before, int *refusal)
{
    int ends[2];
    *refusal = 0;
    fflush(NULL);
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        *refusal = complain(PROGRAM_UNFIT, "no process: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the one signal that cannot be passed on */
        int status = become(argument);
        _exit(write(ends[1], &status, sizeof status) < 0 ? PROGRAM_UNFIT : status);
    }
    close(ends[1]);
    while (read(ends[0], refusal, sizeof *refusal) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return pid;
}

int supervise(int (*become)(void *argument), void *argument, int *refusal)
{
    sigset_t watched, before;
    watch(&watched, &before);
    pid_t pid = start(become, argument, &before, refusal);
    return pid > 0 ? wait_for(pid, &watched) : 0;
}

int supervise_end_as(int status)
{
    const struct rlimit none = {0}; /* the program has left the core dump */
    sigset_t all;
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    raise(WTERMSIG(status));
    return 128 + WTERMSIG(status);
}
