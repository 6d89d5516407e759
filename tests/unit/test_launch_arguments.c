/* The arguments of recorded launches: all of them are kept, however long. */
#include "support/test.h"

#include <stdatomic.h>

#include "failing_malloc.h"
#include "launch_world.h"

enum { LIMIT = 32764 };

/* The arguments of `widest`, which differ from launch to launch. */
struct all {
    uint64_t pointer;
    uint8_t table[492];
    uint32_t padding; /* of which nothing is known */
    uint64_t word;
    uint8_t rest[LIMIT - 512];
};

static struct all *make_all(struct all *all, unsigned seed)
{
    all->pointer = 0x7e0000001000 + seed;
    all->word = ~all->pointer;
    for (size_t i = 0; i < sizeof all->table; i++)
        all->table[i] = (uint8_t)(i * 7 + seed);
    for (size_t i = 0; i < sizeof all->rest; i++)
        all->rest[i] = (uint8_t)(i * 13 + i / 256 + seed);
    return all;
}

static void record_all(struct context *context, struct all *all)
{
    record(context, 4, (void *[]){&all->pointer, all->table, &all->word, all->rest});
}

static void assert_all(const uint8_t *bytes, const struct all *all)
{
    assert_memory_equal(bytes, &all->pointer, 8);
    assert_memory_equal(bytes + 8, all->table, sizeof all->table);
    assert_memory_equal(bytes + 504, &all->word, 8);
    assert_memory_equal(bytes + 512, all->rest, sizeof all->rest);
}

static uint8_t bytes[LIMIT + 1];
static struct all all;

TEST(all_bytes_are_kept_up_to_the_drivers_limit)
{
    static struct launch_entry entries[SIZE];
    struct context *context = fresh();
    for (unsigned i = 0; i < 2 * SIZE; i++)
        record_all(context, make_all(&all, i));
    assert_int_equal(read_all(context, NULL, entries, SIZE), SIZE);
    for (unsigned i = 0; i < SIZE; i++) {
        assert_int_equal(entries[i].argument_bytes, LIMIT);
        assert_int_equal(entries[i].kept_bytes, LAUNCH_KEPT_BYTES);
        assert_int_equal(launch_read_arguments(&entries[i], bytes, sizeof bytes), LIMIT);
        assert_all(bytes, make_all(&all, 2 * SIZE - 1 - i));
        assert_memory_equal(entries[i].bytes, bytes, LAUNCH_KEPT_BYTES);
    }
}

TEST(no_more_is_read_than_asked_for)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    record_all(context, make_all(&all, 3));
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    for (size_t max = 0; max < 600; max += 50) {
        memset(bytes, 0xee, sizeof bytes);
        assert_int_equal(launch_read_arguments(&entry, bytes, max), max);
        assert_int_equal(bytes[max], 0xee);
        if (max >= 500)
            assert_memory_equal(bytes + 8, all.table, 492);
    }
}

TEST(a_small_launch_leaves_nothing_of_a_large_one)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    uint64_t words[] = {21, 22};
    for (unsigned i = 0; i < SIZE; i++)
        record_all(context, make_all(&all, i));
    record(context, 1, (void *[]){&words[0], &words[1]});
    assert_int_equal(read_all(context, "fill", &entry, 1), 1);
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), 16);
    assert_memory_equal(bytes, words, sizeof words);
    launch_record_graph(context, (CUgraphExec)(uintptr_t)0x77, STREAM, NULL);
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), 0);
}

/* What was read of a launch does not stand for the next one in the same place, not even for that with the same number in the
 * next context. */
TEST(what_left_the_ring_is_not_read)
{
    static struct launch_entry entry, gone;
    struct context *context = fresh();
    record_all(context, make_all(&all, 1));
    assert_int_equal(read_all(context, NULL, &gone, 1), 1);
    for (unsigned i = 0; i < SIZE - 1; i++)
        record_all(context, make_all(&all, 2));
    assert_int_equal(launch_read_arguments(&gone, bytes, sizeof bytes), LIMIT);
    assert_all(bytes, make_all(&all, 1));
    record_all(context, make_all(&all, 3));
    assert_int_equal(launch_read_arguments(&gone, bytes, sizeof bytes), 0);
    assert_int_equal(read_all(context, NULL, &gone, 1), 1);
    launch_forget_context(context);
    assert_int_equal(launch_read_arguments(&gone, bytes, sizeof bytes), 0);
    for (unsigned i = 0; i < SIZE + 1; i++)
        record_all(context, make_all(&all, 4));
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_ptr_equal(entry.slot, gone.slot);
    assert_int_equal(entry.sequence, gone.sequence);
    assert_int_equal(launch_read_arguments(&gone, bytes, sizeof bytes), 0);
    entry.slot = NULL; /* as of a snapshot from a file */
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), 0);
}

