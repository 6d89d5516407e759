/* Addresses of which the dump has one half: when the kernel's arguments complete them, and when they must not. */
#include "support/test.h"

#include <inttypes.h>

#include "fault_world.h"

#define LOW UINT64_C(0xffffffff)
#define HIGH (~LOW)
#define WINDOW (LOW + 1)
#define ONLY "only this argument explains the address's low half"
#define FAR "the next buffer is at least four times farther"
#define NEARER_BOTH "nearer end, both neighbours are arguments"

/* Three more buffers: one as far from A as makes its low halves the same, one with a span of more than 4 GiB, and one whose
 * guard has the low halves that A's memory has. */
enum { TWIN = ALL, GREAT, SHIFTED, MORE };

static const cufence_buffer more[] = {
    MAPPED(8, A_START + 16 * WINDOW, 4000, SLOT(0) + 16 * WINDOW, A_END + 16 * WINDOW),
    MAPPED(9, ARENA + 64 * WINDOW, 2 * WINDOW, ARENA + 64 * WINDOW, ARENA + 66 * WINDOW),
    MAPPED(10, A_END + 32 * WINDOW, PAGE, A_END + 32 * WINDOW, A_END + 32 * WINDOW + PAGE),
};

#define TWIN_START (A_START + 16 * WINDOW)
#define GREAT_START (ARENA + 64 * WINDOW)
#define SHIFTED_START (A_END + 32 * WINDOW)

struct half_case {
    const char *name;
    unsigned set;           /* the buffers that exist */
    uint64_t parameters[3]; /* up to the first 0 */
    struct {
        uint64_t address, known; /* UINT64_MAX: a whole address, EXACT */
    } lanes[4];                  /* up to the first with address and mask 0 */
    enum fault_kind kind;
    uint64_t owner; /* id, 0 for none */
    uint64_t address, distance;
    const char *reason;
    size_t threads;
};

#define NOT_TOLD FAULT_ILLEGAL_ACCESS, 0, 0, 0, NULL

