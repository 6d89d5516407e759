/* What orders what (allocator/order/clocks.h), as tables of steps; and which uses of a buffer conflict (uses.h). */
#include "support/test.h"

#include "order/uses.h"

/* Of two contexts. */
enum { LEGACY, BLOCKED, BLOCKED_TOO, FREE_1, FREE_2, FREE_3, FAR_LEGACY, FAR_BLOCKED, STREAMS };
static const enum order_kind kinds[STREAMS] = {ORDER_LEGACY,       ORDER_BLOCKING,     ORDER_BLOCKING, ORDER_NON_BLOCKING,
                                               ORDER_NON_BLOCKING, ORDER_NON_BLOCKING, ORDER_LEGACY,   ORDER_BLOCKING};
static const char near_context, far_context;

static const char *context_of(unsigned stream)
{
    return stream >= FAR_LEGACY ? &far_context : &near_context;
}

enum step_kind {
    END,
    USE,       /* the stream uses the buffer */
    ORDERED,   /* a free on the stream is ordered behind the use ... */
    UNORDERED, /* ... or not */
    WORK,      /* anything else on the stream */
    MADE,
    RECORD,
    WAIT,
    HIDDEN,
    ALL,
    GONE,
    WAIT_FOR_ALL,
    SYNC_STREAM,
    SYNC_EVENT,
    SYNC_CONTEXT, /* that of the stream */
    GRAPH,
    GRAPH_GONE,
    GRAPHS_WAIT,
    GRAPHS_TELL,
    STREAM_ENDS, /* and another one begins in its stead */
    CONTEXT_ENDS
};

struct step {
    enum step_kind kind;
    unsigned stream;
    uint64_t event;
};

/* `use_stream` and `use` are the latest USE. */
struct world {
    struct order_clocks *clocks;
    unsigned indices[STREAMS];
    unsigned use_index;
    uint64_t use;
};

static void world_open(struct world *world)
{
    world->clocks = calloc(1, sizeof *world->clocks);
    assert_non_null(world->clocks);
    for (unsigned i = 0; i < STREAMS; i++)
        world->indices[i] = clocks_stream_begins(world->clocks, context_of(i), kinds[i]);
}

static void world_close(struct world *world)
{
    clocks_clear(world->clocks);
    free(world->clocks);
}

static int is_ordered(struct world *world, unsigned index)
{
    clocks_step(world->clocks, index);
    return clocks_is_ordered(world->clocks, world->use_index, world->use, index);
}

static void synchronise(struct world *world, struct order_clock seen)
{
    clocks_host_knows(world->clocks, &seen);
}

static void stream_again(struct world *world, unsigned stream)
{
    clocks_stream_ends(world->clocks, world->indices[stream]);
    world->indices[stream] = clocks_stream_begins(world->clocks, context_of(stream), kinds[stream]);
}

/* Steps with an event or a graph. */
static void play_event(struct order_clocks *clocks, const struct step *step, unsigned index)
{
    switch (step->kind) {
    case MADE:
        clocks_event_made(clocks, step->event);
        break;
    case RECORD:
        clocks_event_recorded(clocks, step->event, index);
        break;
    case WAIT:
        clocks_wait(clocks, index, step->event);
        break;
    case HIDDEN:
        clocks_event_hidden(clocks, step->event);
        break;
    case ALL:
        clocks_event_all(clocks, step->event);
        break;
    case GONE:
        clocks_event_gone(clocks, step->event);
        break;
    case GRAPH:
        clocks_graph_launched(clocks, index, step->event);
        break;
    case GRAPH_GONE:
        clocks_graph_gone(clocks, step->event);
        break;
    default:
        break;
    }
}

