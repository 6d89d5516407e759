/* Which recorded launch faulted, with which certainty, and the kernel's arguments. test_golden.c has what is said of the
 * stories as they are. */
#include "support/test.h"

#include "analysis/verdict/launches.h"
#include "fault_stories.h"

static struct diagnosis diagnose(const struct story *story)
{
    struct diagnosis diagnosis;
    fault_diagnose(&story->evidence, &story->memory, &diagnosis);
    return diagnosis;
}

TEST(every_part_that_the_dump_has_must_fit)
{
    struct story story;
    struct launch_entry *launch = &story.entries[0];
    struct evidence_stop *stop = &story.stops[0];
    launched(&story);
    assert_true(launch_fits(launch, stop));
    stop->symbol = "k_oo";
    assert_false(launch_fits(launch, stop));
    stop->symbol = NULL;
    assert_false(launch_fits(launch, stop));

    launched(&story);
    launch->grid[2] = 2;
    assert_false(launch_fits(launch, stop));
    stop->has_grid = 0;
    assert_true(launch_fits(launch, stop));

    launched(&story);
    launch->block[0] = 64;
    assert_false(launch_fits(launch, stop));
    launch->block[0] = 1;
    assert_false(launch_fits(launch, stop));

    static struct launch_function tile = {.name = "k_Kt1_A1f32_1t1"}; /* of cuTile */
    launched(&story);
    launch->function = &tile;
    stop->symbol = tile.name;
    stop->parameters = NULL;
    launch->block[0] = 64;
    assert_false(launch_fits(launch, stop));
    launch->block[0] = 1;
    launch->grid[0] /= 2;
    assert_true(launch_fits(launch, stop));

    launched(&story);
    launch->bytes[19] ^= 1;
    assert_false(launch_fits(launch, stop));
    launch->kept_bytes = 16; /* cut before it */
    assert_true(launch_fits(launch, stop));
    launch->bytes[0] ^= 1;
    assert_false(launch_fits(launch, stop));
    stop->parameters = NULL;
    assert_true(launch_fits(launch, stop));
}

/* Padding holds what an older launch left there. */
TEST(bytes_between_arguments_do_not_count)
{
    static const struct launch_function padded = {
        .name = "k_oob", .has_layout = 1, .argument_bytes = 16, .argument_count = 2, .arguments = {{0, 4}, {8, 8}}};
    struct story story;
    launched(&story);
    story.entries[0].function = &padded;
    story.entries[0].kept_bytes = 16;
    story.entries[0].bytes[5] = 99;
    assert_true(launch_fits(&story.entries[0], &story.stops[0]));
    story.entries[0].bytes[3] = 99;
    assert_false(launch_fits(&story.entries[0], &story.stops[0]));
}

TEST(the_origin_is_as_sure_as_it_is_alone)
{
    /* A graph was launched since, and may have the kernel in it. */
    struct story replayed;
    launched(&replayed);
    struct launch_entry *graph = add_launch(&replayed, step_frames, 2, 1);
    graph->function = NULL;
    graph->graph = 0x77;
    assert_int_equal(diagnose(&replayed).origin.certainty, CERTAIN_DERIVED);
    graph->time_ns--;
    assert_int_equal(diagnose(&replayed).origin.certainty, CERTAIN_EXACT);
    /* Nothing is known of where they came from, so it is not one place. */
    struct story story;
    launched_twice(&story);
    story.launches[0].place = story.launches[2].place = 0;
    assert_int_equal(diagnose(&story).origin.certainty, CERTAIN_CANDIDATE);
}

TEST(arguments_of_launches_are_told_where_they_agree)
{
    struct story story;
    exited_launched(&story);
    add_launch(&story, native_frames_of, 1, 2);
    struct diagnosis diagnosis = diagnose(&story);
    assert_non_null(diagnosis.arguments.bytes);
    assert_int_equal(diagnosis.arguments.certainty, CERTAIN_DERIVED);
    assert_int_equal(diagnosis.candidates.certainty, CERTAIN_CANDIDATE); /* two launches, even if they agree */
    story.entries[1].bytes[16] ^= 1;
    diagnosis = diagnose(&story);
    assert_null(diagnosis.arguments.bytes);
    assert_ptr_equal(diagnosis.arguments.layout, &k_oob);
}

