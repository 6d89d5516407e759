/* What the second launch of a kernel adds to a diagnosis, and what it must not change. test_golden.c has the stories as they
 * are. */
#include "support/test.h"

#include "rerun_stories.h"

static struct diagnosis diagnose(const struct story *story)
{
    struct diagnosis diagnosis;
    memset(&diagnosis, 0, sizeof diagnosis);
    fault_diagnose_rerun(&story->evidence, &story->rerun, &story->memory, &diagnosis);
    return diagnosis;
}

static void expect_address(const struct story *story, enum fault_kind kind, uint64_t owner, uint64_t address, uint64_t distance)
{
    struct diagnosis diagnosis = diagnose(story);
    assert_int_equal(diagnosis.verdict.kind, kind);
    assert_int_equal(id_of(diagnosis.verdict.owner), owner);
    assert_int_equal(diagnosis.verdict.certainty, CERTAIN_RERUN);
    assert_int_equal(diagnosis.access.address, address);
    assert_int_equal(diagnosis.access.certainty, CERTAIN_RERUN);
    assert_int_equal(diagnosis.verdict.distance, distance);
    assert_int_equal(diagnosis.candidates.count + diagnosis.candidates.total, 0);
    assert_true(diagnosis.again);
}

/* The diagnosis must be that of the first dump alone. */
static void expect_nothing_new(struct story *story)
{
    struct diagnosis diagnosis = diagnose(story), alone;
    fault_diagnose(&story->evidence, &story->memory, &alone);
    assert_int_equal(diagnosis.again, AGAIN_NOTHING);
    char wanted[512];
    strcpy(wanted, said_of(&alone));
    expect_said(&diagnosis, wanted);
    assert_ptr_equal(diagnosis.stop, alone.stop);
    assert_ptr_equal(diagnosis.access.lane, alone.access.lane);
    assert_int_equal(diagnosis.access.address, alone.access.address);
    assert_ptr_equal(diagnosis.origin.launch, alone.origin.launch);
    assert_int_equal(diagnosis.origin.certainty, alone.origin.certainty);
    assert_ptr_equal(diagnosis.arguments.bytes, alone.arguments.bytes);
    assert_int_equal(diagnosis.arguments.certainty, alone.arguments.certainty);
}

TEST(an_exited_warp_is_found_in_the_second_launch)
{
    struct story story;
    rerun(&story);
    struct diagnosis diagnosis = diagnose(&story);
    assert_ptr_equal(diagnosis.stop, story.stops);
    assert_ptr_equal(diagnosis.evidence, &story.evidence);
    assert_ptr_equal(diagnosis.access.lane, story.lanes_again);
    assert_true(diagnosis.again == AGAIN_GRID && fault_has_exited(&diagnosis));
    assert_ptr_equal(diagnosis.arguments.bytes, story.parameters_again);
    const struct evidence_stop *places[FAULT_PLACES];
    assert_int_equal(fault_other_places(&diagnosis, places), 0);

    story.lanes_again[0].certainty = story.lanes_again[1].certainty = CERTAIN_DERIVED;
    diagnosis = diagnose(&story); /* something was written just there */
    assert_int_equal(diagnosis.access.certainty, CERTAIN_RERUN);
    assert_int_equal(diagnosis.verdict.certainty, CERTAIN_RERUN);
    enum access_kind access = story.stops[0].access;
    story.stops[0].access = story.stops_again[0].access = ACCESS_READ; /* a write there says nothing about a read */
    assert_int_equal(diagnose(&story).access.certainty, CERTAIN_DERIVED);
    story.stops[0].access = story.stops_again[0].access = access;
    size_t write_count = story.rerun.write_count;
    story.rerun.write_count = 0;
    diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.access.certainty, CERTAIN_DERIVED);
    assert_int_equal(diagnosis.verdict.certainty, CERTAIN_DERIVED);
    story.rerun.write_count = write_count;
    story.stops[0].symbol = story.stops_again[0].symbol = NULL; /* equal offsets in unknown code mean nothing */
    story.rerun.write_count = 0;
    expect_nothing_new(&story);
}

