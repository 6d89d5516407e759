/* The whole diagnosis: which lane is reported, what is counted, the neighbouring buffers, and the candidates. */
#include "support/test.h"

#include "fault_world.h"

static void expect(const struct evidence_stop *stops, size_t count, const struct fault_memory *memory, const char *wanted)
{
    struct diagnosis diagnosis = diagnosed(stops, count, memory);
    expect_said(&diagnosis, wanted);
}

TEST(buffers_are_found_in_any_order)
{
    const cufence_buffer reversed[] = {world[NEWER_F], world[F], world[C], world[B], world[IDLE_A], world[A]};
    struct fault_memory memory = {.near = reversed, .near_count = 6, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_stop stop = stop_at(&lane, 1, 4);
    expect(&stop, 1, &memory, "overrun of #1 derived at 0, beside #1 #2; address exact, lane 0, 1 threads, 0 others");
    lane.address = F_START + 900;
    expect(&stop, 1, &memory, "use-after-free of #4 derived at 100, beside #2 #7; address exact, lane 0, 1 threads, 0 others");
}

static uint64_t asked[4];
static size_t asked_count;

static void give_all(void *from, uint64_t address)
{
    struct fault_memory *memory = from;
    assert_true(asked_count < 4);
    asked[asked_count++] = address;
    memory->near_count = 1;
}

/* Each address is asked for once: not where the buffer is there already. */
TEST(buffers_that_are_not_there_are_asked_for)
{
    struct fault_memory memory = *memory_with(BIT(A));
    struct evidence_lane lanes[] = {{.address = A_END - 2, .certainty = CERTAIN_EXACT}, {.address = A_START}};
    struct evidence_stop stop = stop_at(lanes, 2, 4);
    const uint64_t words[] = {A_START, 4};
    give(&stop, words, sizeof words);
    memory.near_count = 0;
    memory.buffers_at = give_all;
    memory.from = &memory;
    expect(&stop, 1, &memory, "overrun of #1 exact at 0 by word 0, beside #1 #0; address exact, lane 0, 1 threads, 0 others");
    assert_int_equal(asked_count, 2);
    assert_int_equal(asked[0], A_END - 2);
    assert_int_equal(asked[1], A_START); /* the argument */
}

TEST(an_argument_means_the_live_tenant_of_a_place)
{
    cufence_buffer near[] = {world[F], world[F], world[A], world[A]};
    near[1].id = 30;
    near[2].id = 40;
    near[2].freed_ns = 1;
    const cufence_buffer live = world[B];
    struct fault_memory memory = {.near = near, .near_count = 4, .live = &live, .live_count = 1, .live_total = 1};
    uint64_t words[] = {F_START, A_END, B_START + 1};
    struct evidence_stop stop = stop_at(NULL, 0, 4);
    give(&stop, words, sizeof words);
    expect(&stop, 1, &memory,
           "illegal access; address unknown, 0 threads, 0 others; 3 of 3 from arguments, candidate: #30 by 0 #1 by 1 #2 by 2");

    /* A word that is one buffer's end and another's start means the latter. */
    near[3].address = A_END;
    struct diagnosis diagnosis = diagnosed(&stop, 1, &memory);
    assert_ptr_equal(diagnosis.candidates.list[1], &near[3]);
}

/* The number decides the kind; an address helps where there is one. */
TEST(every_exception_has_its_kind)
{
    static const struct {
        uint32_t exception;
        enum fault_kind unknown, past_end;
    } cases[] = {{0, FAULT_OTHER, FAULT_OTHER},
                 {1, FAULT_ILLEGAL_ACCESS, FAULT_OVERRUN},
                 {2, FAULT_OTHER, FAULT_OTHER},
                 {4, FAULT_OTHER, FAULT_OTHER},
                 {5, FAULT_OTHER, FAULT_OVERRUN},
                 {6, FAULT_MISALIGNED, FAULT_MISALIGNED},
                 {7, FAULT_OTHER, FAULT_OVERRUN},
                 {9, FAULT_OTHER, FAULT_OTHER},
                 {10, FAULT_ILLEGAL_ACCESS, FAULT_OVERRUN},
                 {11, FAULT_MISALIGNED, FAULT_MISALIGNED},
                 {12, FAULT_OTHER, FAULT_OTHER},
                 {14, FAULT_ILLEGAL_ACCESS, FAULT_OVERRUN},
                 {30, FAULT_ILLEGAL_ACCESS, FAULT_OVERRUN},
                 {999, FAULT_OTHER, FAULT_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct evidence_lane lane = {.address = A_END + 2, .certainty = CERTAIN_EXACT, .has_exception = 1};
        struct evidence_stop stop = stop_at(&lane, 1, 4);
        stop.exception = exception_of(cases[i].exception, NULL);
        struct diagnosis diagnosis = diagnosed(&stop, 1, memory_with(BIT(A)));
        assert_int_equal(diagnosis.verdict.kind, cases[i].past_end);
        assert_int_equal(diagnosis.access.certainty, cases[i].past_end == FAULT_OTHER ? CERTAIN_NOT : CERTAIN_EXACT);
        lane.certainty = CERTAIN_NOT;
        char wanted[64];
        snprintf(wanted, sizeof wanted, "%s; address unknown, lane 0, 1 threads, 0 others", fault_kind_names[cases[i].unknown]);
        expect(&stop, 1, memory_with(BIT(A)), wanted);
    }
}

TEST(the_first_element_out_of_bounds_is_reported)
{
    struct fault_memory *memory = memory_with(BOTH);
    struct evidence_lane first[] = {
        {.lane = 0, .address = A_END - 8, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = A_END + 64, .certainty = CERTAIN_EXACT},
        {.lane = 2, .address = A_END + 32, .certainty = CERTAIN_EXACT, .has_exception = 1},
        {.lane = 3, .address = 0xbad000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
        {.lane = 4, .address = A_END, .certainty = CERTAIN_NOT},
    };
    struct evidence_lane second[] = {
        {.lane = 5, .address = A_END + 16, .certainty = CERTAIN_EXACT},
        {.lane = 6, .address = A_END - 4, .certainty = CERTAIN_EXACT},
    };
    struct evidence_lane elsewhere = {.lane = 7, .address = A_END + 20, .certainty = CERTAIN_EXACT};
    struct evidence_stop stops[] = {stop_at(first, 5, 4), stop_at(second, 2, 4), stop_at(&elsewhere, 1, 4),
                                    stop_at(NULL, 0, 4)};
    stops[2].error_pc = 0x1500;
    expect(stops, 4, memory, "overrun of #1 derived at 16, beside #1 #2; address exact, lane 5, 4 threads, 2 others");
    second[1].address = A_END + 16;
    expect(stops, 4, memory, "overrun of #1 derived at 16, beside #1 #2; address exact, lane 5, 5 threads, 2 others");
    second[1].address = A_END - 2;
    expect(stops, 4, memory, "overrun of #1 derived at 0, beside #1 #2; address exact, lane 6, 5 threads, 2 others");
}

TEST(known_addresses_come_before_approximate_ones)
{
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_END, .certainty = CERTAIN_DERIVED},
        {.lane = 1, .address = A_END + 4, .certainty = CERTAIN_EXACT},
    };
    struct evidence_stop stop = stop_at(lanes, 2, 4);
    expect(&stop, 1, memory_with(BOTH), "overrun of #1 derived at 4, beside #1 #2; address exact, lane 1, 2 threads, 0 others");

    /* But one that explains the fault comes before an exact one that does not. */
    lanes[1].address = A_START;
    expect(&stop, 1, memory_with(BOTH),
           "overrun of #1 derived at 0, beside #1 #2; address derived, lane 0, 1 threads, 0 others");
}

TEST(the_marked_lane_speaks_where_no_address_belongs_to_a_buffer)
{
    struct fault_memory *memory = memory_with(BOTH);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = 0x500000000000, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = 0x510000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
        {.lane = 2, .address = 0x520000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
    };
    struct evidence_stop stop = stop_at(lanes, 3, 4);
    expect(&stop, 1, memory, "wild address, beside #0 #1; address exact, lane 1, 3 threads, 0 others");
    memory->is_host_address = 1;
    expect(&stop, 1, memory, "host pointer, beside #0 #1; address exact, lane 1, 3 threads, 0 others");
}

TEST(lanes_that_may_not_have_made_the_access_are_not_counted)
{
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_END, .certainty = CERTAIN_DERIVED, .may_be_apart = 1},
        {.lane = 1, .address = A_END + 4, .certainty = CERTAIN_EXACT},
        {.lane = 2, .address = A_END + 8, .certainty = CERTAIN_EXACT},
    };
    struct evidence_stop stop = stop_at(lanes, 3, 4);
    expect(&stop, 1, memory_with(BOTH), "overrun of #1 derived at 4, beside #1 #2; address exact, lane 1, 2 threads, 0 others");
}

