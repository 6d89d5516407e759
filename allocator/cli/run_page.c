#include "cli/run_page.h"

#include "arguments.h"
#include "cli.h"
#include "faces.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_RUN = 126 };

#define complain(status, ...) arguments_complain("run", status, __VA_ARGS__)

/* ---- the reports of the program's processes ---- */

/* One file for all: each report is appended with one write. */
struct reports {
    char file[PATH_MAX];
    char option[2 * PATH_MAX]; /* the same as the option json= takes it: a % is doubled */
};

static int make_reports(struct reports *reports)
{
    const char *parent = getenv("TMPDIR");
    size_t used = 0;
    int length = snprintf(reports->file, sizeof reports->file, "%s/cufence-run-XXXXXX", parent && *parent ? parent : "/tmp");
    if (strchr(reports->file, ',') || length >= (int)sizeof reports->file)
        return complain(CANNOT_RUN, "TMPDIR=%s cannot hold the reports: its name has a comma, or is too long", parent);
    int file = mkostemp(reports->file, O_CLOEXEC);
    if (file < 0)
        return complain(CANNOT_RUN, "no file for reports: %s: %s; set TMPDIR to a folder that can be written", reports->file,
                        strerror(errno));
    close(file);
    for (const char *at = reports->file; *at; at++) {
        if (*at == '%')
            reports->option[used++] = '%';
        reports->option[used++] = *at;
    }
    reports->option[used] = '\0';
    return 0;
}

/* Opens the page before the program runs, and leaves what is there: the program may not be one. */
static FILE *open_page(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    if (file >= 0 && !out)
        close(file);
    return out;
}

/* Removes a page that has not been written. */
static void close_page(const char *path, FILE *out)
{
    struct stat found;
    if (out && fstat(fileno(out), &found) == 0 && S_ISREG(found.st_mode) && found.st_size == 0)
        unlink(path);
    if (out)
        fclose(out);
}

static int write_page(const char *path, FILE *out, const struct reports *reports)
{
    struct collected collected = {0};
    errno = 0;
    int is_well = collected_read(&collected, "run", reports->file);
    if (ftruncate(fileno(out), 0) != 0)
        errno = 0; /* a pipe */
    is_well = face_html(&collected, out) && !ferror(out) && fflush(out) == 0 && is_well;
    if (!is_well)
        complain(0, "--html %s: %s", path, errno ? strerror(errno) : "some reports are missing");
    else
        complain(0, "%s: %zu finding%s", path, collected.count, collected.count == 1 ? "" : "s");
    collected_free(&collected);
    return is_well;
}

/* ---- the program ---- */

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
        *refusal = complain(CANNOT_RUN, "no process: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        sigprocmask(SIG_SETMASK, before, NULL);
        int status = become(argument);
        _exit(write(ends[1], &status, sizeof status) < 0 ? CANNOT_RUN : status);
    }
    close(ends[1]);
    while (read(ends[0], refusal, sizeof *refusal) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return pid;
}

/* Returns the program's exit status, or ends as the program did: whoever waits sees the signal. The program has left the core
 * dump. */
static int end_as(int status)
{
    const struct rlimit none = {0};
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

int page_run(const char *path, int (*become)(void *argument), void *argument, const char **option)
{
    struct reports reports;
    sigset_t watched, before;
    int refusal = make_reports(&reports);
    if (refusal)
        return refusal;
    FILE *out = open_page(path);
    if (!out)
        refusal = complain(CLI_USAGE, "--html %s: %s", path, strerror(errno));
    *option = reports.option;
    watch(&watched, &before);
    pid_t pid = refusal ? -1 : start(become, argument, &before, &refusal);
    int status = pid > 0 ? wait_for(pid, &watched) : 0;
    if (pid > 0 && !refusal)
        write_page(path, out, &reports);
    close_page(path, out);
    unlink(reports.file);
    return refusal ? refusal : end_as(status);
}
