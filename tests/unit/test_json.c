/* A report as JSON on a host without memory, and whose rank it has. test_golden.c has what it says. */
#include "support/test.h"

#include <jansson.h>

#include "base/options.h"
#include "support/told.h"
#include "rerun_stories.h"

static const struct finding_origin origin = {.pid = 4242, .rank = 3, .device = 0};

TEST(the_rank_is_the_environments)
{
    static const struct {
        const char *rank, *local_rank;
        int expected;
    } cases[] = {{NULL, NULL, -1}, {"7", "1", 7}, {NULL, "1", 1}, {"", "1", 1},
                 {"x", NULL, -1},  {"x", "2", 2}, {"-1", "0", 0}, {"99999999999", NULL, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("RANK");
        unsetenv("LOCAL_RANK");
        if (cases[i].rank)
            setenv("RANK", cases[i].rank, 1);
        if (cases[i].local_rank)
            setenv("LOCAL_RANK", cases[i].local_rank, 1);
        assert_int_equal(options_rank(), cases[i].expected);
    }
}

/* ---- a host without memory ---- */

static long allowance, blocks;

static void *scarce_malloc(size_t size)
{
    if (allowance-- <= 0)
        return NULL;
    blocks++;
    return malloc(size);
}

static void counted_free(void *block)
{
    blocks -= block != NULL;
    free(block);
}

TEST(every_failure_to_allocate_gives_no_report)
{
    struct story story;
    struct diagnosis diagnosis;
    rerun_all_over(&story);
    fault_diagnose_rerun(&story.evidence, &story.rerun, &story.memory, &diagnosis);
    json_set_alloc_funcs(scarce_malloc, counted_free);
    long limit = 0;
    for (char *line = NULL; !line; limit++) {
        assert_true(limit < 10000);
        allowance = limit;
        blocks = 0;
        line = told_rerun(finding_json, &diagnosis, &story.rerun, &origin);
        assert_int_equal(blocks, line != NULL);
        if (line) {
            json_set_alloc_funcs(malloc, free);
            free(line);
            break;
        }
    }
    assert_true(limit > 100);
}
