#include "play.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct player player;

unsigned pick(unsigned below)
{
    return (unsigned)(draw(&player.random) % below);
}

void step_record(const char *name, uint64_t value)
{
    struct json_table *record = player.record;
    if (record->count < STEPS) {
        record->steps[record->count] = (struct step){name, value};
        __atomic_store_n(&record->count, record->count + 1, __ATOMIC_RELEASE);
    }
}

void need(const char *what, int has_succeeded)
{
    if (has_succeeded)
        return;
    step_record(what, (uint64_t)errno);
    _exit(9);
}

static void steps(void)
{
    const struct plan *plan = player.plan;
    for (unsigned i = 0; i < plan->steps; i++) {
        if (i == plan->moment)
            surround(WHILE_RUNNING);
        if (plan->place == PLACE_CANCELLED)
            act_plainly();
        else
            act();
        if (i == plan->moment && (plan->planted == PLANTED_FREE || plan->planted == PLANTED_COPY))
            act_plant();
    }
    if (plan->planted >= PLANTED_OVERRUN)
        act_plant();
}

void play(void)
{
    static const char *const witnesses[] = {"explain=dump", "explain=rerun,wait_ms=1000/2000"};
    const struct plan *plan = player.plan;
    char text[4096];
    setenv("TMPDIR", player.folder, 1);
    if (plan->is_daemon) {
        need("daemon", daemon(1, 1) == 0);
        player.record->player = getpid();
    }
    int on_full = surround_has(SURROUNDING_full), of_size = surround_has(SURROUNDING_file_size);
    snprintf(text, sizeof text, "%s%s%s%s%s%s%s", witnesses[plan->has_witness], *plan->options ? "," : "", plan->options,
             on_full ? ",log=/dev/full,json=/dev/full" : "", of_size ? ",log=" : "", of_size ? player.folder : "",
             of_size ? "/log" : "");
    setenv("CUFENCE_OPTIONS", text, 1);
    setenv("CUFENCE_TUNABLES", plan->figures, 1);
    surround(BEFORE_CUDA);
    act_begin();
    surround(AFTER_START);
    place_run(steps);
    surround_check();
    if (player.record->is_planted) /* who helps to explain it is no child of the program */
        step_record("no children", waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    end_as_planned();
}
