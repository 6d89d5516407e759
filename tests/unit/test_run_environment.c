/* The environment that `cufence run` gives a program. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "cli/environment.h"
#include "base/error.h"

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
} cases[] = {
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clearenv();
        for (size_t k = 0; k < 5 && cases[i].before[k]; k++) {
            putenv((char *)(uintptr_t)cases[i].before[k]);
            fprintf(out, "%s%s", k ? " | " : "", cases[i].before[k]);
        }
        assert_int_equal(cases[i].act(), CUFENCE_OK);
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
