/* A snapshot as bytes: a modified one gives an error or fewer facts. test_golden.c reads back what is sound. */
#include "support/test.h"

#include "analysis/bundle/snapshot_json.h"
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

static char *told(const struct evidence *evidence, const struct fault_memory *memory)
{
    struct diagnosis diagnosis;
    fault_diagnose(evidence, memory, &diagnosis);
    return told_fault(finding_json, &diagnosis, &(struct finding_origin){4242, -1, 1, NULL, NULL});
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
    launched_twice(&story);
    char *bytes = snapshot_write(&story.memory, &origin, NULL);
    for (size_t length = 0; length + 1 < strlen(bytes); length += 7) {
        struct snapshot *snapshot = NULL;
        assert_int_equal(snapshot_read(bytes, length, &snapshot, &problem), CUFENCE_ERROR_CORRUPT);
    }
    free(bytes);
}