/* One buffer, one launch: that is derived only where the code shows that the address comes from that argument. */
TEST(the_code_says_which_argument_it_was)
{
    struct story story;
    exited_launched(&story);
    struct diagnosis diagnosis = diagnose(&story);
    assert_int_equal(fault_source_word(&diagnosis), -1);
    exited_launched_traced(&story);
    diagnosis = diagnose(&story);
    assert_int_equal(fault_source_word(&diagnosis), 1);
    assert_false(fault_is_loaded(&diagnosis));

    /* Of two buffers it is the one; also where the signature takes it as a pointer to const. */
    story.parameters[0] = B_START;
    memcpy(story.entries[0].bytes, story.parameters, 20);
    story.stops[0].kernel = "k_oob(float*, float const*, int)";
    diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.candidates.total, 1);
    assert_int_equal(diagnosis.candidates.list[0]->id, 1);
    assert_int_equal(diagnosis.candidates.certainty, CERTAIN_DERIVED);

    /* An argument that points to nobody's memory leaves no candidates, and no other buffer takes its place. */
    story.stops[0].source.words = 4;
    diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.candidates.total, 0);

    /* A second launch, or a graph, may have been it. */
    story.stops[0].source.words = 2;
    add_launch(&story, step_frames, 1, 1);
    assert_int_equal(diagnose(&story).candidates.certainty, CERTAIN_CANDIDATE);
    story.entries[1].function = NULL;
    story.entries[1].graph = 0x77;
    assert_int_equal(diagnose(&story).candidates.certainty, CERTAIN_CANDIDATE);
}

TEST(an_exited_warp_may_mean_any_argument)
{
    struct story story;
    exited_launched_traced(&story);
    story.entries[0].argument_bytes = 400; /* more was given than was kept */
    assert_int_equal(diagnose(&story).candidates.certainty, CERTAIN_CANDIDATE);

    /* All arguments are pointers to const: the name is no help then. */
    exited_launched(&story);
    story.stops[0].kernel = "k_oob(float const*, float const*, int)";
    struct diagnosis diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.candidates.count, 1);
    assert_false(diagnosis.candidates.excluded == EXCLUDED_CONST);

    /* A read may be through any of them. */
    exited_launched_const(&story);
    story.stops[0].access = ACCESS_READ;
    diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.candidates.count, 2);
    assert_int_equal(diagnosis.candidates.certainty, CERTAIN_CANDIDATE);

    /* Two halves of integers that look like a pointer together are none. */
    static const struct launch_function halves = {.name = "k_oob",
                                                  .has_layout = 1,
                                                  .argument_bytes = 20,
                                                  .argument_count = 4,
                                                  .arguments = {{0, 8}, {8, 4}, {12, 4}, {16, 4}}};
    exited_launched(&story);
    story.entries[0].function = &halves;
    diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.candidates.source, CANDIDATES_LIVE);
    assert_int_equal(diagnosis.candidates.total, 12);
}

/* A launch means the tenants of its own time. */
TEST(an_argument_means_the_tenant_of_the_launches_time)
{
    cufence_buffer near[] = {world[A], world[A]};
    near[0].id = 1;
    near[0].allocated_ns = 1000000000;
    near[0].freed_ns = 2000000000;
    near[1].id = 2;
    near[1].allocated_ns = 3000000000;
    struct fault_memory memory = {.near = near, .near_count = 2};
    assert_int_equal(word_buffer(&memory, A_START, 0)->id, 2);
    assert_int_equal(word_buffer(&memory, A_START, 1500000000)->id, 1);
    assert_int_equal(word_buffer(&memory, A_START, 2999999000)->id, 2); /* the launch's clock may lag */
    assert_int_equal(word_buffer(&memory, A_START, 4000000000)->id, 2);
    near[1].freed_ns = 3500000000;
    assert_int_equal(word_buffer(&memory, A_START, 4000000000)->id, 2);
}

TEST(words_are_found_in_their_arguments)
{
    static const struct launch_function layout = {
        .has_layout = 1, .argument_count = 4, .arguments = {{0, 8}, {8, 4}, {12, 4}, {16, 24}}};
    uint32_t offset = 9;
    assert_int_equal(launch_argument_of(&layout, 0, &offset), 0);
    assert_int_equal(offset, 0);
    assert_int_equal(launch_argument_of(&layout, 1, &offset), -1);
    assert_int_equal(launch_argument_of(&layout, 4, &offset), 3);
    assert_int_equal(offset, 16);
    assert_int_equal(launch_argument_of(&layout, 5, &offset), -1);
    assert_int_equal(launch_argument_of(NULL, 0, &offset), -1);
}
