/* The whole diagnosis: which lane is reported, what is counted, the neighbouring buffers, and the candidates. */
#include "support/test.h"

#include "fault_world.h"

TEST(buffers_are_found_in_any_order)
{
    const cufence_buffer reversed[] = {world[NEWER_F], world[F], world[C], world[B], world[IDLE_A], world[A]};
    struct fault_memory memory = {.near = reversed, .near_count = 6, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_site site = site_at(&lane, 1, 4);
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(id_of(diagnosis.previous), 1);
    assert_int_equal(id_of(diagnosis.next), 2);
    lane.address = F_START + 900;
    diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(id_of(diagnosis.owner), 4);
    assert_int_equal(id_of(diagnosis.previous), 2);
    assert_int_equal(id_of(diagnosis.next), 7);
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
    struct evidence_site site = site_at(NULL, 0, 4);
    site.parameters = (const uint8_t *)words;
    site.parameter_bytes = sizeof words;
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.candidate_count, 3);
    assert_int_equal(diagnosis.candidates[0]->id, 30);
    assert_int_equal(diagnosis.candidates[1]->id, 1);
    assert_int_equal(diagnosis.candidates[2]->id, 2);

    /* A word that is one buffer's end and another's start means the latter. */
    near[3].address = A_END;
    diagnosis = diagnosed(&site, 1, &memory);
    assert_ptr_equal(diagnosis.candidates[1], &near[3]);
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
        cufence_buffer room[ALL];
        struct fault_memory memory = memory_of(BIT(A), room);
        struct evidence_lane lane = {.address = A_END + 2, .certainty = CERTAIN_EXACT, .has_exception = 1};
        struct evidence_site site = site_at(&lane, 1, 4);
        site.exception = exception_of(cases[i].exception, NULL);
        struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
        assert_int_equal(diagnosis.kind, cases[i].past_end);
        assert_int_equal(diagnosis.address_certainty, cases[i].past_end == FAULT_OTHER ? CERTAIN_NOT : CERTAIN_EXACT);
        lane.certainty = CERTAIN_NOT;
        diagnosis = diagnosed(&site, 1, &memory);
        assert_int_equal(diagnosis.kind, cases[i].unknown);
        assert_int_equal(diagnosis.address_certainty, CERTAIN_NOT);
        assert_ptr_equal(diagnosis.lane, &lane);
        assert_int_equal(diagnosis.faulting_threads, 1);
        assert_null(diagnosis.owner);
    }
}

TEST(the_first_element_out_of_bounds_is_reported)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
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
    struct evidence_site sites[] = {site_at(first, 5, 4), site_at(second, 2, 4), site_at(&elsewhere, 1, 4),
                                    site_at(NULL, 0, 4)};
    sites[2].error_pc = 0x1500;
    struct diagnosis diagnosis = diagnosed(sites, 4, &memory);
    assert_int_equal(diagnosis.kind, FAULT_OVERRUN);
    assert_ptr_equal(diagnosis.site, &sites[1]);
    assert_int_equal(diagnosis.lane->lane, 5);
    assert_int_equal(diagnosis.distance, 16);
    assert_int_equal(diagnosis.faulting_threads, 4);
    assert_int_equal(diagnosis.other_sites, 2);

    second[1].address = A_END + 16;
    diagnosis = diagnosed(sites, 4, &memory);
    assert_int_equal(diagnosis.lane->lane, 5);

    second[1].address = A_END - 2;
    diagnosis = diagnosed(sites, 4, &memory);
    assert_int_equal(diagnosis.lane->lane, 6);
    assert_int_equal(diagnosis.distance, 0);
    assert_int_equal(diagnosis.faulting_threads, 5);
}

TEST(known_addresses_come_before_approximate_ones)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_END, .certainty = CERTAIN_DERIVED},
        {.lane = 1, .address = A_END + 4, .certainty = CERTAIN_EXACT},
    };
    struct evidence_site site = site_at(lanes, 2, 4);
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.lane->lane, 1);
    assert_int_equal(diagnosis.faulting_threads, 2);

    /* But one that explains the fault comes before an exact one that does not. */
    lanes[1].address = A_START;
    diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.lane->lane, 0);
    assert_int_equal(diagnosis.owner_certainty, CERTAIN_DERIVED);
    assert_int_equal(diagnosis.faulting_threads, 1);
}

TEST(the_marked_lane_speaks_where_no_address_belongs_to_a_buffer)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = 0x500000000000, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = 0x510000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
        {.lane = 2, .address = 0x520000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
    };
    struct evidence_site site = site_at(lanes, 3, 4);
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.kind, FAULT_WILD);
    assert_int_equal(diagnosis.lane->lane, 1);
    memory.is_host_address = 1;
    diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.kind, FAULT_HOST_POINTER);
}