/* clang-format off */
static const struct half_case half_cases[] = {
    {"use after free", BIT(A) | BIT(F), {F_START}, {{F_START + 40, LOW}}, FAULT_USE_AFTER_FREE, 3, F_START + 40, 40, ONLY, 1},
    {"another argument beside it", BIT(A) | BIT(F), {A_START, F_START}, {{F_START + 40, LOW}}, FAULT_USE_AFTER_FREE, 3,
     F_START + 40, 40, ONLY, 1},
    {"overrun", BIT(A), {A_START}, {{A_END, LOW}}, FAULT_OVERRUN, 1, A_END, 0, ONLY, 1},
    {"overrun, its neighbour is no argument", BOTH, {A_START}, {{A_END + 8, LOW}}, FAULT_OVERRUN, 1, A_END + 8, 8, ONLY, 1},
    {"nearer to a buffer that is no argument", BOTH, {A_START}, {{B_START - 8, LOW}}, FAULT_ILLEGAL_ACCESS, 0, 0, 0, NULL, 1},
    {"in the guard, nearer to a buffer that is no argument", BOTH, {A_START}, {{SLOT(1) - 8, LOW}}, FAULT_OVERRUN, 1,
     SLOT(1) - 8, GUARD - 8, ONLY, 1},
    {"underrun", BIT(A), {A_START}, {{SLOT(0) - 4, LOW}}, FAULT_UNDERRUN, 1, SLOT(0) - 4, A_START - SLOT(0) + 4, ONLY, 1},
    {"half out", BIT(A), {A_START}, {{A_END - 2, LOW}}, FAULT_OVERRUN, 1, A_END - 2, 0, ONLY, 1},
    {"between two arguments", BOTH, {A_START, B_START}, {{A_END, LOW}}, FAULT_OVERRUN, 1, A_END, 0, FAR, 1},
    {"the other lanes tell which of two", BOTH, {A_START, B_START}, {{A_START + 8, LOW}, {A_END, LOW}, {A_END + 4, LOW}},
     FAULT_OVERRUN, 1, A_END, 0, ONLY, 2},
    {"and where it is the further one", BOTH, {A_START, B_START}, {{A_START + 8, LOW}, {SLOT(1) - 4, LOW}}, FAULT_OVERRUN, 1,
     SLOT(1) - 4, GUARD - 4, ONLY, 1},
    {"a whole address tells too", BOTH, {A_START, B_START}, {{B_START, UINT64_MAX}, {SLOT(1) - 4, LOW}}, FAULT_UNDERRUN, 2,
     SLOT(1) - 4, B_START - SLOT(1) + 4, ONLY, 1},
    {"a high half tells too", BIT(A) | 1u << TWIN, {A_START, TWIN_START}, {{A_END, LOW}, {TWIN_START, HIGH}}, FAULT_OVERRUN, 8,
     A_END + 16 * WINDOW, 0, ONLY, 2},
    {"freed, its place is live again", BIT(F) | BIT(REUSED_F), {F_START}, {{SLOT_END(2), LOW}}, FAULT_OVERRUN, 5, SLOT_END(2), 0,
     ONLY, 1},

    {"the low half fits two buffers", BIT(A) | 1u << TWIN, {A_START, TWIN_START}, {{A_END, LOW}}, NOT_TOLD, 1},
    {"the low half fits twice", 1u << GREAT, {GREAT_START}, {{GREAT_START - 4, LOW}}, NOT_TOLD, 1},
    {"it fits no argument", BOTH | BIT(C), {A_START}, {{C_END + 15, LOW}}, NOT_TOLD, 1},
    {"no argument", BOTH, {77}, {{A_END, LOW}}, NOT_TOLD, 1},
    {"in mapped memory", BIT(A), {A_START}, {{A_START + 8, LOW}}, NOT_TOLD, 1},
    {"one lane is elsewhere", BOTH, {A_START}, {{A_END, LOW}, {0x12345678, LOW}}, NOT_TOLD, 2},
    {"two lanes, two buffers", BOTH, {A_START, B_START}, {{SLOT(0) - 4, LOW}, {B_END, LOW}}, NOT_TOLD, 2},
    {"mapped in one argument, so the other's", BIT(A) | 1u << SHIFTED, {A_START, SHIFTED_START}, {{A_START + 8, LOW}},
     FAULT_UNDERRUN, 10, SHIFTED_START - 3992, 3992, ONLY, 1},
    {"a lane without any address may be the one", BIT(A) | 1u << SHIFTED, {A_START, SHIFTED_START},
     {{A_START + 8, LOW}, {0, 0x80}}, NOT_TOLD, 2},
    {"a lane without any address, one argument", BIT(A), {A_START}, {{A_END, LOW}, {0, 0x80}}, FAULT_OVERRUN, 1, A_END, 0, ONLY,
     2},
    {"a null pointer's low half", BIT(A), {A_START}, {{0xfff8, LOW}}, NOT_TOLD, 1},
    {"the high half alone", BIT(A), {A_START}, {{A_END, HIGH}}, NOT_TOLD, 1},
};
/* clang-format on */

/* A case as evidence. What is not known of an address is garbage. */
struct half_story {
    cufence_buffer near[MORE];
    struct fault_memory memory;
    struct evidence_lane lanes[4];
    struct evidence_site sites[2];
    struct evidence evidence;
};

static void tell(const struct half_case *c, struct half_story *story)
{
    memset(story, 0, sizeof *story);
    story->memory = memory_of(c->set, story->near);
    for (unsigned i = ALL; i < MORE; i++)
        if (c->set >> i & 1)
            story->near[story->memory.near_count++] = more[i - ALL];
    size_t count = 0;
    for (; count < 4 && (c->lanes[count].address || c->lanes[count].known); count++) {
        uint64_t known = c->lanes[count].known == 0x80 ? 0 : c->lanes[count].known;
        story->lanes[count] =
            (struct evidence_lane){.lane = (uint32_t)count,
                                   .address = (c->lanes[count].address & known) | (0x5a5a5a5a5a5a5a5a & ~known),
                                   .known_bits = known,
                                   .certainty = known == UINT64_MAX ? CERTAIN_EXACT : CERTAIN_NOT,
                                   .has_exception = 1};
    }
    story->sites[0] = site_at(story->lanes, count, 4);
    story->sites[0].parameters = (const uint8_t *)c->parameters;
    while (story->sites[0].parameter_bytes < sizeof c->parameters && c->parameters[story->sites[0].parameter_bytes / 8])
        story->sites[0].parameter_bytes += 8;
    story->evidence = (struct evidence){.sites = story->sites, .site_count = 1};
}

