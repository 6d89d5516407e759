/* Why an access is out of bounds: sentences, JSON, hints and the owner, from what its address is made of. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "analysis/verdict/cause.h"
#include "support/golden.h"
#include "support/told.h"

#include "fault_stories.h"

/* A launch with two pointers, to B and to A, and the number 40; one lane stores behind A's end. */
static struct told {
    struct story story;
    struct origin origin;
    struct diagnosis diagnosis;
} told;

static void make(uint64_t address)
{
    struct story *story = &told.story;
    told = (struct told){.origin = {.is_known = 1, .has_formula = 1, .address = address, .base = A_START, .base_at = 8}};
    launched(story);
    story->parameters[0] = B_START;
    story->parameters[1] = A_START;
    story->parameters[2] = 40;
    memcpy(story->entries[0].bytes, story->parameters, 20);
    story->stops[0].lane_count = 1;
    story->lanes[0].address = address;
}

static struct origin_term *add(enum origin_input input, uint32_t at, int64_t value, int64_t factor)
{
    struct origin_term *term = &told.origin.terms[told.origin.term_count++];
    *term = (struct origin_term){.input = input,
                                 .at = at,
                                 .value = (uint64_t)value,
                                 .factor = (uint64_t)factor,
                                 .adds = (uint64_t)(value * factor),
                                 .times = -1};
    return term;
}

static void add_loaded(uint64_t from, int64_t value, int64_t factor)
{
    struct origin_term *term = add(ORIGIN_LOADED, 0, value, factor);
    term->from = from;
    term->bytes = 8;
    term->place = (struct origin_place){0x40, 23, "k.cu"};
}

static void diagnose(void)
{
    fault_diagnose(&told.story.evidence, &told.story.memory, &told.diagnosis);
    cause_take(&told.diagnosis, &told.origin);
}

/* The sentences and the hint, each with a newline. */
static char *said(const struct finding *finding)
{
    char all[2048] = "";
    for (size_t i = 0; i < finding->cause.said.count; i++) {
        strcat(all, finding->cause.said.list[i].text);
        strcat(all, "\n");
    }
    strcat(all, finding->hint);
    return strdup(all);
}

/* The sentences, the hint, and the cause in JSON. */
static void check(const char *name)
{
    const struct finding_source from = {4242, -1, 0, NULL, NULL};
    diagnose();
    char *text = told_fault(said, &told.diagnosis, &from), *line = told_fault(finding_json, &told.diagnosis, &from),
         *all = NULL;
    json_t *json = json_loads(line, 0, NULL);
    char *cause = json_dumps(json_object_get(json, "cause"), JSON_COMPACT);
    assert_true(asprintf(&all, "%s\n%s\n", text, cause) > 0);
    golden_check(GOLDEN "code.expect", name, all);
    free(text);
    free(line);
    free(cause);
    free(all);
    json_decref(json);
}

TEST(what_is_loaded_names_its_element)
{
    make(A_START + 4 * 1010);
    add_loaded(B_START + 8 * 7, 1010, 4);
    check("cause_loaded");
    make(A_START + 4 * 1010);
    add_loaded(B_START - 16, 1010, 4);
    check("cause_loaded_in_front");
    make(SLOT(0) - 4);
    add_loaded(B_START, -1, (int64_t)(A_START - SLOT(0) + 4));
    check("cause_minus_one");
    make(A_START + 4 * 1010);
    add_loaded(0x10, 1010, 4);
    check("cause_loaded_from_nowhere");
}

/* As with a stride that is loaded. */
TEST(what_is_loaded_need_not_be_an_index)
{
    make(A_START + 4 * 1010);
    add_loaded(B_START, 1010, 4);
    told.origin.has_formula = 0;
    check("cause_not_an_index");
}

/* A small index that is loaded is not to blame if the access would be outside without it as well. */
TEST(what_is_loaded_need_not_be_wrong)
{
    make(A_START + 4 * 1010);
    add_loaded(B_START, 2, 4);
    add(ORIGIN_BLOCK, 0, 7, 4 * 144);
    check("cause_not_wrong");
}

