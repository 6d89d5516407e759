/* What is allocated by place, on request and at exit; leaks; who holds the memory when it runs out; figures by stream. */
#include "heap_story.h"

#include <jansson.h>

static char file[64]; /* for json= and log= */

static void *allocate_as(size_t size, CUstream stream, const char *label)
{
    CHECK_OK(label ? cufence_label_push(label) : CUFENCE_OK);
    void *pointer = allocate(size, stream);
    CHECK_OK(label ? cufence_label_pop() : CUFENCE_OK);
    return pointer;
}

/* Two places with three buffers, and one that is freed. */
static void fill(void)
{
    allocate_as(MIB, NULL, "weights");
    allocate_as(2 * MIB, NULL, "weights");
    allocate_as(MIB, NULL, NULL);
    CHECK_OK(cufence_free(allocate_as(500, NULL, "gone"), NULL));
}

static void on_request(void)
{
    char options[128];
    snprintf(options, sizeof options, "json=%s,skip=smaller:400", file);
    start(options);
    fill();
    allocate_as(100, NULL, NULL); /* unguarded */
    CHECK_OK(cufence_report(-1));
    CHECK(cufence_report(7) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_fault_count() == 0);
}

/* The line of that kind, among those of the process. */
static json_t *line_of(const char *kind)
{
    FILE *in = fopen(file, "r");
    json_error_t error;
    json_t *json = in ? json_loadf(in, JSON_DISABLE_EOF_CHECK, &error) : NULL;
    while (json && strcmp(json_string_value(json_object_get(json, "kind")), kind) != 0) {
        json_decref(json);
        json = json_loadf(in, JSON_DISABLE_EOF_CHECK, &error);
    }
    if (in)
        fclose(in);
    unlink(file);
    return json;
}

TEST(it_is_printed_on_request)
{
    snprintf(file, sizeof file, "/tmp/cufence-use-%d.json", (int)getpid());
    unlink(file);
    expect_lines(on_request, 0,
                 (const char *const[]){"cufence: allocated: 3 buffers, 4 MiB (6 MiB with their pages), at 2 places",
                                       "       bytes   buffers    largest     oldest  allocated at",
                                       "       3 MiB         2      2 MiB", "label \"weights\"", "an unknown place",
                                       "besides, 1 buffer of 100 bytes in all is not guarded", "!gone", "!SUMMARY", NULL});
    json_t *use = line_of("use");
    assert_non_null(use);
    assert_int_equal(json_integer_value(json_object_get(use, "buffers")), 3);
    assert_int_equal(json_integer_value(json_object_get(use, "bytes")), 4 * MIB);
    assert_int_equal(json_integer_value(json_object_get(use, "unguarded_bytes")), 100);
    json_t *places = json_object_get(use, "places"), *first = json_array_get(places, 0);
    assert_int_equal(json_array_size(places), 2);
    assert_string_equal(json_string_value(json_object_get(first, "label")), "weights");
    assert_int_equal(json_integer_value(json_object_get(first, "largest")), 2 * MIB);
    assert_int_equal(json_integer_value(json_object_get(first, "mapped_bytes")), 2 * PAGE);
    json_decref(use);
}

LINES(it_is_printed_at_exit, 0, "cufence: allocated at exit: 3 buffers, 4 MiB", "no faults; 4 allocations guarded")
{
    start("live=exit");
    fill();
}

LINES(leaks_are_findings, 86, "== cufence: leak of 2 buffers, 3 MiB in all", "== cufence: leak of 1 buffer, 1 MiB in all",
      "nobody has freed these buffers, allocated at one place; shown is the largest", "nobody has freed this buffer",
      "cufence: 2 findings; 4 allocations guarded", "!gone")
{
    start("live=leaks");
    fill();
}

LINES(leaks_have_the_status_of_findings, 7, "== cufence: leak of 1 buffer, 500 bytes in all")
{
    start("live=leaks,exitcode=7");
    allocate_as(500, NULL, NULL);
}

LINES(what_is_freed_is_no_leak, 0, "no faults; 1 allocation guarded", "!leak")
{
    start("live=leaks");
    CHECK_OK(cufence_free(allocate_as(500, NULL, "gone"), NULL));
}

static void wait_for(const char *name, const char *text)
{
    for (int tries = 0; tries < 6000; tries++) {
        char all[65536] = "";
        FILE *in = fopen(name, "r");
        size_t got = in ? fread(all, 1, sizeof all - 1, in) : 0;
        if (in)
            fclose(in);
        all[got] = '\0';
        if (strstr(all, text))
            return;
        usleep(10000);
    }
    CHECK(0 && "the text has come");
}

static void signalled(void)
{
    char options[128];
    snprintf(options, sizeof options, "live=usr1,log=%s", file);
    start(options);
    fill();
    raise(SIGUSR1);
    wait_for(file, "allocated at SIGUSR1: 3 buffers");
    raise(SIGUSR1);
    usleep(200000);
}

static void ignored(int number)
{
}

LINES(a_handler_of_the_programs_own_stays, 0, "live=usr1 has no effect: the program handles SIGUSR1 itself", "!at SIGUSR1")
{
    signal(SIGUSR1, ignored);
    start("live=usr1");
    fill();
    raise(SIGUSR1);
    usleep(100000);
}

TEST(a_signal_asks_for_it)
{
    snprintf(file, sizeof file, "/tmp/cufence-use-%d.log", (int)getpid());
    unlink(file);
    expect_lines(signalled, 0, (const char *const[]){"no faults; 4 allocations guarded", "!has no effect", NULL});
    unlink(file);
}

STORY(memory_runs_out)
{
    void *pointer;
    start("fallback=off");
    fill();
    CHECK(cufence_malloc(&pointer, (size_t)9 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(cufence_error_detail(), "; most is held by label \"weights\" (4194304 bytes in 2 buffers), an unknown place ("
                                         "2097152 bytes in 1 buffer). A buffer"));
}

static const cufence_stream_stats *of(const cufence_stream_stats *all, size_t count, CUstream stream)
{
    for (size_t i = 0; i < count; i++) {
        if (all[i].stream == (uint64_t)(uintptr_t)stream)
            return &all[i];
    }
    CHECK(0 && "the stream is there");
    return NULL;
}

STORY(by_stream)
{
    CUstream a, b;
    cufence_stream_stats all[8];
    start(NULL);
    CHECK_CU(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    CHECK_CU(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    allocate_as(1000, a, NULL);
    void *second = allocate_as(PAGE + 1, a, NULL);
    allocate_as(10, b, NULL);
    CHECK_OK(cufence_free(second, a));
    size_t count = cufence_get_streams(0, all, 8);
    CHECK(count == 2 && cufence_get_streams(-1, NULL, 0) == 2 && cufence_get_streams(1, all, 8) == 0);
    const cufence_stream_stats *first = of(all, count, a), *other = of(all, count, b);
    CHECK(first->live_buffers == 1 && first->live_bytes == 1000 && first->mapped_bytes == PAGE && first->device == 0);
    CHECK(first->idle_bytes == 2 * PAGE && first->allocations == 2 && first->frees == 1);
    CHECK(other->live_buffers == 1 && other->idle_bytes == 0 && other->allocations == 1 && other->frees == 0);
}

static int set_up(void **state)
{
    setenv("CUFENCE_OPTIONS", "stacks=python", 1); /* the tests are linked with the frames that would be left out */
    return 0;
}
TEST_GROUP(set_up, NULL)