TEST(misaligned_lanes_are_counted)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_START, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = A_START + 10, .certainty = CERTAIN_EXACT},
        {.lane = 2, .address = A_START + 18, .certainty = CERTAIN_EXACT},
    };
    struct evidence_site site = site_at(lanes, 3, 8);
    site.exception = exception_of(6, NULL);
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.kind, FAULT_MISALIGNED);
    assert_int_equal(diagnosis.lane->lane, 1);
    assert_int_equal(diagnosis.faulting_threads, 2);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(diagnosis.owner_certainty, CERTAIN_EXACT);
    assert_int_equal(diagnosis.distance, 10);
}

TEST(an_exited_warp_has_the_live_buffers_for_candidates)
{
    cufence_buffer live[10];
    for (size_t i = 0; i < 10; i++)
        live[i] = (cufence_buffer)LIVE(100 - i, i, 4000);
    struct fault_memory memory = {
        .live = live, .live_count = 10, .live_total = 5000, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_site sites[] = {site_at(NULL, 0, 4), site_at(NULL, 0, 4), site_at(NULL, 0, 4)};
    sites[1].sm = 1;
    sites[2].symbol = "another";
    struct diagnosis diagnosis = diagnosed(sites, 3, &memory);
    assert_int_equal(diagnosis.kind, FAULT_ILLEGAL_ACCESS);
    assert_null(diagnosis.owner);
    assert_null(diagnosis.lane);
    assert_int_equal(diagnosis.owner_parameter, -1);
    assert_int_equal(diagnosis.other_sites, 1);
    assert_int_equal(diagnosis.faulting_threads, 0);
    assert_int_equal(diagnosis.candidate_source, CANDIDATES_LIVE);
    assert_int_equal(diagnosis.candidate_count, 8);
    assert_int_equal(diagnosis.candidate_total, 5000);
    assert_int_equal(diagnosis.candidates[0]->id, 100);
    assert_int_equal(diagnosis.candidates[7]->id, 93);
    assert_int_equal(diagnosis.candidate_parameter[0], -1);

    /* The dump of a kernel with another warp alive holds the parameters: twice the third buffer, and all of the others. */
    uint64_t words[12] = {17, live[2].address, live[2].address + 4, live[1].address + 4000};
    for (size_t i = 3; i < 10; i++)
        words[i + 1] = live[i].address;
    sites[0].parameters = (const uint8_t *)words;
    sites[0].parameter_bytes = 11 * 8 + 7;
    diagnosis = diagnosed(sites, 3, &memory);
    assert_int_equal(diagnosis.candidate_source, CANDIDATES_ARGUMENTS);
    assert_int_equal(diagnosis.candidate_count, 8);
    assert_int_equal(diagnosis.candidate_total, 9);
    assert_int_equal(diagnosis.candidates[0]->id, 98);
    assert_int_equal(diagnosis.candidate_parameter[0], 1);
    assert_int_equal(diagnosis.candidates[1]->id, 99);
    assert_int_equal(diagnosis.candidate_parameter[1], 3);
    assert_int_equal(diagnosis.candidates[7]->id, 92);

    sites[0].parameter_bytes = 8;
    diagnosis = diagnosed(sites, 3, &memory);
    assert_int_equal(diagnosis.candidate_source, CANDIDATES_LIVE);
    assert_int_equal(diagnosis.candidate_total, 5000);
}

TEST(an_alive_warp_is_preferred_to_an_exited_one)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {{.lane = 3, .certainty = CERTAIN_NOT},
                                    {.lane = 4, .certainty = CERTAIN_NOT, .has_exception = 1}};
    struct evidence_site sites[] = {site_at(NULL, 0, 4), site_at(lanes, 2, 4)};
    struct diagnosis diagnosis = diagnosed(sites, 2, &memory);
    assert_ptr_equal(diagnosis.site, &sites[1]);
    assert_int_equal(diagnosis.lane->lane, 4);
    assert_int_equal(diagnosis.faulting_threads, 1);
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
    static cufence_buffer room[ALL];
    static struct fault_memory memory;
    static struct launch_entry entries[4];
    static struct fault_launch launches[4];
    static uint64_t starts[3] = {A_START, B_START, C_END - 4001};
    static struct evidence_lane lanes[2];
    static struct evidence_site site;
    static struct evidence evidence;
    memory = memory_of(BOTH | BIT(C), room);
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
    memory.launches = is_in_graph ? launches : launches + 1;
    memory.launch_count = is_in_graph ? 4 : 3;
    for (unsigned i = 0; i < 2; i++)
        lanes[i] = (struct evidence_lane){.lane = i,
                                          .address = starts[runs % 3] + 4ul * i,
                                          .certainty = CERTAIN_DERIVED,
                                          .is_replayed = 1,
                                          .has_exception = 1};
    site = site_at(is_alive ? lanes : NULL, is_alive ? 2 : 0, 4);
    site.source = (struct address_source){1, 1, 0};
    if (runs < 3) {
        site.has_grid = 1;
        site.is_grid_borrowed = !is_alive;
        site.grid[0] = 8;
        site.block[0] = 128;
        site.grid[1] = site.grid[2] = site.block[1] = site.block[2] = 1;
        site.parameters = (const uint8_t *)&starts[runs];
        site.parameter_bytes = 8;
    }
    evidence = (struct evidence){.sites = &site, .site_count = 1};
    fault_diagnose(&evidence, &memory, diagnosis);
}

