/* The verdict on one access: kind, owner, distance and certainty, for every place and every tie between two buffers. */
#include "support/test.h"

#include <inttypes.h>

#include "fault_world.h"

#define BETWEEN (B_START - A_END) /* bytes from A's end to B's start */
#define GIVEN_ONLY "the kernel was given it, and not the buffer on the other side"
#define GIVEN_ALONE "the kernel was given it, and no other buffer is next to this guard"
#define ALONE "no other buffer is next to this guard"
#define FAR "the next nearest buffer is at least four times as far away"
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
#define TO(kind, owner, certainty, distance, reason, word)                                                                     \
    FAULT_##kind, owner, CERTAIN_##certainty, distance, reason, word, 0, 0 /* without a rival */

/* clang-format off */
static const struct access_case access_cases[] = {
    /* A guard between two buffers. */
    {"no argument", A_END, 4, BOTH, {0}, TO(OVERRUN, 1, DERIVED, 0, FAR, -1)},
    {"given below", A_END, 4, BOTH, {7, A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 1)},
    {"given above", A_END, 4, BOTH, {B_START}, TO(UNDERRUN, 2, EXACT, BETWEEN, GIVEN_ONLY, 0)},
    {"given both", A_END + 1, 4, BOTH, {B_START, A_START}, TO(OVERRUN, 1, DERIVED, 1, FAR, 1)},
    {"given its end", A_END, 4, BOTH, {A_END}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 0)},
    {"given its middle", A_END, 4, BOTH, {A_START + 8}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 0)},
    {"start before middle", A_END, 4, BOTH, {A_START + 8, A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 1)},
    {"given just before its start", A_END, 4, BOTH, {A_START - 1}, TO(OVERRUN, 1, DERIVED, 0, FAR, -1)},
    {"given just behind its end", A_END, 4, BOTH, {A_END + 1}, TO(OVERRUN, 1, DERIVED, 0, FAR, -1)},
    {"middle, nearer to the end", A_END + BETWEEN / 2 - 1, 4, BOTH, {0}, FAULT_OVERRUN, 1, CERTAIN_DERIVED, BETWEEN / 2 - 1,
      NEARER, -1, 2, BETWEEN / 2 + 1},
    {"middle, nearer to the start", A_END + BETWEEN / 2, 4, BOTH, {0}, FAULT_UNDERRUN, 2, CERTAIN_DERIVED, BETWEEN / 2,
      NEARER, -1, 1, BETWEEN / 2},
    {"middle, given both", A_END + BETWEEN / 2, 4, BOTH, {A_START, B_START}, FAULT_UNDERRUN, 2, CERTAIN_DERIVED, BETWEEN / 2,
      NEARER_BOTH, 1, 1, BETWEEN / 2},
    {"middle, given below", A_END + BETWEEN / 2, 4, BOTH, {A_START}, TO(OVERRUN, 1, EXACT, BETWEEN / 2, GIVEN_ONLY, 0)},
    {"last byte of the guard", SLOT(1) - 1, 1, BOTH, {0}, TO(UNDERRUN, 2, DERIVED, B_START - SLOT(1) + 1, FAR, -1)},
    {"given below, last byte", SLOT(1) - 1, 1, BOTH, {A_START}, TO(OVERRUN, 1, EXACT, GUARD - 1, GIVEN_ONLY, 0)},

    /* A guard with one buffer beside it. */
    {"alone, past the end", A_END + 99, 2, BIT(A), {0}, TO(OVERRUN, 1, DERIVED, 99, ALONE, -1)},
    {"alone and given", A_END, 4, BIT(A), {A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ALONE, 0)},
    {"alone, before the start", SLOT(0) - 32, 32, BIT(A), {A_START}, TO(UNDERRUN, 1, EXACT, A_START - SLOT(0) + 32,
      GIVEN_ALONE, 0)},
    {"first byte of the guard", ARENA, 1, BIT(A), {0}, TO(UNDERRUN, 1, DERIVED, A_START - ARENA, ALONE, -1)},
    {"last byte behind", A_END + GUARD - 1, 1, BIT(A), {0}, TO(OVERRUN, 1, DERIVED, GUARD - 1, ALONE, -1)},
    {"behind the guard", A_END + GUARD, 1, BIT(A), {0}, FAULT_WILD, NOBODY},
    {"bytes unknown", A_END, 0, BIT(A), {0}, TO(OVERRUN, 1, DERIVED, 0, ALONE, -1)},

    /* Accesses across an end. */
    {"half out", A_END - 4, 8, BOTH, {A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 0)},
    {"one byte out", A_END - 15, 16, BOTH, {A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ONLY, 0)},
    {"one byte in", A_END - 1, 16, BOTH, {0}, TO(OVERRUN, 1, DERIVED, 0, FAR, -1)},
    {"from the slack out", C_END + 8, 16, BIT(C), {C_END - 4001}, TO(OVERRUN, 7, EXACT, 8, GIVEN_ALONE, 0)},
    {"across the slack", C_END - 1, 32, BIT(C), {C_END - 4001}, TO(OVERRUN, 7, EXACT, 0, GIVEN_ALONE, 0)},
    {"across the start of a mapping", SLOT(0) - 4, 8, BIT(A), {A_START}, TO(UNDERRUN, 1, EXACT, A_START - SLOT(0) + 4,
      GIVEN_ALONE, 0)},

    /* Freed buffers. */
    {"freed", F_START + 40, 4, BIT(B) | BIT(F), {0}, TO(USE_AFTER_FREE, 3, EXACT, 40, LIES, -1)},
    {"freed, first byte", F_START, 4, BIT(F), {F_START}, TO(USE_AFTER_FREE, 3, EXACT, 0, LIES, 0)},
    {"freed twice over", F_START + 900, 4, BIT(F) | BIT(NEWER_F), {0}, TO(USE_AFTER_FREE, 4, DERIVED, 100, NEWEST, -1)},
    {"freed twice over, given the older", F_START + 900, 4, BIT(F) | BIT(NEWER_F), {F_START}, TO(USE_AFTER_FREE, 3, EXACT,
      900, GIVEN_START, 0)},
    {"in the older one only", F_START + 799, 4, BIT(F) | BIT(NEWER_F), {0}, TO(USE_AFTER_FREE, 3, EXACT, 799, LIES, -1)},
    {"past the end of a former tenant", SLOT_END(2), 4, BIT(F) | BIT(REUSED_F), {0}, TO(OVERRUN, 5, DERIVED, 0, ALONE, -1)},
    {"past the end of a freed one", SLOT_END(2) + 8, 4, BIT(F), {F_START}, TO(OVERRUN, 3, EXACT, 8, GIVEN_ALONE, 0)},
    {"freed on the other side", B_END + GUARD - 4, 4, BIT(B) | BIT(F), {0}, TO(OVERRUN, 2, DERIVED, GUARD - 4, GONE, -1)},
    {"head slack of a freed one", SLOT(2) + 16, 4, BIT(F), {F_START}, TO(UNDERRUN, 3, EXACT, F_START - SLOT(2) - 16,
      GIVEN_ALONE, 0)},
    {"freed behind the running kernel", A_END, 4, BIT(IDLE_A), {A_END - 6000}, TO(OVERRUN, 6, EXACT, 0, GIVEN_ALONE, 0)},
    {"two tenants, given the earlier", A_END, 4, BIT(A) | BIT(IDLE_A), {A_END - 6000}, TO(OVERRUN, 6, EXACT, 0, GIVEN_ALONE,
      0)},
    {"two tenants, given the live one", A_END, 4, BIT(A) | BIT(IDLE_A), {A_START}, TO(OVERRUN, 1, EXACT, 0, GIVEN_ALONE, 0)},
    {"two tenants, nothing given", A_END, 4, BIT(A) | BIT(IDLE_A), {0}, TO(OVERRUN, 1, DERIVED, 0, ALONE, -1)},

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