/* Returns 0 if the order is another one than the step says. */
static int play(struct world *world, const struct step *step)
{
    struct order_clocks *clocks = world->clocks;
    unsigned index = world->indices[step->stream];
    switch (step->kind) {
    case USE:
        world->use_index = index;
        world->use = clocks_step(clocks, index);
        break;
    case ORDERED:
        return is_ordered(world, index);
    case UNORDERED:
        return !is_ordered(world, index);
    case WORK:
        clocks_step(clocks, index);
        break;
    case WAIT_FOR_ALL:
        clocks_wait_for_all(clocks, index);
        break;
    case SYNC_STREAM:
        synchronise(world, clocks_of_stream(clocks, index));
        break;
    case SYNC_EVENT:
        synchronise(world, clocks_of_event(clocks, step->event));
        break;
    case SYNC_CONTEXT:
        synchronise(world, clocks_of_context(clocks, context_of(step->stream)));
        break;
    case GRAPHS_WAIT:
        clocks->graphs_wait = 1;
        break;
    case GRAPHS_TELL:
        clocks->graphs_tell = 1;
        break;
    case STREAM_ENDS:
        stream_again(world, step->stream);
        break;
    case CONTEXT_ENDS:
        clocks_context_ends(clocks, context_of(step->stream));
        break;
    default:
        play_event(clocks, step, index);
    }
    return 1;
}

#define E 0x5000u /* events */
#define F 0x6000u
#define G 0x7000u /* a graph */

