#include "doctor.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void become(const char *const argv[], const char *const changes[], int out, int error)
{
    setpgid(0, 0);
    for (; *changes; changes++) {
        if (strchr(*changes, '='))
            putenv((char *)*changes);
        else
            unsetenv(*changes);
    }
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    execvp(argv[0], (char *const *)argv);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

/* Returns 0 on timeout. */
static int has_ended(pid_t pid, unsigned seconds, int *status)
{
    const struct timespec pause = {0, 5000000};
    uint64_t until = monotonic_ms() + seconds * (uint64_t)1000;
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (monotonic_ms() >= until)
            return 0;
        nanosleep(&pause, NULL);
    }
    return 1;
}

static void read_back(int file, char *text, size_t size)
{
    ssize_t got = pread(file, text, size - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    close(file);
}

void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child)
{
    int out = memfd_create("out", MFD_CLOEXEC), error = memfd_create("error", MFD_CLOEXEC);
    *child = (struct child){0};
    pid_t pid = out >= 0 && error >= 0 ? fork() : -1;
    if (pid == 0)
        become(argv, changes, out, error);
    if (pid < 0) {
        snprintf(child->error, sizeof child->error, "%s", strerror(errno));
        return;
    }
    child->is_started = 1;
    setpgid(pid, pid); /* parent and child both do this, because either may be first */
    child->is_timed_out = !has_ended(pid, seconds, &child->status);
    if (child->is_timed_out) {
        kill(-pid, SIGKILL);
        waitpid(pid, &child->status, 0);
    }
    read_back(out, child->out, sizeof child->out);
    read_back(error, child->error, sizeof child->error);
}