static void check(const struct half_case *c, const struct half_story *story, const struct diagnosis *diagnosis)
{
    int is_told = c->owner != 0;
    if (diagnosis->kind != c->kind || id_of(diagnosis->owner) != c->owner || diagnosis->distance != c->distance ||
        (is_told && diagnosis->address != c->address) ||
        diagnosis->address_certainty != (is_told ? CERTAIN_DERIVED : CERTAIN_NOT) ||
        diagnosis->owner_certainty != diagnosis->address_certainty || diagnosis->is_completed != is_told ||
        diagnosis->faulting_threads != c->threads || (c->reason && strcmp(diagnosis->owner_reason, c->reason) != 0))
        fail_msg("%s: %s at 0x%" PRIx64 " (%d), owner #%" PRIu64 " (%d) distance %" PRIu64 ", completed %d, %zu "
                 "threads: %s",
                 c->name, fault_kind_name(diagnosis->kind), diagnosis->address, (int)diagnosis->address_certainty,
                 id_of(diagnosis->owner), (int)diagnosis->owner_certainty, diagnosis->distance, diagnosis->is_completed,
                 diagnosis->faulting_threads, diagnosis->owner_reason ? diagnosis->owner_reason : "-");
    assert_true(diagnosis->lane >= story->lanes && diagnosis->lane < story->lanes + 4);
    assert_null(diagnosis->rival);
    assert_int_equal(diagnosis->candidate_count > 0, !is_told && c->parameters[0] > 77);
}

TEST(low_halves_are_completed_where_one_address_fits)
{
    for (size_t i = 0; i < sizeof half_cases / sizeof half_cases[0]; i++) {
        struct half_story story;
        struct diagnosis diagnosis;
        tell(&half_cases[i], &story);
        fault_diagnose(&story.evidence, &story.memory, &diagnosis);
        check(&half_cases[i], &story, &diagnosis);
    }
}

/* What the low half means depends on the exception: out of range is raised for shared memory too. */
TEST(only_illegal_addresses_are_completed)
{
    static const uint32_t exceptions[] = {5, 6, 7, 12};
    for (size_t i = 0; i < sizeof exceptions / sizeof exceptions[0]; i++) {
        struct half_story story;
        struct diagnosis diagnosis;
        tell(&half_cases[0], &story);
        story.sites[0].exception = exception_of(exceptions[i], NULL);
        fault_diagnose(&story.evidence, &story.memory, &diagnosis);
        assert_int_equal(diagnosis.is_completed, 0);
        assert_int_equal(diagnosis.address_certainty, CERTAIN_NOT);
    }
}

TEST(a_whole_address_that_explains_the_fault_comes_first)
{
    static const struct half_case both = {
        .set = BIT(A) | BIT(F), .parameters = {A_START, F_START}, .lanes = {{F_START + 8, LOW}, {A_END + 100, UINT64_MAX}}};
    struct half_story story;
    struct diagnosis diagnosis;
    tell(&both, &story);
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    assert_int_equal(id_of(diagnosis.owner), 1);
    assert_int_equal(diagnosis.address_certainty, CERTAIN_EXACT);
    assert_int_equal(diagnosis.is_completed, 0);
}

/* One instruction of one grid has one base: what contradicts it in another warp counts; another grid's warps do not. */
TEST(all_warps_of_the_place_must_agree)
{
    for (int is_other_grid = 0; is_other_grid < 2; is_other_grid++) {
        struct half_story story;
        struct diagnosis diagnosis;
        struct evidence_lane elsewhere = {.address = 0x12345678, .known_bits = LOW};
        tell(&half_cases[0], &story);
        story.sites[1] = story.sites[0];
        story.sites[1].lanes = &elsewhere;
        story.sites[1].lane_count = 1;
        story.sites[1].grid_id = (uint64_t)is_other_grid;
        story.evidence.site_count = 2;
        fault_diagnose(&story.evidence, &story.memory, &diagnosis);
        assert_int_equal(diagnosis.is_completed, is_other_grid);
    }
}