/* Puts a fault at another place before the one that counts. */
TEST(only_the_same_place_counts)
{
    struct story story;
    rerun(&story);
    story.stops_again[1] = story.stops_again[0];
    story.stops_again[0].kernel_offset += 16;
    story.stops_again[0].lanes = &story.lanes_again[2];
    story.stops_again[0].lane_count = 1;
    story.stops_again[1].error_pc += 64;
    story.lanes_again[2].address = B_END;
    story.evidence_again.stop_count = 2;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    struct diagnosis diagnosis = diagnose(&story);
    assert_null(rerun_result_elsewhere(&diagnosis, &story.rerun));
    story.stops_again[1].symbol = "k_other";
    diagnosis = diagnose(&story); /* an unrolled loop has the access twice */
    assert_true(diagnosis.access.address == B_END && diagnosis.access.certainty == CERTAIN_RERUN &&
                diagnosis.again >= AGAIN_WARP);
    assert_null(rerun_result_elsewhere(&diagnosis, &story.rerun));
    story.stops_again[0].access_bytes *= 2;
    expect_nothing_new(&story);
    story.stops_again[0].access_bytes /= 2;
    story.stops_again[0].line++;
    expect_nothing_new(&story);
    assert_ptr_equal(rerun_result_elsewhere(&diagnosis, &story.rerun), story.stops_again);
    story.rerun.outcome = RERUN_NO_FAULT;
    assert_null(rerun_result_elsewhere(&diagnosis, &story.rerun));
}

TEST(a_known_address_stays)
{
    struct story story;
    rerun_for_nothing(&story);
    expect_nothing_new(&story);
    overrun(&story);
    without_parameters(&story);
    fault_again(&story, A_END);
    expect_nothing_new(&story);
    overrun(&story);
    without_parameters(&story);
    fault_again(&story, A_END + 8);
    story.stops[0].symbol = story.stops_again[0].symbol = "k_oob";
    story.lanes[0].certainty = story.lanes[1].certainty = CERTAIN_DERIVED; /* it was computed, not read from registers */
    story.lanes[0].is_replayed = story.lanes[1].is_replayed = 1;
    expect_nothing_new(&story);
}

TEST(an_address_of_registers_that_may_have_changed_is_replaced)
{
    struct story story;
    approximate(&story);
    fault_again(&story, A_END + 8);
    story.stops[0].symbol = story.stops_again[0].symbol = "k_oob";
    expect_address(&story, FAULT_OVERRUN, 1, A_END + 8, 8);
    story.lanes_again[0].certainty = story.lanes_again[1].certainty = CERTAIN_DERIVED; /* no better */
    expect_nothing_new(&story);
    story.stops[0].access = story.stops_again[0].access = ACCESS_WRITE; /* it was not written to, but another place was */
    add_write(&story, &story.near[0], A_END + 12, 4, &two, sizeof two);
    expect_address(&story, FAULT_OVERRUN, 1, A_END + 12, 12);
    story.rerun.writes[0].address = diagnose(&story).access.lane->address;
    expect_nothing_new(&story);
}

/* Registers with a null pointer are better evidence than an address that belongs to nothing. */
TEST(a_null_pointer_in_the_dump_stays_one)
{
    struct story story;
    approximate(&story);
    story.lanes[0].address = story.lanes[1].address = 28;
    fault_again(&story, 0x123456789000);
    story.stops[0].symbol = story.stops_again[0].symbol = "k_oob";
    expect_nothing_new(&story);
    assert_int_equal(diagnose(&story).verdict.kind, FAULT_NULL);
    fault_again(&story, A_END + 8);
    expect_address(&story, FAULT_OVERRUN, 1, A_END + 8, 8);
}

TEST(an_unknown_address_is_told)
{
    struct story story;
    use_after_free(&story);
    story.lanes[0].certainty = CERTAIN_NOT;
    story.parameters[1] = F_START;
    story.parameters[2] = B_START;
    fault_again(&story, F_START + 40);
    expect_address(&story, FAULT_USE_AFTER_FREE, 3, F_START + 40, 40);
    struct diagnosis diagnosis = diagnose(&story);
    assert_false(diagnosis.again == AGAIN_GRID || fault_has_exited(&diagnosis));
    assert_int_equal(diagnosis.arguments.certainty, CERTAIN_EXACT);
    assert_ptr_equal(diagnosis.arguments.bytes, story.parameters);
}

