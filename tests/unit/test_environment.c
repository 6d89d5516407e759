/* The environment that `cufence run` gives a program, and how it rewrites PyTorch's variables. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"
#include "cli/environment.h"
#include "base/error.h"
#include "cli/alloc_conf.h"

#include <unistd.h>

#define ASYNC "backend:cudaMallocAsync"
#define OURS "/opt/cufence/lib/libcufence_preload.so"

/* ---- what is done ---- */

static cufence_status preload(void)
{
    return environment_preload(OURS);
}

/* Twice: it comes first, and once. */
static cufence_status python(void)
{
    assert_int_equal(environment_python("/opt/_bootstrap"), CUFENCE_OK);
    return environment_python("/opt/_bootstrap");
}

static const char *find(const char *name)
{
    return getenv(name);
}

static cufence_status frameworks(void)
{
    struct alloc_conf confs[ALLOC_CONFS];
    assert_int_equal(alloc_conf_rewrite_both(find, confs), CUFENCE_OK);
    cufence_status status = environment_frameworks(confs);
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
    return status;
}

/* ---- what comes of it: all of the environment, in the golden file ---- */

static const struct {
    cufence_status (*act)(void);
    const char *before[5];
} changes[] = {
    {preload, {"A=1"}},
    {preload, {"LD_PRELOAD="}},
    {preload, {"LD_PRELOAD=libother.so"}},
    {preload, {"LD_PRELOAD=/a/liba.so:/b/libb.so"}},
    {preload, {"LD_PRELOAD= /a/liba.so  libb.so "}},
    {preload, {"LD_PRELOAD=/elsewhere/libcufence_preload.so:liba.so"}},
    {preload, {"LD_PRELOAD=liba.so:libcufence_preload.so"}},
    {preload, {"LD_PRELOAD=" OURS}},
    {preload, {"LD_PRELOAD=/a/notlibcufence_preload.so"}},
    {python, {"PYTHONPATH=/home/a:/home/b"}},
    {python, {"PYTHONPATH="}}, /* an empty entry would put the working folder on Python's path */
    {python, {"PYTHONPATH=/opt/_bootstrap2"}},
    {frameworks, {"A=1"}},
    {frameworks, {"PYTORCH_ALLOC_CONF=expandable_segments:True,cufence_uaf:strict,backend:cufence"}},
    {frameworks, {"PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=max_split_size_mb:64,cufence_align:auto"}},
    {frameworks, {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"}},
    {frameworks, {"XLA_PYTHON_CLIENT_ALLOCATOR="}},
    {frameworks, {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "TF_GPU_ALLOCATOR=bfc"}},
    {frameworks, {"XLA_PYTHON_CLIENT_PREALLOCATE=true"}},
    {frameworks, {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "TF_GPU_ALLOCATOR=cuda_malloc_async"}},
};

static void expect_variable(const char *wanted)
{
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(wanted, "="), wanted);
    const char *found = getenv(name), *value = strchr(wanted, '=');
    assert_string_equal(found ? found : "not set", value ? value + 1 : "not set");
}

TEST(each_variable_becomes_what_the_program_needs)
{
    char *whole = NULL;
    size_t size;
    FILE *out = open_memstream(&whole, &size);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        clearenv();
        for (size_t k = 0; k < 5 && changes[i].before[k]; k++) {
            putenv((char *)(uintptr_t)changes[i].before[k]);
            fprintf(out, "%s%s", k ? " | " : "", changes[i].before[k]);
        }
        assert_int_equal(changes[i].act(), CUFENCE_OK);
        fprintf(out, " ->\n");
        for (char **variable = environ; variable && *variable; variable++)
            fprintf(out, "  %s\n", *variable);
    }
    fclose(out);
    golden_check(GOLDEN "tools.expect", "run_environment", whole);
    free(whole);
}

