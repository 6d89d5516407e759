/* The diagnosis: kind, owner, distance and certainty, for every kind of fault and every tie between two buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fault_world.h"

#define BETWEEN (B_START - A_END) /* bytes from A's end to B's start */
#define GIVEN_ONLY "the kernel was given it, and not the buffer on the other side"
#define GIVEN_ALONE "the kernel was given it, and no other buffer is next to this guard"
#define ALONE "no other buffer is next to this guard"
#define FAR "the other side is at least four times as far"
#define NEARER "nearer end, no argument decides"
#define NEARER_BOTH "nearer end, both neighbours are arguments"
#define GONE "the buffer on the other side is gone"
#define LIES "the address lies in it"
#define NEWEST "the newest of the freed buffers that the address lay in"
#define GIVEN_START "the address lies in it, and the kernel was given its start"

struct access_case {
    const char *name;
    uint64_t address;
    uint32_t bytes;
    unsigned set;           /* the buffers that exist */
    uint64_t parameters[4]; /* up to the first 0 */
    enum fault_kind kind;
    uint64_t owner; /* id, 0 for none */
    enum certainty certainty;
    uint64_t distance;
    const char *reason;
    int word;
    uint64_t rival; /* id, 0 for none */
    uint64_t rival_distance;
};

#define NOBODY 0, CERTAIN_NOT, 0, NULL, -1, 0, 0
#define BOTH (BIT(A) | BIT(B))

