/* Small buffers that share pages on the simulated device: what fits, what is found between them, and who may use what when. */
#include "pokes.h"

#define KIB ((size_t)1 << 10)

static cufence_buffer buffer_at(const char *pointer)
{
    cufence_description there = {.struct_size = sizeof there};
    CHECK_OK(cufence_describe(pointer, &there));
    CHECK(there.place == CUFENCE_PLACE_INSIDE);
    return there.buffer;
}

static int is_packed(const char *pointer)
{
    cufence_buffer buffer = buffer_at(pointer);
    return buffer.mapping_end - buffer.mapping_start < 2 * MIB;
}

/* Allocates until the buffer shares a page: a few of each place do not. */
static char *allocate_packed(size_t size, CUstream stream)
{
    for (int i = 0; i < 64; i++) {
        char *buffer = allocate(size, stream);
        if (is_packed(buffer))
            return buffer;
    }
    CHECK(0 && "nothing is packed");
    return NULL;
}

/* ---- room ---- */

/* 128 pages hold 128 buffers one by one. Natively all of these take 88 % of the device. */
SAYS_ONCE(thousands_fit_under_default_options, "more than 5 per cent")
{
    enum { COUNT = 7000, LARGE = 10 };
    static char *buffers[COUNT], *large[LARGE];
    start("");
    for (int i = 0; i < LARGE; i++)
        large[i] = allocate(12 * MIB, NULL);
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = allocate(15 * KIB, NULL);
        write_at(buffers[i], 64, i % 256, NULL);
        write_at(buffers[i] + 15 * KIB - 64, 64, i % 256, NULL);
    }
    CHECK(stats().live_buffers == COUNT + LARGE);
    CHECK(stats().unguarded_allocations == 0);
    CHECK(stats().packed_buffers > COUNT - 100);
    CHECK(stats().packed_bytes == stats().packed_buffers * 15 * KIB);
    CHECK(stats().packed_mapped_bytes <= stats().mapped_bytes);
    for (int i = 0; i < COUNT; i++) {
        CHECK(sum_at(buffers[i], 64, NULL) == (uint64_t)(i % 256) * 64);
        CHECK(sum_at(buffers[i] + 15 * KIB - 64, 64, NULL) == (uint64_t)(i % 256) * 64);
        CHECK((uintptr_t)buffers[i] % 16 == 0);
    }
    CHECK(found_by_check(-1) == 0);
    for (int i = 0; i < COUNT; i++)
        release(buffers[i], NULL);
    for (int i = 0; i < LARGE; i++)
        release(large[i], NULL);
    CHECK(stats().packed_buffers == 0 && stats().packed_bytes == 0);
    for (int i = 0; i < 30000 && stats().mapped_bytes; i++) { /* the background thread may be checking some of them */
        CHECK_CU(cuCtxSynchronize());
        CHECK_OK(cufence_trim(-1));
        usleep(1000);
    }
    CHECK(stats().packed_mapped_bytes == 0); /* pages are given back with their last buffer */
    CHECK(stats().mapped_bytes == 0);
}

/* Without packing most would be left to the driver. */
CLEAN(small_map_never_packs)
{
    start("small=map");
    for (int i = 0; i < 126; i++)
        allocate(15 * KIB, NULL);
    CHECK(stats().packed_allocations == 0);
    CHECK(stats().unguarded_allocations > 0);
}

CLEAN(small_pack_packs_from_the_start)
{
    int packed = 0;
    start("small=pack");
    for (int i = 0; i < 320; i++)
        packed += is_packed(allocate(1000, NULL));
    CHECK(packed >= 300 && packed < 320); /* a rotating few have pages of their own */
    CHECK(stats().packed_buffers == (uint64_t)packed);
    CHECK(stats().packed_allocations == (uint64_t)packed);
    CHECK(!is_packed(allocate(600 * KIB, NULL)));
    CHECK(stats().mapped_bytes <= 12 * MIB);
}

