#include "child.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int is_changed(const char *entry, const char *const changes[])
{
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; changes[i]; i++)
        if (strcspn(changes[i], "=") == length && strncmp(entry, changes[i], length) == 0)
            return 1;
    return 0;
}

/* Returns the environment with the changes. The strings are borrowed. */
static char **changed_environment(const char *const changes[])
{
    size_t count = 0, used = 0;
    for (char **entry = environ; *entry; entry++)
        count++;
    for (size_t i = 0; changes[i]; i++)
        count++;
    char **changed = calloc(count + 1, sizeof *changed);
    for (char **entry = environ; changed && *entry; entry++)
        if (!is_changed(*entry, changes))
            changed[used++] = *entry;
    for (size_t i = 0; changed && changes[i]; i++)
        if (strchr(changes[i], '='))
            changed[used++] = (char *)changes[i];
    return changed;
}

/* Appends available output to `text`, dropping what does not fit. Returns 0 at end of file. */
static int take(int fd, char *text, size_t size)
{
    char piece[4096];
    ssize_t got = read(fd, piece, sizeof piece);
    if (got < 0)
        return errno == EINTR || errno == EAGAIN;
    size_t used = strlen(text), room = size - 1 - used, length = (size_t)got < room ? (size_t)got : room;
    memcpy(text + used, piece, length);
    text[used + length] = '\0';
    return got > 0;
}

/* Reads both pipes to their end. Returns 0 on timeout. */
static int listen_to(int out, int error, long long until, struct child *child)
{
    struct pollfd ends[] = {{.fd = out, .events = POLLIN}, {.fd = error, .events = POLLIN}};
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
        long long left = until - (long long)monotonic_ms();
        if (left <= 0)
            return 0;
        if (poll(ends, 2, (int)left) <= 0)
            continue;
        if (ends[0].revents && !take(out, child->out, sizeof child->out))
            ends[0].fd = -1;
        if (ends[1].revents && !take(error, child->error, sizeof child->error))
            ends[1].fd = -1;
    }
    return 1;
}

/* Waits for the child's exit: it may have closed its output and gone on. Returns 0 on timeout. */
static int has_ended(pid_t pid, long long until, int *status)
{
    const struct timespec pause = {0, 5000000};
    while (waitpid(pid, status, WNOHANG) == 0) {
        if ((long long)monotonic_ms() >= until)
            return 0;
        nanosleep(&pause, NULL);
    }
    return 1;
}

static void become(const char *const argv[], char *const environment[], int out, int error)
{
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    execvpe(argv[0], (char *const *)argv, environment);
    dprintf(STDERR_FILENO, "%s", strerror(errno));
    _exit(127);
}

void child_run(const char *const argv[], const char *const changes[], unsigned seconds, struct child *child)
{
    int out[2], error[2] = {-1, -1};
    long long until = (long long)monotonic_ms() + (long long)seconds * 1000;
    *child = (struct child){0};
    char **environment = changed_environment(changes);
    if (!environment || pipe2(out, O_CLOEXEC) != 0) {
        snprintf(child->error, sizeof child->error, "%s", strerror(errno));
        free(environment);
        return;
    }
    pid_t pid = pipe2(error, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid == 0)
        become(argv, environment, out[1], error[1]);
    if (pid < 0)
        snprintf(child->error, sizeof child->error, "%s", strerror(errno));
    free(environment);
    close(out[1]);
    close(error[1]);
    if (pid > 0) {
        child->is_started = 1;
        setpgid(pid, pid); /* parent and child both do this, because either may be first */
        child->is_timed_out = !listen_to(out[0], error[0], until, child) || !has_ended(pid, until, &child->status);
        if (child->is_timed_out) {
            kill(-pid, SIGKILL);
            waitpid(pid, &child->status, 0);
        }
    }
    close(out[0]);
    close(error[0]);
}