TEST(misaligned_lanes_are_counted)
{
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_START, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = A_START + 10, .certainty = CERTAIN_EXACT},
        {.lane = 2, .address = A_START + 18, .certainty = CERTAIN_EXACT},
    };
    struct evidence_stop stop = stop_at(lanes, 3, 8);
    stop.exception = exception_of(6, NULL);
    expect(&stop, 1, memory_with(BOTH),
           "misaligned access of #1 exact at 10, beside #0 #2; address exact, lane 1, 2 threads, 0 others");
}

TEST(an_exited_warp_has_the_live_buffers_for_candidates)
{
    cufence_buffer live[10];
    for (size_t i = 0; i < 10; i++)
        live[i] = (cufence_buffer)LIVE(100 - i, i, 4000);
    struct fault_memory memory = {
        .live = live, .live_count = 10, .live_total = 5000, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_stop stops[] = {stop_at(NULL, 0, 4), stop_at(NULL, 0, 4), stop_at(NULL, 0, 4)};
    stops[1].sm = 1;
    stops[2].symbol = "another";
    expect(stops, 3, &memory,
           "illegal access; address unknown, 0 threads, 1 others; 8 of 5000 from live, candidate: #100 #99 #98 #97 #96 #95 #94 "
           "#93");

    /* The dump of a kernel with another warp alive holds the parameters: twice the third buffer, and all of the others. */
    uint64_t words[12] = {17, live[2].address, live[2].address + 4, live[1].address + 4000};
    for (size_t i = 3; i < 10; i++)
        words[i + 1] = live[i].address;
    give(&stops[0], words, 11 * 8 + 7);
    expect(stops, 3, &memory,
           "illegal access; address unknown, 0 threads, 1 others; 8 of 9 from arguments, candidate: #98 by 1 #99 by 3 #97 by 4 "
           "#96 by 5 #95 by 6 #94 by 7 #93 by 8 #92 by 9");
    stops[0].parameter_bytes = 8;
    expect(stops, 3, &memory,
           "illegal access; address unknown, 0 threads, 1 others; 8 of 5000 from live, candidate: #100 #99 #98 #97 #96 #95 #94 "
           "#93");
}

TEST(an_alive_warp_is_preferred_to_an_exited_one)
{
    struct evidence_lane lanes[] = {{.lane = 3, .certainty = CERTAIN_NOT},
                                    {.lane = 4, .certainty = CERTAIN_NOT, .has_exception = 1}};
    struct evidence_stop stops[] = {stop_at(NULL, 0, 4), stop_at(lanes, 2, 4)};
    expect(stops, 2, memory_with(BOTH), "illegal access; address unknown, lane 4, 1 threads, 1 others");
}

/*
 * Three launches of one kernel, on the buffers A, B and C, in one graph or on one stream. One has faulted, and its warp has
 * exited: nothing in the dump tells which. Of launch `runs` (3: of none) the dump has the warp in its place, in bounds, or only
 * the grid.
 */
static void diagnose_equal_kernels(size_t runs, int is_in_graph, int is_alive, struct diagnosis *diagnosis)
{
    static const struct launch_function function = {
        .name = "k_oob", .has_layout = 1, .argument_bytes = 8, .argument_count = 1, .arguments = {{0, 8}}};
    struct fault_memory *memory = memory_with(BOTH | BIT(C));
    static struct launch_entry entries[4];
    static struct fault_launch launches[4];
    static uint64_t starts[3] = {A_START, B_START, C_END - 4001};
    static struct evidence_lane lanes[2];
    static struct evidence_stop stop;
    for (size_t i = 0; i < 4; i++) {
        entries[i] = (struct launch_entry){.time_ns = 50000000 - i, .tid = 1, .grid = {8, 1, 1}, .block = {128, 1, 1}};
        launches[i] = (struct fault_launch){.entry = &entries[i], .place = 1};
    }
    entries[0].graph = 0x77;
    for (size_t i = 0; i < 3; i++) {
        entries[3 - i].function = &function;
        entries[3 - i].argument_bytes = entries[3 - i].kept_bytes = 8;
        memcpy(entries[3 - i].bytes, &starts[i], 8);
    }
    memory->launches = is_in_graph ? launches : launches + 1;
    memory->launch_count = is_in_graph ? 4 : 3;
    for (unsigned i = 0; i < 2; i++)
        lanes[i] = (struct evidence_lane){.lane = i,
                                          .address = starts[runs % 3] + 4ul * i,
                                          .certainty = CERTAIN_DERIVED,
                                          .is_replayed = 1,
                                          .has_exception = 1};
    stop = stop_at(is_alive ? lanes : NULL, is_alive ? 2 : 0, 4);
    stop.source = (struct address_source){1, 1, 0};
    if (runs < 3) {
        stop.has_grid = 1;
        stop.is_grid_borrowed = !is_alive;
        stop.grid[0] = 8;
        stop.block[0] = 128;
        stop.grid[1] = stop.grid[2] = stop.block[1] = stop.block[2] = 1;
        give(&stop, &starts[runs], 8);
    }
    *diagnosis = diagnosed(&stop, 1, memory);
}

#define NOTHING "illegal access; address unknown, 0 threads, 0 others"
#define THREE "; 0 of 3 from launches, candidate:"

TEST(equal_kernels_are_not_taken_for_each_other)
{
    for (size_t i = 4; i < 16; i++) {
        struct diagnosis diagnosis;
        size_t runs = i / 4;
        int is_in_graph = i & 1, is_alive = (i & 2) && runs < 3;
        diagnose_equal_kernels(runs, is_in_graph, is_alive, &diagnosis);
        const struct evidence_stop *stop = fault_stop(&diagnosis);
        diagnosis.candidates.count = 0; /* in any order */
        expect_said(&diagnosis, is_alive ? NOTHING ", bystander" THREE : NOTHING THREE);
        assert_false(stop->is_warp_alive || stop->has_grid || stop->parameters || diagnosis.arguments.bytes);
        assert_int_equal(diagnosis.origin.fits, 3);
    }
}

/* The only launch of its kernel is the one, whether its warps are in the dump or not. */
TEST(a_bystander_of_the_only_launch_tells_its_arguments)
{
    for (size_t graphs = 0; graphs < 2; graphs++) {
        struct fault_memory *memory = memory_with(BOTH);
        static const struct launch_function function = {
            .name = "k_oob", .has_layout = 1, .argument_bytes = 16, .argument_count = 2, .arguments = {{0, 8}, {8, 8}}};
        struct launch_entry entries[2] = {{.time_ns = 50, .graph = 0x77},
                                          {.time_ns = 50,
                                           .function = &function,
                                           .argument_bytes = 16,
                                           .kept_bytes = 16,
                                           .grid = {1, 1, 1},
                                           .block = {32, 1, 1}}};
        struct fault_launch launches[2] = {{.entry = &entries[0]}, {.entry = &entries[1]}};
        const uint64_t words[] = {A_START, B_START};
        struct evidence_lane lane = {.address = A_START, .certainty = CERTAIN_EXACT};
        struct evidence_stop stop = stop_at(&lane, 1, 4);
        memcpy(entries[1].bytes, words, sizeof words);
        memory->launches = graphs ? launches : launches + 1;
        memory->launch_count = graphs ? 2 : 1;
        stop.has_grid = 1;
        memcpy(stop.grid, entries[1].grid, sizeof stop.grid);
        memcpy(stop.block, entries[1].block, sizeof stop.block);
        give(&stop, words, sizeof words);
        stop.source = (struct address_source){1, 1, 0};
        struct diagnosis diagnosis = diagnosed(&stop, 1, memory);
        assert_int_equal(fault_stop(&diagnosis)->has_grid, !graphs);
        expect_said(&diagnosis, graphs ? NOTHING ", bystander; 1 of 1 from launches, candidate: #1 by 0"
                                       : NOTHING ", bystander; 1 of 1 from arguments, derived: #1 by 0");
    }
}

/* Each finding keeps to its kernel; the other is named. An error PC in nobody's code may be another process's. */
TEST(two_kernels_that_fault_at_once_are_both_named)
{
    struct fault_memory *memory = memory_with(BOTH);
    struct evidence_lane first = {.address = A_END + 64, .certainty = CERTAIN_EXACT},
                         second = {.address = B_END, .certainty = CERTAIN_EXACT};
    struct evidence_stop stops[] = {stop_at(&first, 1, 4), stop_at(&second, 1, 8), stop_at(&first, 1, 4), stop_at(NULL, 0, 4)};
    const struct evidence_stop *places[FAULT_PLACES];
    stops[1].symbol = stops[1].kernel = "other";
    stops[1].error_pc = 0x2400;
    stops[3].symbol = stops[3].kernel = NULL;
    stops[3].error_pc = 0x9999;
    struct diagnosis diagnosis = diagnosed(stops, 4, memory);
    assert_ptr_equal(diagnosis.stop, &stops[1]);
    expect_said(&diagnosis, "overrun of #2 derived at 0, beside #2 #0; address exact, lane 0, 1 threads, 0 others");
    assert_int_equal(fault_other_places(&diagnosis, places), 2);
    assert_ptr_equal(places[0], &stops[0]);
    assert_ptr_equal(places[1], &stops[3]);

    stops[0] = stops[3];
    stops[1] = stop_at(NULL, 0, 4);
    assert_ptr_equal(diagnosed(stops, 2, memory).stop, &stops[1]);
}

TEST(other_devices_buffers_are_no_neighbours)
{
    cufence_buffer near[] = {world[A], world[B], world[C]};
    near[1].device = 1;
    struct fault_memory memory = {.near = near, .near_count = 3, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_stop stop = stop_at(&lane, 1, 4);
    uint64_t word = A_START;
    give(&stop, &word, sizeof word);
    expect(&stop, 1, &memory, "overrun of #1 exact at 0 by word 0, beside #1 #7; address exact, lane 0, 1 threads, 0 others");
}