static const struct {
    const char *name;
    struct step steps[12];
} cases[] = {
    {"its own stream", {{USE, FREE_1, 0}, {ORDERED, FREE_1, 0}}},
    {"another stream", {{USE, FREE_1, 0}, {UNORDERED, FREE_2, 0}}},
    {"by an event",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {UNORDERED, FREE_2, 0}, {WAIT, FREE_2, E}, {ORDERED, FREE_2, 0}}},
    {"an event stands for what was before its record",
     {{MADE, 0, E}, {RECORD, FREE_1, E}, {USE, FREE_1, 0}, {WAIT, FREE_2, E}, {UNORDERED, FREE_2, 0}}},
    {"a wait is for the latest record",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {RECORD, FREE_3, E}, {WAIT, FREE_2, E}, {UNORDERED, FREE_2, 0}}},
    {"a later record does not change an earlier wait",
     {{MADE, 0, E}, {RECORD, FREE_1, E}, {WAIT, FREE_2, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {UNORDERED, FREE_2, 0}}},
    {"an event that was never recorded", {{MADE, 0, E}, {USE, FREE_1, 0}, {WAIT, FREE_2, E}, {UNORDERED, FREE_2, 0}}},
    {"an event that nobody has seen", {{USE, FREE_1, 0}, {WAIT, FREE_2, E}, {ORDERED, FREE_2, 0}}},
    {"an event of another process, recorded here",
     {{RECORD, FREE_3, E}, {USE, FREE_1, 0}, {WAIT, FREE_2, E}, {ORDERED, FREE_2, 0}}},
    {"a handle that stands for another event",
     {{MADE, 0, E},
      {USE, FREE_1, 0},
      {RECORD, FREE_1, E},
      {GONE, 0, E},
      {MADE, 0, E},
      {WAIT, FREE_2, E},
      {UNORDERED, FREE_2, 0}}},
    {"a wait outlives its event",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {WAIT, FREE_2, E}, {GONE, 0, E}, {ORDERED, FREE_2, 0}}},
    {"an event that a graph may record",
     {{MADE, 0, E}, {HIDDEN, 0, E}, {RECORD, FREE_3, E}, {USE, FREE_1, 0}, {WAIT, FREE_2, E}, {ORDERED, FREE_2, 0}}},
    {"an event for all", {{MADE, 0, E}, {USE, FREE_1, 0}, {ALL, 0, E}, {WAIT, FREE_2, E}, {ORDERED, FREE_2, 0}}},
    {"an event for all so far", {{MADE, 0, E}, {ALL, 0, E}, {USE, FREE_1, 0}, {WAIT, FREE_2, E}, {UNORDERED, FREE_2, 0}}},
    {"through a third stream",
     {{MADE, 0, E},
      {MADE, 0, F},
      {USE, FREE_1, 0},
      {RECORD, FREE_1, E},
      {WAIT, FREE_3, E},
      {RECORD, FREE_3, F},
      {WAIT, FREE_2, F},
      {ORDERED, FREE_2, 0}}},
    {"a record before the wait does not carry on",
     {{MADE, 0, E},
      {MADE, 0, F},
      {USE, FREE_1, 0},
      {RECORD, FREE_1, E},
      {RECORD, FREE_3, F},
      {WAIT, FREE_3, E},
      {WAIT, FREE_2, F},
      {UNORDERED, FREE_2, 0}}},
    {"through a stream of another device",
     {{MADE, 0, E},
      {MADE, 0, F},
      {USE, FREE_1, 0},
      {RECORD, FREE_1, E},
      {WAIT, FAR_BLOCKED, E},
      {RECORD, FAR_BLOCKED, F},
      {WAIT, FREE_2, F},
      {ORDERED, FREE_2, 0}}},
    {"a wait for something unknown", {{USE, FREE_1, 0}, {WAIT_FOR_ALL, FREE_2, 0}, {ORDERED, FREE_2, 0}}},
    {"the host has waited for the stream", {{USE, FREE_1, 0}, {SYNC_STREAM, FREE_1, 0}, {ORDERED, FREE_2, 0}}},
    {"the host has waited for another one", {{USE, FREE_1, 0}, {SYNC_STREAM, FREE_3, 0}, {UNORDERED, FREE_2, 0}}},
    {"the host has waited before", {{SYNC_STREAM, FREE_1, 0}, {USE, FREE_1, 0}, {UNORDERED, FREE_2, 0}}},
    {"the host has waited for one that waits",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {WAIT, FREE_3, E}, {SYNC_STREAM, FREE_3, 0}, {ORDERED, FREE_2, 0}}},
    {"the host has waited for an event",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {SYNC_EVENT, 0, E}, {ORDERED, FREE_2, 0}}},
    {"the host has waited for an earlier event",
     {{MADE, 0, E}, {RECORD, FREE_1, E}, {USE, FREE_1, 0}, {SYNC_EVENT, 0, E}, {UNORDERED, FREE_2, 0}}},
    {"the host has waited for the context", {{USE, FREE_1, 0}, {SYNC_CONTEXT, FREE_2, 0}, {ORDERED, FAR_LEGACY, 0}}},
    {"the host has waited for another context", {{USE, FREE_1, 0}, {SYNC_CONTEXT, FAR_LEGACY, 0}, {UNORDERED, FREE_2, 0}}},
    {"legacy waits for blocking", {{USE, BLOCKED, 0}, {ORDERED, LEGACY, 0}}},
    {"blocking waits for legacy", {{USE, LEGACY, 0}, {ORDERED, BLOCKED, 0}}},
    {"blocking does not wait for blocking", {{USE, BLOCKED, 0}, {UNORDERED, BLOCKED_TOO, 0}}},
    {"legacy between two blocking", {{USE, BLOCKED, 0}, {WORK, LEGACY, 0}, {ORDERED, BLOCKED_TOO, 0}}},
    {"legacy before both", {{WORK, LEGACY, 0}, {USE, BLOCKED, 0}, {UNORDERED, BLOCKED_TOO, 0}}},
    {"legacy does not wait for non-blocking", {{USE, FREE_1, 0}, {UNORDERED, LEGACY, 0}}},
    {"non-blocking does not wait for legacy", {{USE, LEGACY, 0}, {UNORDERED, FREE_1, 0}}},
    {"legacy of another context", {{USE, BLOCKED, 0}, {UNORDERED, FAR_LEGACY, 0}}},
    {"blocking of another context", {{USE, LEGACY, 0}, {UNORDERED, FAR_BLOCKED, 0}}},
    {"what a blocking stream waits for",
     {{MADE, 0, E}, {USE, FREE_1, 0}, {RECORD, FREE_1, E}, {WAIT, BLOCKED, E}, {ORDERED, LEGACY, 0}}},
    {"waiting for legacy waits for blocking", {{USE, BLOCKED, 0}, {SYNC_STREAM, LEGACY, 0}, {ORDERED, FREE_1, 0}}},
    {"waiting for blocking does not wait for blocking",
     {{USE, BLOCKED, 0}, {SYNC_STREAM, BLOCKED_TOO, 0}, {UNORDERED, FREE_1, 0}}},
    {"a question to legacy orders no blocking streams",
     {{USE, BLOCKED, 0}, {SYNC_STREAM, FREE_1, 0}, {UNORDERED, BLOCKED_TOO, 0}}},
    {"a record on legacy stands for blocking",
     {{MADE, 0, E}, {USE, BLOCKED, 0}, {RECORD, LEGACY, E}, {WAIT, FREE_1, E}, {ORDERED, FREE_1, 0}}},
    {"launches of one graph", {{USE, FREE_1, 0}, {GRAPH, FREE_1, G}, {GRAPH, FREE_2, G}, {ORDERED, FREE_2, 0}}},
    {"launches of two graphs", {{USE, FREE_1, 0}, {GRAPH, FREE_1, G}, {GRAPH, FREE_2, G + 8}, {UNORDERED, FREE_2, 0}}},
    {"a graph with a handle of before",
     {{USE, FREE_1, 0}, {GRAPH, FREE_1, G}, {GRAPH_GONE, 0, G}, {GRAPH, FREE_2, G}, {UNORDERED, FREE_2, 0}}},
    {"a graph is no event", {{MADE, 0, G}, {USE, FREE_1, 0}, {RECORD, FREE_1, G}, {GRAPH, FREE_2, G}, {UNORDERED, FREE_2, 0}}},
    {"graphs that wait", {{GRAPHS_WAIT, 0, 0}, {USE, FREE_1, 0}, {GRAPH, FREE_2, G}, {ORDERED, FREE_2, 0}}},
    {"graphs that tell the host", {{GRAPHS_TELL, 0, 0}, {USE, FREE_1, 0}, {GRAPH, FREE_1, G}, {ORDERED, FREE_2, 0}}},
    {"a destroyed stream", {{USE, FREE_1, 0}, {STREAM_ENDS, FREE_1, 0}, {UNORDERED, FREE_2, 0}, {UNORDERED, FREE_1, 0}}},
    {"legacy waits for a destroyed blocking stream", {{USE, BLOCKED, 0}, {STREAM_ENDS, BLOCKED, 0}, {ORDERED, LEGACY, 0}}},
    {"the context of a destroyed stream",
     {{USE, FREE_1, 0}, {STREAM_ENDS, FREE_1, 0}, {SYNC_CONTEXT, FREE_2, 0}, {ORDERED, FREE_2, 0}}},
    {"a destroyed context", {{USE, FAR_BLOCKED, 0}, {CONTEXT_ENDS, FAR_LEGACY, 0}, {ORDERED, FREE_1, 0}}},
};

