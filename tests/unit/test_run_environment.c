/* The environment that `cufence run` gives a program. */
#include "support/test.h"

#include "cli/environment.h"
#include "base/error.h"

#include <unistd.h>

#define ASYNC "backend:cudaMallocAsync"
#define OURS "/opt/cufence/lib/libcufence_preload.so"

static FILE *words; /* gets what was said */
static char *said;
static size_t said_size;

#define START(...) start((char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void start(char *const *entries)
{
    clearenv();
    for (; *entries; entries++)
        putenv(*entries);
    words = open_memstream(&said, &said_size);
    assert_non_null(words);
}

static int end(void **state)
{
    fclose(words);
    free(said);
    return 0;
}

static void expect(const char *name, const char *value)
{
    const char *found = getenv(name);
    assert_string_equal(found ? found : "not set", value ? value : "not set");
}

static int is_said(const char *text)
{
    fflush(words);
    return strstr(said, text) != NULL;
}

TEST_WITH(a_variable_is_set_once, NULL, end)
{
    char *entries[] = {(char[]){"A=1"}, (char[]){"AB=2"}, (char[]){"A=3"}, NULL};
    START(NULL);
    environ = entries;
    assert_int_equal(environment_set("A", "x=y"), CUFENCE_OK);
    expect("A", "x=y");
    expect("AB", "2");
    assert_string_equal(environ[0], "AB=2");
    assert_null(environ[2]); /* the second A has gone too */
}