/* In a loop each place has buffers with a page of their own again and again. */
CLEAN(each_place_meets_the_hardware)
{
    int alone[3] = {0, 0, 0};
    start("small=pack,stacks=off");
    for (int i = 0; i < 64; i++) {
        for (int place = 0; place < 3; place++) {
            char *buffer = allocate(1000 * (size_t)(place + 1), NULL);
            alone[place] += !is_packed(buffer);
            release(buffer, NULL);
        }
    }
    for (int place = 0; place < 3; place++)
        CHECK(alone[place] >= 3 && alone[place] <= 5);
}

SAYS_ONCE(automatic_packing_is_said_once, "more than 5 per cent of its memory")
{
    start("");
    for (int i = 0; i < 6; i++)
        CHECK(!is_packed(allocate(100, NULL)));
    for (int i = 0; i < 100; i++)
        allocate(100, NULL);
    CHECK(stats().packed_buffers >= 90);
}

/* ---- every second one, while there is room ---- */

/* As much as the address space holds under ThreadSanitizer, with small guards. Not all of the device is needed, and `small`
 * live buffers have pages of their own. */
static void start_with_room(const char *options, int small)
{
    CHECK(setenv("CUFENCE_SIM", "memory=8G", 1) == 0);
    start(options);
    for (int i = 0; i < small; i++)
        CHECK(!is_packed(allocate(1000, NULL)));
    CHECK(stats().packed_allocations == 0);
}

CLEAN(few_small_buffers_have_pages_of_their_own)
{
    start_with_room("guard=2M", 64);
    for (int i = 0; i < 500; i++)
        release(allocate(3 * MIB, NULL), NULL);
    CHECK(stats().packed_allocations == 0);
}

CLEAN(many_share_within_a_sixteenth)
{
    enum { LARGE = 40, ROUNDS = 5 };
    int alone = 0;
    start_with_room("guard=2M", 64);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LARGE / ROUNDS; i++)
            allocate(64 * MIB, NULL);
        for (int i = 0; i < 100; i++)
            alone += !is_packed(allocate(1000 * (size_t)(1 + i % 7), NULL));
        uint64_t shared = stats().packed_mapped_bytes, all = stats().mapped_bytes;
        uint64_t others = (uint64_t)(round + 1) * (LARGE / ROUNDS) * 64 * MIB;
        CHECK(all - shared - others <= (all / 16 > 64 * PAGE ? all / 16 : 64 * PAGE) + PAGE); /* the first of the place */
    }
    CHECK(alone >= 10 && alone <= 50); /* as many more as the large ones make room for */
}

/* One of two buffers of a place has the hardware's guard: in a loop, also where others hold all that may be alone; and wherever
 * there is room. */
CLEAN(each_place_meets_the_hardware_within_two)
{
    enum { PLACES = 12 };
    char *first, *second;
    start_with_room("guard=2M,stacks=off", 64);
    allocate(1000, NULL); /* begins it */
    for (size_t i = 0; i < 10; i++) {
        first = allocate(100, NULL);
        second = allocate(100, NULL);
        CHECK(is_packed(first) != is_packed(second));
        release(first, NULL);
        release(second, NULL);
    }
    for (int i = 0; i < 40; i++)
        allocate(64 * MIB, NULL);
    for (size_t place = 1; place <= PLACES; place++) {
        first = allocate(2000 * place, NULL);
        CHECK(is_packed(first) != is_packed(allocate(2000 * place, NULL)));
    }
}

/* All that is freed is to be retired, which a buffer in a shared page is not. */
CLEAN(strict_shares_no_pages_while_there_is_room)
{
    start_with_room("guard=2M,uaf=strict", 150);
}