TEST(a_variable_is_set_once)
{
    char *entries[] = {(char[]){"A=1"}, (char[]){"AB=2"}, (char[]){"A=3"}, NULL};
    environ = entries;
    assert_int_equal(environment_set("A", "x=y"), CUFENCE_OK);
    expect_variable("A=x=y");
    expect_variable("AB=2");
    assert_string_equal(environ[0], "AB=2");
    assert_null(environ[2]); /* the second A has gone too */
}

TEST(a_path_that_cannot_be_preloaded_is_refused)
{
    clearenv();
    putenv((char[]){"LD_PRELOAD=liba.so"});
    assert_int_equal(environment_preload("/my tools/libcufence_preload.so"), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error_detail(), "/my tools/libcufence_preload.so"));
    assert_int_equal(environment_preload("/a:b/libcufence_preload.so"), CUFENCE_ERROR_INVALID_ARGUMENT);
    expect_variable("LD_PRELOAD=liba.so");
}

/* ---- PyTorch's variables ---- */

#define NAME "PYTORCH_CUDA_ALLOC_CONF"

struct story {
    const char *text, *rewritten, *options, *backend;
};

static const struct story stories[] = {
    /* the back end is put in front */
    {NULL, ASYNC, "", NULL},
    {"", ASYNC, "", NULL},
    {"  ", ASYNC, "", NULL},
    {",", ASYNC, "", NULL},
    {"max_split_size_mb:64", ASYNC ",max_split_size_mb:64", "", NULL},
    {"a:1,b:2", ASYNC ",a:1,b:2", "", NULL},
    {"a:1,,b:2,", ASYNC ",a:1,b:2", "", NULL},
    {"expandable_segments:True", ASYNC ",expandable_segments:True", "", NULL},
    /* another back end gives way */
    {"backend:native", ASYNC, "", "native"},
    {"backend:cudaMallocAsync", ASYNC, "", "cudaMallocAsync"},
    {"backend:cufence", ASYNC, "", "cufence"},
    {"backend:cufense", ASYNC, "", "cufense"},
    {"a:1,backend:native,b:2", ASYNC ",a:1,b:2", "", "native"},
    {"backend:native,backend:cudaMallocAsync", ASYNC, "", "cudaMallocAsync"},
    {"backend", ASYNC, "", ""},
    {"backend:", ASYNC, "", ""},
    {"backends:native", ASYNC ",backends:native", "", NULL},
    {"my_backend:native", ASYNC ",my_backend:native", "", NULL},
    {"Backend:native", ASYNC ",Backend:native", "", NULL},
    /* blanks count for nothing */
    {" backend : native ", ASYNC, "", "native"},
    {"backend:\tnative\n, a : 1", ASYNC ",a:1", "", "native"},
    {"max split_size_mb : 6 4", ASYNC ",maxsplit_size_mb:64", "", NULL},
    {"back end:native,a:1", ASYNC ",a:1", "", "native"},
    {"cu fence_ uaf:strict", ASYNC, "uaf=strict", NULL},
    {"backend:cu fence", ASYNC, "", "cufence"},
    {"\vbackend\f:\rcufence , , ", ASYNC, "", "cufence"},
    /* a list keeps its commas */
    {"roundup_power2_divisions:[256:1,512:2]", ASYNC ",roundup_power2_divisions:[256:1,512:2]", "", NULL},
    {"backend:native,roundup_power2_divisions:[256:1, 512:2, >:4],a:1", ASYNC ",roundup_power2_divisions:[256:1,512:2,>:4],a:1",
     "", "native"},
    {"a:[backend:native,b:1]", ASYNC ",a:[backend:native,b:1]", "", NULL},
    {"a:[],b:1", ASYNC ",a:[],b:1", "", NULL},
    {"a:[1,2],backend:cufence,b:[3,4]", ASYNC ",a:[1,2],b:[3,4]", "", "cufence"},
    /* what is not well formed is left to pytorch */
    {"a:[1,2", ASYNC ",a:[1,2", "", NULL},
    {"a:1],b:2", ASYNC ",a:1],b:2", "", NULL},
    {"a:[1,[2],b:3", ASYNC ",a:[1,[2],b:3", "", NULL},
    /* A list ends at its first bracket: PyTorch's do not nest. */
    {"a:[[1,2],backend:cufence,b:3]", ASYNC ",a:[[1,2],b:3]", "", "cufence"},
    {"a:[1,[2],backend:native,b:3]", ASYNC ",a:[1,[2],b:3]", "", "native"},
    {"a:]],backend:native,[b:1,c:2]", ASYNC ",a:]],[b:1,c:2]", "", "native"},
    {"a:[1,backend:cufence", ASYNC ",a:[1,backend:cufence", "", NULL},
    {"a", ASYNC ",a", "", NULL},
    {":1", ASYNC ",:1", "", NULL},
    /* cufence entries become options */
    {"backend:cufence,cufence_uaf:strict", ASYNC, "uaf=strict", "cufence"},
    {"cufence_uaf:strict,a:1,cufence_align:auto", ASYNC ",a:1", "uaf=strict,align=auto", NULL},
    {" cufence_uaf : strict ", ASYNC, "uaf=strict", NULL},
    {"cufence_log:/tmp/a b:c.txt", ASYNC, "log=/tmp/a b:c.txt", NULL},
    {"a:[cufence_uaf:strict]", ASYNC ",a:[cufence_uaf:strict]", "", NULL},
    /* a rewritten text stays, as with children of a child */
    {ASYNC ",a:1,b:[1,2]", ASYNC ",a:1,b:[1,2]", "", "cudaMallocAsync"},
};