static void check_access(const struct access_case *c, enum certainty address_certainty)
{
    struct evidence_lane lane = {.address = c->address, .certainty = address_certainty, .has_exception = 1};
    struct evidence_stop stop = stop_at(&lane, 1, c->bytes);
    size_t words = 0;
    while (words < 4 && c->parameters[words])
        words++;
    give(&stop, c->parameters, 8 * words);
    struct diagnosis diagnosis = diagnosed(&stop, 1, memory_with(c->set));
    enum certainty expected = c->certainty < address_certainty ? c->certainty : address_certainty;
    if (diagnosis.verdict.kind != c->kind || id_of(diagnosis.verdict.owner) != c->owner ||
        diagnosis.verdict.certainty != expected || diagnosis.verdict.distance != c->distance ||
        diagnosis.verdict.parameter != c->word || id_of(diagnosis.verdict.rival) != c->rival ||
        diagnosis.verdict.rival_distance != c->rival_distance || !diagnosis.verdict.reason != !c->reason)
        fail_msg("%s: %s, rival #%" PRIu64 " at %" PRIu64 " (%s)", c->name, said_of(&diagnosis), id_of(diagnosis.verdict.rival),
                 diagnosis.verdict.rival_distance, diagnosis.verdict.reason ? diagnosis.verdict.reason : "no reason");
    if (c->reason)
        assert_string_equal(diagnosis.verdict.reason, c->reason);
    assert_ptr_equal(diagnosis.stop, &stop);
    assert_ptr_equal(diagnosis.access.lane, &lane);
    assert_int_equal(diagnosis.access.address, c->address);
    assert_int_equal(diagnosis.access.certainty, address_certainty);
}

