/* Where the driver would have written a core dump for the program. */
#include "program_dump.h"

#include "base/aside.h"
#include "base/clock.h"
#include "base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 2000
#define DEFAULT_NAME "core_%t_%h_%p.nvcudmp" /* CUDA-GDB's manual, "Naming of GPU core dump files" */

static const char nobody_reads[] = "nobody reads it";

static void expand(const char *name, char *to, size_t room)
{
    char host[256] = "";
    size_t used = 0;
    gethostname(host, sizeof host - 1);
    for (; *name && used + 1 < room; name++) {
        char part[256] = {*name};
        const char kind = *name == '%' ? name[1] : 0;
        if (kind == 'h')
            memcpy(part, host, sizeof part);
        else if (kind == 'p')
            snprintf(part, sizeof part, "%d", (int)getpid());
        else if (kind == 't')
            snprintf(part, sizeof part, "%llu", (unsigned long long)(clock_ns(CLOCK_REALTIME) / 1000000000u));
        name += kind == 'h' || kind == 'p' || kind == 't';
        used += (size_t)snprintf(to + used, room - used, "%s", part);
    }
    to[used < room ? used : room - 1] = '\0';
}

/* Our threads block the signals that a write may raise. The descriptor does not block. */
static const char *put(int fd, const struct dump *dump)
{
    for (size_t at = 0; at < dump->size;) {
        ssize_t written = write(fd, dump->bytes + at, dump->size - at);
        struct pollfd full = {.fd = fd, .events = POLLOUT};
        if (written > 0)
            at += (size_t)written;
        else if (written < 0 && errno == EAGAIN && poll(&full, 1, PATIENCE_MS) == 0)
            return nobody_reads;
        else if (!written || (errno != EAGAIN && errno != EINTR))
            return strerror(errno);
    }
    return NULL;
}

static const char *put_in_file(const char *name, const struct dump *dump)
{
    uint64_t until = monotonic_ms() + PATIENCE_MS;
    int fd;
    while ((fd = files_open_named(name, O_TRUNC)) < 0 && errno == ENXIO && monotonic_ms() < until)
        aside_sleep(1000); /* a FIFO */
    if (fd < 0)
        return errno == ENXIO ? nobody_reads : strerror(errno);
    const char *reason = put(fd, dump);
    return close(fd) == 0 || reason ? reason : strerror(errno);
}

/* Starts the shell. Returns 0 or an errno value. */
static int start(const char *command, int input, pid_t *shell)
{
    char sh[] = "sh", option[] = "-c";
    char *const arguments[] = {sh, option, (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    sigemptyset(&none); /* our threads block most */
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    int error = posix_spawn(shell, "/bin/sh", &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Waits for the command's end, so that its file is there when the fault is told; the program may have waited for it instead. */
static const char *await(pid_t shell)
{
    int status = 0;
    pid_t ended;
    for (int waited = 0; (ended = waitpid(shell, &status, WNOHANG)) == 0 && waited < PATIENCE_MS; waited++)
        aside_sleep(1000);
    return ended == 0 ? "the command does not end" : ended > 0 && status ? "the command failed" : NULL;
}

static const char *put_in_command(const char *command, const struct dump *dump)
{
    int ends[2];
    pid_t shell;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return strerror(errno);
    int error = start(command, ends[0], &shell);
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const char *reason = error ? strerror(error) : put(ends[1], dump);
    close(ends[1]);
    return reason || error ? reason : await(shell);
}

const char *program_file_write(const char *name, const struct dump *dump, char *to, size_t room)
{
    if (*name == '|') /* without specifiers */
        snprintf(to, room, "%s", name);
    else
        expand(*name ? name : DEFAULT_NAME, to, room);
    if (!dump_is_complete(dump))
        return "the host has no memory for all of it";
    return *name == '|' ? put_in_command(name + 1, dump) : put_in_file(to, dump);
}