/* clang-format off */
static const struct access_case access_cases[] = {
    /* A guard between two buffers. */
    {"no argument", A_END, 4, BOTH, {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, FAR, -1, 0, 0},
    {"given below", A_END, 4, BOTH, {7, A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 1, 0, 0},
    {"given above", A_END, 4, BOTH, {B_START}, FAULT_UNDERRUN, 2, CERTAIN_EXACT, BETWEEN, GIVEN_ONLY, 0, 0, 0},
    {"given both", A_END + 1, 4, BOTH, {B_START, A_START}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 1, FAR, 1, 0, 0},
    {"given its end", A_END, 4, BOTH, {A_END}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 0, 0, 0},
    {"given its middle", A_END, 4, BOTH, {A_START + 8}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 0, 0, 0},
    {"start before middle", A_END, 4, BOTH, {A_START + 8, A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 1, 0,
     0},
    {"given just before its start", A_END, 4, BOTH, {A_START - 1}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, FAR, -1, 0, 0},
    {"given just behind its end", A_END, 4, BOTH, {A_END + 1}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, FAR, -1, 0, 0},
    {"middle, nearer to the end", A_END + BETWEEN / 2 - 1, 4, BOTH, {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, BETWEEN / 2 -
     1, NEARER, -1, 2, BETWEEN / 2 + 1},
    {"middle, nearer to the start", A_END + BETWEEN / 2, 4, BOTH, {0}, FAULT_UNDERRUN, 2, CERTAIN_DERIVED, BETWEEN / 2,
     NEARER, -1, 1, BETWEEN / 2},
    {"middle, given both", A_END + BETWEEN / 2, 4, BOTH, {A_START, B_START}, FAULT_UNDERRUN, 2, CERTAIN_DERIVED, BETWEEN /
     2, NEARER_BOTH, 1, 1, BETWEEN / 2},
    {"middle, given below", A_END + BETWEEN / 2, 4, BOTH, {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, BETWEEN / 2,
     GIVEN_ONLY, 0, 0, 0},
    {"last byte of the guard", SLOT(1) - 1, 1, BOTH, {0}, FAULT_UNDERRUN, 2, CERTAIN_DERIVED, B_START - SLOT(1) + 1, FAR,
     -1, 0, 0},
    {"given below, last byte", SLOT(1) - 1, 1, BOTH, {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, GUARD - 1, GIVEN_ONLY, 0,
     0, 0},

    /* A guard with one buffer beside it. */
    {"alone, past the end", A_END + 99, 2, BIT(A), {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 99, ALONE, -1, 0, 0},
    {"alone and given", A_END, 4, BIT(A), {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ALONE, 0, 0, 0},
    {"alone, before the start", SLOT(0) - 32, 32, BIT(A), {A_START}, FAULT_UNDERRUN, 1, CERTAIN_EXACT, A_START - SLOT(0) +
     32, GIVEN_ALONE, 0, 0, 0},
    {"first byte of the guard", ARENA, 1, BIT(A), {0}, FAULT_UNDERRUN, 1, CERTAIN_DERIVED, A_START - ARENA, ALONE, -1, 0,
     0},
    {"last byte behind", A_END + GUARD - 1, 1, BIT(A), {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, GUARD - 1, ALONE, -1, 0,
     0},
    {"behind the guard", A_END + GUARD, 1, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"bytes unknown", A_END, 0, BIT(A), {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, ALONE, -1, 0, 0},

    /* Accesses across an end. */
    {"half out", A_END - 4, 8, BOTH, {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 0, 0, 0},
    {"one byte out", A_END - 15, 16, BOTH, {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0, GIVEN_ONLY, 0, 0, 0},
    {"one byte in", A_END - 1, 16, BOTH, {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, FAR, -1, 0, 0},
    {"from the slack out", C_END + 8, 16, BIT(C), {C_END - 4001}, FAULT_OVERRUN, 7, CERTAIN_EXACT, 8, GIVEN_ALONE, 0, 0,
     0},
    {"across the slack", C_END - 1, 32, BIT(C), {C_END - 4001}, FAULT_OVERRUN, 7, CERTAIN_EXACT, 0, GIVEN_ALONE, 0, 0, 0},
    {"across the start of a mapping", SLOT(0) - 4, 8, BIT(A), {A_START}, FAULT_UNDERRUN, 1, CERTAIN_EXACT, A_START -
     SLOT(0) + 4, GIVEN_ALONE, 0, 0, 0},

    /* Mapped memory does not fault by itself. */
    {"in the slack", C_END, 4, BIT(C), {0}, FAULT_ILLEGAL_ACCESS, NOBODY},
    {"in the head slack", SLOT(1), 4, BOTH, {0}, FAULT_ILLEGAL_ACCESS, NOBODY},
    {"in a live buffer", B_START + 12, 4, BOTH, {B_START}, FAULT_ILLEGAL_ACCESS, 2, CERTAIN_DERIVED, 12, LIES, 0, 0, 0},
    {"last bytes of a live buffer", A_END - 4, 4, BIT(A), {0}, FAULT_ILLEGAL_ACCESS, 1, CERTAIN_DERIVED, 3996, LIES, -1,
     0, 0},

    /* Freed buffers. */
    {"freed", F_START + 40, 4, BIT(B) | BIT(F), {0}, FAULT_USE_AFTER_FREE, 3, CERTAIN_EXACT, 40, LIES, -1, 0, 0},
    {"freed, first byte", F_START, 4, BIT(F), {F_START}, FAULT_USE_AFTER_FREE, 3, CERTAIN_EXACT, 0, LIES, 0, 0, 0},
    {"freed twice over", F_START + 900, 4, BIT(F) | BIT(NEWER_F), {0}, FAULT_USE_AFTER_FREE, 4, CERTAIN_DERIVED, 100,
     NEWEST, -1, 0, 0},
    {"freed twice over, given the older", F_START + 900, 4, BIT(F) | BIT(NEWER_F), {F_START}, FAULT_USE_AFTER_FREE, 3,
     CERTAIN_EXACT, 900, GIVEN_START, 0, 0, 0},
    {"in the older one only", F_START + 799, 4, BIT(F) | BIT(NEWER_F), {0}, FAULT_USE_AFTER_FREE, 3, CERTAIN_EXACT, 799,
     LIES, -1, 0, 0},
    {"its place is live again", F_START + 40, 4, BIT(F) | BIT(REUSED_F), {F_START}, FAULT_ILLEGAL_ACCESS, 5,
     CERTAIN_DERIVED, 1640, LIES, 0, 0, 0},
    {"past the end of a former tenant", SLOT_END(2), 4, BIT(F) | BIT(REUSED_F), {0}, FAULT_OVERRUN, 5, CERTAIN_DERIVED, 0,
     ALONE, -1, 0, 0},
    {"past the end of a freed one", SLOT_END(2) + 8, 4, BIT(F), {F_START}, FAULT_OVERRUN, 3, CERTAIN_EXACT, 8,
     GIVEN_ALONE, 0, 0, 0},
    {"freed on the other side", B_END + GUARD - 4, 4, BIT(B) | BIT(F), {0}, FAULT_OVERRUN, 2, CERTAIN_DERIVED, GUARD - 4,
     GONE, -1, 0, 0},
    {"head slack of a freed one", SLOT(2) + 16, 4, BIT(F), {F_START}, FAULT_UNDERRUN, 3, CERTAIN_EXACT, F_START - SLOT(2)
     - 16, GIVEN_ALONE, 0, 0, 0},
    {"freed behind the running kernel", A_END, 4, BIT(IDLE_A), {A_END - 6000}, FAULT_OVERRUN, 6, CERTAIN_EXACT, 0,
     GIVEN_ALONE, 0, 0, 0},
    {"two tenants, given the earlier", A_END, 4, BIT(A) | BIT(IDLE_A), {A_END - 6000}, FAULT_OVERRUN, 6, CERTAIN_EXACT, 0,
     GIVEN_ALONE, 0, 0, 0},
    {"two tenants, given the live one", A_END, 4, BIT(A) | BIT(IDLE_A), {A_START}, FAULT_OVERRUN, 1, CERTAIN_EXACT, 0,
     GIVEN_ALONE, 0, 0, 0},
    {"two tenants, nothing given", A_END, 4, BIT(A) | BIT(IDLE_A), {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, 0, ALONE, -1,
     0, 0},

    /* Nobody's addresses. */
    {"null", 0, 4, BIT(A), {A_START}, FAULT_NULL, NOBODY},
    {"last byte of the null page", 0xffff, 1, BIT(A), {0}, FAULT_NULL, NOBODY},
    {"behind the null page", 0x10000, 1, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"before the arena", ARENA - 1, 1, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"behind the arena", ARENA_END, 1, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"nothing near", ARENA_END - 64, 4, BIT(A) | BIT(C), {0}, FAULT_WILD, NOBODY},
    {"the last address", UINT64_MAX, 16, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"wraps around", UINT64_MAX - 3, 16, BIT(A), {0}, FAULT_WILD, NOBODY},
};
/* clang-format on */

static struct evidence_site site_at(struct evidence_lane *lanes, size_t lane_count, uint32_t bytes)
{
    return (struct evidence_site){.exception = 14,
                                  .exception_name = "illegal address",
                                  .error_pc = 0x1400,
                                  .is_warp_alive = lane_count > 0,
                                  .kernel = "k_oob",
                                  .symbol = "k_oob",
                                  .kernel_offset = 0x400,
                                  .access = ACCESS_WRITE,
                                  .access_bytes = bytes,
                                  .lanes = lanes,
                                  .lane_count = lane_count};
}

static uint64_t id_of(const cufence_buffer *buffer)
{
    return buffer ? buffer->id : 0;
}

static void check_access(const struct access_case *c, enum certainty address_certainty)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(c->set, room);
    struct evidence_lane lane = {.address = c->address, .certainty = address_certainty, .has_exception = 1};
    struct evidence_site site = site_at(&lane, 1, c->bytes);
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    while (site.parameter_bytes < sizeof c->parameters && c->parameters[site.parameter_bytes / 8])
        site.parameter_bytes += 8;
    site.parameters = (const uint8_t *)c->parameters;

    fault_diagnose(&evidence, &memory, &diagnosis);
    enum certainty expected = c->certainty < address_certainty ? c->certainty : address_certainty;
    if (diagnosis.kind != c->kind || id_of(diagnosis.owner) != c->owner || diagnosis.owner_certainty != expected ||
        diagnosis.distance != c->distance || diagnosis.owner_parameter != c->word || id_of(diagnosis.rival) != c->rival ||
        diagnosis.rival_distance != c->rival_distance || !diagnosis.owner_reason != !c->reason)
        fail_msg("%s: %s, owner #%" PRIu64 " certainty %d distance %" PRIu64 " word %d rival #%" PRIu64 " at %" PRIu64 " (%s)",
                 c->name, fault_kind_name(diagnosis.kind), id_of(diagnosis.owner), (int)diagnosis.owner_certainty,
                 diagnosis.distance, diagnosis.owner_parameter, id_of(diagnosis.rival), diagnosis.rival_distance,
                 diagnosis.owner_reason ? diagnosis.owner_reason : "no reason");
    if (c->reason)
        assert_string_equal(diagnosis.owner_reason, c->reason);
    assert_ptr_equal(diagnosis.site, &site);
    assert_ptr_equal(diagnosis.lane, &lane);
    assert_int_equal(diagnosis.address, c->address);
    assert_int_equal(diagnosis.address_certainty, address_certainty);
}

static void every_place_of_an_exact_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof access_cases / sizeof access_cases[0]; i++)
        check_access(&access_cases[i], CERTAIN_EXACT);
}

static void an_owner_is_never_surer_than_the_address(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof access_cases / sizeof access_cases[0]; i++)
        check_access(&access_cases[i], CERTAIN_DERIVED);
}

static void buffers_are_found_in_any_order(void **state)
{
    (void)state;
    const cufence_buffer reversed[] = {world[NEWER_F], world[F], world[C], world[B], world[IDLE_A], world[A]};
    struct fault_memory memory = {.near = reversed, .near_count = 6, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_site site = site_at(&lane, 1, 4);
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(id_of(diagnosis.previous), 1);
    assert_int_equal(id_of(diagnosis.next), 2);
    lane.address = F_START + 900;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(id_of(diagnosis.owner), 4);
    assert_int_equal(id_of(diagnosis.previous), 2);
    assert_int_equal(id_of(diagnosis.next), 7);
}

/* The number decides the kind; an address helps where there is one. */
static void every_exception_has_its_kind(void **state)
{
    (void)state;
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
        struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT, .has_exception = 1};
        struct evidence_site site = site_at(&lane, 1, 4);
        struct evidence evidence = {.sites = &site, .site_count = 1};
        struct diagnosis diagnosis;
        site.exception = cases[i].exception;
        fault_diagnose(&evidence, &memory, &diagnosis);
        assert_int_equal(diagnosis.kind, cases[i].past_end);
        assert_int_equal(diagnosis.address_certainty, cases[i].past_end == FAULT_OTHER ? CERTAIN_NOT : CERTAIN_EXACT);
        lane.certainty = CERTAIN_NOT;
        fault_diagnose(&evidence, &memory, &diagnosis);
        assert_int_equal(diagnosis.kind, cases[i].unknown);
        assert_int_equal(diagnosis.address_certainty, CERTAIN_NOT);
        assert_ptr_equal(diagnosis.lane, &lane);
        assert_int_equal(diagnosis.faulting_threads, 1);
        assert_null(diagnosis.owner);
    }
}

static void the_first_element_out_of_bounds_is_reported(void **state)
{
    (void)state;
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
    struct evidence evidence = {.sites = sites, .site_count = 4};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_OVERRUN);
    assert_ptr_equal(diagnosis.site, &sites[1]);
    assert_int_equal(diagnosis.lane->lane, 5);
    assert_int_equal(diagnosis.distance, 16);
    assert_int_equal(diagnosis.faulting_threads, 4);
    assert_int_equal(diagnosis.other_sites, 2);

    second[1].address = A_END - 2;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.lane->lane, 6);
    assert_int_equal(diagnosis.distance, 0);
    assert_int_equal(diagnosis.faulting_threads, 5);
}

static void known_addresses_come_before_approximate_ones(void **state)
{
    (void)state;
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_END, .certainty = CERTAIN_DERIVED},
        {.lane = 1, .address = A_END + 4, .certainty = CERTAIN_EXACT},
    };
    struct evidence_site site = site_at(lanes, 2, 4);
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.lane->lane, 1);
    assert_int_equal(diagnosis.faulting_threads, 2);

    /* But one that explains the fault comes before an exact one that does not. */
    lanes[1].address = A_START;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.lane->lane, 0);
    assert_int_equal(diagnosis.owner_certainty, CERTAIN_DERIVED);
    assert_int_equal(diagnosis.faulting_threads, 1);
}

static void the_marked_lane_speaks_where_no_address_belongs_to_a_buffer(void **state)
{
    (void)state;
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = 0x500000000000, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = 0x510000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
        {.lane = 2, .address = 0x520000000000, .certainty = CERTAIN_EXACT, .has_exception = 1},
    };
    struct evidence_site site = site_at(lanes, 3, 4);
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_WILD);
    assert_int_equal(diagnosis.lane->lane, 1);
    memory.is_host_address = 1;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_HOST_POINTER);
}

