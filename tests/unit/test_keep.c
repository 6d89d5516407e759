/* A snapshot as bytes: a modified one gives an error or fewer facts. test_golden.c reads back what is sound. */
#include "support/test.h"

#include "analysis/snapshot/keep.h"
#include "support/told.h"

#include "fault_stories.h"

static struct problem problem;
static const struct snapshot_origin origin = {.pid = 4242,
                                              .rank = -1,
                                              .device = 1,
                                              .device_name = "NVIDIA H100 80GB HBM3",
                                              .program = "/usr/bin/python3",
                                              .options = "uaf=strict",
                                              .time_ns = UINT64_C(1795318140155089896)};

static size_t frames_of(const void *from, uint32_t stack, struct stack_frame *out, size_t max)
{
    assert_true(max >= 2);
    out[0] = (struct stack_frame){.is_python = 1, .function = "forward", .file = "model.py", .line = (int)stack};
    out[1] = (struct stack_frame){.is_python = 1, .function = "st\xc3\xa9p", .file = "train.py", .line = 40};
    return 2;
}

static void make(struct story *story, void (*of)(struct story *))
{
    of(story);
    for (size_t i = 0; i < story->memory.near_count; i++) {
        story->near[i].allocated_stack = 120;
        story->near[i].freed_stack = story->near[i].freed_ns ? 130 : 0;
        story->near[i].freed_ago = story->near[i].freed_ns ? 1200 : 0;
        story->near[i].redzone_before = 256;
        story->near[i].redzone_after = 312;
        snprintf(story->near[i].label, sizeof story->near[i].label, "layer %zu \"w\"", i);
    }
    story->memory.frames.read = frames_of;
    story->memory.shared = UINT64_C(1) << 63 | 2;
}

static char *told(const struct evidence *evidence, const struct fault_memory *memory)
{
    struct diagnosis diagnosis;
    fault_diagnose(evidence, memory, &diagnosis);
    return told_fault(finding_json, &diagnosis, &(struct finding_origin){4242, -1, 1, NULL, NULL});
}

static const struct origin cause = {
    .is_known = 1,
    .address = 0xfedcba9876543210,
    .base = 0x7e0000000000,
    .base_at = -1,
    .base_from = 0x10,
    .constant = (uint64_t)-8,
    .terms = {{.value = (uint64_t)-1,
               .is_negative = 1,
               .adds = (uint64_t)-4,
               .factor = 4,
               .times = -1,
               .from = 0x7e0000000010,
               .bytes = 8,
               .place = {0x40, 23, "k.cu"}},
              {.input = ORIGIN_THREAD, .at = 2, .value = 3, .adds = 5, .times = 12, .times_value = 64}},
    .term_count = 2,
    .wraps = {{{0x50, 24, "k.cu"}, ORIGIN_WRAPPED_SUM, -1, 2, -3, INT64_MIN, INT32_MIN, 0x7e0000000020}},
    .wrap_count = 1};

TEST(a_second_launch_is_kept)
{
    struct story story;
    struct snapshot *snapshot = NULL;
    make(&story, exited_launched);
    assert_true(story.memory.near_count && story.memory.launch_count);
    const size_t last = story.memory.launch_count - 1;
    struct rerun_result rerun = {
        .outcome = RERUN_FAULTED,
        .reason = "",
        .note = "the GPU was full",
        .launch = &story.memory.launches[last],
        .writes = {{.buffer = &story.near[0],
                    .distance = 4,
                    .address = 0xfedcba9876543210,
                    .bytes = 200,
                    .values = {0, 1, 0xab, 0xff},
                    .value_bytes = 4},
                   {.is_before = 1, .is_slack = 1, .bytes = 1}},
        .write_count = 2,
        .emulated =
            {{.lane = 31, .thread = {1, 2, 3}, .address = 0xfedcba9876543210, .certainty = CERTAIN_DERIVED, .is_replayed = 1}},
        .emulated_count = 1,
        .emulated_block = {4, 5, 6},
        .figures = {{.address = 0xfedcba9876543210,
                     .bytes = UINT64_C(3) << 30,
                     .seen = 16 << 20,
                     .first = {0xff, 0, 1, [31] = 7},
                     .types = {{-1.5, 1e300, 0.1, 5, 4, 3, 2, 1.02}, [VALUE_UINT64] = {.max = 1}}},
                    {.address = 16}},
        .figure_count = 2,
        .written_bytes = 201,
        .unset = "table",
        .launches_tried = 3,
        .took_ms = 250};
    rerun.cause = cause;
    char *bytes = snapshot_write(&story.memory, &origin, &rerun);
    assert_int_equal(snapshot_read(bytes, strlen(bytes), &snapshot, &problem), CUFENCE_OK);
    const struct rerun_result *again = &snapshot->rerun;
    assert_ptr_equal(again->writes[0].buffer, &snapshot->memory.near[0]);
    assert_null(again->writes[1].buffer);
    assert_memory_equal(again->writes[0].values, rerun.writes[0].values, 64);
    assert_memory_equal(again->emulated, rerun.emulated, sizeof rerun.emulated);
    assert_memory_equal(again->figures, rerun.figures, sizeof rerun.figures);
    assert_memory_equal(&again->cause, &rerun.cause, sizeof rerun.cause);
    assert_string_equal(again->note, "the GPU was full");
    assert_int_equal(snapshot->memory.shared, story.memory.shared);
    assert_ptr_equal(again->launch, &snapshot->memory.launches[last]);
    char *written = snapshot_write(&snapshot->memory, &snapshot->origin, again);
    assert_string_equal(written, bytes);
    free(written);
    snapshot_free(snapshot);
    free(bytes);
}

