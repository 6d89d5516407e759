/* The newest launches, allocations and frees before a fault, in order. */
#include "support/test.h"

#include "finding/finding.h"

static struct launch_entry launch(uint64_t time, uint32_t tid, uint64_t sequence)
{
    return (struct launch_entry){.time_ns = time, .tid = tid, .sequence = sequence};
}

TEST(events_are_in_order_of_time)
{
    const struct launch_entry launches[] = {launch(40, 1, 3), launch(10, 1, 1), launch(20, 1, 2)};
    const cufence_buffer near[] = {{.id = 1, .allocated_ns = 5, .freed_ns = 30}, {.id = 2, .allocated_ns = 15}};
    const cufence_buffer live[] = {{.id = 2, .allocated_ns = 15}, {.id = 3}}; /* one is in both; of one nothing is known */
    const struct fault_memory memory = {
        .recent = launches, .recent_count = 3, .near = near, .near_count = 2, .live = live, .live_count = 2};
    struct timeline_event *events;
    assert_int_equal(timeline_of(&memory, NULL, &events), 6);
    const uint64_t times[] = {5, 10, 15, 20, 30, 40};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(events[i].time_ns, times[i]);
    assert_int_equal(events[0].buffer->id, 1);
    assert_false(events[0].is_free);
    assert_ptr_equal(events[1].launch, &launches[1]);
    assert_int_equal(events[4].buffer->id, 1);
    assert_true(events[4].is_free);
    free(events);
}

TEST(launches_of_one_thread_are_in_their_order_within_a_tick)
{
    const struct launch_entry launches[] = {launch(10, 1, 3), launch(10, 1, 2), launch(10, 1, 1)};
    const struct fault_memory memory = {.recent = launches, .recent_count = 3};
    struct timeline_event *events;
    assert_int_equal(timeline_of(&memory, NULL, &events), 3);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(events[i].launch->sequence, i + 1);
    free(events);
}

TEST(the_newest_are_kept)
{
    enum { COUNT = TIMELINE_MOST + 9 };
    cufence_buffer live[COUNT];
    struct launch_entry last = launch(COUNT + 100, 1, 1), first = launch(1, 1, 2);
    struct timeline_event *events;
    memset(live, 0, sizeof live);
    for (uint64_t i = 0; i < COUNT; i++) {
        live[i].id = i + 1;
        live[i].allocated_ns = 50 + i * 7 % COUNT; /* in no order */
    }
    const struct fault_memory memory = {
        .recent = (struct launch_entry[]){last, first}, .recent_count = 2, .live = live, .live_count = COUNT};
    assert_int_equal(timeline_of(&memory, NULL, &events), TIMELINE_MOST);
    for (uint64_t i = 0; i + 1 < TIMELINE_MOST; i++)
        assert_int_equal(events[i].time_ns, 50 + COUNT - (TIMELINE_MOST - 1) + i);
    assert_int_equal(events[TIMELINE_MOST - 1].time_ns, COUNT + 100);
    free(events);
}

TEST(the_launch_that_faulted_is_marked)
{
    const struct launch_entry launches[] = {launch(10, 1, 1), launch(10, 1, 2), launch(10, 2, 2)};
    const struct launch_entry copy = launches[1];
    const struct fault_memory memory = {.recent = launches, .recent_count = 3};
    struct timeline_event *events;
    size_t marked = 0;
    assert_int_equal(timeline_of(&memory, &copy, &events), 3);
    for (size_t i = 0; i < 3; i++) {
        marked += (size_t)events[i].has_faulted;
        assert_int_equal(events[i].has_faulted, events[i].launch == &launches[1]);
    }
    assert_int_equal(marked, 1);
    free(events);
    assert_int_equal(timeline_of(&(struct fault_memory){0}, &copy, &events), 0);
    free(events);
}
