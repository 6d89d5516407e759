/* `cufence stuck PID`: asks the cufence in a program where the threads of its kernels stand, through the pipe that its hidden
 * thread has for that (fault/descriptors.h). No signal is sent. */
#include "command_line.h"
#include "fault/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_MS 60000

#define complain(...) arguments_complain("stuck", 1, __VA_ARGS__)

/* Opens the pipe for requests. Returns -1 if there is none, or it is not the user's. */
static int open_requests(const char *process)
{
    char name[PATH_MAX], line[64];
    int requests = -1;
    glob_t tasks;
    snprintf(name, sizeof name, "/proc/%.20s/task/*/comm", process);
    if (glob(name, 0, NULL, &tasks) != 0)
        return -1;
    for (size_t i = 0; i < tasks.gl_pathc && requests < 0; i++) {
        FILE *comm = fopen(tasks.gl_pathv[i], "re");
        if (comm && fgets(line, sizeof line, comm) && !strcmp(line, HIDDEN_THREAD "\n")) {
            size_t folder = strlen(tasks.gl_pathv[i]) - strlen("comm");
            snprintf(name, sizeof name, "%.*sfd/%d", (int)folder, tasks.gl_pathv[i], HIDDEN_REQUESTS);
            requests = open(name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        }
        if (comm)
            fclose(comm);
    }
    globfree(&tasks);
    return requests;
}

/* Prints what comes, until its end. Returns 0 if that is late. */
static int print_answer(int pipe)
{
    char text[4096];
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    while (poll(&ready, 1, ANSWER_MS) > 0) {
        ssize_t got = read(pipe, text, sizeof text);
        fwrite(text, 1, got > 0 ? strnlen(text, (size_t)got) : 0, stdout);
        if (got <= 0 || memchr(text, '\0', (size_t)got))
            return got > 0;
    }
    return 0;
}

struct wishes {
    int kills;
};

static int ask(const char *process, const struct wishes *wishes)
{
    char request[HIDDEN_REQUEST];
    int ends[2], requests = open_requests(process);
    if (requests < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return complain("%s: no cufence is in that process, or it is not yours, or it has not begun with CUDA", process);
    int length =
        snprintf(request, sizeof request, "%s /proc/%d/fd/%d\n", wishes->kills ? "kill" : "tell", (int)getpid(), ends[1]);
    int is_told = write(requests, request, (size_t)length) == length && print_answer(ends[0]);
    close(ends[0]);
    close(ends[1]);
    close(requests);
    return is_told ? 0 : complain("%s: no answer; what the program prints may tell more", process);
}

static const struct argument arguments[] = {
    {"kill", NULL,
     "also have the driver write a dump, which ends all work of the process on the GPU, and report where threads stand",
     .offset = offsetof(struct wishes, kills)},
};

static int run(int argc, char **argv)
{
    struct wishes wishes = {0};
    int status, worst = 0;
    if (!arguments_read(&stuck_command, argc, argv, &wishes, &status))
        return status;
    for (int i = optind; i < argc; i++)
        worst |= ask(argv[i], &wishes);
    return worst;
}

const struct command stuck_command = {
    .name = "stuck",
    .help = "of a program that hangs: its launches, and where threads stand",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "PID...",
    .least = 1,
    .most = -1,
    .missing = "no process given",
    .about = "Asks the cufence in a running program what it has launched last, from where, and whether the device still works. "
             "With --kill also where each thread of its kernels stands, and what it waits for: a barrier, or a value in "
             "memory, and who may write that.",
    .examples = "Example: cufence run -- python train.py & sleep 600; cufence stuck --kill $!\n",
};