TEST_WITH(the_preload_comes_first_and_once, NULL, end)
{
    static const struct {
        const char *before, *after;
    } cases[] = {
        {"", OURS},
        {"libother.so", OURS ":libother.so"},
        {"/a/liba.so:/b/libb.so", OURS ":/a/liba.so:/b/libb.so"},
        {" /a/liba.so  libb.so ", OURS ":/a/liba.so:libb.so"},
        {"/elsewhere/libcufence_preload.so:liba.so", OURS ":liba.so"},
        {"liba.so:libcufence_preload.so", OURS ":liba.so"},
        {OURS, OURS},
        {"/a/notlibcufence_preload.so", OURS ":/a/notlibcufence_preload.so"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        START("A=1");
        assert_int_equal(environment_set("LD_PRELOAD", cases[i].before), CUFENCE_OK);
        assert_int_equal(environment_preload(OURS, words), CUFENCE_OK);
        expect("LD_PRELOAD", cases[i].after);
        expect("A", "1");
        end(NULL);
    }
    START(NULL);
    assert_int_equal(environment_preload(OURS, words), CUFENCE_OK);
    expect("LD_PRELOAD", OURS);
}

TEST_WITH(a_path_that_cannot_be_preloaded_is_refused, NULL, end)
{
    START("LD_PRELOAD=liba.so");
    assert_int_equal(environment_preload("/my tools/libcufence_preload.so", words), CUFENCE_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(error_detail(), "/my tools/libcufence_preload.so"));
    assert_int_equal(environment_preload("/a:b/libcufence_preload.so", words), CUFENCE_ERROR_INVALID_ARGUMENT);
    expect("LD_PRELOAD", "liba.so");
}

TEST_WITH(the_python_folder_comes_first_and_once, NULL, end)
{
    START("PYTHONPATH=/home/a:/home/b");
    assert_int_equal(environment_python("/opt/_bootstrap", words), CUFENCE_OK);
    expect("PYTHONPATH", "/opt/_bootstrap:/home/a:/home/b");
    assert_int_equal(environment_python("/opt/_bootstrap", words), CUFENCE_OK);
    expect("PYTHONPATH", "/opt/_bootstrap:/home/a:/home/b");
    end(NULL);
    START("PYTHONPATH="); /* an empty entry would put the working folder on Python's path */
    assert_int_equal(environment_python("/opt/_bootstrap", words), CUFENCE_OK);
    expect("PYTHONPATH", "/opt/_bootstrap");
    end(NULL);
    START("PYTHONPATH=/opt/_bootstrap2");
    assert_int_equal(environment_python("/opt/_bootstrap", words), CUFENCE_OK);
    expect("PYTHONPATH", "/opt/_bootstrap:/opt/_bootstrap2");
}

static const char *find(const char *name)
{
    return getenv(name);
}

/* Reads PyTorch's variables and sets them. */
static void settle_pytorch(void)
{
    struct alloc_conf confs[ALLOC_CONFS];
    assert_int_equal(alloc_conf_rewrite_both(find, confs), CUFENCE_OK);
    assert_int_equal(environment_pytorch(confs, words), CUFENCE_OK);
    for (int i = 0; i < ALLOC_CONFS; i++)
        alloc_conf_free(&confs[i]);
}

TEST_WITH(both_of_pytorchs_variables_are_set, NULL, end)
{
    START("A=1");
    settle_pytorch();
    expect("PYTORCH_CUDA_ALLOC_CONF", ASYNC);
    expect("PYTORCH_ALLOC_CONF", ASYNC);
    end(NULL);

    START("PYTORCH_ALLOC_CONF=expandable_segments:True,cufence_uaf:strict,backend:cufence");
    settle_pytorch();
    expect("PYTORCH_ALLOC_CONF", ASYNC ",expandable_segments:True");
    expect("PYTORCH_CUDA_ALLOC_CONF", ASYNC ",expandable_segments:True");
    assert_true(is_said("PYTORCH_ALLOC_CONF: backend:cufence replaced with " ASYNC));
    assert_false(is_said("PYTORCH_CUDA_ALLOC_CONF: backend"));
    assert_true(is_said("PYTORCH_ALLOC_CONF: took the options uaf=strict"));
    end(NULL);

    START("PYTORCH_CUDA_ALLOC_CONF=" ASYNC, "PYTORCH_ALLOC_CONF=max_split_size_mb:64,cufence_align:auto");
    settle_pytorch();
    expect("PYTORCH_CUDA_ALLOC_CONF", ASYNC);
    expect("PYTORCH_ALLOC_CONF", ASYNC ",max_split_size_mb:64");
    assert_false(is_said("replaced with"));
}

TEST_WITH(what_goes_round_the_back_end_is_unset, NULL, end)
{
    START("PYTORCH_NO_CUDA_MEMORY_CACHING=1");
    settle_pytorch();
    expect("PYTORCH_NO_CUDA_MEMORY_CACHING", NULL);
    assert_true(is_said("PYTORCH_NO_CUDA_MEMORY_CACHING: unset"));
}

TEST_WITH(a_chosen_allocator_stays_and_is_told, NULL, end)
{
    START("XLA_PYTHON_CLIENT_ALLOCATOR=");
    assert_int_equal(environment_frameworks(words), CUFENCE_OK);
    expect("XLA_PYTHON_CLIENT_ALLOCATOR", "cuda_async");
    expect("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
    expect("TF_GPU_ALLOCATOR", "cuda_malloc_async");
    end(NULL);
    START("XLA_PYTHON_CLIENT_ALLOCATOR=bfc", "TF_GPU_ALLOCATOR=bfc");
    assert_int_equal(environment_frameworks(words), CUFENCE_OK);
    expect("XLA_PYTHON_CLIENT_ALLOCATOR", "bfc");
    expect("XLA_PYTHON_CLIENT_PREALLOCATE", NULL);
    expect("TF_GPU_ALLOCATOR", "bfc");
    assert_true(is_said("XLA_PYTHON_CLIENT_ALLOCATOR=bfc: left as it was, but JAX"));
    assert_true(is_said("TF_GPU_ALLOCATOR=bfc: left as it was, but TensorFlow"));
    end(NULL);
    START("XLA_PYTHON_CLIENT_PREALLOCATE=true");
    assert_int_equal(environment_frameworks(words), CUFENCE_OK);
    expect("XLA_PYTHON_CLIENT_PREALLOCATE", "true");
    assert_true(is_said("XLA_PYTHON_CLIENT_PREALLOCATE=true: left as it was, but JAX then takes most"));
    end(NULL);
    START("XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async", "TF_GPU_ALLOCATOR=cuda_malloc_async");
    assert_int_equal(environment_frameworks(words), CUFENCE_OK);
    expect("XLA_PYTHON_CLIENT_PREALLOCATE", "false");
    assert_false(is_said("hidden"));
}

TEST_WITH(nvtx_finds_the_library_unless_another_tool_is_named, NULL, end)
{
    START(NULL);
    assert_int_equal(environment_nvtx("/opt/lib/libcufence_preload.so", words), CUFENCE_OK);
    expect("NVTX_INJECTION64_PATH", "/opt/lib/libcufence.so");
    assert_true(is_said("NVTX_INJECTION64_PATH=/opt/lib/libcufence.so, so that pools"));
    end(NULL);
    START("NVTX_INJECTION64_PATH=/outer/libcufence.so");
    assert_int_equal(environment_nvtx("/opt/lib/libcufence_preload.so", words), CUFENCE_OK);
    expect("NVTX_INJECTION64_PATH", "/opt/lib/libcufence.so");
    end(NULL);
    START("NVTX_INJECTION64_PATH=/opt/nsight/tool.so");
    assert_int_equal(environment_nvtx("/opt/lib/libcufence_preload.so", words), CUFENCE_OK);
    expect("NVTX_INJECTION64_PATH", "/opt/nsight/tool.so");
    assert_true(is_said("NVTX_INJECTION64_PATH=/opt/nsight/tool.so: left as it was, so what pools tell"));
}

TEST_WITH(core_dump_variables_are_unset, NULL, end)
{
    START("CUDA_ENABLE_COREDUMP_ON_EXCEPTION=0", "CUDA_COREDUMP_FILE=core.%p", "CUDA_COREDUMP_GENERATION_FLAGS=skip_abort",
          "CUDA_ENABLE_LIGHTWEIGHT_COREDUMP=1", "CUDA_VISIBLE_DEVICES=1");
    environment_coredumps(words);
    assert_null(environ[1]);
    expect("CUDA_VISIBLE_DEVICES", "1");
    assert_true(is_said("CUDA_ENABLE_COREDUMP_ON_EXCEPTION: unset"));
    assert_true(is_said("CUDA_COREDUMP_FILE: unset"));
    assert_true(is_said("CUDA_COREDUMP_GENERATION_FLAGS: unset"));
    assert_true(is_said("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP: unset"));
}