TEST(who_has_written_the_index)
{
    static const struct launch_function fill = {
        .name = "_Z4fillPlS_i", .has_layout = 1, .argument_count = 2, .arguments = {{0, 8}, {8, 8}}};
    static const struct launch_function read = {
        .name = "_Z4readPKli", .has_layout = 1, .argument_count = 2, .arguments = {{0, 8}, {8, 4}}};
    struct launch_entry recent[3];
    make(A_START + 4 * 1010);
    add_loaded(B_START + 8 * 7, 1010, 4);
    for (uint64_t i = 0; i < 3; i++) { /* fill, fill, read; the second fill is the one */
        recent[i] = (struct launch_entry){
            .sequence = 1 + i, .time_ns = 1000000 + i, .function = i < 2 ? &fill : &read, .tid = 4242, .kept_bytes = 16};
        memcpy(recent[i].bytes + (i == 0 ? 8 : 0), &(uint64_t){B_START + 80}, 8);
    }
    told.story.memory.recent = recent;
    told.story.memory.recent_count = 3;
    check("cause_written_by");
    recent[0].time_ns = recent[1].time_ns = 70000000; /* after the launch that faulted */
    check("cause_written_later");
}

TEST(a_wrap_is_said_where_it_explains_the_fault)
{
    make(SLOT(0) - 400);
    add(ORIGIN_BLOCK, 0, 7, 0)->adds = SLOT(0) - 400 - A_START;
    told.origin.wrap_count = 2;
    told.origin.wraps[0] = (struct origin_wrap){.address = A_END};
    told.origin.wraps[1] = (struct origin_wrap){.place = {0x40, 14, "k.cu"},
                                                .kind = ORIGIN_WRAPPED_SHIFT,
                                                .a = 1073741824,
                                                .b = 2,
                                                .exact = 4294967296,
                                                .wrapped = 0,
                                                .address = A_START + 8};
    check("cause_wrapped");
    told.origin.wrap_count = 1;
    check("cause_without_a_wrap");
}

/* Argument 2 is 40: rows of 40 elements, of which A has 25. */
TEST(rows_by_their_stride)
{
    make(A_START + 4 * (25 * 40 + 8));
    add(ORIGIN_BLOCK, 1, 3, 4 * 8 * 40)->times = 16;
    add(ORIGIN_THREAD, 1, 1, 4 * 40)->times = 16;
    add(ORIGIN_THREAD, 0, 8, 4);
    told.origin.terms[0].times_value = told.origin.terms[1].times_value = 40;
    check("cause_rows");
    make(A_START + 4 * (11 * 99 + 8));
    told.story.parameters[0] = 99;
    memcpy(told.story.entries[0].bytes, told.story.parameters, 20);
    add(ORIGIN_THREAD, 1, 11, 4 * 99)->times = 0;
    add(ORIGIN_THREAD, 0, 8, 4);
    told.origin.terms[0].times_value = 99;
    check("cause_other_stride");
}

/* Nearer to B, which the kernel was given, too. */
TEST(the_pointer_decides_whose_the_access_is)
{
    make(B_START - PAGE - 64);
    add(ORIGIN_PARAMETER, 16, 40, ((int64_t)(B_START - PAGE - 64) - (int64_t)A_START) / 40);
    diagnose();
    assert_int_equal(told.diagnosis.verdict.kind, FAULT_OVERRUN);
    assert_int_equal(id_of(told.diagnosis.verdict.owner), 1);
    assert_int_equal(told.diagnosis.verdict.certainty, CERTAIN_RERUN);
    assert_int_equal(told.diagnosis.verdict.parameter, 1);
    assert_string_equal(told.diagnosis.verdict.reason, "the address is computed from a pointer to it");
    told.origin.address++; /* of another access */
    diagnose();
    assert_null(told.diagnosis.cause);
}

TEST(what_makes_no_sense_is_left_out)
{
    make(A_START + 4 * 1010);
    add_loaded(B_START + 8 * 7, 1010, 4);
    told.origin.terms[0].bytes = 0;
    diagnose();
    assert_null(told.diagnosis.cause);
    told.origin.terms[0].bytes = 8;
    told.origin.terms[0].times = 16; /* times 0 */
    diagnose();
    assert_null(told.diagnosis.cause);
    told.origin.terms[0].times_value = 2;
    diagnose();
    assert_ptr_equal(told.diagnosis.cause, &told.origin);
}