TEST(every_order)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        world_open(&world);
        for (unsigned k = 0; cases[i].steps[k].kind != END; k++) {
            if (!play(&world, &cases[i].steps[k])) {
                fprintf(stderr, "%s: step %u\n", cases[i].name, k);
                wrong++;
            }
        }
        world_close(&world);
    }
    assert_int_equal(wrong, 0);
}

/* ---- limits: what is not known counts as ordered ---- */

TEST(streams_without_a_place_count_as_ordered)
{
    struct world world;
    world_open(&world);
    struct order_clocks *clocks = world.clocks;
    for (unsigned i = STREAMS; i < ORDER_STREAMS; i++)
        assert_int_not_equal(clocks_stream_begins(clocks, &near_context, ORDER_NON_BLOCKING), ORDER_NOT_TRACKED);
    unsigned none = clocks_stream_begins(clocks, &near_context, ORDER_BLOCKING);
    assert_int_equal(none, ORDER_NOT_TRACKED);
    assert_int_equal(clocks_step(clocks, none), 0);
    assert_true(play(&world, &(struct step){USE, FREE_1, 0}));
    assert_true(play(&world, &(struct step){UNORDERED, FREE_2, 0}));
    clocks_wait(clocks, none, E);
    clocks_event_made(clocks, F);
    clocks_event_recorded(clocks, F, none); /* which may have waited for the use */
    assert_true(play(&world, &(struct step){UNORDERED, FREE_3, 0}));
    assert_true(play(&world, &(struct step){WAIT, FREE_3, F}));
    assert_true(play(&world, &(struct step){ORDERED, FREE_3, 0}));
    assert_true(play(&world, &(struct step){ORDERED, LEGACY, 0})); /* which waits for the untracked one */
    struct order_clock seen = clocks_of_stream(clocks, none);
    clocks_host_knows(clocks, &seen);
    assert_true(play(&world, &(struct step){ORDERED, FREE_2, 0}));
    world_close(&world);
}