TEST(memory_is_taken_once_and_only_for_long_arguments)
{
    struct context *context = fresh();
    uint64_t word = 1;
    record_all(context, &all); /* the functions become known, and the ring gets its places */
    record(context, 1, (void *[]){&word, &word});
    fail_malloc_at(1000);
    for (unsigned i = 0; i < 4 * SIZE; i++)
        record(context, 1, (void *[]){&word, &word});
    assert_int_equal(calls_of_malloc, 0);
    for (unsigned i = 0; i < SIZE; i++)
        record_all(context, &all);
    assert_int_equal(calls_of_malloc, SIZE - 1); /* one place has it already */
    for (unsigned i = 0; i < 4 * SIZE; i++)
        record_all(context, &all);
    assert_int_equal(calls_of_malloc, SIZE - 1);
    fail_malloc_at(-1);
}

TEST(without_memory_256_bytes_are_kept)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    make_all(&all, 9);
    record_all(context, &all); /* the function becomes known, and the ring gets its places */
    fail_malloc_at(0);
    record_all(context, &all);
    assert_true(malloc_has_failed());
    fail_malloc_at(-1);
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_int_equal(entry.argument_bytes, LIMIT);
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), LAUNCH_KEPT_BYTES);
    assert_memory_equal(bytes + 8, all.table, LAUNCH_KEPT_BYTES - 8);
}

/* One buffer may hold all arguments, and be larger: not all of it need be readable. */
TEST(only_the_arguments_of_a_buffer_are_read)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    uint8_t *words = malloc(268);
    size_t size = 60000;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, words, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    struct launch_call call = {.function = HANDLE(3), .extra = extra};
    for (size_t i = 0; i < 268; i++)
        words[i] = (uint8_t)(i * 3);
    launch_record(context, &call);
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_int_equal(entry.argument_bytes, 268);
    assert_int_equal(entry.kept_bytes, LAUNCH_KEPT_BYTES);
    assert_memory_equal(entry.bytes, words, LAUNCH_KEPT_BYTES);
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), 268);
    assert_memory_equal(bytes, words, 268);
    free(words);
    driver = &old; /* which tells no layout */
    launch_forget_functions();
    extra[1] = &all;
    size = LIMIT;
    launch_record(context, &call);
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_int_equal(launch_read_arguments(&entry, bytes, sizeof bytes), LIMIT);
    assert_memory_equal(bytes, &all, LIMIT);
    launch_forget_functions();
}

TEST(missing_arguments_are_left_out)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    uint64_t word = 5;
    record(context, 1, NULL);
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_int_equal(entry.argument_bytes, 0);
    record(context, 1, (void *[]){NULL, &word});
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_memory_equal(entry.bytes + 8, &word, 8);
}

/* ---- threads ---- */

enum { WRITERS = 3, ROUNDS = 3000 };
static atomic_int has_read; /* the writers go on until the reader has had its turn */

static void *write_launches(void *user)
{
    struct all *mine = calloc(1, sizeof *mine);
    for (unsigned i = 0; mine && (i < ROUNDS || !atomic_load(&has_read)); i++) {
        memset(mine->table, (int)(i * 5), sizeof mine->table);
        memset(mine->rest, (int)(i * 5), sizeof mine->rest);
        record_all(user, mine);
    }
    free(mine);
    return NULL;
}

/* The arguments that are read are those of one launch, the one that was asked for. */
TEST(readers_see_whole_launches)
{
    static struct launch_entry entries[SIZE];
    struct context *context = fresh();
    pthread_t threads[WRITERS];
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_launches, context), 0);
    for (size_t seen = 0; seen < 100;) {
        size_t count = read_all(context, NULL, entries, SIZE);
        for (size_t i = 0; i < count; i++) {
            if (!launch_read_arguments(&entries[i], bytes, sizeof bytes))
                continue;
            seen++;
            for (size_t at = 512; at < LIMIT; at++)
                assert_int_equal(bytes[at], entries[i].bytes[8]);
        }
    }
    atomic_store(&has_read, 1);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}
