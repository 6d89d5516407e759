/* Buffers on the simulated device: layout, reuse, quarantine, pools. tests/torture has streams, threads and captures. */
#include "heap_story.h"

STORY(ends_flush)
{
    static const size_t sizes[] = {1, 4, 15, 16, 17, 4000, PAGE - 1, PAGE, PAGE + 1, 3 * MIB + 512 * 1024, 40 * MIB + 4};
    start(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cufence_description where = {.struct_size = sizeof where};
        char *pointer = allocate(sizes[i], NULL);
        CHECK((uintptr_t)pointer % 16 == 0);
        CHECK_OK(cufence_describe(pointer, &where));
        CHECK(where.place == CUFENCE_PLACE_INSIDE && where.offset == 0);
        CHECK(where.buffer.size == sizes[i] && where.buffer.address == (uintptr_t)pointer);
        CHECK(where.buffer.mapping_end - where.buffer.address == (sizes[i] + 15) / 16 * 16);
        CHECK(where.buffer.guard_end - where.buffer.mapping_end >= 64 * MIB);
        CHECK(where.buffer.mapping_start - where.buffer.guard_start >= 64 * MIB);
        CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)pointer, 7, sizes[i]));
        CHECK_OK(cufence_describe(pointer + sizes[i], &where));
        CHECK(where.place == CUFENCE_PLACE_PAST_END && where.offset == 0);
        CHECK_OK(cufence_describe(pointer + sizes[i] + MIB, &where));
        CHECK(where.place == CUFENCE_PLACE_PAST_END && where.offset == MIB && where.buffer.size == sizes[i]);
        CHECK_OK(cufence_describe(pointer - 1, &where));
        CHECK(where.place == CUFENCE_PLACE_BEFORE_START && where.offset == 1);
    }
    void *odd = NULL;
    CHECK_OK(cufence_malloc(&odd, 0, 0, NULL));
    CHECK(odd == NULL);
    CHECK_OK(cufence_free(NULL, NULL));
}

STORY(sides)
{
    cufence_description where = {.struct_size = sizeof where};
    start("side=alternate,align=1");
    unsigned at_start = 0, at_end = 0;
    for (int i = 0; i < 6; i++) {
        CHECK_OK(cufence_describe(allocate(100, NULL), &where));
        at_start += where.buffer.address == where.buffer.mapping_start;
        at_end += where.buffer.address + 100 == where.buffer.mapping_end;
    }
    CHECK(at_start == 3 && at_end == 3);
}