TEST(a_place_that_is_used_again_has_no_past)
{
    struct world world;
    world_open(&world);
    struct order_clocks *clocks = world.clocks;
    play(&world, &(struct step){USE, FREE_1, 0});
    clocks_stream_ends(clocks, world.indices[FREE_1]);
    for (unsigned i = STREAMS - 1; i < ORDER_STREAMS; i++) { /* the index is the last to be used again */
        assert_false(clocks_is_ordered(clocks, world.use_index, world.use, world.indices[FREE_2]));
        assert_int_not_equal(clocks_stream_begins(clocks, &far_context, ORDER_NON_BLOCKING), ORDER_NOT_TRACKED);
    }
    assert_true(clocks_is_ordered(clocks, world.use_index, world.use, world.indices[FREE_2]));
    world_close(&world);
}

TEST(forgotten_events_count_as_ordered)
{
    struct world world;
    world_open(&world);
    play(&world, &(struct step){MADE, 0, E});
    play(&world, &(struct step){GRAPH, FREE_3, G});
    play(&world, &(struct step){USE, FREE_1, 0});
    play(&world, &(struct step){WAIT, FREE_2, E});
    assert_true(play(&world, &(struct step){UNORDERED, FREE_2, 0}));
    for (uint64_t i = 0; i < ORDER_POINTS; i++)
        clocks_event_made(world.clocks, 0x100000 + 8 * i);
    assert_int_equal(world.clocks->point_count, ORDER_POINTS);
    play(&world, &(struct step){WAIT, FREE_2, E});
    assert_true(play(&world, &(struct step){ORDERED, FREE_2, 0}));
    play(&world, &(struct step){GRAPH, FREE_3, G}); /* its last launch may have been on any stream */
    assert_true(play(&world, &(struct step){ORDERED, FREE_3, 0}));
    world_close(&world);
}

/* ---- uses ---- */

#define START 0x10000u
#define SIZE 4096u

struct rerun_input {
    struct world world;
    struct uses *uses;
};

static void rerun_input_open(struct rerun_input *input)
{
    world_open(&input->world);
    input->uses = calloc(1, sizeof *input->uses);
    assert_non_null(input->uses);
}

static void rerun_input_close(struct rerun_input *input)
{
    free(input->uses);
    world_close(&input->world);
}

static void use(struct rerun_input *input, uint64_t buffer, unsigned stream, enum use_kind kind, uint64_t start, uint64_t end)
{
    unsigned index = input->world.indices[stream];
    const struct use made = {.position = clocks_step(input->world.clocks, index),
                             .stream = index,
                             .kind = kind,
                             .start = START + start,
                             .end = START + end};
    uses_add(input->uses, buffer, &made);
}

static const struct use *freed(struct rerun_input *input, uint64_t buffer, unsigned stream)
{
    return uses_against_free(input->uses, input->world.clocks, buffer, input->world.indices[stream]);
}

static const struct use *written(struct rerun_input *input, uint64_t buffer, unsigned stream, uint64_t start, uint64_t end)
{
    return uses_against_write(input->uses, input->world.clocks, buffer, input->world.indices[stream], START + start,
                              START + end);
}

