/* The environment that `cufence run` gives a program. */
#include "support/test.h"

#include "cli/environment.h"
#include "base/error.h"

#include <unistd.h>

#define ASYNC "backend:cudaMallocAsync"
#define OURS "/opt/cufence/lib/libcufence_preload.so"
#define NOT_SET(name) name

/* ---- what is done ---- */

static FILE *words; /* gets what was said */

static cufence_status preload(void)
{
    return environment_preload(OURS, words);
}

/* Twice: it comes first, and once. */
static cufence_status python(void)
{
    assert_int_equal(environment_python("/opt/_bootstrap", words), CUFENCE_OK);
    return environment_python("/opt/_bootstrap", words);
}

static const char *find(const char *name)
{
    return getenv(name);
}

/* Reads PyTorch's variables and sets them. */
static cufence_status pytorch(void)
{
    struct alloc_conf confs[ALLOC_CONFS];
    assert_int_equal(alloc_conf_rewrite_both(find, confs), CUFENCE_OK);
    cufence_status status = environment_pytorch(confs, words);
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
    return status;
}

static cufence_status other_frameworks(void)
{
    return environment_frameworks(words);
}

static cufence_status nvtx(void)
{
    return environment_nvtx("/opt/lib/libcufence_preload.so", words);
}

static cufence_status coredumps(void)
{
    environment_coredumps(words);
    return CUFENCE_OK;
}

/* ---- what comes of it ---- */