TEST(other_exceptions_are_left_alone)
{
    struct story story;
    assertion(&story);
    fault_again(&story, A_END);
    add_write(&story, &story.near[0], A_END, 4, &two, sizeof two);
    expect_nothing_new(&story);
    rerun(&story);
    story.stops_again[0].exception = exception_of(6, NULL); /* misaligned */
    story.lanes_again[0].address = A_END + 1;
    story.rerun.write_count = 0;
    expect_nothing_new(&story);
}

TEST(the_launch_that_did_it_again_is_the_launch)
{
    struct story story;
    rerun_second_launch(&story);
    story.stops_again[0].parameters = NULL; /* then those on record */
    struct diagnosis diagnosis = diagnose(&story);
    assert_ptr_equal(diagnosis.arguments.bytes, story.entries[1].bytes);
    assert_int_equal(diagnosis.arguments.certainty, CERTAIN_RERUN);
    assert_int_equal(diagnosis.arguments.time_ns, story.entries[1].time_ns);
    assert_int_equal(diagnosis.verdict.parameter, 1);

    story.rerun.launch = NULL;
    diagnosis = diagnose(&story);
    assert_ptr_equal(diagnosis.origin.launch, &story.launches[0]);
    assert_int_equal(diagnosis.origin.certainty, CERTAIN_CANDIDATE);

    launched(&story); /* certain from the first dump, though it has no address */
    story.lanes[0].certainty = story.lanes[1].certainty = CERTAIN_NOT;
    add_launch(&story, NULL, 0, 0)->grid[0] = 9;
    fault_again(&story, A_END);
    story.rerun.launch = &story.launches[1];
    diagnosis = diagnose(&story);
    assert_true(diagnosis.again);
    assert_ptr_equal(diagnosis.origin.launch, &story.launches[0]);
    assert_int_equal(diagnosis.origin.certainty, CERTAIN_EXACT);
}

TEST(what_was_written_names_the_buffer_if_it_is_one)
{
    struct story story;
    rerun_exited(&story);
    assert_true(diagnose(&story).again < AGAIN_WARP);
    add_write(&story, &story.near[0], A_END + 400, 4, &two, sizeof two);
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.outcome = RERUN_WROTE;
    story.rerun.evidence = NULL;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.outcome = RERUN_FAILED;
    expect_nothing_new(&story);
    story.rerun.outcome = RERUN_WROTE;
    story.stops[0].access = ACCESS_READ;
    expect_nothing_new(&story);
    story.stops[0].access = ACCESS_ATOMIC;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.written_bytes++; /* somewhere else */
    expect_nothing_new(&story);
    story.rerun.written_bytes--;
    story.rerun.written_bytes += 400; /* in pieces further on */
    story.rerun.rest_start = A_END + 800;
    story.rerun.rest_end = A_END + 4096;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.rest_end = B_END + 1; /* there, another buffer's guard begins */
    expect_nothing_new(&story);
    story.rerun.rest_start = A_START - 8; /* before its start, nothing is nearer than what is listed */
    story.rerun.rest_end = A_START - 4;
    story.rerun.writes[0].distance = story.rerun.writes[1].distance = 5;
    expect_nothing_new(&story);
    story.rerun.writes[0].distance = 0;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.rest_start = story.rerun.rest_end = 0;
    story.rerun.writes[1].distance = 400;
    story.rerun.written_bytes -= 400;
    story.rerun.writes[1].buffer = NULL;
    expect_nothing_new(&story);
    story.rerun.writes[1].buffer = &story.near[1];
    expect_nothing_new(&story);
    story.rerun.write_count = story.rerun.written_bytes = 0;
    expect_nothing_new(&story);
    add_write(&story, &story.near[1], B_START - 2200000, 8, &two, sizeof two);
    expect_address(&story, FAULT_UNDERRUN, 2, B_START - 2200000, 2200000);
}

/* It does not fault there, so it is not where the fault was. */
TEST(what_was_written_into_slack_names_none)
{
    struct story story;
    rerun_exited(&story);
    struct rerun_write *write = add_write(&story, NULL, story.near[1].mapping_start, 4, &two, sizeof two);
    write->is_slack = 1;
    rerun_result_name_buffers(&story.rerun, &story.memory);
    assert_ptr_equal(write->buffer, &story.near[1]);
    assert_true(write->is_before);
    assert_int_equal(write->distance, story.near[1].address - story.near[1].mapping_start - 4);
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.writes[0] = *write;
    story.rerun.written_bytes -= 4 * --story.rerun.write_count;
    expect_nothing_new(&story);
}