TEST(every_text_is_rewritten)
{
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        struct alloc_conf conf;
        assert_int_equal(alloc_conf_rewrite(stories[i].text, NAME, &conf), CUFENCE_OK);
        assert_string_equal(conf.text, stories[i].rewritten);
        assert_string_equal(conf.options, stories[i].options);
        assert_string_equal(conf.backend ? conf.backend : "none", stories[i].backend ? stories[i].backend : "none");
        alloc_conf_free(&conf);
    }
}

TEST(what_is_meant_for_cufence_must_be_right)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"cufence_uaf:", "'cufence_uaf:' is not of the form cufence_KEY:value"},
        {"cufence_uaf", "'cufence_uaf:' is not of the form cufence_KEY:value"},
        {"cufence_", "'cufence_:' is not of the form"},
        {"cufence_:strict", "'cufence_:strict' is not of the form"},
        {"cufence_log:[a,b]", "cufence_log: the value '[a,b]' holds a comma"},
        {"cufence:1", "'cufence:1' is not understood; write backend:cufence, and its options as cufence_KEY:value"},
        {"cufence", "'cufence' is not understood"},
        {"backend:cufence, uaf:strict", "uaf is an option of cufence; write cufence_uaf:strict"},
        {"backend:native,backend:cufence", "the back end is named twice, 'native' and 'cufence'; name one"},
        {"backend:cufence,a:1,backend:native", "the back end is named twice, 'cufence' and 'native'; name one"},
        {"backend:cufence,backend:cufence", "the back end is named twice"},
        {"backend:cufence2", "there is no back end 'cufence2'; write backend:cufence"},
        {"backend:Cufence", "there is no back end 'Cufence'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct alloc_conf conf;
        assert_int_equal(alloc_conf_rewrite(cases[i].text, NAME, &conf), CUFENCE_ERROR_OPTION);
        if (!strstr(error_detail(), cases[i].message))
            print_error("%s: %s\n", cases[i].text, error_detail());
        assert_non_null(strstr(error_detail(), cases[i].message));
        assert_memory_equal(error_detail(), NAME ": ", strlen(NAME ": "));
        assert_null(conf.text);
        assert_null(conf.options);
        assert_null(conf.backend);
    }
}