static void misaligned_lanes_are_counted(void **state)
{
    (void)state;
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {
        {.lane = 0, .address = A_START, .certainty = CERTAIN_EXACT},
        {.lane = 1, .address = A_START + 10, .certainty = CERTAIN_EXACT},
        {.lane = 2, .address = A_START + 18, .certainty = CERTAIN_EXACT},
    };
    struct evidence_site site = site_at(lanes, 3, 8);
    site.exception = 6;
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_MISALIGNED);
    assert_int_equal(diagnosis.lane->lane, 1);
    assert_int_equal(diagnosis.faulting_threads, 2);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(diagnosis.owner_certainty, CERTAIN_EXACT);
    assert_int_equal(diagnosis.distance, 10);
}

static void an_exited_warp_has_the_live_buffers_for_candidates(void **state)
{
    (void)state;
    cufence_buffer live[10];
    for (size_t i = 0; i < 10; i++)
        live[i] = (cufence_buffer)LIVE(100 - i, i, 4000);
    struct fault_memory memory = {
        .live = live, .live_count = 10, .live_total = 5000, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_site sites[] = {site_at(NULL, 0, 4), site_at(NULL, 0, 4), site_at(NULL, 0, 4)};
    sites[2].symbol = "another";
    struct evidence evidence = {.sites = sites, .site_count = 3};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_ILLEGAL_ACCESS);
    assert_null(diagnosis.owner);
    assert_null(diagnosis.lane);
    assert_int_equal(diagnosis.owner_parameter, -1);
    assert_int_equal(diagnosis.other_sites, 1);
    assert_int_equal(diagnosis.faulting_threads, 0);
    assert_int_equal(diagnosis.parameters_named, 0);
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
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.parameters_named, 1);
    assert_int_equal(diagnosis.candidate_count, 8);
    assert_int_equal(diagnosis.candidate_total, 9);
    assert_int_equal(diagnosis.candidates[0]->id, 98);
    assert_int_equal(diagnosis.candidate_parameter[0], 1);
    assert_int_equal(diagnosis.candidates[1]->id, 99);
    assert_int_equal(diagnosis.candidate_parameter[1], 3);
    assert_int_equal(diagnosis.candidates[7]->id, 92);

    sites[0].parameter_bytes = 8;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.parameters_named, 0);
    assert_int_equal(diagnosis.candidate_total, 5000);
}