/* The list has room for so many: what was written into guards comes first. */
TEST(much_slack_does_not_hide_the_guard)
{
    struct story story;
    rerun_exited(&story);
    for (unsigned i = 0; i < 7; i++) {
        struct rerun_write *write = add_write(&story, &story.near[1], story.near[1].mapping_start + 16ul * i, 4, &two, 4);
        write->is_slack = 1;
    }
    story.rerun.written_bytes += 400; /* and more slack */
    assert_int_equal(story.rerun.write_count, 8);
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
}

/* A snapshot from elsewhere may say so. */
TEST(slack_without_a_buffer_may_come_first)
{
    struct story story;
    rerun_exited(&story);
    struct rerun_write guard = story.rerun.writes[0];
    struct rerun_write *slack = add_write(&story, NULL, 16, 4, &two, 4);
    slack->is_slack = 1;
    story.rerun.writes[0] = *slack;
    story.rerun.writes[1] = guard;
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
}

/* Variables of the module began with their first values, so an address beside no buffer may come from them. */
TEST(an_address_of_unknown_variables_is_no_null_pointer)
{
    struct story story;
    rerun(&story);
    snprintf(story.rerun.unset, sizeof story.rerun.unset, "table");
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0); /* beside a buffer that was an argument */
    story.rerun.write_count = 0;
    for (size_t i = 0; i < 3; i++)
        story.lanes_again[i].address = 4 * i;
    expect_nothing_new(&story);
    story.rerun.unset[0] = '\0';
    assert_int_equal(diagnose(&story).verdict.kind, FAULT_NULL);
}

TEST(an_address_of_state_that_is_not_there_counts_only_beside_a_buffer)
{
    struct story story;
    rerun(&story);
    snprintf(story.rerun.lacks, sizeof story.rerun.lacks, "the device heap");
    expect_address(&story, FAULT_OVERRUN, 1, A_END, 0);
    story.rerun.write_count = 0;
    story.lanes_again[0].address = story.lanes_again[1].address = 0x123456789000;
    expect_nothing_new(&story);
    story.stops_again[0].source = (struct address_source){.is_known = 1, .words = 1}; /* the arguments are those of the first */
    assert_int_equal(diagnose(&story).verdict.kind, FAULT_WILD);
}

TEST(a_thread_is_taken_without_an_address)
{
    struct story story;
    rerun(&story);
    story.rerun.write_count = 0;
    story.stops[0].exception = story.stops_again[0].exception = exception_of(4, NULL);
    for (size_t i = 0; i < 3; i++)
        story.lanes_again[i].certainty = CERTAIN_NOT;
    struct diagnosis diagnosis = diagnose(&story);
    assert_int_equal(diagnosis.verdict.kind, FAULT_OTHER);
    assert_true(diagnosis.again >= AGAIN_WARP && fault_has_exited(&diagnosis));
    snprintf(story.rerun.lacks, sizeof story.rerun.lacks, "the device heap"); /* a trap is one without it */
    assert_int_equal(diagnose(&story).again, diagnosis.again);
    assert_int_equal(fault_stop(&diagnosis)->block_index[0], 7);
    assert_int_equal(fault_stop(&diagnosis)->lanes[0].thread[0], 104);
    story.stops_again[0].exception = exception_of(2, NULL); /* another one */
    assert_true(diagnose(&story).again < AGAIN_WARP);
}

TEST(unknown_variables_are_listed_once)
{
    struct rerun_result result = {0};
    rerun_result_add_unset(&result, "table");
    rerun_result_add_unset(&result, "tab");
    rerun_result_add_unset(&result, "table");
    rerun_result_add_unset(&result, "tab");
    assert_string_equal(result.unset, "table, tab");
    for (char name[] = "a variable with a long name: A"; name[29] <= 'Z'; name[29]++)
        rerun_result_add_unset(&result, name);
    assert_true(strlen(result.unset) < sizeof result.unset);
    assert_string_equal(result.unset + strlen(result.unset) - 5, ", ...");
    rerun_result_clear(&result);
    assert_true(result.unset[0] == 't');
}
