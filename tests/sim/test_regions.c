/* Regions on the simulated device: rows of a buffer that are taken and released, and what is written into free ones. */
#include "regions/regions.h"
#include "pokes.h"

#include <pthread.h>

#define ROWS 8u
#define ROW 1000u

static const char *described(const void *address)
{
    static cufence_description description;
    CHECK_OK(cufence_describe(address, &description));
    return description.region;
}

static char *divided(CUstream stream, const char *name)
{
    char *buffer = allocate(ROWS * ROW, stream);
    CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)buffer, 0, ROWS * ROW, stream));
    CHECK_OK(cufence_region(buffer, ROW, ROWS, name));
    return buffer;
}

/* ---- states ---- */

CLEAN(have_states)
{
    struct region_at at;
    unsigned char states[ROWS];
    start("");
    char *buffer = divided(NULL, "kv");
    CHECK(strcmp(described(buffer + 3 * ROW + 7), "row 3 of kv (live)") == 0);
    CHECK_OK(cufence_region_take(buffer + 3 * ROW, "request 4", NULL));
    CHECK(strcmp(described(buffer + 3 * ROW), "row 3 of kv (live, owner request 4)") == 0);
    CHECK_OK(cufence_region_release(buffer + 3 * ROW, NULL));
    CHECK(strstr(described(buffer + 3 * ROW), "row 3 of kv (free, released "));
    CHECK(strstr(described(buffer + 3 * ROW), " ms ago by request 4)"));
    CHECK(strcmp(described(buffer + 4 * ROW), "row 4 of kv (live)") == 0);
    CHECK(region_find((uint64_t)(uintptr_t)buffer + 3 * ROW + 999, &at) && at.row == 3 && at.offset == 999 && at.states);
    CHECK_CU(cuMemcpyDtoH(states, at.states, ROWS));
    for (unsigned i = 0; i < ROWS; i++)
        CHECK(states[i] == (i == 3 ? REGION_FREE : REGION_LIVE));
    CHECK_OK(cufence_region_take(buffer + 3 * ROW, NULL, NULL));
    CHECK_CU(cuMemcpyDtoH(states, at.states, ROWS));
    CHECK(states[3] == REGION_LIVE);
    CHECK_OK(cufence_region_gone(buffer));
    CHECK(described(buffer)[0] == '\0');
}

CLEAN(several_divisions_of_a_buffer)
{
    start("");
    char *buffer = allocate(8000, NULL);
    CHECK_OK(cufence_region(buffer, 500, 4, "keys"));
    CHECK_OK(cufence_region(buffer + 2000, 6000, 1, NULL));
    CHECK(strcmp(described(buffer + 1999), "row 3 of keys (live)") == 0);
    CHECK(strcmp(described(buffer + 7999), "row 0 (live)") == 0);
    CHECK_OK(cufence_region(buffer, 1000, 2, "pairs")); /* the same bytes */
    CHECK(strcmp(described(buffer + 1999), "row 1 of pairs (live)") == 0);
    release(buffer, NULL);
    CHECK(described(buffer)[0] == '\0');
    CHECK(cufence_region_take(buffer, NULL, NULL) == CUFENCE_ERROR_NOT_FOUND);
}