/* The variables before; after: with a value, or NOT_SET; and what is said, or, behind a '!', not. */
static const struct {
    cufence_status (*act)(void);
    const char *before[5], *after[4], *said[4];
} cases[] = {
    {preload, {"A=1"}, {"LD_PRELOAD=" OURS, "A=1"}, {0}},
    {preload, {"LD_PRELOAD="}, {"LD_PRELOAD=" OURS}, {0}},
    {preload, {"LD_PRELOAD=libother.so"}, {"LD_PRELOAD=" OURS ":libother.so"}, {0}},
    {preload, {"LD_PRELOAD=/a/liba.so:/b/libb.so"}, {"LD_PRELOAD=" OURS ":/a/liba.so:/b/libb.so"}, {0}},
    {preload, {"LD_PRELOAD= /a/liba.so  libb.so "}, {"LD_PRELOAD=" OURS ":/a/liba.so:libb.so"}, {0}},
    {preload, {"LD_PRELOAD=/elsewhere/libcufence_preload.so:liba.so"}, {"LD_PRELOAD=" OURS ":liba.so"}, {0}},
    {preload, {"LD_PRELOAD=liba.so:libcufence_preload.so"}, {"LD_PRELOAD=" OURS ":liba.so"}, {0}},
    {preload, {"LD_PRELOAD=" OURS}, {"LD_PRELOAD=" OURS}, {0}},
    {preload, {"LD_PRELOAD=/a/notlibcufence_preload.so"}, {"LD_PRELOAD=" OURS ":/a/notlibcufence_preload.so"}, {0}},
    {python, {"PYTHONPATH=/home/a:/home/b"}, {"PYTHONPATH=/opt/_bootstrap:/home/a:/home/b"}, {0}},
    /* an empty entry would put the working folder on Python's path */
    {python, {"PYTHONPATH="}, {"PYTHONPATH=/opt/_bootstrap"}, {0}},
    {python, {"PYTHONPATH=/opt/_bootstrap2"}, {"PYTHONPATH=/opt/_bootstrap:/opt/_bootstrap2"}, {0}},
    {pytorch, {"A=1"}, {"PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=" ASYNC}, {0}},
    {pytorch,
     {"PYTORCH_ALLOC_CONF=expandable_segments:True,cufence_uaf:strict,backend:cufence"},
     {"PYTORCH_ALLOC_CONF=" ASYNC ",expandable_segments:True", "PYTORCH_CUDA_ALLOC_CONF=" ASYNC ",expandable_segments:True"},
     {"PYTORCH_ALLOC_CONF: backend:cufence replaced with " ASYNC, "PYTORCH_ALLOC_CONF: took the options uaf=strict",
      "!PYTORCH_CUDA_ALLOC_CONF: backend"}},
    {pytorch,
     {"PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=max_split_size_mb:64,cufence_align:auto"},
     {"PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=" ASYNC ",max_split_size_mb:64"},
     {"!replaced with"}},
    {pytorch,
     {"PYTORCH_NO_CUDA_MEMORY_CACHING=1"},
     {NOT_SET("PYTORCH_NO_CUDA_MEMORY_CACHING")},
     {"PYTORCH_NO_CUDA_MEMORY_CACHING: unset"}},
    {other_frameworks,
     {"XLA_PYTHON_CLIENT_ALLOCATOR="},
     {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_GPU_ALLOCATOR=cuda_malloc_async"},
     {0}},
    {other_frameworks,
     {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "TF_GPU_ALLOCATOR=bfc"},
     {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc", NOT_SET("XLA_PYTHON_CLIENT_PREALLOCATE"), "TF_GPU_ALLOCATOR=bfc"},
     {"XLA_PYTHON_CLIENT_ALLOCATOR=bfc: left as it was, but JAX", "TF_GPU_ALLOCATOR=bfc: left as it was, but TensorFlow"}},
    {other_frameworks,
     {"XLA_PYTHON_CLIENT_PREALLOCATE=true"},
     {"XLA_PYTHON_CLIENT_PREALLOCATE=true"},
     {"XLA_PYTHON_CLIENT_PREALLOCATE=true: left as it was, but JAX then takes most"}},
    {other_frameworks,
     {"XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "TF_GPU_ALLOCATOR=cuda_malloc_async"},
     {"XLA_PYTHON_CLIENT_PREALLOCATE=false"},
     {"!hidden"}},
    {nvtx,
     {0},
     {"NVTX_INJECTION64_PATH=/opt/lib/libcufence.so"},
     {"NVTX_INJECTION64_PATH=/opt/lib/libcufence.so, so that pools"}},
    {nvtx, {"NVTX_INJECTION64_PATH=/outer/libcufence.so"}, {"NVTX_INJECTION64_PATH=/opt/lib/libcufence.so"}, {0}},
    {nvtx,
     {"NVTX_INJECTION64_PATH=/opt/nsight/tool.so"},
     {"NVTX_INJECTION64_PATH=/opt/nsight/tool.so"},
     {"NVTX_INJECTION64_PATH=/opt/nsight/tool.so: left as it was, so what pools tell"}},
    {coredumps,
     {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0", "CUDA_COREDUMP_FILE=core.%p", "CUDA_VISIBLE_DEVICES=1"},
     {NOT_SET("CUDA_ENABLE_COREDUMP_ON_EXCEPTION"), NOT_SET("CUDA_COREDUMP_FILE"), "CUDA_VISIBLE_DEVICES=1"},
     {"CUDA_ENABLE_COREDUMP_ON_EXCEPTION: unset", "CUDA_COREDUMP_FILE: unset"}},
    {coredumps,
     {"CUDA_COREDUMP_GENERATION_FLAGS=skip_abort", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1"},
     {NOT_SET("CUDA_COREDUMP_GENERATION_FLAGS"), NOT_SET("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP")},
     {"CUDA_COREDUMP_GENERATION_FLAGS: unset", "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP: unset"}},
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *said = NULL;
        size_t size;
        clearenv();
        for (size_t k = 0; k < 5 && cases[i].before[k]; k++)
            putenv((char *)(uintptr_t)cases[i].before[k]);
        words = open_memstream(&said, &size);
        assert_int_equal(cases[i].act(), CUFENCE_OK);
        fclose(words);
        for (size_t k = 0; k < 4 && cases[i].after[k]; k++)
            expect_variable(cases[i].after[k]);
        for (size_t k = 0; k < 4 && cases[i].said[k]; k++) {
            int is_unwanted = *cases[i].said[k] == '!';
            if ((strstr(said, cases[i].said[k] + is_unwanted) != NULL) == is_unwanted)
                fail_msg("%s in: %s", cases[i].said[k], said);
        }
        free(said);
    }
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
    assert_int_equal(environment_preload("/my tools/libcufence_preload.so", stderr), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error_detail(), "/my tools/libcufence_preload.so"));
    assert_int_equal(environment_preload("/a:b/libcufence_preload.so", stderr), CUFENCE_ERROR_INVALID_ARGUMENT);
    expect_variable("LD_PRELOAD=liba.so");
}
