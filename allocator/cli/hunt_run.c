/* One run of `cufence hunt`: a process of its own does what `cufence run` does. */
#include "cli.h"
#include "arguments.h"
#include "hunt.h"
#include "supervise.h"

#include "base/clock.h"
#include "base/tally.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS = 200 };
/* With --first: how long a program may go on after its first finding, and then after SIGTERM. */
enum { END_SECONDS = 5, KILL_SECONDS = 10 };

static double now(void)
{
    return (double)monotonic_ns() / 1e9;
}

/* ---- signals ---- */

void signals_watch(struct signals *signals)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    *signals = (struct signals){0};
    supervise_watch(ends, sizeof ends / sizeof *ends, &signals->watched, &signals->before);
}

/* Waits for a signal that is watched, for a while. Returns it if it is one that ends a hunt, else 0. */
static int next_signal(struct signals *signals, long milliseconds, siginfo_t *got)
{
    const struct timespec pause = {0, milliseconds * 1000000};
    int signal = sigtimedwait(&signals->watched, got, &pause);
    if (signal <= 0 || signal == SIGCHLD)
        return 0;
    if (!signals->count++)
        signals->first = signal;
    return signal;
}

int signals_wait(struct signals *signals, long milliseconds)
{
    siginfo_t got;
    next_signal(signals, milliseconds, &got);
    return signals->first != 0;
}

/* ---- the program ---- */

struct start {
    const struct plan *plan;
    unsigned mode;
    const char *tally;
};

/* In the new process: becomes the program, as `cufence run` does. */
static int become(void *argument)
{
    const struct start *start = argument;
    const struct plan *plan = start->plan;
    char **argv = calloc(plan->words + 10, sizeof *argv), *last = NULL;
    size_t used = 0;
    const struct mode *mode = &modes[start->mode];
    int size = asprintf(&last, "%s,on_fault=/0", mode->options);
    if (!argv || size < 0)
        return STATUS_UNFIT;
    for (const char *const *word = (const char *const[]){"run", "--set", plan->options, "--set", last, "--", NULL}; *word;
         word++)
        argv[used++] = (char *)*word;
    memcpy(argv + used, plan->command, plan->words * sizeof *argv);
    tally_set(start->tally);
    return cli_run((int)(used + plan->words), argv);
}

/* On a terminal the program stays in our group, so that it can read from it. Elsewhere it gets a group of its own, by which it
 * and its children can be ended together. */
static int is_at_terminal(void)
{
    int terminal = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY);
    int is_ours = terminal >= 0 && tcgetpgrp(terminal) == getpgrp();
    if (terminal >= 0)
        close(terminal);
    return is_ours;
}

/* ---- its end ---- */

struct wait {
    pid_t pid;
    int is_grouped;
    double found;   /* when the first finding was seen, 0: not yet */
    int is_told_to; /* end */
};

static void send(const struct wait *wait, int signal)
{
    kill(wait->is_grouped ? -wait->pid : wait->pid, signal);
}

/* Ctrl-C at a terminal has reached the program, too. */
static void pass_on(const struct wait *wait, const struct signals *signals, const siginfo_t *got, struct run *run)
{
    if (signals->count > 1) {
        run->is_ended = 1;
        send(wait, SIGKILL);
        return;
    }
    arguments_complain("hunt", 0, "%s: waiting for the program to end; a second one kills it", strsignal(got->si_signo));
    if (wait->is_grouped || got->si_code != SI_KERNEL)
        send(wait, got->si_signo);
}

static void end_after_finding(struct wait *wait, const struct plan *plan, struct run *run)
{
    struct collected found = {0};
    if (wait->found == 0)
        collected_read(&found, NULL, plan->reports);
    if (found.count)
        wait->found = now();
    collected_free(&found);
    double since = wait->found > 0 ? now() - wait->found : 0;
    if (since > END_SECONDS && !wait->is_told_to) {
        arguments_complain("hunt", 0, "ending the program, because of --first");
        wait->is_told_to = run->is_ended = 1;
        send(wait, SIGTERM);
    }
    if (since > END_SECONDS + KILL_SECONDS)
        send(wait, SIGKILL);
}

void hunt_run(const struct plan *plan, unsigned mode, struct signals *signals, struct run *run)
{
    struct wait wait = {.is_grouped = !is_at_terminal()};
    siginfo_t got;
    char name[TALLY_NAME];
    struct tally tally;
    double began = now();
    *run = (struct run){0};
    int fd = tally_make(name);
    struct start start = {plan, mode, name};
    wait.pid = supervise_start("hunt", become, &start, &signals->before, wait.is_grouped, &run->refusal);
    run->is_started = wait.pid > 0 && run->refusal == 0;
    while (wait.pid > 0 && waitpid(wait.pid, &run->status, WNOHANG) == 0) {
        if (next_signal(signals, PAUSE_MS, &got))
            pass_on(&wait, signals, &got, run);
        else if (plan->is_first)
            end_after_finding(&wait, plan, run);
    }
    run->seconds = now() - began;
    run->is_guarded = tally_read(fd, &tally) && tally.counts[TALLY_GUARDED];
    if (fd >= 0)
        close(fd);
}