TEST(equal_kernels_are_not_taken_for_each_other)
{
    for (size_t i = 4; i < 16; i++) {
        struct diagnosis diagnosis;
        size_t runs = i / 4;
        int is_in_graph = i & 1, is_alive = (i & 2) && runs < 3;
        diagnose_equal_kernels(runs, is_in_graph, is_alive, &diagnosis);
        const struct evidence_site *site = fault_site(&diagnosis);
        assert_int_equal(diagnosis.kind, FAULT_ILLEGAL_ACCESS);
        assert_null(diagnosis.owner);
        assert_null(diagnosis.lane);
        assert_int_equal(diagnosis.is_bystander, is_alive);
        assert_false(site->is_warp_alive);
        assert_false(site->has_grid);
        assert_null(site->parameters);
        assert_null(diagnosis.arguments.bytes);
        assert_int_equal(diagnosis.address_certainty, CERTAIN_NOT);
        assert_int_equal(diagnosis.faulting_threads, 0);
        assert_int_equal(diagnosis.origin.fits, 3);
        assert_int_equal(diagnosis.candidate_total, 3);
        assert_int_equal(diagnosis.candidate_source, CANDIDATES_LAUNCHES);
        assert_int_equal(diagnosis.candidate_certainty, CERTAIN_CANDIDATE);
    }
}

/* The only launch of its kernel is the one, whether its warps are in the dump or not. */
TEST(a_bystander_of_the_only_launch_tells_its_arguments)
{
    for (size_t graphs = 0; graphs < 2; graphs++) {
        cufence_buffer room[ALL];
        struct fault_memory memory = memory_of(BOTH, room);
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
        struct evidence_site site = site_at(&lane, 1, 4);
        memcpy(entries[1].bytes, words, sizeof words);
        memory.launches = graphs ? launches : launches + 1;
        memory.launch_count = graphs ? 2 : 1;
        site.has_grid = 1;
        memcpy(site.grid, entries[1].grid, sizeof site.grid);
        memcpy(site.block, entries[1].block, sizeof site.block);
        site.parameters = (const uint8_t *)words;
        site.parameter_bytes = sizeof words;
        site.source = (struct address_source){1, 1, 0};
        struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
        assert_true(diagnosis.is_bystander);
        assert_int_equal(fault_site(&diagnosis)->has_grid, !graphs);
        assert_int_equal(diagnosis.candidate_total, 1);
        assert_int_equal(id_of(diagnosis.candidates[0]), 1);
        assert_int_equal(diagnosis.candidate_certainty, graphs ? CERTAIN_CANDIDATE : CERTAIN_DERIVED);
    }
}

/* Each finding keeps to its kernel; the other is named. An error PC in nobody's code may be another process's. */
TEST(two_kernels_that_fault_at_once_are_both_named)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane first = {.address = A_END + 64, .certainty = CERTAIN_EXACT},
                         second = {.address = B_END, .certainty = CERTAIN_EXACT};
    struct evidence_site sites[] = {site_at(&first, 1, 4), site_at(&second, 1, 8), site_at(&first, 1, 4), site_at(NULL, 0, 4)};
    struct evidence evidence = {.sites = sites, .site_count = 4};
    const struct evidence_site *places[FAULT_PLACES];
    struct diagnosis diagnosis;
    sites[1].symbol = sites[1].kernel = "other";
    sites[1].error_pc = 0x2400;
    sites[3].symbol = sites[3].kernel = NULL;
    sites[3].error_pc = 0x9999;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_ptr_equal(diagnosis.site, &sites[1]);
    assert_int_equal(id_of(diagnosis.owner), 2);
    assert_int_equal(diagnosis.faulting_threads, 1);
    assert_int_equal(diagnosis.other_sites, 0);
    assert_int_equal(fault_other_places(&diagnosis, places), 2);
    assert_ptr_equal(places[0], &sites[0]);
    assert_ptr_equal(places[1], &sites[3]);

    sites[0] = sites[3];
    sites[1] = site_at(NULL, 0, 4);
    evidence.site_count = 2;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_ptr_equal(diagnosis.site, &sites[1]);
}

TEST(other_devices_buffers_are_no_neighbours)
{
    cufence_buffer near[] = {world[A], world[B], world[C]};
    near[1].device = 1;
    struct fault_memory memory = {.near = near, .near_count = 3, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_site site = site_at(&lane, 1, 4);
    uint64_t word = A_START;
    site.parameters = (const uint8_t *)&word;
    site.parameter_bytes = sizeof word;
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(id_of(diagnosis.next), 7);
}
