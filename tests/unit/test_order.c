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

/* `use_index` and `use` are the latest USE. */
static struct {
    struct order_clocks *clocks;
    struct uses *uses;
    unsigned indices[STREAMS];
    unsigned use_index;
    uint64_t use;
} world;

static int set_up(void **state)
{
    world.clocks = calloc(1, sizeof *world.clocks);
    world.uses = calloc(1, sizeof *world.uses);
    assert_true(world.clocks && world.uses);
    for (unsigned i = 0; i < STREAMS; i++)
        world.indices[i] = clocks_stream_begins(world.clocks, context_of(i), kinds[i]);
    return 0;
}

static int tear_down(void **state)
{
    clocks_clear(world.clocks);
    free(world.clocks);
    free(world.uses);
    return 0;
}

static int is_ordered(unsigned index)
{
    clocks_step(world.clocks, index);
    return clocks_is_ordered(world.clocks, world.use_index, world.use, index);
}

static void synchronise(struct order_clock seen)
{
    clocks_host_knows(world.clocks, &seen);
}

static unsigned stream_of(const char *name)
{
    static const char *const names[STREAMS] = {"legacy", "blocked", "blocked2", "a", "b", "c", "far_legacy", "far_blocked"};
    for (unsigned i = 0; i < STREAMS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fail_msg("no stream %s", name);
    return 0;
}

/* Steps that the clocks take note of; `what` is an event or a graph. Returns 0 for others. */
static int note(const char *verb, unsigned stream, uint64_t what)
{
    struct order_clocks *clocks = world.clocks;
    unsigned index = world.indices[stream];
#define ON(word, statement)                                                                                                    \
    if (strcmp(verb, word) == 0) {                                                                                             \
        statement;                                                                                                             \
        return 1;                                                                                                              \
    }
    ON("work", clocks_step(clocks, index))
    ON("use", (world.use_index = index, world.use = clocks_step(clocks, index)))
    ON("made", clocks_event_made(clocks, what))
    ON("record", clocks_event_recorded(clocks, what, index))
    ON("wait", clocks_wait(clocks, index, what))
    ON("hidden", clocks_event_hidden(clocks, what))
    ON("all", clocks_event_all(clocks, what))
    ON("gone", clocks_event_gone(clocks, what))
    ON("wait_for_all", clocks_wait_for_all(clocks, index))
    ON("sync_stream", synchronise(clocks_of_stream(clocks, index)))
    ON("sync_event", synchronise(clocks_of_event(clocks, what)))
    ON("sync_context", synchronise(clocks_of_context(clocks, context_of(stream))))
    ON("graph", clocks_graph_launched(clocks, index, what))
    ON("graph_gone", clocks_graph_gone(clocks, what))
    ON("graphs_wait", clocks->graphs_wait = 1)
    ON("graphs_tell", clocks->graphs_tell = 1)
    ON("context_ends", clocks_context_ends(clocks, context_of(stream)))
#undef ON
    if (strcmp(verb, "stream_ends") != 0)
        return 0;
    clocks_stream_ends(clocks, index); /* and another one begins in its stead */
    world.indices[stream] = clocks_stream_begins(clocks, context_of(stream), kinds[stream]);
    return 1;
}

/* Plays steps "VERB [STREAM] [EVENT]; ...". Returns 0 if a free on a stream is `ordered` behind the use or `unordered`, and the
 * clocks say otherwise. */
static int play(const char *steps)
{
    char verb[16], words[2][16];
    int length = 0;
    for (; *steps; steps += length + (steps[length] == ';')) {
        words[0][0] = words[1][0] = '\0';
        assert_true(sscanf(steps, " %15[a-z_] %15[^; ] %15[^; ]", verb, words[0], words[1]) > 0);
        length = (int)strcspn(steps, ";");
        int has_stream = *words[0] >= 'a';
        unsigned stream = has_stream ? stream_of(words[0]) : 0;
        if (note(verb, stream, (unsigned char)words[has_stream][0]))
            continue;
        int is_to_be = strcmp(verb, "ordered") == 0;
        assert_true(is_to_be || strcmp(verb, "unordered") == 0);
        if (is_ordered(world.indices[stream]) != is_to_be)
            return 0;
    }
    return 1;
}

/* Of the streams a, b and c wait for nobody; E and F are events, G and H graphs. */
static const struct {
    const char *name, *steps;
} cases[] = {
    {"its own stream", "use a; ordered a"},
    {"another stream", "use a; unordered b"},
    {"by an event", "made E; use a; record a E; unordered b; wait b E; ordered b"},
    {"an event stands for what was before its record", "made E; record a E; use a; wait b E; unordered b"},
    {"a wait is for the latest record", "made E; use a; record a E; record c E; wait b E; unordered b"},
    {"a later record does not change an earlier wait", "made E; record a E; wait b E; use a; record a E; unordered b"},
    {"an event that was never recorded", "made E; use a; wait b E; unordered b"},
    {"an event that nobody has seen", "use a; wait b E; ordered b"},
    {"an event of another process, recorded here", "record c E; use a; wait b E; ordered b"},
    {"a handle that stands for another event", "made E; use a; record a E; gone E; made E; wait b E; unordered b"},
    {"a wait outlives its event", "made E; use a; record a E; wait b E; gone E; ordered b"},
    {"an event that a graph may record", "made E; hidden E; record c E; use a; wait b E; ordered b"},
    {"an event for all", "made E; use a; all E; wait b E; ordered b"},
    {"an event for all so far", "made E; all E; use a; wait b E; unordered b"},
    {"through a third stream", "made E; made F; use a; record a E; wait c E; record c F; wait b F; ordered b"},
    {"a record before the wait does not carry on",
     "made E; made F; use a; record a E; record c F; wait c E; wait b F; unordered b"},
    {"through a stream of another device",
     "made E; made F; use a; record a E; wait far_blocked E; record far_blocked F; wait b F; ordered b"},
    {"a wait for something unknown", "use a; wait_for_all b; ordered b"},
    {"the host has waited for the stream", "use a; sync_stream a; ordered b"},
    {"the host has waited for another one", "use a; sync_stream c; unordered b"},
    {"the host has waited before", "sync_stream a; use a; unordered b"},
    {"the host has waited for one that waits", "made E; use a; record a E; wait c E; sync_stream c; ordered b"},
    {"the host has waited for an event", "made E; use a; record a E; sync_event E; ordered b"},
    {"the host has waited for an earlier event", "made E; record a E; use a; sync_event E; unordered b"},
    {"the host has waited for the context", "use a; sync_context b; ordered far_legacy"},
    {"the host has waited for another context", "use a; sync_context far_legacy; unordered b"},
    {"legacy waits for blocking", "use blocked; ordered legacy"},
    {"blocking waits for legacy", "use legacy; ordered blocked"},
    {"blocking does not wait for blocking", "use blocked; unordered blocked2"},
    {"legacy between two blocking", "use blocked; work legacy; ordered blocked2"},
    {"legacy before both", "work legacy; use blocked; unordered blocked2"},
    {"legacy does not wait for non-blocking", "use a; unordered legacy"},
    {"non-blocking does not wait for legacy", "use legacy; unordered a"},
    {"legacy of another context", "use blocked; unordered far_legacy"},
    {"blocking of another context", "use legacy; unordered far_blocked"},
    {"what a blocking stream waits for", "made E; use a; record a E; wait blocked E; ordered legacy"},
    {"waiting for legacy waits for blocking", "use blocked; sync_stream legacy; ordered a"},
    {"waiting for blocking does not wait for blocking", "use blocked; sync_stream blocked2; unordered a"},
    {"a question to legacy orders no blocking streams", "use blocked; sync_stream a; unordered blocked2"},
    {"a record on legacy stands for blocking", "made E; use blocked; record legacy E; wait a E; ordered a"},
    {"launches of one graph", "use a; graph a G; graph b G; ordered b"},
    {"launches of two graphs", "use a; graph a G; graph b H; unordered b"},
    {"a graph with a handle of before", "use a; graph a G; graph_gone G; graph b G; unordered b"},
    {"a graph is no event", "made G; use a; record a G; graph b G; unordered b"},
    {"graphs that wait", "graphs_wait; use a; graph b G; ordered b"},
    {"graphs that tell the host", "graphs_tell; use a; graph a G; ordered b"},
    {"a destroyed stream", "use a; stream_ends a; unordered b; unordered a"},
    {"legacy waits for a destroyed blocking stream", "use blocked; stream_ends blocked; ordered legacy"},
    {"the context of a destroyed stream", "use a; stream_ends a; sync_context b; ordered b"},
    {"a destroyed context", "use far_blocked; context_ends far_legacy; ordered a"},
};

TEST(every_order)
{
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_up(NULL);
        if (!play(cases[i].steps)) {
            fprintf(stderr, "%s: %s\n", cases[i].name, cases[i].steps);
            wrong++;
        }
        tear_down(NULL);
    }
    assert_int_equal(wrong, 0);
}