STORY(impossible_sizes)
{
    void *pointer = &pointer;
    setenv("CUFENCE_SIM", "memory=1G,reserve=16G", 1);
    start("");
    CHECK(cufence_malloc(&pointer, SIZE_MAX, 0, NULL) == CUFENCE_ERROR_OVERFLOW);
    CHECK(cufence_malloc(&pointer, SIZE_MAX - PAGE, 0, NULL) == CUFENCE_ERROR_OVERFLOW);
    CHECK(cufence_malloc(&pointer, (size_t)8 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_MEMORY);
    CHECK(strstr(cufence_error_detail(), "8589934592 bytes") != NULL);
    CHECK(cufence_malloc(&pointer, (size_t)80 << 30, 0, NULL) == CUFENCE_ERROR_OUT_OF_ADDRESS_SPACE);
    CHECK(cufence_malloc(&pointer, 100, 7, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_malloc(&pointer, 100, -2, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_malloc(NULL, 100, 0, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(pointer == &pointer);
    allocate(100, NULL);
}

STORY(wrong_frees)
{
    start(NULL);
    char *pointer = allocate(1000, NULL);
    CHECK(cufence_free(pointer + 16, NULL) == CUFENCE_ERROR_INVALID_FREE);
    CHECK(strstr(cufence_error_detail(), "16 bytes inside buffer #1") != NULL);
    CHECK(cufence_free(&pointer, NULL) == CUFENCE_ERROR_INVALID_FREE);
    CHECK(cufence_record_stream(pointer + 1, NULL) == CUFENCE_ERROR_NOT_FOUND);
    CHECK_OK(cufence_free(pointer, NULL));
    CHECK(cufence_free(pointer, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(strstr(cufence_error_detail(), "#1 of 1000 bytes") != NULL);
    CHECK(allocate(2000, NULL) != pointer); /* the same mapping, another start */
    CHECK(cufence_free(pointer, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(strstr(cufence_error_detail(), "#1 of 1000 bytes") != NULL);
    CHECK(stats().live_buffers == 1 && stats().live_bytes == 2000);
}

STORY(reuse_on_a_stream)
{
    CUstream a = start_with_stream("uaf=off"); /* a retired place would have another mapping by then */
    char *first = allocate(4000, a);
    CHECK_OK(cufence_free(first, a));
    CHECK(allocate(4000, a) == (void *)first);
    CHECK_OK(cufence_free(first, a));
    char *second = allocate(400, a);
    CHECK(second == first + 3600); /* flush again */
    CHECK(stats().fresh_mappings == 1);
    cufence_description where = {.struct_size = sizeof where};
    CHECK_OK(cufence_free(second, a));
    CHECK_OK(cufence_describe(second + 10, &where));
    CHECK(where.place == CUFENCE_PLACE_FREED && where.offset == 10 && where.buffer.size == 400 && where.buffer.is_mapped);
}

STORY(larger_mapping_within_waste)
{
    start("");
    char *first = allocate(20 * MIB, NULL);
    CHECK_OK(cufence_free(first, NULL));
    CHECK((char *)allocate(18 * MIB, NULL) == first + 2 * MIB);
    CHECK_OK(cufence_free(first + 2 * MIB, NULL));
    char *small = allocate(16 * MIB, NULL);
    CHECK(small < first || small > first + 20 * MIB);
    char *large = allocate(300 * MIB, NULL);
    CHECK_OK(cufence_free(large, NULL));
    CHECK((char *)allocate(290 * MIB, NULL) == large + 10 * MIB);
}

STORY(strict_retires)
{
    static uint32_t flag;
    /* The arena, small under ThreadSanitizer, is not used up: no address comes again. */
    CUstream a = start_with_stream("uaf=strict,guard=4M");
    char *first = allocate(4000, a);
    spin(a, &flag);
    CHECK_OK(cufence_free(first, a));
    usleep(50000);
    CHECK(!is_retired(first)); /* the stream has not passed the free */
    CHECK(allocate(4000, a) != (void *)first);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    AWAIT(is_retired(first));
    CHECK(is_retired(first));
    CHECK(cufence_free(first, a) == CUFENCE_ERROR_DOUBLE_FREE);
    for (int i = 0; i < 200; i++) {
        char *next = allocate(4000, a);
        CHECK(next != first);
        CHECK_OK(cufence_free(next, a));
    }
    CHECK(is_retired(first));
    AWAIT(stats().tested_buffers >= 1); /* counted right behind */
    CHECK(stats().tested_buffers >= 1 && stats().tested_buffers <= 201 && stats().tested_places == 0);
}

/* A program that allocates faster than its frees are retired goes on with the memory of those. */
STORY(strict_waits_for_its_memory)
{
    CUstream a = start_with_stream("uaf=strict");
    cusim_set_latency("cuMemSetAccess", 50);
    cusim_set_latency("cuMemUnmap", 2000); /* the background thread lags behind */
    while (stats().retired_mappings < 50)
        CHECK_OK(cufence_free(allocate(4000, a), a));
    cusim_set_latency("cuMemUnmap", 0);
    CHECK(stats().fresh_mappings < 100); /* some 200 otherwise; a few where the host is slow to see that a free has passed */
}

/* But not for ever, and not if none of that is of its size. */
STORY(strict_waits_a_while)
{
    CUstream a = start_with_stream("uaf=strict");
    void *first = allocate(4000, a);
    uint64_t calls = cusim_call_count("cuMemSetAccess"), fresh = stats().fresh_mappings;
    cusim_set_latency("cuMemSetAccess", 2000000); /* so long the background thread takes to map the memory again */
    CHECK_OK(cufence_free(first, a));
    AWAIT(cusim_call_count("cuMemSetAccess") > calls);
    cusim_set_latency("cuMemSetAccess", 0);
    allocate(3 * MIB, a);
    CHECK(stats().fresh_mappings == fresh + 1);
    allocate(4000, a);
    CHECK(stats().fresh_mappings == fresh + 2);
}

/* Nor for memory that a stream still uses, whatever else is being retired. */
STORY(strict_waits_for_no_stream)
{
    enum { SMALL = 20, LARGE = 100 };
    static uint32_t flag;
    void *small[SMALL], *large[LARGE];
    start("uaf=strict");
    CUstream a = new_stream(), b = new_stream();
    for (int i = 0; i < SMALL; i++)
        small[i] = allocate(4000, a);
    for (int i = 0; i < LARGE; i++)
        large[i] = allocate(3 * MIB, b);
    spin(a, &flag);
    cusim_set_latency("cuMemUnmap", 3000);
    for (int i = 0; i < LARGE; i++)
        CHECK_OK(cufence_free(large[i], b));
    for (int i = 0; i < SMALL; i++)
        CHECK_OK(cufence_free(small[i], a));
    AWAIT(stats().retired_mappings > 0);
    uint64_t retired = stats().retired_mappings;
    for (int i = 0; i < SMALL; i++)
        allocate(4000, b);
    CHECK(stats().retired_mappings < retired + 30); /* in the time of 20 waits it would be 60 */
    cusim_set_latency("cuMemUnmap", 0);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
}

STORY(history_is_bounded)
{
    start("remember=64,uaf=strict");
    void *first = allocate(100, NULL);
    CHECK_OK(cufence_free(first, NULL));
    cufence_description where = {.struct_size = sizeof where};
    for (int i = 0; i < 400; i++) {
        void *pointer = allocate(100, NULL);
        CHECK_OK(cufence_free(pointer, NULL));
        for (int k = 0; k < 2000 && !is_retired(pointer); k++)
            usleep(100);
    }
    CHECK_OK(cufence_describe(first, &where));
    CHECK(where.place == CUFENCE_PLACE_NO_BUFFER);
    CHECK(cufence_free(first, NULL) == CUFENCE_ERROR_INVALID_FREE);
}

static int is_captured(CUstream stream, void *user)
{
    return stream == *(CUstream *)user;
}

static int destroyed;
static void destroy(void *user)
{
    destroyed++;
}

STORY(pools)
{
    static const uint64_t id[2] = {3, 0}, unknown[2] = {4, 0};
    CUstream stream = start_with_stream(NULL);
    CHECK(cufence_pool_end(0, unknown) == CUFENCE_ERROR_NOT_FOUND);
    CHECK(cufence_pool_release(0, unknown) == CUFENCE_ERROR_NOT_FOUND);
    CHECK_OK(cufence_pool_begin(0, id, is_captured, &stream, destroy));
    CHECK(cufence_pool_begin(0, id, is_captured, &stream, destroy) == CUFENCE_ERROR_INVALID_ARGUMENT);
    void *inside = allocate(4000, stream);
    CHECK_OK(cufence_pool_end(0, id));
    CHECK(destroyed == 1);
    CHECK_OK(cufence_free(inside, stream)); /* after the capture: still the pool's */
    CHECK(allocate(4000, stream) != inside);
    CHECK_OK(cufence_pool_begin(0, id, is_captured, &stream, destroy));
    CHECK(allocate(4000, stream) == inside);
    CHECK_OK(cufence_pool_end(0, id));
    CHECK_OK(cufence_free(inside, stream));
    CHECK(stats().captured_bytes == PAGE);
    CHECK_OK(cufence_pool_release(0, id));
    CHECK_OK(cufence_trim(0));
    CHECK(stats().captured_bytes == PAGE); /* begun twice */
    CHECK_OK(cufence_pool_release(0, id));
    CHECK_OK(cufence_trim(0));
    CHECK(stats().captured_bytes == 0);
    CHECK(cufence_pool_release(0, id) == CUFENCE_ERROR_NOT_FOUND);
}

STORY(two_devices_and_contexts)
{
    cufence_description where = {.struct_size = sizeof where};
    setenv("CUFENCE_SIM", "devices=2,memory=1G", 1);
    start(NULL);
    void *on_one = NULL, *own = NULL;
    CHECK_OK(cufence_malloc(&on_one, 1000, 1, NULL));
    CHECK_OK(cufence_describe(on_one, &where));
    CHECK(where.buffer.device == 1);
    CHECK_CU(cuCtxCreate(&context, NULL, 0, 1));
    CHECK_OK(cufence_malloc(&own, 1000, -1, NULL));
    CHECK_OK(cufence_describe(own, &where));
    CHECK(where.buffer.device == 1);
    cufence_stats one = {.struct_size = sizeof one};
    CHECK_OK(cufence_get_stats(1, &one));
    CHECK(one.live_buffers == 2);
    CHECK(stats().live_buffers == 0);
    CHECK(cufence_get_stats(2, &one) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK_OK(cufence_free(on_one, NULL));
    CHECK_OK(cufence_free(own, NULL));
    CHECK(allocate(1000, NULL) != on_one); /* another device's memory */
    CHECK_CU(cuCtxSetCurrent(NULL));       /* takes the top of the thread's stack off */
    CHECK_CU(cuCtxSetCurrent(NULL));
    CHECK(cufence_malloc(&own, 1000, -1, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
}

STORY(driver_failures)
{
    void *pointer = NULL;
    start(NULL);
    cusim_fail_call("cuMemMap", 1, CUDA_ERROR_UNKNOWN);
    CHECK(cufence_malloc(&pointer, 100, 0, NULL) == CUFENCE_ERROR_DRIVER);
    CHECK(strstr(cufence_error_detail(), "cuMemMap") != NULL);
    cusim_fail_call("cuMemSetAccess", 1, CUDA_ERROR_UNKNOWN);
    CHECK(cufence_malloc(&pointer, 100, 0, NULL) == CUFENCE_ERROR_DRIVER);
    cusim_fail_call("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
    pointer = allocate(100, NULL); /* tried again */
    cusim_fail_call("cuEventRecord", 1, CUDA_ERROR_UNKNOWN);
    CHECK_OK(cufence_free(pointer, NULL));
    CHECK(stats().live_buffers == 0);
    allocate(100, NULL);
}

STORY(init_rules)
{
    void *pointer = NULL;
    CHECK(cufence_malloc(&pointer, 100, 0, NULL) == CUFENCE_ERROR_NOT_INITIALIZED);
    CHECK(cufence_init("uaf=sometimes") == CUFENCE_ERROR_OPTION);
    CHECK(strstr(cufence_error_detail(), "sometimes") && strstr(cufence_error_detail(), "strict"));
    CHECK(cufence_init("uav=off") == CUFENCE_ERROR_OPTION);
    CHECK_OK(cufence_init("uaf=strict"));
    CHECK_OK(cufence_init("uaf=strict"));
    CHECK(cufence_init("uaf=off") == CUFENCE_ERROR_ALREADY_INITIALIZED);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", CUFENCE_VERSION_MAJOR, CUFENCE_VERSION_MINOR, CUFENCE_VERSION_PATCH);
    CHECK(cufence_version() == CUFENCE_VERSION);
    CHECK(strcmp(cufence_version_string(), version) == 0);
    for (int i = -1; i < 40; i++)
        CHECK(strlen(cufence_strerror((cufence_status)i)) > 3);
}

/* Also of less than what a stream counts on its own. */
STORY(the_peak_is_the_most_that_lived)
{
    cufence_stats stats = {.struct_size = sizeof stats};
    start(NULL);
    void *rows = allocate(16000, NULL), *row = allocate(4000, NULL);
    CHECK_OK(cufence_free(rows, NULL));
    CHECK_OK(cufence_free(row, NULL));
    allocate(4000, NULL);
    CHECK_OK(cufence_get_stats(0, &stats));
    CHECK(stats.live_bytes == 4000 && stats.peak_live_bytes == 20000);
}

/* A struct of an older header is filled as far as it goes, one of a newer header is filled and the rest is 0. */
STORY(structs_may_grow)
{
    union {
        cufence_stats as;
        char bytes[sizeof(cufence_stats) + 16];
    } old = {.as.struct_size = offsetof(cufence_stats, peak_live_bytes)}, new = {.as.struct_size = sizeof new};
    start(NULL);
    allocate(1000, NULL);
    memset(old.bytes + sizeof(size_t), 7, sizeof old - sizeof(size_t));
    memset(new.bytes + sizeof(size_t), 7, sizeof new - sizeof(size_t));
    CHECK_OK(cufence_get_stats(0, &old.as));
    CHECK_OK(cufence_get_stats(0, &new.as));
    CHECK(old.as.live_bytes == 1000 && old.bytes[offsetof(cufence_stats, peak_live_bytes)] == 7);
    CHECK(new.as.live_bytes == 1000 && new.bytes[sizeof(cufence_stats)] == 0 && new.bytes[sizeof new - 1] == 0);
    CHECK(old.as.struct_size == offsetof(cufence_stats, peak_live_bytes) && new.as.struct_size == sizeof new);
    old.as.struct_size = 0;
    CHECK(cufence_get_stats(0, &old.as) == CUFENCE_ERROR_INVALID_ARGUMENT && old.as.live_bytes == 1000);
    CHECK(strstr(cufence_error_detail(), "struct_size is 0; set it to the sizeof of the struct"));
}

STORY(mappings_are_listed)
{
    struct {
        cufence_mapping as;
        uint64_t later;
    } all[2] = {{.as.struct_size = sizeof *all}};
    size_t count = 0;
    start(NULL);
    char *buffers[] = {allocate(1000, NULL), allocate(2000, NULL), allocate(3000, NULL)};
    CHECK_OK(cufence_get_mappings(0, NULL, &count));
    CHECK(count == 3);
    count = 2;
    CHECK_OK(cufence_get_mappings(-1, &all->as, &count));
    CHECK(count == 3);
    for (int i = 0; i < 2; i++) {
        int is_found = 0;
        for (int k = 0; k < 3; k++)
            is_found |= all[i].as.buffer.address == (uintptr_t)buffers[k];
        CHECK(is_found && all[i].as.is_live && all[i].as.struct_size == sizeof *all && !all[i].later);
        CHECK(all[i].as.buffer.struct_size == sizeof(cufence_buffer));
    }
    CHECK(cufence_get_mappings(9, NULL, &count) == CUFENCE_ERROR_INVALID_ARGUMENT && count == 3);
    CHECK(cufence_get_mappings(0, NULL, NULL) == CUFENCE_ERROR_INVALID_ARGUMENT);
    CHECK(cufence_get_mappings(0, NULL, &count) == CUFENCE_ERROR_INVALID_ARGUMENT); /* room, but no array */
    CHECK(cufence_last_report(NULL, &(size_t){0}) == CUFENCE_ERROR_NOT_FOUND);
}

TEST_CONCURRENTLY
