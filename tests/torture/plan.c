/* Draws what a seed meets. */
#include "surround.h"

#include <string.h>

static const char *const names[] = {
#define NAME_OF(name, moment) #name,
    SURROUNDINGS(NAME_OF)
#undef NAME_OF
};

static const struct {
    const char *options, *figures; /* base/tunables.h */
} chosen[] = {{"", ""},
              {"", ""},
              {"", ""},
              {"uaf=strict", ""},
              {"small=pack", "slack_every=1"},
              {"", "slack_every=1,uaf_share=100"},
              {"streams=on", ""},
              {"align=auto,side=start", ""},
              {"", "idle_max=4194304,idle_beyond=0,cache_max=0"},
              {"fill=nan/0x5a", ""}};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static int has(const struct plan *plan, enum surrounding which)
{
    return (plan->surroundings >> which & 1) != 0;
}

static const char *const places[] = {"main", "small", "fibre", "cancelled", "beside"};
static const char *const endings[] = {"return",  "_exit",        "quick_exit", "abort", "SIGTERM",
                                      "SIGKILL", "pthread_exit", "exec",       "busy"};
static const char *const planted_names[] = {"nothing", "free", "copy", "overrun", "null", "hosted", "hang"};

/* Whether programs that show this are left out. */
static int is_left_out(const char *without, const char *name)
{
    char in_list[256], wanted[64];
    snprintf(in_list, sizeof in_list, ",%s,", without);
    snprintf(wanted, sizeof wanted, ",%s,", name);
    return strstr(in_list, wanted) != NULL;
}

static void leave_out(struct plan *plan, const char *without)
{
    for (int i = 0; i < SURROUNDING_COUNT; i++) {
        if (is_left_out(without, names[i]))
            plan->surroundings &= ~(1u << i);
    }
    if (is_left_out(without, places[plan->place]))
        plan->place = PLACE_MAIN;
    if (is_left_out(without, endings[plan->ending]))
        plan->ending = END_RETURN;
    if (is_left_out(without, planted_names[plan->planted]))
        plan->planted = PLANTED_NOTHING;
    if (is_left_out(without, "killed"))
        plan->kill_after_us = 0;
    if (is_left_out(without, "daemon"))
        plan->is_daemon = 0;
}

/* What cannot be judged together, or would not work without cufence either. */
static void make_possible(struct plan *plan, const char *without)
{
    if (plan->kill_after_us || plan->ending == END_BUSY || plan->is_daemon)
        plan->planted = PLANTED_NOTHING;
    /* A small thread leaves room for its own steps; what has to start threads natively has none of them to spare. */
    if (has(plan, SURROUNDING_no_processes) && plan->place != PLACE_MAIN)
        plan->place = PLACE_FIBRE;
    /* An interrupted step has no more room on such a stack than the step itself: a signal's frame alone takes 3 KiB. */
    if (has(plan, SURROUNDING_alarms) && (plan->place == PLACE_SMALL_THREAD || plan->place == PLACE_FIBRE))
        plan->place = PLACE_MAIN;
    /* The simulated device's own threads would keep the process alive; a cancelled step has no more to free. */
    if (plan->ending == END_THREAD && plan->place == PLACE_BESIDE_CANCELLED)
        plan->place = PLACE_MAIN;
    /* A blocked SIGTERM ends nobody. */
    if (has(plan, SURROUNDING_blocked) && plan->ending == END_TERM)
        plan->ending = END_KILL;
    /* The simulated device notes in its memory file what a second launch maps: RLIMIT_FSIZE would kill it for that. */
    if (has(plan, SURROUNDING_file_size) && plan->planted == PLANTED_HOSTED)
        plan->planted = PLANTED_OVERRUN;
    /* Enough descriptors for the second launch to begin, and hardly for what it is to be given. */
    plan->descriptors_left = (unsigned)(plan->seed / 2 % DESCRIPTORS_MOST);
    if (plan->planted == PLANTED_HOSTED && plan->seed % 2 && !is_left_out(without, names[SURROUNDING_no_descriptors])) {
        plan->surroundings = 1u << SURROUNDING_no_descriptors;
        plan->descriptors_left = 5 + (unsigned)(plan->seed / 2 % 3);
    }
    /* The driver opens a file for its dump of a fault. Where it cannot, the fault is lost. */
    if (plan->planted >= PLANTED_OVERRUN && is_left_out(without, "unwritten dumps") && has(plan, SURROUNDING_no_descriptors) &&
        plan->descriptors_left == 0)
        plan->planted = PLANTED_FREE;
    plan->has_witness = plan->planted == PLANTED_HANG || plan->planted == PLANTED_HOSTED;
    if (plan->planted == PLANTED_HANG) { /* killed while the second launch is on its way */
        plan->kill_after_us = 300000;
        plan->surroundings = 0;
    }
}

void plan_draw(struct plan *plan, uint64_t seed, const char *without)
{
    uint64_t random = seed;
    *plan = (struct plan){.seed = seed};
    for (unsigned i = (unsigned)(draw_from(&random) % 3); i > 0; i--)
        plan->surroundings |= 1u << draw_from(&random) % SURROUNDING_COUNT;
    static const enum place drawn[] = {PLACE_MAIN,         PLACE_MAIN,  PLACE_MAIN,      PLACE_SMALL_THREAD,
                                       PLACE_SMALL_THREAD, PLACE_FIBRE, PLACE_CANCELLED, PLACE_BESIDE_CANCELLED};
    plan->place = drawn[draw_from(&random) % COUNT(drawn)];
    unsigned ending = (unsigned)(draw_from(&random) % 512);
    plan->ending = ending == 0 ? END_BUSY : ending < 256 ? END_RETURN : (enum ending)(ending % END_BUSY);
    /* A fault with its second launch takes a tenth of a second. */
    unsigned planted = (unsigned)(draw_from(&random) % 256);
    plan->planted = planted < 5    ? PLANTED_FREE
                    : planted < 10 ? PLANTED_COPY
                    : planted < 16 ? PLANTED_OVERRUN
                    : planted < 19 ? PLANTED_NULL
                    : planted < 23 ? PLANTED_HOSTED
                    : planted < 24 ? PLANTED_HANG
                                   : PLANTED_NOTHING;
    size_t set = draw_from(&random) % COUNT(chosen);
    plan->options = chosen[set].options;
    plan->figures = chosen[set].figures;
    plan->steps = 3 + (unsigned)(draw_from(&random) % 10);
    plan->moment = (unsigned)(draw_from(&random) % plan->steps);
    plan->kill_after_us = draw_from(&random) % 16 == 0 ? 1 + (unsigned)(draw_from(&random) % 20000) : 0;
    plan->is_daemon = draw_from(&random) % 32 == 0;
    leave_out(plan, without);
    make_possible(plan, without);
    leave_out(plan, without); /* what has taken its place */
}

void plan_print(const struct plan *plan, FILE *file)
{
    fprintf(file, "place: %s, end: %s", places[plan->place], endings[plan->ending]);
    if (plan->planted)
        fprintf(file, ", planted: %s", planted_names[plan->planted]);
    for (int i = 0; i < SURROUNDING_COUNT; i++) {
        if (has(plan, (enum surrounding)i))
            fprintf(file, ", %s", names[i]);
    }
    fprintf(file, "%s%s%s%s", plan->kill_after_us ? ", killed" : "", plan->is_daemon ? ", daemon" : "",
            *plan->options ? ", " : "", plan->options);
}