FINDS(finds_one_byte_behind_a_second_one, "slack WRITE: 1 byte changed, 0 bytes past the end of buffer #")
{
    start_with_room("guard=2M,slack=off", 64);
    char *buffer = allocate_packed(1008, NULL);
    CHECK(buffer_at(buffer).redzone_before >= 256 && buffer_at(buffer).redzone_after >= 256);
    write_at(buffer + 1008, 1, 0, NULL);
    CHECK(found_by_check(0) == 1);
}

/* ---- what is found ---- */

FINDS(finds_one_byte_behind, "slack WRITE: 1 byte changed, 0 bytes past the end of buffer #")
{
    start("small=pack");
    char *buffer = allocate_packed(1008, NULL);
    write_at(buffer + 1008, 1, 0, NULL);
    CHECK(found_by_check(0) == 1);
    CHECK(found_by_check(0) == 0); /* it was reported once, and the pattern is there again */
    CHECK(stats().faults == 1);
}

FINDS(finds_what_was_written_before_the_free, "slack WRITE: 1 byte changed, 0 bytes past the end of buffer #")
{
    start("small=pack");
    char *buffer = allocate_packed(1000, NULL), *others[64];
    write_at(buffer + 1000, 1, 0, NULL);
    release(buffer, NULL);
    for (int i = 0; i < 64; i++)
        others[i] = allocate_packed(1000, NULL);
    for (int i = 0; i < 64; i++) /* frees are checked in batches */
        release(others[i], NULL);
    CHECK_CU(cuCtxSynchronize());
    AWAIT(stats().faults);
    CHECK(stats().faults == 1);
}

FINDS(finds_at_the_end, "slack WRITE: 8 bytes changed, 0 bytes past the end of buffer #")
{
    start("small=pack");
    char *buffer = allocate_packed(1000, NULL);
    write_at(buffer + 1000, 8, 0, NULL);
    release(buffer, NULL);
}