/* Of both variables: {PYTORCH_ALLOC_CONF, PYTORCH_CUDA_ALLOC_CONF}. */
static const char *const *texts; /* of the two variables */

static const char *find_text(const char *name)
{
    return texts[strcmp(name, alloc_conf_names[0]) != 0];
}

static cufence_status rewrite_both(const char *const of[ALLOC_CONFS], struct alloc_conf confs[ALLOC_CONFS])
{
    texts = of;
    return alloc_conf_rewrite_both(find_text, confs);
}

TEST(each_variable_keeps_its_own)
{
    static const struct {
        const char *texts[ALLOC_CONFS], *rewritten[ALLOC_CONFS], *options[ALLOC_CONFS], *asking;
    } cases[] = {
        {{NULL, NULL}, {ASYNC, ASYNC}, {"", ""}, NULL},
        {{"backend:cufence,a:1", NULL}, {ASYNC ",a:1", ASYNC ",a:1"}, {"", ""}, "PYTORCH_ALLOC_CONF"},
        {{NULL, "backend:cufence,a:1"}, {ASYNC ",a:1", ASYNC ",a:1"}, {"", ""}, NAME},
        {{"backend:cufence,cufence_uaf:off", NULL}, {ASYNC, ASYNC}, {"uaf=off", ""}, "PYTORCH_ALLOC_CONF"},
        {{"backend:cufence,a:1", ""}, {ASYNC ",a:1", ASYNC}, {"", ""}, "PYTORCH_ALLOC_CONF"},
        {{"backend:cufence,cufence_uaf:strict", "cufence_uaf:off,b:2"},
         {ASYNC, ASYNC ",b:2"},
         {"uaf=strict", "uaf=off"},
         "PYTORCH_ALLOC_CONF"},
        {{"backend:cufence", "backend:cudaMallocAsync,c:3"}, {ASYNC, ASYNC ",c:3"}, {"", ""}, "PYTORCH_ALLOC_CONF"},
        {{"backend:cufence", "backend:cufence"}, {ASYNC, ASYNC}, {"", ""}, NAME},
        {{"backend:native", "backend:cudaMallocAsync"}, {ASYNC, ASYNC}, {"", ""}, NULL},
        {{"a:[backend:cufence]", "cufence_uaf:off"}, {ASYNC ",a:[backend:cufence]", ASYNC}, {"", "uaf=off"}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct alloc_conf confs[ALLOC_CONFS];
        assert_int_equal(rewrite_both(cases[i].texts, confs), CUFENCE_OK);
        const char *asking = alloc_conf_asking(confs);
        assert_string_equal(asking ? asking : "none", cases[i].asking ? cases[i].asking : "none");
        for (int j = 0; j < ALLOC_CONFS; j++) {
            assert_string_equal(confs[j].text, cases[i].rewritten[j]);
            assert_string_equal(confs[j].options, cases[i].options[j]);
            alloc_conf_free(&confs[j]);
        }
    }
}

TEST(variables_that_contradict_each_other_are_refused)
{
    static const struct {
        const char *texts[ALLOC_CONFS], *message;
    } cases[] = {
        {{"backend:cufence", "backend:native"},
         "PYTORCH_ALLOC_CONF names backend:cufence, but PYTORCH_CUDA_ALLOC_CONF names backend:native; name one"},
        {{"backend:native", "backend:cufence"},
         "PYTORCH_CUDA_ALLOC_CONF names backend:cufence, but PYTORCH_ALLOC_CONF names backend:native; name one"},
        {{"cufence:1", "backend:cufence"}, "PYTORCH_ALLOC_CONF: 'cufence:1' is not understood"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct alloc_conf confs[ALLOC_CONFS];
        assert_int_equal(rewrite_both(cases[i].texts, confs), CUFENCE_ERROR_OPTION);
        assert_non_null(strstr(error_detail(), cases[i].message));
        assert_null(confs[0].text);
        assert_null(confs[1].text);
    }
}