TEST(every_place_of_an_exact_address)
{
    for (size_t i = 0; i < sizeof access_cases / sizeof access_cases[0]; i++)
        check_access(&access_cases[i], CERTAIN_EXACT);
}

TEST(an_owner_is_never_surer_than_the_address)
{
    for (size_t i = 0; i < sizeof access_cases / sizeof access_cases[0]; i++)
        check_access(&access_cases[i], CERTAIN_DERIVED);
}

/* Mapped memory does not fault by itself. An address that is only approximate, or that was unmapped at some time, may not be
 * the one; then the lane may be, but not its address. */
TEST(an_access_in_bounds_is_no_evidence)
{
    static const struct {
        const char *name;
        uint64_t address;
        uint32_t bytes;
        unsigned set;
        int is_unsure;
    } cases[] = {
        {"in the slack", C_END, 4, BIT(C), 0},
        {"in the head slack", SLOT(1), 4, BOTH, 0},
        {"in a live buffer", B_START + 12, 4, BOTH, 0},
        {"last bytes of a live buffer", A_END - 4, 4, BIT(A), 0},
        {"in one that is freed and still mapped", A_END - 5000, 4, BIT(IDLE_A), 0},
        {"its place is live again", F_START + 40, 4, BIT(F) | BIT(REUSED_F), 1},
    };
    static const struct {
        enum certainty certainty;
        int is_replayed;
    } ways[] = {{CERTAIN_EXACT, 0}, {CERTAIN_DERIVED, 1}, {CERTAIN_DERIVED, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] * 3; i++) {
        struct evidence_lane lane = {
            .address = cases[i / 3].address, .certainty = ways[i % 3].certainty, .is_replayed = ways[i % 3].is_replayed};
        struct evidence_stop stop = stop_at(&lane, 1, cases[i / 3].bytes);
        int is_bystander = !cases[i / 3].is_unsure && i % 3 != 2;
        uint64_t word = B_START;
        give(&stop, &word, sizeof word);
        struct diagnosis diagnosis = diagnosed(&stop, 1, memory_with(cases[i / 3].set));
        if (diagnosis.verdict.kind != FAULT_ILLEGAL_ACCESS || diagnosis.verdict.owner ||
            diagnosis.access.certainty != CERTAIN_NOT || diagnosis.is_bystander != is_bystander ||
            diagnosis.access.lane != (is_bystander ? NULL : &lane) || fault_stop(&diagnosis)->is_warp_alive == is_bystander)
            fail_msg("%s, way %zu: %s", cases[i / 3].name, i % 3, said_of(&diagnosis));
        /* The same at one's side does not hide the one that is out of bounds. */
        struct evidence_lane two[] = {lane, {.lane = 1, .address = SLOT(4) + 8, .certainty = CERTAIN_DERIVED}};
        stop.lanes = two;
        stop.lane_count = 2;
        assert_ptr_equal(diagnosed(&stop, 1, memory_with(cases[i / 3].set)).access.lane, &two[1]);
    }
}

