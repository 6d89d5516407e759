/* Other processes, and the ways a process ends. */
#include "surround.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SELF "/proc/self/exe"

extern char **environ;

static char *const arguments[] = {"torture", "--inherited", NULL};

int tell_inherited(void)
{
    sigset_t blocked;
    struct rlimit limits[RLIM_NLIMITS];
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    printf("descriptors:");
    for (int i = 0; i < 1024; i++) {
        if (fcntl(i, F_GETFD) >= 0)
            printf(" %d", i);
    }
    printf("; blocked:");
    for (int i = 1; i < 65; i++) {
        struct sigaction action = {.sa_handler = SIG_DFL};
        sigaction(i, NULL, &action);
        if (sigismember(&blocked, i) || action.sa_handler == SIG_IGN)
            printf(" %d", i);
    }
    printf("; limits:");
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        if (getrlimit(i, &limits[i]) == 0)
            printf(" %lld", (long long)limits[i].rlim_cur);
    }
    puts("");
    return 0;
}

static void look_at_children(const char *what, pid_t child)
{
    int status = 0;
    pid_t found;
    do {
        found = waitpid(-1, &status, 0);
    } while (found < 0 && errno == EINTR);
    note(what, (uint64_t)(unsigned)status << 1 | (found == child));
}

static void fork_in_a_way(unsigned how, CUdeviceptr live)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0 && how == 0)
        _exit(3);
    if (child == 0 && how == 1)
        exit(4);
    if (child == 0 && how == 2) {
        execv(SELF, arguments);
        _exit(5);
    }
    if (child == 0)
        quick_exit(6 + child_is_wrong(live));
    if (child > 0)
        look_at_children("forked", child);
    else
        note("not forked", (uint64_t)errno);
}

static void vfork_and_exec(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execv(SELF, arguments);
        _exit(5);
    }
    if (child > 0)
        look_at_children("vforked", child);
    else
        note("not vforked", (uint64_t)errno);
}

static void spawn(void)
{
    pid_t child;
    int error = posix_spawn(&child, SELF, NULL, NULL, arguments, environ);
    if (error == 0)
        look_at_children("spawned", child);
    else
        note("not spawned", (uint64_t)error);
}

int step_process(struct world *world)
{
    int number = buffer_pick(world);
    unsigned how = pick(world, 6);
    if (how == 0)
        vfork_and_exec();
    else if (how == 1)
        spawn();
    else
        fork_in_a_way(how - 2, number < 0 ? 0 : world->buffers[number].address);
    return 1;
}

/* The program's own status: one whose work was disturbed does not end well. */
static int status_of(void)
{
    return player.record->is_planted ? 3 : 0;
}

static void exec_at_the_end(void)
{
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    execv(SELF, arguments);
    _exit(7);
}

/* No thread of the simulated device may be left: the process would natively live as long. */
static void end_by_thread(void)
{
    if (!player.record->is_planted) {
        programs_end(player.world);
        world_close(player.world);
        MUST(player.world, cu.cuDevicePrimaryCtxReset(0));
    }
    usleep(1000);
    pthread_exit(NULL);
}

void end_as_planned(void)
{
    note("ends", 0);
    switch (player.plan->ending) {
    case END_EXIT_AT_ONCE:
        _exit(status_of());
    case END_QUICK:
        quick_exit(status_of());
    case END_ABORT:
        abort();
    case END_TERM:
        raise(SIGTERM);
        break;
    case END_KILL:
        raise(SIGKILL);
        break;
    case END_THREAD:
        if (!player.record->is_planted)
            end_by_thread();
        break;
    case END_EXEC:
        exec_at_the_end();
        break;
    case END_BUSY:
        spin(player.world);
        break;
    default:
        break;
    }
    exit(status_of());
}
