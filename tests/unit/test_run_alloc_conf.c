/* What becomes of PYTORCH_CUDA_ALLOC_CONF. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc_conf.h"

#define ASYNC "backend:cudaMallocAsync"

struct story {
    const char *text, *rewritten, *options, *backend;
};

static void expect(const struct story *story)
{
    struct alloc_conf conf;
    assert_int_equal(alloc_conf_rewrite(story->text, &conf), CUFENCE_OK);
    assert_string_equal(conf.text, story->rewritten);
    assert_string_equal(conf.options, story->options);
    if (story->backend)
        assert_string_equal(conf.backend, story->backend);
    else
        assert_null(conf.backend);
    alloc_conf_free(&conf);
}

#define EXPECT_ALL(stories)                                                                                                    \
    for (size_t i = 0; i < sizeof(stories) / sizeof *(stories); i++)                                                           \
    expect(&(stories)[i])

static void the_back_end_is_put_in_front(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {NULL, ASYNC, "", NULL},
        {"", ASYNC, "", NULL},
        {"  ", ASYNC, "", NULL},
        {",", ASYNC, "", NULL},
        {"max_split_size_mb:64", ASYNC ",max_split_size_mb:64", "", NULL},
        {"a:1,b:2", ASYNC ",a:1,b:2", "", NULL},
        {"a:1,,b:2,", ASYNC ",a:1,b:2", "", NULL},
        {"expandable_segments:True", ASYNC ",expandable_segments:True", "", NULL},
    };
    EXPECT_ALL(stories);
}

static void another_back_end_gives_way(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {"backend:native", ASYNC, "", "native"},
        {"backend:cudaMallocAsync", ASYNC, "", "cudaMallocAsync"},
        {"backend:cufence", ASYNC, "", "cufence"},
        {"backend:cufense", ASYNC, "", "cufense"},
        {"a:1,backend:native,b:2", ASYNC ",a:1,b:2", "", "native"},
        {"backend:native,backend:cufence", ASYNC, "", "cufence"},
        {"backend", ASYNC, "", ""},
        {"backend:", ASYNC, "", ""},
        {"backends:native", ASYNC ",backends:native", "", NULL},
        {"my_backend:native", ASYNC ",my_backend:native", "", NULL},
        {"Backend:native", ASYNC ",Backend:native", "", NULL},
    };
    EXPECT_ALL(stories);
}

static void blanks_count_for_nothing(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {" backend : native ", ASYNC, "", "native"},
        {"backend:\tnative\n, a : 1", ASYNC ",a:1", "", "native"},
        {"max split_size_mb : 6 4", ASYNC ",maxsplit_size_mb:64", "", NULL},
        {"back end:native,a:1", ASYNC ",a:1", "", "native"},
        {"cu fence_ uaf:strict", ASYNC, "uaf=strict", NULL},
    };
    EXPECT_ALL(stories);
}

static void a_list_keeps_its_commas(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {"roundup_power2_divisions:[256:1,512:2]", ASYNC ",roundup_power2_divisions:[256:1,512:2]", "", NULL},
        {"backend:native,roundup_power2_divisions:[256:1, 512:2, >:4],a:1",
         ASYNC ",roundup_power2_divisions:[256:1,512:2,>:4],a:1", "", "native"},
        {"a:[backend:native,b:1]", ASYNC ",a:[backend:native,b:1]", "", NULL},
        {"a:[],b:1", ASYNC ",a:[],b:1", "", NULL},
    };
    EXPECT_ALL(stories);
}

static void what_is_not_well_formed_is_left_to_pytorch(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {"a:[1,2", ASYNC ",a:[1,2", "", NULL},
        {"a:1],b:2", ASYNC ",a:1],b:2", "", NULL},
        {"a:[1,[2],b:3", ASYNC ",a:[1,[2],b:3", "", NULL},
        {"a", ASYNC ",a", "", NULL},
        {":1", ASYNC ",:1", "", NULL},
    };
    EXPECT_ALL(stories);
}

static void cufence_entries_become_options(void **state)
{
    (void)state;
    static const struct story stories[] = {
        {"backend:cufence,cufence_uaf:strict", ASYNC, "uaf=strict", "cufence"},
        {"cufence_uaf:strict,a:1,cufence_align:auto", ASYNC ",a:1", "uaf=strict,align=auto", NULL},
        {" cufence_uaf : strict ", ASYNC, "uaf=strict", NULL},
        {"cufence_log:/tmp/a b:c.txt", ASYNC, "log=/tmp/a b:c.txt", NULL},
        {"cufence_uaf:", ASYNC, "uaf=", NULL},
        {"cufence_uaf", ASYNC, "uaf", NULL},
        {"cufence_", ASYNC, "", NULL},
        {"cufence:1", ASYNC ",cufence:1", "", NULL},
        {"a:[cufence_uaf:strict]", ASYNC ",a:[cufence_uaf:strict]", "", NULL},
    };
    EXPECT_ALL(stories);
}

/* A text that is rewritten once more stays as it is: children of a child. */
static void a_rewritten_text_stays(void **state)
{
    (void)state;
    static const struct story story = {ASYNC ",a:1,b:[1,2]", ASYNC ",a:1,b:[1,2]", "", "cudaMallocAsync"};
    expect(&story);
}

/* The table that tests/python/test_startup.py holds the start-up hook to. */
static void the_start_up_hook_has_the_same_grammar(void **state)
{
    (void)state;
    FILE *file = fopen(CUFENCE_FIXTURES "/alloc_conf.txt", "r");
    char line[512];
    int rows = 0;
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        char *rewritten = strchr(line, '|'), *options = strrchr(line, '|');
        struct alloc_conf conf;
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '#')
            continue;
        assert_true(rewritten != options);
        *rewritten++ = *options++ = 0;
        assert_int_equal(alloc_conf_rewrite(line, &conf), CUFENCE_OK);
        assert_string_equal(conf.text, rewritten);
        assert_string_equal(conf.options, options);
        alloc_conf_free(&conf);
        rows++;
    }
    fclose(file);
    assert_true(rows > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_back_end_is_put_in_front),
        cmocka_unit_test(another_back_end_gives_way),
        cmocka_unit_test(blanks_count_for_nothing),
        cmocka_unit_test(a_list_keeps_its_commas),
        cmocka_unit_test(what_is_not_well_formed_is_left_to_pytorch),
        cmocka_unit_test(cufence_entries_become_options),
        cmocka_unit_test(a_rewritten_text_stays),
        cmocka_unit_test(the_start_up_hook_has_the_same_grammar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