/* ---- limits: what is not known counts as ordered ---- */

TEST_WITH(streams_without_a_place_count_as_ordered, set_up, tear_down)
{
    struct order_clocks *clocks = world.clocks;
    for (unsigned i = STREAMS; i < ORDER_STREAMS; i++)
        assert_int_not_equal(clocks_stream_begins(clocks, &near_context, ORDER_NON_BLOCKING), ORDER_NOT_TRACKED);
    unsigned none = clocks_stream_begins(clocks, &near_context, ORDER_BLOCKING);
    assert_int_equal(none, ORDER_NOT_TRACKED);
    assert_int_equal(clocks_step(clocks, none), 0);
    assert_true(play("use a; unordered b"));
    clocks_wait(clocks, none, 'E');
    clocks_event_made(clocks, 'F');
    clocks_event_recorded(clocks, 'F', none); /* which may have waited for the use */
    assert_true(play("unordered c; wait c F; ordered c"));
    assert_true(play("ordered legacy")); /* which waits for the untracked one */
    struct order_clock seen = clocks_of_stream(clocks, none);
    clocks_host_knows(clocks, &seen);
    assert_true(play("ordered b"));
}

TEST_WITH(a_place_that_is_used_again_has_no_past, set_up, tear_down)
{
    struct order_clocks *clocks = world.clocks;
    play("use a");
    clocks_stream_ends(clocks, world.indices[FREE_1]);
    for (unsigned i = STREAMS - 1; i < ORDER_STREAMS; i++) { /* the index is the last to be used again */
        assert_false(clocks_is_ordered(clocks, world.use_index, world.use, world.indices[FREE_2]));
        assert_int_not_equal(clocks_stream_begins(clocks, &far_context, ORDER_NON_BLOCKING), ORDER_NOT_TRACKED);
    }
    assert_true(clocks_is_ordered(clocks, world.use_index, world.use, world.indices[FREE_2]));
}