CLEAN(addresses_in_a_page_are_described)
{
    cufence_description there = {.struct_size = sizeof there};
    start("small=pack");
    char *first = allocate_packed(1000, NULL), *second = allocate_packed(1000, NULL);
    CHECK(second - first < 4096);
    const cufence_buffer shared = buffer_at(second);
    CHECK(shared.redzone_before >= 256 && shared.redzone_before == shared.address - shared.mapping_start);
    CHECK(shared.redzone_after >= 256 && shared.redzone_after == shared.mapping_end - shared.address - 1000);
    CHECK(buffer_at(allocate(2 * MIB, NULL)).redzone_before == 0); /* it has pages of its own */
    CHECK_OK(cufence_describe(first + 1000, &there));
    CHECK(there.place == CUFENCE_PLACE_PAST_END && there.buffer.id == buffer_at(first).id && there.offset == 0);
    CHECK_OK(cufence_describe(second - 1, &there));
    CHECK(there.place == CUFENCE_PLACE_BEFORE_START && there.buffer.id == buffer_at(second).id && there.offset == 1);
    release(first, NULL);
    CHECK_OK(cufence_describe(first + 8, &there));
    CHECK(there.place == CUFENCE_PLACE_FREED && there.offset == 8);
    CHECK(cufence_free(first, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
    CHECK(cufence_free(second + 1, NULL) == CUFENCE_ERROR_INVALID_FREE);
    cufence_buffer buffer = buffer_at(second);
    uint64_t end = (buffer.mapping_end + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    CHECK_OK(cufence_describe((char *)(uintptr_t)(end + 100), &there)); /* the page's guard is that of its last live buffer */
    CHECK(there.place == CUFENCE_PLACE_PAST_END && there.buffer.id == buffer.id);
    CHECK(there.buffer.guard_end > end);
}

/* A cell may be wider than what is watched of it. */
CLEAN(the_watched_part_is_the_redzone)
{
    start("small=pack");
    const cufence_buffer buffer = buffer_at(allocate_packed(150000, NULL));
    CHECK(buffer.redzone_before == 4096);
    CHECK(buffer.address - buffer.mapping_start >= 8192);
}

/* ---- streams ---- */

CLEAN(captures_are_not_packed)
{
    CUgraph graph;
    void *pointer = NULL;
    CUstream stream = start_with_stream("small=pack");
    char *before = allocate_packed(1000, stream);
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (int i = 0; i < 20; i++) {
        CHECK_OK(cufence_malloc(&pointer, 1000, 0, stream));
        CHECK(!is_packed(pointer));
    }
    release(before, stream); /* a packed one freed in a capture stays until the graph is gone */
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    for (int i = 0; i < 40; i++)
        CHECK(allocate(1000, stream) != before);
    CHECK(found_by_check(0) == 0);
}

CLEAN(a_context_takes_its_pages_with_it)
{
    CUcontext own;
    start("small=pack");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    CUstream stream = new_stream();
    for (int i = 0; i < 200; i++) {
        char *buffer = allocate(1000, stream);
        if (i % 3 == 0)
            release(buffer, stream);
    }
    CHECK(stats().packed_buffers > 100);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK(stats().packed_buffers == 0);
    CHECK(stats().packed_mapped_bytes == 0);
}

CLEAN(a_page_outlives_its_context_until_another_is_done)
{
    static uint32_t flag;
    CUcontext own;
    CUstream other = start_with_stream("small=pack");
    CHECK_CU(cuCtxCreate(&own, NULL, 0, 0));
    char *buffer = allocate_packed(1000, new_stream());
    CHECK_CU(cuCtxSetCurrent(context));
    spin(other, &flag);
    release(buffer, other);
    CHECK_OK(cufence_context_gone(own));
    CHECK_CU(cuCtxDestroy(own));
    CHECK(stats().packed_mapped_bytes == PAGE);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuStreamSynchronize(other));
    CHECK_OK(cufence_trim(0));
    CHECK(stats().packed_mapped_bytes == 0);
}

FINDS(other_sides_and_alignments, "1 byte changed, 1 byte before the start of buffer #")
{
    start("small=pack,side=start,align=512");
    char *buffer = allocate_packed(1000, NULL);
    CHECK((uintptr_t)buffer % 512 == 0);
    write_at(buffer - 1, 1, 0, NULL);
    write_at(buffer + 1000, 1, 0, NULL);
    CHECK(found_by_check(0) == 2);
}

/* The figure of docs/memory.md. */
CLEAN(ten_thousand_take_little)
{
    start("small=pack");
    for (int i = 0; i < 10000; i++)
        allocate(4 * KIB, NULL);
    CHECK(stats().packed_mapped_bytes == 46 * MIB && stats().mapped_bytes == 54 * MIB);
}

/* Memory is scarce, and what is running waits for this thread: nothing waits for that. */
static void let_work_wait_for_the_caller(void)
{
    static uint32_t flag;
    for (int i = 0; i < 20; i++)
        allocate(12 * MIB, NULL);
    for (int i = 0; i < 5; i++)
        allocate(2 * MIB, NULL);     /* 6 MiB are free, less than 1/32 */
    allocate_packed(15 * KIB, NULL); /* so there is a page with cells, 32 of them */
    CUstream busy = new_stream();
    spin(busy, &flag);
    for (int i = 0; i < 24; i++) /* one or two want a page of their own */
        allocate(15 * KIB, NULL);
    CHECK(cuStreamQuery(busy) == CUDA_ERROR_NOT_READY);
    __atomic_store_n(&flag, 1, __ATOMIC_RELEASE);
    CHECK_CU(cuStreamSynchronize(busy));
}

SAYS_ONCE(running_work_is_not_waited_for, "share pages")
{
    start("uaf=strict,say=quiet");
    let_work_wait_for_the_caller();
}

static int set_up(void **state)
{
    return setenv("CUFENCE_SIM", "memory=256M", 1); /* a small device: 128 pages */
}
TEST_GROUP(set_up, NULL)

TEST_CONCURRENTLY
