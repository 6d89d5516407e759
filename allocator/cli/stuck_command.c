/* `cufence stuck PID`: asks the cufence in a program where the threads of its kernels stand, through the pipe that its hidden
 * thread has for that (fault/descriptors.h). No signal is sent. */
#include "command_line.h"
#include "fault/descriptors.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define complain(...) arguments_complain("stuck", 1, __VA_ARGS__)
#define LATE_SECONDS 60 /* without a part of the answer */

/* comm: below /proc, the name of the thread in whose table the pipe is. Any file may be there: nothing else is written to. */
static int open_pipe(const char *comm, int number, int flags)
{
    char name[PATH_MAX];
    struct stat file;
    snprintf(name, sizeof name, "%.*sfd/%d", (int)(strlen(comm) - strlen("comm")), comm, number);
    int pipe = open(name, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (pipe < 0 || (fstat(pipe, &file) == 0 && S_ISFIFO(file.st_mode)))
        return pipe;
    close(pipe);
    return -1;
}

/* Prints what comes, until its end. Returns the status, also if it is late, or the thread has ended. */
static int print_answer(const char *process, const char *comm, int pipe)
{
    char text[4096];
    FILE *to = stdout;
    struct pollfd ready = {.fd = pipe, .events = POLLIN};
    for (int waited = 0; waited < LATE_SECONDS && access(comm, F_OK) == 0;) {
        ssize_t got = poll(&ready, 1, 1000) > 0 ? read(pipe, text, sizeof text) : 0;
        if (got <= 0) {
            waited++;
            continue;
        }
        int is_why = text[0] == HIDDEN_FAILED;
        to = is_why ? stderr : to;
        fwrite(text + is_why, 1, strnlen(text + is_why, (size_t)(got - is_why)), to);
        if (memchr(text, '\0', (size_t)got))
            return to == stderr;
    }
    return complain("%s: no answer; what the program prints may tell more", process);
}

/* Returns -1 if the thread is not cufence's. */
static int ask_thread(const char *process, const char *comm, int kills)
{
    char text[4096];
    FILE *file = fopen(comm, "re");
    int status = -1;
    int is_cufence = file && fgets(text, sizeof text, file) && !strcmp(text, HIDDEN_THREAD "\n");
    int requests = is_cufence ? open_pipe(comm, HIDDEN_REQUESTS, O_WRONLY) : -1;
    int answers = requests >= 0 ? open_pipe(comm, HIDDEN_ANSWERS, O_RDWR) : -1; /* never hung up */
    if (file)
        fclose(file);
    if (answers >= 0 && flock(requests, LOCK_EX) == 0) { /* one at a time */
        while (read(answers, text, sizeof text) > 0)
            ;                                                 /* was for one who has gone */
        ssize_t sent = write(requests, kills ? "k" : "t", 1); /* if it has ended, no answer comes */
        (void)sent;
        status = print_answer(process, comm, answers);
    }
    close(requests);
    close(answers);
    return status;
}

static int ask(const char *process, int kills)
{
    char name[64];
    glob_t tasks;
    int status = -1;
    snprintf(name, sizeof name, "/proc/%.20s/task/*/comm", process);
    if (process[strspn(process, "0123456789")] || glob(name, 0, NULL, &tasks) != 0)
        return complain("%s: no such process", process);
    for (size_t i = 0; i < tasks.gl_pathc && status < 0; i++)
        status = ask_thread(process, tasks.gl_pathv[i], kills);
    globfree(&tasks);
    return status >= 0
               ? status
               : complain("%s: no cufence is in that process, or it is not yours, has not begun with CUDA, or has explain=off",
                          process);
}

static const struct argument arguments[] = {
    {"kill", NULL,
     "also have the driver write a dump, which ends all work of the process on the GPU, and report where threads wait",
     .offset = 0},
};

static int run(int argc, char **argv)
{
    int kills = 0, status, worst = 0;
    signal(SIGPIPE, SIG_IGN); /* the process may end before it has read the request */
    if (!arguments_read(&stuck_command, argc, argv, &kills, &status))
        return status;
    for (int i = optind; i < argc; i++)
        worst |= ask(argv[i], kills);
    return worst;
}

const struct command stuck_command = {
    .name = "stuck",
    .help = "show what a hanging program launched, and where its threads wait",
    .run = run,
    ARGUMENTS(arguments),
    .operands = "PID...",
    .least = 1,
    .most = -1,
    .missing = "no process given",
    .about = "Asks the cufence in a running program what it has launched last, from where, and whether the device still works. "
             "With --kill also where each thread of its kernels is, and what it waits for: a barrier, or a value in "
             "memory, and who may write that.",
    .examples = "Example: cufence run -- python train.py & sleep 600; cufence stuck --kill $!\n",
};