/* Labels are cut to fit, also within a letter. */
TEST(half_a_letter_is_survived)
{
    struct story story;
    struct snapshot *snapshot = NULL;
    make(&story, overrun);
    snprintf(story.near[0].label, sizeof story.near[0].label, "caf\xc3");
    char *bytes = snapshot_write(&story.memory, &origin, NULL);
    assert_int_equal(snapshot_read(bytes, strlen(bytes), &snapshot, &problem), CUFENCE_OK);
    assert_string_equal(snapshot->memory.near[0].label, "caf\xef\xbf\xbd");
    char *before = told(&story.evidence, &story.memory), *after = told(&story.evidence, &snapshot->memory);
    assert_string_equal(after, before);
    free(before);
    free(after);
    snapshot_free(snapshot);
    free(bytes);
}

TEST(what_is_no_snapshot_gets_a_sentence)
{
    static const struct {
        const char *bytes, *sentence;
        cufence_status status;
    } cases[] = {
        {"", "not JSON: line 1", CUFENCE_ERROR_CORRUPT},
        {"[]", "not a snapshot of cufence", CUFENCE_ERROR_CORRUPT},
        {"{\"kind\":\"overrun\"}", "not a snapshot of cufence", CUFENCE_ERROR_CORRUPT},
        {"{\"snapshot\":3}", "its version is 3; this cufence reads versions up to 2", CUFENCE_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snapshot *snapshot = (struct snapshot *)&problem;
        assert_int_equal(snapshot_read(cases[i].bytes, strlen(cases[i].bytes), &snapshot, &problem), cases[i].status);
        assert_null(snapshot);
        assert_non_null(strstr(problem.text, cases[i].sentence));
    }
    snapshot_free(NULL);
}

/* Fields that are missing, of another type or out of range: nothing is claimed, and nothing is touched that is not there. */
TEST(hostile_fields_are_survived)
{
    static const char *const texts[] = {
        "{\"snapshot\":1}",
        "{\"snapshot\":1,\"near\":{},\"live\":7,\"stacks\":[],\"functions\":1,\"launches\":\"x\",\"origin\":3,\"memory\":[]}",
        "{\"snapshot\":1,\"near\":[1,{\"id\":\"x\",\"address\":-1,\"size\":\"0xzz\",\"label\":5}],\"launches\":[{\"function\":"
        "9,"
        "\"bytes\":\"zz\",\"kept_bytes\":4000000000,\"grid\":[1],\"frames\":[3,{}]},{\"function\":-1}]}",
        "{\"snapshot\":1,\"functions\":[{\"name\":\"k_oob\",\"argument_bytes\":8,\"arguments\":[0,4294967295,4294967295,8]},{}]"
        ","
        "\"launches\":[{\"function\":0,\"bytes\":\"0102\",\"argument_bytes\":8},{\"function\":1}]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct story story;
        struct snapshot *snapshot = NULL;
        overrun(&story);
        assert_int_equal(snapshot_read(texts[i], strlen(texts[i]), &snapshot, &problem), CUFENCE_OK);
        for (size_t k = 0; k < snapshot->memory.launch_count; k++) {
            const struct launch_entry *entry = snapshot->memory.launches[k].entry;
            assert_true(entry->kept_bytes <= LAUNCH_KEPT_BYTES);
            assert_true(!entry->function || !entry->function->has_layout || !entry->function->argument_count);
        }
        char *text = told(&story.evidence, &snapshot->memory);
        assert_non_null(text);
        free(text);
        snapshot_free(snapshot);
    }
}

TEST(what_is_cut_off_is_no_snapshot)
{
    struct story story;
    make(&story, launched_twice);
    char *bytes = snapshot_write(&story.memory, &origin, NULL);
    for (size_t length = 0; length + 1 < strlen(bytes); length += 7) {
        struct snapshot *snapshot = NULL;
        assert_int_equal(snapshot_read(bytes, length, &snapshot, &problem), CUFENCE_ERROR_CORRUPT);
    }
    free(bytes);
}
