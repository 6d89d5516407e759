/* Chooses the steps of a seed. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define AT_ONCE 3                     /* worlds at once, in every fourth seed */
#define LEFT_OPEN (UINT64_C(1) << 40) /* not used by any other seed */

static const struct kind {
    step_function step;
    unsigned weight;
    int is_within; /* also while a stream is capturing */
} kinds[] = {
    {step_allocate, 22, 1},   {step_use, 20, 1},         {step_copy, 8, 1},       {step_free, 10, 1},
    {step_reallocate, 16, 1}, {step_record, 5, 1},       {step_hold, 8, 1},       {step_release, 4, 1},
    {step_synchronise, 3, 0}, {step_stream, 9, 1},       {step_context, 2, 0},    {step_destroy_context, 1, 0},
    {step_primary, 1, 0},     {step_reset, 1, 0},        {step_pool, 2, 0},       {step_thread, 4, 0},
    {step_capture, 5, 0},     {step_launch_graph, 7, 0}, {step_drop_graph, 2, 0}, {step_trim, 3, 1},
    {step_figures, 2, 0},     {step_too_large, 1, 0},    {step_turnover, 2, 0},   {step_stale, 6, 1},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

/* weights: NULL for those of the table. */
static unsigned weight_of(size_t kind, const unsigned *weights, int is_within)
{
    if (is_within && !kinds[kind].is_within)
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
        if (at < weight)
            return kinds[i].step(world);
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