TEST_WITH(forgotten_events_count_as_ordered, set_up, tear_down)
{
    assert_true(play("made E; graph c G; use a; wait b E; unordered b"));
    for (uint64_t i = 0; i < ORDER_POINTS; i++)
        clocks_event_made(world.clocks, 0x100000 + 8 * i);
    assert_int_equal(world.clocks->point_count, ORDER_POINTS);
    assert_true(play("wait b E; ordered b"));
    play("graph c G"); /* its last launch may have been on any stream */
    assert_true(play("ordered c"));
}

/* ---- uses ---- */

#define START 0x10000u
#define SIZE 4096u

static void use(uint64_t buffer, unsigned stream, enum use_kind kind, uint64_t start, uint64_t end)
{
    unsigned index = world.indices[stream];
    const struct use made = {.position = clocks_step(world.clocks, index),
                             .stream = index,
                             .kind = kind,
                             .start = START + start,
                             .end = START + end};
    uses_add(world.uses, buffer, &made);
}

static const struct use *freed(uint64_t buffer, unsigned stream)
{
    return uses_against_free(world.uses, world.clocks, buffer, world.indices[stream]);
}

static const struct use *written(uint64_t buffer, unsigned stream, uint64_t start, uint64_t end)
{
    return uses_against_write(world.uses, world.clocks, buffer, world.indices[stream], START + start, START + end);
}