TEST(a_free_conflicts_with_any_use)
{
    static const enum use_kind any[] = {USE_LAUNCH, USE_READ, USE_WRITE};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        struct rerun_input input;
        rerun_input_open(&input);
        assert_null(freed(&input, 7, FREE_2));
        use(&input, 7, FREE_1, any[i], 0, 16);
        assert_null(freed(&input, 8, FREE_2));
        assert_null(freed(&input, 7, FREE_1));
        assert_non_null(freed(&input, 7, FREE_2));
        uses_recorded(input.uses, 7, input.world.indices[FREE_1]);
        assert_null(freed(&input, 7, FREE_2));
        use(&input, 7, FREE_3, any[i], 0, 16);
        assert_non_null(freed(&input, 7, FREE_2));
        uses_drop(input.uses, 7);
        assert_null(freed(&input, 7, FREE_2));
        rerun_input_close(&input);
    }
}

TEST(a_launch_conflicts_with_a_write_of_all)
{
    struct rerun_input input;
    rerun_input_open(&input);
    use(&input, 7, FREE_1, USE_LAUNCH, 0, SIZE);
    assert_non_null(written(&input, 7, FREE_2, 0, SIZE));
    assert_null(written(&input, 7, FREE_2, 1, SIZE));
    assert_null(written(&input, 7, FREE_2, 0, SIZE - 1));
    assert_null(written(&input, 7, FREE_1, 0, SIZE));
    rerun_input_close(&input);
}

TEST(copies_conflict_where_they_overlap)
{
    struct rerun_input input;
    rerun_input_open(&input);
    use(&input, 7, FREE_1, USE_READ, 100, 200);
    assert_non_null(written(&input, 7, FREE_2, 199, 300));
    assert_non_null(written(&input, 7, FREE_2, 0, 101));
    assert_null(written(&input, 7, FREE_2, 200, 300));
    assert_null(written(&input, 7, FREE_2, 0, 100));
    rerun_input_close(&input);
}

/* A copy does not hide the launch before it, and of both the launch is reported. */
TEST(launches_and_copies_are_kept_apart)
{
    struct rerun_input input;
    rerun_input_open(&input);
    use(&input, 7, FREE_1, USE_LAUNCH, 0, SIZE);
    use(&input, 7, FREE_1, USE_READ, 0, 16);
    assert_int_equal(written(&input, 7, FREE_2, 0, SIZE)->kind, USE_LAUNCH);
    assert_int_equal(written(&input, 7, FREE_2, 0, 16)->kind, USE_READ);
    assert_int_equal(freed(&input, 7, FREE_2)->kind, USE_LAUNCH);
    rerun_input_close(&input);
}

TEST(the_latest_use_of_a_stream_counts)
{
    struct rerun_input input;
    rerun_input_open(&input);
    use(&input, 7, FREE_1, USE_LAUNCH, 0, SIZE);
    synchronise(&input.world, clocks_of_stream(input.world.clocks, input.world.indices[FREE_1]));
    assert_null(freed(&input, 7, FREE_2));
    use(&input, 7, FREE_1, USE_LAUNCH, 0, SIZE);
    assert_non_null(freed(&input, 7, FREE_2));
    rerun_input_close(&input);
}

TEST(the_table_is_bounded)
{
    struct rerun_input input;
    rerun_input_open(&input);
    for (uint64_t i = 0; i < 2 * USES_WAYS; i++) /* all in one set */
        use(&input, 1 + i * USES_SETS, FREE_1, USE_LAUNCH, 0, SIZE);
    unsigned known = 0;
    for (uint64_t i = 0; i < 2 * USES_WAYS; i++)
        known += freed(&input, 1 + i * USES_SETS, FREE_2) != NULL;
    assert_int_equal(known, USES_WAYS);
    assert_non_null(freed(&input, 1 + (2 * USES_WAYS - 1) * USES_SETS, FREE_2)); /* the newest */
    for (unsigned stream = 0; stream < STREAMS; stream++)                        /* more than are kept of one */
        use(&input, 2, stream, USE_LAUNCH, 0, SIZE);
    assert_non_null(freed(&input, 2, FREE_1));
    rerun_input_close(&input);
}
