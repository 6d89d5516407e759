/* One run of `cufence hunt`: a process of its own does what `cufence run` does. */
#include "cli.h"
#include "command_line.h"
#include "hunt.h"
#include "child.h"

#include "base/clock.h"
#include "base/tally.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAUSE_MS = 200 }; /* between two looks at what was found */
/* With --first: how long a program may go on after its first finding, and then after SIGTERM. */
enum { END_SECONDS = 5, KILL_SECONDS = 10 };

static double now(void)
{
    return (double)monotonic_ns() / 1e9;
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

/* The first finding, and then the program's end after it. */
struct first {
    double found;   /* when it was seen, 0: not yet */
    int is_told_to; /* end */
};

static void end_after_finding(struct first *first, const struct plan *plan, struct run *run)
{
    struct collected found = {0};
    if (first->found == 0)
        collected_read(&found, NULL, plan->reports);
    if (found.count)
        first->found = now();
    collected_free(&found);
    double since = first->found > 0 ? now() - first->found : 0;
    if (since > END_SECONDS && !first->is_told_to) {
        arguments_complain("hunt", 0, "ending the program, because of --first");
        first->is_told_to = run->is_ended = 1;
        child_kill(SIGTERM);
    }
    if (since > END_SECONDS + KILL_SECONDS)
        child_kill(SIGKILL);
}

void hunt_run(const struct plan *plan, unsigned mode, struct run *run)
{
    struct first first = {0};
    char name[TALLY_NAME];
    struct tally tally;
    double began = now();
    int fd = tally_make(name), is_said = 0;
    struct start start = {plan, mode, name};
    *run = (struct run){0};
    int is_started = child_start("hunt", become, &start, !is_at_terminal(), &run->refusal) > 0;
    run->is_started = is_started && run->refusal == 0;
    for (int has_ended = !is_started; !has_ended;) {
        has_ended = child_wait(PAUSE_MS, &run->status);
        if (child_signals && !is_said++)
            arguments_complain("hunt", 0, "%s: waiting for the program to end; a second one kills it",
                               strsignal(child_first_signal));
        else if (!has_ended && plan->is_first && !child_signals)
            end_after_finding(&first, plan, run);
    }
    run->is_ended |= child_signals > 1;
    run->seconds = now() - began;
    run->is_guarded = tally_read(fd, &tally) && tally.counts[TALLY_GUARDED];
    if (fd >= 0)
        close(fd);
}