static void an_alive_warp_is_preferred_to_an_exited_one(void **state)
{
    (void)state;
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lanes[] = {{.lane = 3, .certainty = CERTAIN_NOT},
                                    {.lane = 4, .certainty = CERTAIN_NOT, .has_exception = 1}};
    struct evidence_site sites[] = {site_at(NULL, 0, 4), site_at(lanes, 2, 4)};
    struct evidence evidence = {.sites = sites, .site_count = 2};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_ptr_equal(diagnosis.site, &sites[1]);
    assert_int_equal(diagnosis.lane->lane, 4);
    assert_int_equal(diagnosis.faulting_threads, 1);
}

static void other_devices_buffers_are_no_neighbours(void **state)
{
    (void)state;
    cufence_buffer near[] = {world[A], world[B], world[C]};
    near[1].device = 1;
    struct fault_memory memory = {.near = near, .near_count = 3, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
    struct evidence_site site = site_at(&lane, 1, 4);
    uint64_t word = A_START;
    site.parameters = (const uint8_t *)&word;
    site.parameter_bytes = sizeof word;
    struct evidence evidence = {.sites = &site, .site_count = 1};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(id_of(diagnosis.next), 7);
}

static void a_dump_without_an_exception_is_said_to_be_one(void **state)
{
    (void)state;
    struct fault_memory memory = {.arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence evidence = {.site_count = 0};
    struct diagnosis diagnosis;
    fault_diagnose(&evidence, &memory, &diagnosis);
    assert_int_equal(diagnosis.kind, FAULT_OTHER);
    assert_null(diagnosis.site);
    assert_null(diagnosis.lane);
    assert_int_equal(diagnosis.owner_parameter, -1);
    assert_int_equal(diagnosis.candidate_count, 0);
}

static void kinds_have_the_documented_names(void **state)
{
    (void)state;
    static const char *const names[] = {"overrun",      "underrun",          "use-after-free", "wild address", "null pointer",
                                        "host pointer", "misaligned access", "illegal access", "exception"};
    for (int kind = FAULT_OVERRUN; kind <= FAULT_OTHER; kind++)
        assert_string_equal(fault_kind_name((enum fault_kind)kind), names[kind]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place_of_an_exact_address),
        cmocka_unit_test(an_owner_is_never_surer_than_the_address),
        cmocka_unit_test(buffers_are_found_in_any_order),
        cmocka_unit_test(every_exception_has_its_kind),
        cmocka_unit_test(the_first_element_out_of_bounds_is_reported),
        cmocka_unit_test(known_addresses_come_before_approximate_ones),
        cmocka_unit_test(the_marked_lane_speaks_where_no_address_belongs_to_a_buffer),
        cmocka_unit_test(misaligned_lanes_are_counted),
        cmocka_unit_test(an_exited_warp_has_the_live_buffers_for_candidates),
        cmocka_unit_test(an_alive_warp_is_preferred_to_an_exited_one),
        cmocka_unit_test(other_devices_buffers_are_no_neighbours),
        cmocka_unit_test(a_dump_without_an_exception_is_said_to_be_one),
        cmocka_unit_test(kinds_have_the_documented_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
