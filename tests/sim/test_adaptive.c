/* uaf=adaptive on the simulated device: every place of allocation has its turn, and the program loses neither time nor memory.
 */
#include "heap_story.h"

#define PLACES 60 /* without Python, a place is a size and a stream */

/* Small guards: in the 16 GiB of address space that there are under ThreadSanitizer, larger ones leave no room for twins. */
#define START "guard=2M"

static size_t size_of(int place)
{
    return place % 10 == 9 ? 3 * PAGE + (size_t)place : 100 + 16 * (size_t)place;
}

/* A step of a loop: some buffers live to its end, the others are freed at once. Their last addresses go to `seen`. */
static void step(CUstream stream, void *seen[PLACES])
{
    for (int i = 0; i < PLACES; i++) {
        seen[i] = allocate(size_of(i), stream);
        CHECK_CU(cuMemsetD8Async((CUdeviceptr)(uintptr_t)seen[i], (unsigned char)i, 64, stream));
        if (i % 3)
            CHECK_OK(cufence_free(seen[i], stream));
    }
    for (int i = 0; i < PLACES; i += 3)
        CHECK_OK(cufence_free(seen[i], stream));
    usleep(2000);
}

static void synchronised_step(CUstream stream, void *seen[PLACES])
{
    step(stream, seen);
    CHECK_CU(cuStreamSynchronize(stream));
    usleep(1000);
}

STORY(every_place_has_its_turn)
{
    void *seen[PLACES];
    CUstream stream = start_with_stream(START);
    for (int i = 0; i < 3; i++)
        synchronised_step(stream, seen);
    uint64_t fresh = stats().fresh_mappings, mapped = stats().mapped_bytes;
    int steps = 0, tested[PLACES] = {0}, left = PLACES;
    for (; steps < 3000 && left; steps++) {
        synchronised_step(stream, seen);
        for (int i = 0; i < PLACES; i++) {
            if (!tested[i] && is_retired(seen[i])) {
                tested[i] = 1;
                left--;
            }
        }
    }
    CHECK(left == 0);
    for (int waited = 0; waited < 2000 && stats().tested_places < PLACES; waited++) /* counted by the background thread */
        synchronised_step(stream, seen);
    CHECK(stats().freed_places == PLACES && stats().tested_places == PLACES);
    CHECK(stats().tested_buffers >= PLACES && stats().retired_mappings >= PLACES);
    CHECK(stats().fresh_mappings == fresh); /* the program itself has mapped nothing */
    CHECK(stats().mapped_bytes == mapped);  /* nor does it hold more memory */
    for (int i = 0; i < 3000 && stats().tested_rounds < 3; i++)
        synchronised_step(stream, seen);
    CHECK(stats().tested_rounds >= 3);
}

/* Returns when what was chosen to be retired is, or after 0.1 s. */
static void await_tested(void)
{
    for (int waited = 0; waited < 200 && stats().retired_mappings < stats().tested_buffers; waited++)
        usleep(500);
}

/* No place has a second turn before all others have had one. */
STORY(turns_are_fair)
{
    void *seen[PLACES];
    int turns[PLACES] = {0};
    CUstream stream = start_with_stream(START);
    for (int i = 0; i < 3000 && (i < 600 || stats().tested_buffers < 8 * PLACES); i++) { /* its pace is a share of the time */
        synchronised_step(stream, seen);
        await_tested();
        for (int k = 0; k < PLACES; k++)
            turns[k] += is_retired(seen[k]);
    }
    int most = 0, least = 1 << 30;
    for (int k = 0; k < PLACES; k++) {
        most = turns[k] > most ? turns[k] : most;
        least = turns[k] < least ? turns[k] : least;
    }
    if (!(least > 0 && most <= 8 * least + 5))
        fprintf(stderr, "turns: %d to %d, of %llu\n", least, most, (unsigned long long)stats().tested_buffers);
    /* Places whose buffers were in the same block in a step count each other's turns, so the figures are not exact. */
    CHECK(least > 0 && most <= 8 * least + 5);
}

/* Where the address space has no room for the twins that all places wait for, others have a second turn meanwhile. */
STORY(rounds_end_without_room)
{
    void *seen[PLACES];
    CUstream stream = start_with_stream("guard=64M");
    for (int i = 0; i < 3000 && stats().tested_buffers == stats().tested_places; i++)
        synchronised_step(stream, seen);
    CHECK(stats().tested_buffers > stats().tested_places);
}

STORY(says_when_it_was_freed)
{
    cufence_description where = {.struct_size = sizeof where};
    void *seen[PLACES];
    CUstream stream = start_with_stream(START);
    for (int i = 0; i < 10000; i++) {
        synchronised_step(stream, seen);
        await_tested();
        CHECK_OK(cufence_describe(seen[1], &where));
        int is_first = where.buffer.size == size_of(1); /* not of a later place, in the same block */
        if (where.place == CUFENCE_PLACE_FREED && !where.buffer.is_mapped && where.buffer.freed_ago && is_first)
            break;
    }
    CHECK(where.place == CUFENCE_PLACE_FREED && where.buffer.size == size_of(1));
    uint64_t ago = where.buffer.freed_ago;
    CHECK(ago > PLACES - 20 && ago < PLACES + 20);
    synchronised_step(stream, seen);
    CHECK_OK(cufence_describe((void *)(uintptr_t)where.buffer.address, &where));
    CHECK(where.buffer.freed_ago > ago + PLACES - 20 && where.buffer.freed_ago < ago + PLACES + 20);
}

/* A buffer that is freed only once is retired where it lies idle. */
STORY(idle_blocks_are_retired)
{
    start(NULL);
    void *once = allocate(5000, NULL), *other = allocate(7000, NULL);
    CHECK_OK(cufence_free(once, NULL));
    AWAIT(is_retired(once));
    CHECK(is_retired(once) && !is_retired(other));
    CHECK(stats().mapped_bytes == 2 * PAGE && stats().idle_bytes == PAGE);
    void *next = allocate(5000, NULL); /* the same memory at another address */
    CHECK(next != once && stats().fresh_mappings == 2);
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)next, 1, 5000));
    CHECK(cufence_free(once, NULL) == CUFENCE_ERROR_DOUBLE_FREE);
}

/* Small buffers of every place share pages in turn with pages of their own: the freed ones of these still have their turns. */
STORY(places_that_share_pages_have_turns)
{
    CHECK(setenv("CUFENCE_SIM", "memory=8G", 1) == 0);
    CUstream stream = start_with_stream(START);
    for (int i = 0; i < 200; i++)
        allocate(4000, stream);
    CHECK(stats().packed_buffers > 100);
    for (int i = 0; i < 40; i++)
        allocate(32 * PAGE, stream); /* beside these, some more pages may be for one small buffer */
    uint64_t packed = stats().packed_allocations;
    for (int i = 0; i < 3000 && stats().tested_places < 10; i++) {
        for (size_t place = 0; place < 10; place++)
            CHECK_OK(cufence_free(allocate(100 + 16 * place, stream), stream));
        CHECK_CU(cuStreamSynchronize(stream));
        usleep(1000);
    }
    CHECK(stats().freed_places == 10 && stats().tested_places == 10 && stats().tested_buffers >= 10);
    CHECK(stats().packed_allocations > packed);
}

static int set_up(void **state)
{
    tune("uaf_share=100");
    setenv("CUFENCE_OPTIONS", "stacks=python", 1); /* a place of allocation is a size and a stream */
    return 0;
}
TEST_GROUP(set_up, NULL)
TEST_CONCURRENTLY
