/* `cufence stuck PID`: asks the cufence in a program where the threads of its kernels stand, through the pipe that its hidden
 * thread has for that (fault/descriptors.h). No signal is sent. */
#include "command_line.h"
#include "fault/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 60000

#define complain(...) arguments_complain("stuck", 1, __VA_ARGS__)

/* Returns 1 if the first line of the file is that. */
static int is_line(const char *file, const char *line)
{
    char text[64] = "";
    FILE *open = fopen(file, "re");
    if (open && fgets(text, sizeof text, open))
        text[strcspn(text, "\n")] = '\0';
    if (open)
        fclose(open);
    return !strcmp(text, line);
}

/* Finds the folder of the thread's descriptors. Returns 0 if there is none. */
static int find_thread(const char *process, char *out, size_t size)
{
    char name[PATH_MAX];
    int found = 0;
    snprintf(name, sizeof name, "/proc/%.20s/task", process);
    DIR *tasks = opendir(name);
    for (const struct dirent *entry; tasks && !found && (entry = readdir(tasks)) != NULL;) {
        snprintf(name, sizeof name, "/proc/%.20s/task/%.20s/comm", process, entry->d_name);
        found = is_line(name, HIDDEN_THREAD);
        snprintf(out, size, "/proc/%.20s/task/%.20s/fd", process, entry->d_name);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

/* Opens the pipe with the highest number to write. Returns -1 if that fails, with errno. */
static int open_requests(const char *folder)
{
    char name[128], target[64];
    int last = -1;
    DIR *open_ones = opendir(folder);
    for (const struct dirent *entry; open_ones && (entry = readdir(open_ones)) != NULL;) {
        snprintf(name, sizeof name, "%s/%.20s", folder, entry->d_name);
        ssize_t length = readlink(name, target, sizeof target);
        if (length > 5 && !memcmp(target, "pipe:", 5) && atoi(entry->d_name) > last)
            last = atoi(entry->d_name);
    }
    if (!open_ones)
        return -1;
    closedir(open_ones);
    errno = ENOENT;
    snprintf(name, sizeof name, "%s/%d", folder, last);
    return last > 0 ? open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC) : -1;
}

/* Prints what comes, until its end. Returns 0 if that is late. */
static int print_answer(int pipe)
{
    char text[4096];
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    while (poll(&ready, 1, ANSWER_MS) > 0) {
        ssize_t got = read(pipe, text, sizeof text);
        if (got <= 0)
            return 0;
        fwrite(text, 1, strnlen(text, (size_t)got), stdout);
        if (memchr(text, '\0', (size_t)got))
            return 1;
    }
    return 0;
}

static int ask(const char *process)
{
    char folder[80], request[HIDDEN_REQUEST];
    int ends[2];
    if (!find_thread(process, folder, sizeof folder))
        return complain("%s: no cufence is in that process, or it is another user's, or CUDA has not begun there", process);
    int requests = open_requests(folder);
    if (requests < 0)
        return complain("%s: %s", folder, strerror(errno));
    if (pipe2(ends, O_CLOEXEC) != 0)
        return complain("%s", strerror(errno));
    int length = snprintf(request, sizeof request, "/proc/%d/fd/%d\n", (int)getpid(), ends[1]);
    int is_told = write(requests, request, (size_t)length) == length && print_answer(ends[0]);
    for (int i = 0; i < 2; i++)
        close(ends[i]);
    close(requests);
    return is_told ? 0 : complain("%s: no answer within %d s; what the program prints may tell more", process, ANSWER_MS / 1000);
}

static int run(int argc, char **argv)
{
    int status, worst = 0;
    if (!arguments_read(&stuck_command, argc, argv, NULL, &status))
        return status;
    for (int i = optind; i < argc; i++)
        worst |= ask(argv[i]);
    return worst;
}

const struct command stuck_command = {
    .name = "stuck",
    .help = "of a program that hangs: where each thread of its kernels stands",
    .run = run,
    .operands = "PID...",
    .least = 1,
    .most = -1,
    .missing = "no process given",
    .about = "Asks the cufence in a running program which kernels are under way, where each of their threads stands, and what it "
             "waits for: a barrier, or a value in memory, and who may write that. The program goes on.",
    .examples = "Example: cufence run -- python train.py & sleep 60; cufence stuck $!\n",
};