CLEAN(bad_input)
{
    start("");
    char *buffer = divided(NULL, "kv"), other[8];
    CHECK(cufence_region(other, 8, 1, NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK(strstr(cufence_error_detail(), "cufence_get_unguarded()"));
    CHECK(cufence_region(buffer, 0, 8, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_region(buffer, 8, 0, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_region(buffer, SIZE_MAX, 2, NULL) == CUFENCE_ERROR_OVERFLOW);
    CHECK(cufence_region(buffer, ROW, ROWS + 1, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(cufence_error_detail(), "1000 bytes past the end of buffer #1"));
    CHECK(cufence_region(buffer + ROW, ROW, 1, "other") == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(cufence_error_detail(), "overlap those of \"kv\""));
    CHECK(cufence_region_take(buffer + 1, NULL, NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK(strstr(cufence_error_detail(), "1 bytes inside row 0 of kv (live)"));
    CHECK(cufence_region_release(other, NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK_OK(cufence_region_release(buffer, NULL));
    CHECK(cufence_region_release(buffer, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(cufence_region_gone(buffer + ROW) == CUFENCE_ERROR_NOT_FOUND);
}

/* ---- free rows ---- */

CLEAN(a_free_row_is_nan_and_no_index)
{
    float values[ROW / 4];
    start("");
    char *buffer = divided(NULL, "kv");
    CHECK_OK(cufence_region_release(buffer + ROW, NULL));
    CHECK_CU(cuMemcpyDtoH(values, (CUdeviceptr)(uintptr_t)(buffer + ROW), ROW));
    for (unsigned i = 0; i < ROW / 4; i++)
        CHECK(values[i] != values[i] && ((int32_t *)values)[i] > 2000000000);
    CHECK(sum_at(buffer, ROW, NULL) == 0); /* its neighbours are what they were */
    CHECK(sum_at(buffer + 2 * ROW, ROW, NULL) == 0);
}

/* The correct twin: what is written into live rows, before a release and after the next taking, on one stream and on two. */
CLEAN(rows_in_use)
{
    uint32_t flag = 0;
    start("");
    CUstream first = new_stream(), second = new_stream();
    CUevent event;
    CHECK_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    char *buffer = divided(first, "kv");
    spin(first, &flag); /* everything below is submitted long before it is done */
    for (int turn = 0; turn < 20; turn++) {
        CUstream on = turn & 1 ? second : first;
        for (unsigned row = 0; row < ROWS; row++) {
            CHECK_OK(cufence_region_take(buffer + row * ROW, "me", on));
            write_at(buffer + row * ROW, ROW, turn, on);
            CHECK_CU(cuEventRecord(event, on));
            CHECK_OK(cufence_region_release(buffer + row * ROW, on));
            CHECK_CU(cuStreamWaitEvent(on == first ? second : first, event, 0)); /* it need not know of our fill */
        }
    }
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK(cufence_check(0) == 0);
    release(buffer, first);
    CHECK(cufence_check(0) == 0);
    CHECK(regions_unchecked() == 0);
}

FINDS(a_write_is_found_when_the_row_is_taken,
      "WRITE to a free region: 4 bytes changed, from byte 12 of row 3 of kv on, in buffer #1 \"cache\"")
{
    start("");
    CHECK_OK(cufence_label_push("cache"));
    CUstream stream = new_stream();
    char *buffer = divided(stream, "kv");
    CHECK_OK(cufence_region_take(buffer + 3 * ROW, "request 4", stream));
    CHECK_OK(cufence_region_release(buffer + 3 * ROW, stream));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, stream);
    CHECK_OK(cufence_region_take(buffer + 3 * ROW, "request 5", stream));
    write_at(buffer + 3 * ROW, ROW, 1, stream);
    AWAIT(cufence_fault_count());
    CHECK(cufence_fault_count() == 1);
    char text[4096];
    CHECK(cufence_last_report(text, sizeof text) <= sizeof text);
    CHECK(strstr(text, "row        3 of kv, free then; byte 12 of 1000 (8 rows)"));
    CHECK(strstr(text, "3f 3f 3f 3f") && strstr(text, "released at") && strstr(text, "taken at"));
    CHECK(strstr(text, "request 4") && strstr(text, "request 5"));
    CHECK(cufence_check(0) == 0);
}

/* Another thread's report is finished when a check returns. */
FINDS(a_report_is_awaited, "4 bytes changed, from byte 12 of row 3 of kv on, in buffer #1")
{
    start("");
    cufence_set_fault_handler(tell_slowly, NULL);
    char *buffer = divided(NULL, "kv");
    CHECK_OK(cufence_region_release(buffer + 3 * ROW, NULL));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, NULL);
    CHECK_OK(cufence_region_take(buffer + 3 * ROW, NULL, NULL));
    check_while_told();
}

FINDS(a_write_is_found_before_the_context_ends, "4 bytes changed, from byte 12 of row 3 of kv on, in buffer #1")
{
    CUcontext own;
    start("slack=off");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    char *buffer = divided(NULL, "kv");
    CHECK_OK(cufence_region_release(buffer + 3 * ROW, NULL));
    write_at(buffer + 3 * ROW + 12, 4, 0x3f, NULL);
    CHECK_OK(cufence_context_gone(own));
    CHECK(cufence_fault_count() == 1);
    CHECK_CU(cuCtxDestroy(own));
}

FINDS(a_write_is_found_by_a_check, "1 byte changed, from byte 999 of row 7 of kv on, in buffer #1")
{
    start("slack=off");
    char *buffer = divided(NULL, "kv");
    CHECK_OK(cufence_region_release(buffer + 7 * ROW, NULL));
    CHECK(cufence_check(0) == 0);
    write_at(buffer + 7 * ROW + 999, 1, 1, NULL);
    CHECK(cufence_check(0) == 1);
    CHECK(cufence_check(0) == 0); /* the pattern is there again */
    CHECK_OK(cufence_region_take(buffer + 7 * ROW, NULL, NULL));
    CHECK(cufence_check(-1) == 0);
}

FINDS(a_write_is_found_when_the_buffer_is_freed, "8 bytes changed, from byte 0 of row 1 of kv on, in buffer #1")
{
    CUstream stream = start_with_stream("");
    char *buffer = divided(stream, "kv");
    CHECK_OK(cufence_region_release(buffer + ROW, stream));
    write_at(buffer + ROW, 8, 1, stream);
    release(buffer, stream);
    AWAIT(cufence_fault_count());
}

FINDS(a_write_is_found_at_exit, "2 bytes changed, from byte 5 of row 2 of kv on, in buffer #1")
{
    start("");
    char *buffer = divided(NULL, "kv");
    CHECK_OK(cufence_region_release(buffer + 2 * ROW, NULL));
    write_at(buffer + 2 * ROW + 5, 2, 1, NULL);
}

/* A row of more than one job, and a write across its parts. */
FINDS(a_large_region, "200000 bytes changed, from byte 100000 of row 0 of slab on, in buffer #1")
{
    start("");
    char *buffer = allocate(3 * MIB + 5, NULL);
    CHECK_OK(cufence_region(buffer, 3 * MIB + 5, 1, "slab"));
    CHECK_OK(cufence_region_release(buffer, NULL));
    CHECK(cufence_check(0) == 0);
    write_at(buffer + 100000, 200000, 1, NULL);
    CHECK_OK(cufence_region_take(buffer, NULL, NULL));
    AWAIT(cufence_fault_count());
}

/* ---- many at once ---- */

static uint64_t work_of(const void *row)
{
    struct region_at at;
    CHECK(region_find((uint64_t)(uintptr_t)row, &at));
    return at.region.work;
}

/* Rows of layers, of other sizes and streams before: one launch of ours for all, one more where there are too many. */
FINDS(many_rows_at_once, "1 byte changed, from byte 4 of row 5 of layer 1 on, in buffer #2")
{
    enum { LAYERS = 3, MANY = 1500 };
    const void *rows[LAYERS * 2], *all[MANY];
    char *layers[LAYERS], name[16];
    start("");
    CUstream stream = new_stream(), other = new_stream();
    for (size_t i = 0; i < LAYERS; i++) {
        layers[i] = allocate(ROWS * (i + 1) * ROW, stream);
        snprintf(name, sizeof name, "layer %zu", i);
        CHECK_OK(cufence_region(layers[i], (i + 1) * ROW, ROWS, name));
        rows[2 * i] = layers[i] + 5 * (i + 1) * ROW;
        rows[2 * i + 1] = layers[i] + 6 * (i + 1) * ROW;
        CHECK_OK(cufence_region_release(rows[2 * i], i ? other : stream));
        CHECK_OK(cufence_region_take(rows[2 * i], "before", i ? other : stream));
    }
    CHECK_OK(cufence_region_release_many(rows, LAYERS * 2, stream));
    for (size_t i = 0; i < LAYERS * 2; i++)
        CHECK(work_of(rows[i]) && work_of(rows[i]) == work_of(rows[0]) && strstr(described(rows[i]), "free"));
    write_at((char *)(uintptr_t)rows[2] + 4, 1, 1, stream);
    CHECK_OK(cufence_region_take_many(rows, LAYERS * 2, "request 4", stream));
    AWAIT(cufence_fault_count());
    for (size_t i = 0; i < LAYERS * 2; i++)
        CHECK(strstr(described(rows[i]), "(live, owner request 4)") && work_of(rows[i]) == work_of(rows[0]));
    char *slab = allocate(MANY * 8, stream);
    CHECK_OK(cufence_region(slab, 8, MANY, "slab"));
    for (size_t i = 0; i < MANY; i++)
        all[i] = slab + 8 * i;
    CHECK_OK(cufence_region_release_many(all, MANY, stream));
    CHECK(work_of(all[1023]) == work_of(all[0]) && work_of(all[1024]) == work_of(all[0]) + 1);
    CHECK_OK(cufence_region_take_many(all, MANY, NULL, stream));
    CHECK(cufence_check(0) == 0);
    CHECK(cufence_fault_count() == 1 && regions_unchecked() == 0);
}

CLEAN(all_or_none)
{
    start("");
    char *buffer = divided(NULL, "kv");
    const void *rows[] = {buffer, buffer + ROW, buffer + 2 * ROW}, *wrong[] = {buffer, buffer + ROW + 1};
    CHECK_OK(cufence_region_release_many(rows, 0, NULL));
    CHECK_OK(cufence_region_release(buffer + 2 * ROW, NULL));
    CHECK(cufence_region_release_many(rows, 3, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(strstr(cufence_error_detail(), "row 2 of kv (free, "));
    CHECK(cufence_region_take_many(wrong, 2, "me", NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK(strcmp(described(buffer), "row 0 of kv (live)") == 0);
    CHECK(strcmp(described(buffer + ROW), "row 1 of kv (live)") == 0);
}

static int names_twice(const char *text)
{
    return cufence_error_detail() && strstr(cufence_error_detail(), text) &&
           strstr(cufence_error_detail(), "named twice in one list");
}

/* To release a row twice is an error, in one list too; to take it twice is to take it. */
FINDS(a_row_twice_in_one_list, "4 bytes changed, from byte 8 of row 1 of kv on, in buffer #1")
{
    enum { MANY = 1200 };
    const void *many[MANY + 1];
    start("");
    char *buffer = divided(NULL, "kv"), *slab = allocate(MANY * 8, NULL);
    const void *rows[] = {buffer, buffer + ROW, buffer + 2 * ROW, buffer + ROW};
    CHECK(cufence_region_release_many(rows, 4, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(names_twice("row 1 of kv (live)"));
    CHECK(strcmp(described(buffer), "row 0 of kv (live)") == 0);
    CHECK_OK(cufence_region_release_many(rows, 3, NULL)); /* the refused list is forgotten */
    write_at(buffer + ROW + 8, 4, 1, NULL);
    CHECK_OK(cufence_region_take_many(rows, 4, "me", NULL));
    AWAIT(cufence_fault_count());
    CHECK(strstr(described(buffer + ROW), "(live, owner me)") && strstr(described(buffer + 2 * ROW), "(live, owner me)"));
    CHECK_OK(cufence_region(slab, 8, MANY, "slab"));
    for (size_t i = 0; i < MANY; i++)
        many[i] = slab + 8 * i;
    many[MANY] = slab + 8; /* the two are far apart */
    CHECK(cufence_region_release_many(many, MANY + 1, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(names_twice("row 1 of slab (live)"));
    CHECK_OK(cufence_region_release_many(many, MANY, NULL));
    CHECK_OK(cufence_region_take_many(many, MANY + 1, NULL, NULL));
    CHECK(cufence_check(0) == 0);
    CHECK(cufence_fault_count() == 1 && regions_unchecked() == 0);
}

/* Divisions are found by address, whatever the order in which they came and went. */
CLEAN(many_divisions)
{
    enum { MANY = 40 };
    char *buffers[MANY], text[64];
    start("");
    for (size_t i = 0; i < MANY; i++) {
        buffers[i] = allocate(MANY * 16, NULL);
        for (size_t k = 0; k < MANY; k++)
            CHECK_OK(cufence_region(buffers[i] + 16 * (k * 7 % MANY), 8, 2, "pair"));
    }
    for (size_t i = 0; i < MANY; i += 2)
        release(buffers[i], NULL);
    for (size_t i = 1; i < MANY; i += 2) {
        for (size_t k = 0; k < MANY; k += 3)
            CHECK_OK(cufence_region_gone(buffers[i] + 16 * k));
        for (size_t k = 0; k < MANY; k++) {
            snprintf(text, sizeof text, k % 3 ? "row 1 of pair (live)" : "%s", "");
            CHECK(strcmp(described(buffers[i] + 16 * k + 15), text) == 0);
        }
    }
    CHECK(described(buffers[0] + 8)[0] == '\0');
    CHECK(cufence_region(buffers[1] + 8, 16, 1, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK_OK(cufence_region(buffers[1], 16, 1, NULL));
}

/* ---- captures, threads ---- */

CLEAN(a_capture_changes_states_at_once)
{
    CUgraph graph;
    CUgraphExec executable;
    CUstream stream = start_with_stream("");
    char *buffer = divided(stream, "kv");
    CHECK_OK(cufence_region_release(buffer, stream));
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_OK(cufence_region_take(buffer, "graph", stream));
    CHECK_OK(cufence_region_release(buffer + ROW, stream));
    CHECK(strcmp(described(buffer), "row 0 of kv (live, owner graph)") == 0);
    write_at(buffer, 2 * ROW, 1, stream);
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CHECK_CU(cuGraphInstantiateWithFlags(&executable, graph, 0));
    CHECK_CU(cuGraphLaunch(executable, stream));
    CHECK_OK(cufence_region_take(buffer + ROW, "next", stream)); /* it held no pattern */
    CHECK(regions_unchecked() == 2);
    CHECK(cufence_check(0) == 0);
}

static void *take_and_release(void *row)
{
    CHECK_CU(cuCtxSetCurrent(context));
    CUstream stream = new_stream();
    for (int i = 0; i < 100; i++) {
        CHECK_OK(cufence_region_take(row, "thread", stream));
        write_at(row, ROW, i, stream);
        CHECK_OK(cufence_region_release(row, stream));
    }
    CHECK_CU(cuStreamSynchronize(stream));
    return NULL;
}

CLEAN(threads)
{
    pthread_t all[4];
    start("");
    char *buffer = divided(NULL, "kv");
    CHECK_CU(cuCtxSynchronize());
    function("poke");
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, take_and_release, buffer + i * ROW) == 0);
    CHECK(cufence_check(0) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    CHECK(cufence_check(0) == 0);
}

TEST_CONCURRENTLY
