#include "child.h"

#include "command_line.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile sig_atomic_t child_signals, child_first_signal;

static volatile pid_t target; /* negative: a group; 0: no child yet */
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on, PAUSE_MS = 5 };

void child_kill(int signal)
{
    if (target)
        kill(target, signal);
}

/* Ctrl-C at a terminal has reached a child in our group, too. */
static void pass_on(int signal, siginfo_t *got, void *unused)
{
    int error = errno;
    (void)unused;
    if (!child_signals++)
        child_first_signal = signal;
    if (child_signals > 1)
        child_kill(SIGKILL);
    else if (target < 0 || got->si_code != SI_KERNEL)
        child_kill(signal);
    errno = error;
}

void child_pass_signals(void)
{
    struct sigaction before, ours = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &ours, NULL);
}

static void begin(int is_grouped)
{
    struct sigaction action;
    for (int i = 0; i < PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(passed_on[i], SIG_DFL);
    if (is_grouped)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the one signal that cannot be passed on */
}

pid_t child_start(const char *command, int (*become)(void *argument), void *argument, int is_grouped, int *refusal)
{
    int ends[2];
    *refusal = 0;
    target = 0;
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the program ended */
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        *refusal = arguments_complain(command, STATUS_UNFIT, "no process: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        begin(is_grouped);
        int status = become(argument);
        _exit(write(ends[1], &status, sizeof status) < 0 ? STATUS_UNFIT : status);
    }
    if (is_grouped)
        setpgid(pid, pid); /* whichever of the two comes first */
    target = is_grouped ? -pid : pid;
    if (child_signals) /* it came before there was a child */
        child_kill(child_first_signal);
    close(ends[1]);
    while (read(ends[0], refusal, sizeof *refusal) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return pid;
}

int child_wait(unsigned milliseconds, int *status)
{
    const struct timespec pause = {0, PAUSE_MS * 1000000L};
    uint64_t until = monotonic_ms() + milliseconds;
    int before = child_signals;
    pid_t pid = target < 0 ? -target : target;
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (monotonic_ms() >= until || child_signals != before)
            return 0;
        nanosleep(&pause, NULL);
    }
    target = 0;
    return 1;
}