TEST(the_best_lane_of_all_warps_is_reported)
{
    static const struct half_case far = {.set = BIT(A), .parameters = {A_START}, .lanes = {{A_END + 64, LOW}}};
    struct half_story story;
    struct diagnosis diagnosis;
    struct evidence_lane near = {.address = A_END & LOW, .known_bits = LOW};
    tell(&far, &story);
    story.sites[1] = story.sites[0];
    story.sites[1].lanes = &near;
    story.evidence.site_count = 2;
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    assert_ptr_equal(diagnosis.site, &story.sites[1]);
    assert_ptr_equal(diagnosis.lane, &near);
    assert_int_equal(diagnosis.address, A_END);
    assert_int_equal(diagnosis.faulting_threads, 2);
    assert_int_equal(diagnosis.other_sites, 1);
    assert_int_equal(id_of(diagnosis.previous), 1);
}

/* With more arguments than are looked at, none may be called the only one. */
TEST(too_many_arguments_are_not_weighed)
{
    for (size_t count = 64; count <= 65; count++) {
        cufence_buffer near[65];
        uint64_t words[65];
        for (size_t i = 0; i < count; i++) {
            uint64_t end = A_END + 3 * i * PAGE;
            words[i] = end - 4000;
            near[i] = (cufence_buffer){.id = 100 + i,
                                       .address = words[i],
                                       .size = 4000,
                                       .mapping_start = end - PAGE,
                                       .mapping_end = end,
                                       .guard_start = end - 2 * PAGE,
                                       .guard_end = end + PAGE,
                                       .is_mapped = 1};
        }
        struct fault_memory memory = {.near = near, .near_count = count, .arena_start = ARENA, .arena_end = ARENA_END};
        struct evidence_lane lanes[] = {{.address = A_START & LOW, .known_bits = LOW},
                                        {.address = A_END & LOW, .known_bits = LOW}};
        struct evidence_site site = site_at(lanes, 2, 4);
        site.parameters = (const uint8_t *)words;
        site.parameter_bytes = count * 8;
        struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
        assert_int_equal(diagnosis.is_completed, count == 64);
    }
}

/* Arguments that are live but not among the buffers near an address are mapped all the same. */
TEST(live_buffers_are_mapped)
{
    struct fault_memory memory = {
        .live = world, .live_count = 2, .live_total = 2, .arena_start = ARENA, .arena_end = ARENA_END};
    struct evidence_lane lane = {.address = A_START & LOW, .known_bits = LOW};
    struct evidence_site site = site_at(&lane, 1, 4);
    uint64_t word = A_START;
    site.parameters = (const uint8_t *)&word;
    site.parameter_bytes = sizeof word;
    struct diagnosis diagnosis = diagnosed(&site, 1, &memory);
    assert_int_equal(diagnosis.is_completed, 0);
}

TEST(high_halves_narrow_the_candidates)
{
    static const struct {
        uint64_t lanes[2]; /* the second may be 0 */
        size_t count;
        uint64_t first;
        int is_narrowed;
    } cases[] = {
        {{A_START, 0}, 2, 1, 1},               /* A and B, but not TWIN */
        {{TWIN_START, 0}, 1, 8, 1},            /* TWIN alone */
        {{A_START - 16 * WINDOW, 0}, 3, 1, 0}, /* none: then all */
        {{A_START, TWIN_START}, 3, 1, 0},      /* no buffer for both lanes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct half_case c = {.set = BOTH | 1u << TWIN, .parameters = {A_START, B_START, TWIN_START}};
        struct half_story story;
        struct diagnosis diagnosis;
        for (size_t k = 0; k < 2 && cases[i].lanes[k]; k++) {
            c.lanes[k].address = cases[i].lanes[k];
            c.lanes[k].known = HIGH;
        }
        tell(&c, &story);
        fault_diagnose(&story.evidence, &story.memory, &diagnosis);
        assert_int_equal(diagnosis.kind, FAULT_ILLEGAL_ACCESS);
        assert_int_equal(diagnosis.address_certainty, CERTAIN_NOT);
        assert_null(diagnosis.owner);
        assert_int_equal(diagnosis.candidate_count, cases[i].count);
        assert_int_equal(diagnosis.candidate_total, cases[i].count);
        assert_int_equal(diagnosis.candidates[0]->id, cases[i].first);
        assert_int_equal(diagnosis.candidate_source, CANDIDATES_ARGUMENTS);
        assert_int_equal(diagnosis.is_narrowed, cases[i].is_narrowed);
    }
}