TEST(a_free_conflicts_with_any_use)
{
    static const enum use_kind any[] = {USE_LAUNCH, USE_READ, USE_WRITE};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        set_up(NULL);
        assert_null(freed(7, FREE_2));
        use(7, FREE_1, any[i], 0, 16);
        assert_null(freed(8, FREE_2));
        assert_null(freed(7, FREE_1));
        assert_non_null(freed(7, FREE_2));
        uses_recorded(world.uses, 7, world.indices[FREE_1]);
        assert_null(freed(7, FREE_2));
        use(7, FREE_3, any[i], 0, 16);
        assert_non_null(freed(7, FREE_2));
        uses_drop(world.uses, 7);
        assert_null(freed(7, FREE_2));
        tear_down(NULL);
    }
}

TEST_WITH(a_launch_conflicts_with_a_write_of_all, set_up, tear_down)
{
    use(7, FREE_1, USE_LAUNCH, 0, SIZE);
    assert_non_null(written(7, FREE_2, 0, SIZE));
    assert_null(written(7, FREE_2, 1, SIZE));
    assert_null(written(7, FREE_2, 0, SIZE - 1));
    assert_null(written(7, FREE_1, 0, SIZE));
}

TEST_WITH(copies_conflict_where_they_overlap, set_up, tear_down)
{
    use(7, FREE_1, USE_READ, 100, 200);
    assert_non_null(written(7, FREE_2, 199, 300));
    assert_non_null(written(7, FREE_2, 0, 101));
    assert_null(written(7, FREE_2, 200, 300));
    assert_null(written(7, FREE_2, 0, 100));
}

/* A copy does not hide the launch before it, and of both the launch is reported. */
TEST_WITH(launches_and_copies_are_kept_apart, set_up, tear_down)
{
    use(7, FREE_1, USE_LAUNCH, 0, SIZE);
    use(7, FREE_1, USE_READ, 0, 16);
    assert_int_equal(written(7, FREE_2, 0, SIZE)->kind, USE_LAUNCH);
    assert_int_equal(written(7, FREE_2, 0, 16)->kind, USE_READ);
    assert_int_equal(freed(7, FREE_2)->kind, USE_LAUNCH);
}

TEST_WITH(the_latest_use_of_a_stream_counts, set_up, tear_down)
{
    use(7, FREE_1, USE_LAUNCH, 0, SIZE);
    synchronise(clocks_of_stream(world.clocks, world.indices[FREE_1]));
    assert_null(freed(7, FREE_2));
    use(7, FREE_1, USE_LAUNCH, 0, SIZE);
    assert_non_null(freed(7, FREE_2));
}

TEST_WITH(the_table_is_bounded, set_up, tear_down)
{
    for (uint64_t i = 0; i < 2 * USES_WAYS; i++) /* all in one set */
        use(1 + i * USES_SETS, FREE_1, USE_LAUNCH, 0, SIZE);
    unsigned known = 0;
    for (uint64_t i = 0; i < 2 * USES_WAYS; i++)
        known += freed(1 + i * USES_SETS, FREE_2) != NULL;
    assert_int_equal(known, USES_WAYS);
    assert_non_null(freed(1 + (2 * USES_WAYS - 1) * USES_SETS, FREE_2)); /* the newest */
    for (unsigned stream = 0; stream < STREAMS; stream++)                /* more than are kept of one */
        use(2, stream, USE_LAUNCH, 0, SIZE);
    assert_non_null(freed(2, FREE_1));
}