/* An index that leads far away: the buffer is the one that the code takes the address from, not one that is, or was, there. */
TEST(what_the_code_uses_is_meant)
{
    static const struct {
        uint64_t address;
        unsigned set;
        int is_known;
        const char *said;
    } cases[] = {
        {F_START + 40, BIT(A) | BIT(C) | BIT(F), 1, "overrun of #1 derived"},
        {F_START + 40, BIT(A) | BIT(C) | BIT(F), 0, "use-after-free of #3 exact"},
        {B_END, BIT(A) | BIT(B) | BIT(C), 1, "overrun of #1 derived"},
        {B_END, BIT(A) | BIT(B) | BIT(C), 0, "overrun of #2 derived"},
        {SLOT(3) - 4, BIT(A) | BIT(C), 1, "overrun of #1 derived"},
        {A_END, BIT(A) | BIT(C), 1, "overrun of #1 exact"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct evidence_lane lane = {.address = cases[i].address, .certainty = CERTAIN_EXACT};
        struct evidence_stop stop = stop_at(&lane, 1, 4);
        const uint64_t words[] = {12, A_START, C_END - 4001};
        give(&stop, words, sizeof words);
        stop.source = (struct address_source){cases[i].is_known, 1 << 1, 0};
        struct diagnosis diagnosis = diagnosed(&stop, 1, memory_with(cases[i].set));
        if (strncmp(said_of(&diagnosis), cases[i].said, strlen(cases[i].said)) != 0)
            fail_msg("case %zu: %s", i, said_of(&diagnosis));
    }
}

/* An access that may not have been the last: one that faults did, one in bounds or in memory of others tells nothing. */
TEST(an_earlier_turn)
{
    static const struct {
        uint64_t address;
        int is_unknown;
        enum rank rank;
    } cases[] = {{C_END, 0, RANK_SITE},
                 {SLOT(4) + 8, 0, RANK_NOWHERE},
                 {64, 0, RANK_NOWHERE},
                 {0x7f0000000000, 0, RANK_SITE},
                 {SLOT(4) + 8, 1, RANK_SITE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cufence_buffer room[ALL];
        struct fault_memory memory = memory_of(BIT(C), room);
        struct evidence_lane lane = {.address = cases[i].address, .is_earlier = 1};
        struct evidence_stop stop = stop_at(&lane, 1, 4);
        memory.is_unknown = cases[i].is_unknown;
        struct diagnosis diagnosis = diagnosed(&stop, 1, &memory);
        int is_told = cases[i].rank != RANK_SITE;
        if (diagnosis.verdict.rank != cases[i].rank || diagnosis.is_bystander ||
            (diagnosis.access.certainty != CERTAIN_NOT) != is_told || diagnosis.access.threads != 1)
            fail_msg("case %zu, rank %d: %s", i, (int)diagnosis.verdict.rank, said_of(&diagnosis));
    }
}

TEST(another_devices_buffer_may_fault_in_bounds)
{
    cufence_buffer room[ALL];
    struct fault_memory memory = memory_of(BOTH, room);
    struct evidence_lane lane = {.address = B_START + 12, .certainty = CERTAIN_EXACT};
    struct evidence_stop stop = stop_at(&lane, 1, 4);
    room[1].device = 1;
    for (memory.shared = 0; memory.shared < 3; memory.shared++) {
        struct diagnosis diagnosis = diagnosed(&stop, 1, &memory);
        expect_said(&diagnosis,
                    memory.shared < 2
                        ? "illegal access of #2 derived at 12, beside #2 #0; address exact, lane 0, 0 threads, 0 others"
                        : "illegal access; address unknown, 0 threads, 0 others, bystander");
    }
}

/* An argument that the access did not go through, by the kernel's code, does not decide between two neighbours. */
TEST(arguments_count_as_far_as_the_code_uses_them)
{
    static const struct {
        struct address_source source;
        uint64_t owner;
        enum certainty certainty;
        const char *reason;
        int word;
    } cases[] = {
        {{0, 0, 0}, 2, CERTAIN_EXACT, GIVEN_ONLY, 0}, {{1, 1, 0}, 2, CERTAIN_EXACT, GIVEN_ONLY, 0},
        {{1, 1, 1}, 2, CERTAIN_EXACT, GIVEN_ONLY, 0}, {{1, 2, 0}, 1, CERTAIN_DERIVED, FAR, -1},
        {{1, 0, 1}, 1, CERTAIN_DERIVED, FAR, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct evidence_lane lane = {.address = A_END, .certainty = CERTAIN_EXACT};
        struct evidence_stop stop = stop_at(&lane, 1, 4);
        const uint64_t words[] = {B_START, 17};
        give(&stop, words, sizeof words);
        stop.source = cases[i].source;
        struct diagnosis diagnosis = diagnosed(&stop, 1, memory_with(BOTH));
        assert_int_equal(id_of(diagnosis.verdict.owner), cases[i].owner);
        assert_int_equal(diagnosis.verdict.certainty, cases[i].certainty);
        assert_string_equal(diagnosis.verdict.reason, cases[i].reason);
        assert_int_equal(diagnosis.verdict.parameter, cases[i].word);
    }
}

/* Two buffers `gap` bytes apart, and an access `into` bytes behind the end of the one below. */
static struct diagnosis between(uint64_t gap, uint64_t into)
{
    static cufence_buffer near[2];
    static struct fault_memory memory;
    static struct evidence_lane lane;
    static struct evidence_stop stop;
    uint64_t end = ARENA + PAGE, start = end + gap;
    near[0] = (cufence_buffer)MAPPED(1, end - 64, 64, end - 64, end);
    near[0].guard_start = ARENA;
    near[0].guard_end = start;
    near[1] = (cufence_buffer)MAPPED(2, start, 64, start, start + 64);
    near[1].guard_start = end;
    near[1].guard_end = start + PAGE;
    memory = (struct fault_memory){.near = near, .near_count = 2, .arena_start = ARENA, .arena_end = ARENA_END};
    lane = (struct evidence_lane){.address = end + into, .certainty = CERTAIN_EXACT};
    stop = stop_at(&lane, 1, 1);
    return diagnosed(&stop, 1, &memory);
}

TEST(the_nearer_end_is_found_to_the_byte)
{
    static const struct {
        uint64_t gap, into, owner, distance;
        const char *reason;
    } cases[] = {
        {1, 0, 1, 0, NEARER},     {2, 0, 1, 0, NEARER},     {2, 1, 2, 1, NEARER}, {3, 1, 1, 1, NEARER},
        {101, 50, 1, 50, NEARER}, {101, 51, 2, 50, NEARER}, {99, 19, 1, 19, FAR}, {98, 19, 1, 19, NEARER},
        {99, 79, 2, 20, FAR},     {98, 78, 2, 20, NEARER},  {4, 0, 1, 0, FAR},    {3, 0, 1, 0, NEARER},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct diagnosis diagnosis = between(cases[i].gap, cases[i].into);
        assert_int_equal(id_of(diagnosis.verdict.owner), cases[i].owner);
        assert_int_equal(diagnosis.verdict.distance, cases[i].distance);
        assert_string_equal(diagnosis.verdict.reason, cases[i].reason);
    }
}
