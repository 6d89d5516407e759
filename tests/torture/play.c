/* Chooses the steps of a seed. */
#include "surround.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_ONCE 3                     /* worlds at once, in every fourth seed */
#define LEFT_OPEN (UINT64_C(1) << 40) /* not used by any other seed */

static const struct kind {
    step_function step;
    const char *name;
    unsigned weight, surrounded; /* in hard surroundings */
    unsigned flags;
} kinds[] = {
#define STEP(name, weight, surrounded, flags) {step_##name, #name, weight, surrounded, flags},
    STEPS(STEP)
#undef STEP
};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* weights: NULL for those of the table. */
static unsigned weight_of(size_t kind, const unsigned *weights, int is_within)
{
    if (is_within && !(kinds[kind].flags & WITHIN))
        return 0;
    return weights ? weights[kind] : kinds[kind].weight;
}

static int step_of_weights(struct world *world, const unsigned *weights, int is_within)
{
    unsigned sum = 0;
    for (size_t i = 0; i < KINDS; i++)
        sum += weight_of(i, weights, is_within);
    unsigned at = pick(world, sum);
    for (size_t i = 0; i < KINDS; i++) {
        unsigned weight = weight_of(i, weights, is_within);
        if (at < weight) {
            note(kinds[i].name, world->random);
            return kinds[i].step(world);
        }
        at -= weight;
    }
    return 0;
}

int step_within(struct world *world)
{
    return step_of_weights(world, NULL, 1);
}

/* No program does everything: leaves out some kinds of steps and makes others frequent. */
static void draw_weights(struct world *world, unsigned weights[KINDS])
{
    static const unsigned factors[] = {0, 1, 1, 1, 2, 4};
    for (size_t i = 0; i < KINDS; i++) {
        weights[i] = 0;
        if (!kinds[i].weight)
            continue;
        weights[i] = kinds[i].weight * factors[i < 2 ? 1 + pick(world, 5) : pick(world, 6)];
        /* Concurrent programs meet in what they share inside cufence: the lists of streams, and captures. */
        if (world->is_shared && (kinds[i].step == step_capture || kinds[i].step == step_stream))
            weights[i] = kinds[i].weight * 3;
    }
}

static const unsigned *weights_of[AT_ONCE]; /* by world number; used only by the thread that plays that world */

static int one_step(struct world *world)
{
    return step_of_weights(world, weights_of[world->number], 0);
}

static int pick_thread(struct world *world)
{
    int thread = (int)pick(world, 2 * THREADS);
    return thread < THREADS && world->actors[thread].is_live ? thread : 0;
}

static void play_open(struct world *world, uint64_t seed, int number, unsigned steps, int is_shared)
{
    unsigned weights[KINDS];
    world_open(world, seed, number, is_shared);
    draw_weights(world, weights);
    weights_of[number] = weights;
    for (int i = (int)pick(world, 4); i > 0; i--)
        step_stream(world);
    for (unsigned i = 0; i < steps; i++) {
        world->steps++;
        actor_play(world, pick_thread(world), one_step);
    }
    weights_of[number] = NULL;
}

static void play_world(struct world *world, uint64_t seed, int number, unsigned steps, int is_shared)
{
    play_open(world, seed, number, steps, is_shared);
    if (chance(world, 2))
        step_fork(world);
    if (chance(world, 3))
        step_churn(world);
    world_close(world);
}

struct played {
    struct world world;
    uint64_t seed;
    int number;
    struct thread thread;
};

static void play_beside(void *argument)
{
    struct played *played = argument;
    play_world(&played->world, played->seed, played->number, 35, 1);
}

static void play_seed(uint64_t seed, struct played *played)
{
    if (seed % 4 != 3 || settings.is_injected) {
        play_world(&played[0].world, seed, 0, 90, 0);
        return;
    }
    if (sim.set_latency && seed % 8 == 3)
        sim.set_latency("cuEventRecord", 100);
    for (int i = 0; i < AT_ONCE; i++) {
        played[i].seed = seed;
        played[i].number = i;
        thread_start(&played[i].thread, play_beside, &played[i]);
    }
    for (int i = 0; i < AT_ONCE; i++)
        thread_await(&played[i].thread);
    await_outputs();
    if (sim.set_latency)
        sim.set_latency("cuEventRecord", 0);
}

void play(uint64_t first, uint64_t count)
{
    struct played *played = calloc(AT_ONCE, sizeof *played);
    if (!played)
        abort();
    for (uint64_t i = 0; i < count; i++) {
        printf("seed %llu\n", (unsigned long long)(first + i)); /* sign of life for the runner */
        fflush(stdout);
        play_seed(first + i, played);
    }
    if ((first + count) / 50 % 2) { /* the process ends in the middle of a program: work, memory and threads are left */
        settings.is_timed = 1;
        play_open(&played[0].world, first + count + LEFT_OPEN, 0, 40, 0);
        return;
    }
    free(played);
}

/* ---- in hard surroundings ---- */

void note(const char *name, uint64_t value)
{
    struct record *record = player.record;
    if (record && record->count < sizeof record->steps / sizeof *record->steps) {
        record->steps[record->count] = (struct noted){name, value};
        __atomic_store_n(&record->count, record->count + 1, __ATOMIC_RELEASE);
    }
}

void need(const char *what, int has_succeeded)
{
    if (!has_succeeded)
        fail(player.world, "%s", what);
}

/* What the program does in the place of its plan. */
static void play_steps(void)
{
    const struct plan *plan = player.plan;
    struct world *world = player.world;
    int is_narrow = plan->place == PLACE_CANCELLED || surround_has(SURROUNDING_no_processes);
    unsigned weights[KINDS];
    for (size_t i = 0; i < KINDS; i++)
        weights[i] = is_narrow && kinds[i].flags & (STARTS_THREADS | IS_CANCELLED) ? 0 : kinds[i].surrounded;
    weights_of[0] = weights;
    for (int i = is_narrow ? 0 : (int)pick(world, 3); i > 0; i--)
        step_stream(world);
    for (unsigned i = 0; i < plan->steps; i++) {
        if (i == plan->moment)
            surround(WHILE_RUNNING);
        world->steps++;
        actor_play(world, pick_thread(world), one_step);
        if (i == plan->moment && (plan->planted == PLANTED_FREE || plan->planted == PLANTED_COPY))
            plant(world);
    }
    weights_of[0] = NULL;
    for (int i = 0; i < CONTEXTS; i++) { /* the checks are verified */
        if (world->contexts[i].is_live)
            sync_context(world, i);
    }
    if (plan->planted >= PLANTED_OVERRUN)
        plant(world);
    own_streams_end(world, 0);
}

void play_surrounded(void)
{
    static const char *const witnesses[] = {"explain=dump", "explain=rerun,wait_ms=1000/2000"};
    const struct plan *plan = player.plan;
    char text[4096];
    settings.is_surrounded = settings.is_timed = 1;
    settings.without = FEATURE_CHURN | FEATURE_POOLS | FEATURE_LARGE | FEATURE_GRAPH;
    player.world->random = plan->seed;
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
    MUST(player.world, cu.cuInit(0));
    world_open(player.world, plan->seed, 0, 0);
    programs_begin(player.world);
    surround(AFTER_START);
    place_run(play_steps);
    surround_check();
    if (player.record->is_planted) /* who helps to explain it is no child of the program */
        note("no children", waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    end_as_planned();
}
