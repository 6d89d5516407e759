#include "cli/supervise.h"

#include "arguments.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void supervise_watch(const int *signals, size_t count, sigset_t *watched, sigset_t *before)
{
    struct sigaction action;
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the program ended */
    sigemptyset(watched);
    sigaddset(watched, SIGCHLD);
    for (size_t i = 0; i < count; i++)
        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(watched, signals[i]);
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

pid_t supervise_start(const char *command, int (*become)(void *argument), void *argument, const sigset_t *before,
                      int is_grouped, int *refusal)
{
    int ends[2];
    *refusal = 0;
    fflush(NULL);
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        *refusal = arguments_complain(command, STATUS_UNFIT, "no process: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        if (is_grouped)
            setpgid(0, 0);
        sigprocmask(SIG_SETMASK, before, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the one signal that cannot be passed on */
        int status = become(argument);
        _exit(write(ends[1], &status, sizeof status) < 0 ? STATUS_UNFIT : status);
    }
    if (is_grouped)
        setpgid(pid, pid); /* whichever of the two comes first */
    close(ends[1]);
    while (read(ends[0], refusal, sizeof *refusal) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return pid;
}

int supervise(const char *command, int (*become)(void *argument), void *argument, int *refusal)
{
    static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT};
    sigset_t watched, before;
    supervise_watch(passed_on, sizeof passed_on / sizeof *passed_on, &watched, &before);
    pid_t pid = supervise_start(command, become, argument, &before, 0, refusal);
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
