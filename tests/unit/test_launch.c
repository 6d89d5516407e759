/* The ring of recent launches: what it keeps and for how long, and which driver calls it makes. */
#include "support/test.h"

#include <stdatomic.h>

#include "launch_world.h"

TEST(a_launch_is_kept_as_it_was_called)
{
    static struct launch_entry entry[2];
    struct context *context = fresh();
    uint64_t x = 0x7e0000001000, y = 0x7e0000002000;
    float a = 2;
    int n = 1000;
    record(context, 0, (void *[]){&x, &y, &a, &n});
    assert_int_equal(launch_count(context), 1);
    assert_int_equal(read_all(context, NULL, entry, 2), 1);
    assert_int_equal(entry->sequence, 1);
    assert_string_equal(entry->function->name, "saxpy");
    assert_memory_equal(entry->grid, ((uint32_t[]){8, 2, 1}), 12);
    assert_memory_equal(entry->block, ((uint32_t[]){128, 1, 3}), 12);
    assert_memory_equal(entry->cluster, ((uint32_t[]){2, 1, 1}), 12);
    assert_int_equal(entry->shared_bytes, 48);
    assert_int_equal(entry->stream, 0x5581c0);
    assert_int_equal(entry->device, 0);
    assert_true(entry->tid && entry->time_ns);
    assert_int_equal(entry->argument_bytes, 24);
    assert_int_equal(entry->kept_bytes, 24);
    assert_memory_equal(entry->bytes, &x, 8);
    assert_memory_equal(entry->bytes + 8, &y, 8);
    assert_memory_equal(entry->bytes + 16, &a, 4);
    assert_memory_equal(entry->bytes + 20, &n, 4);
}

TEST(the_ring_keeps_the_newest)
{
    static struct launch_entry entries[2 * SIZE];
    struct context *context = fresh();
    for (uint64_t i = 1; i <= 3 * SIZE + 2; i++)
        record(context, 1, (void *[]){&i, &i});
    assert_int_equal(launch_count(context), 3 * SIZE + 2);
    assert_int_equal(read_all(context, NULL, entries, 2 * SIZE), SIZE);
    for (uint64_t i = 0; i < SIZE; i++) {
        uint64_t sequence = 3 * SIZE + 2 - i;
        assert_int_equal(entries[i].sequence, sequence);
        assert_memory_equal(entries[i].bytes, &sequence, 8);
    }
    assert_int_equal(read_all(context, NULL, entries, 3), 3);
    assert_int_equal(entries[0].sequence, 3 * SIZE + 2);
}

/* Whether launches are missing is asked of the device, and not of how many there are by now. */
TEST(what_is_overwritten_is_missed)
{
    fresh();
    struct context *context = CONTEXT(0x1f0);
    context->device = 2;
    for (uint64_t i = 0; i < SIZE; i++)
        record(context, 1, (void *[]){&i, &i});
    assert_true(launch_all_kept(2));
    record(context, 1, (void *[]){&(uint64_t){0}, &(uint64_t){0}});
    assert_false(launch_all_kept(2));
    launch_forget_context(context);
}

TEST(readers_choose_by_kernel_context_and_device)
{
    static struct launch_entry entries[2 * SIZE];
    struct context *context = fresh(), *other = CONTEXT(0x50);
    uint64_t word = 1;
    record(context, 1, (void *[]){&word, &word});
    record(context, 2, (void *[]){&word, &word});
    record(other, 1, (void *[]){&word, &word});
    launch_record_graph(context, (CUgraphExec)(uintptr_t)0x77, STREAM, NULL);
    assert_int_equal(read_all(context, "fill", entries, SIZE), 1);
    assert_int_equal(entries[0].sequence, 1);
    assert_int_equal(read_all(NULL, "fill", entries, SIZE), 2);
    assert_int_equal(read_all(NULL, "fil", entries, SIZE), 0);
    assert_int_equal(launch_read(&(struct launch_query){.device = 1}, entries, NULL, SIZE), 1);
    assert_int_equal(entries[0].device, 1);
    assert_int_equal(launch_read(&(struct launch_query){.device = 0, .kernel = "fill", .has_graphs = 1}, entries, NULL, SIZE),
                     2);
    assert_int_equal(entries[0].graph, 0x77);
    assert_int_equal(entries[0].sequence, 3);
    assert_null(entries[0].function);
    assert_int_equal(entries[0].argument_bytes, 0);
    launch_forget_context(other);
}

/* The runtime passes a CUkernel, which the functions for a CUfunction refuse. */
TEST(a_kernel_in_a_functions_clothes_is_known)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    uint64_t word = 0x7e0000001000;
    int n = 5;
    record(context, 2, (void *[]){&word, &n});
    assert_int_equal(read_all(context, "runtime_fill", &entry, 1), 1);
    assert_int_equal(entry.function->argument_count, 2);
    assert_int_equal(entry.kept_bytes, 12);
    assert_memory_equal(entry.bytes + 8, &n, 4);
}

TEST(the_driver_is_asked_once_for_each_handle)
{
    struct context *context = fresh();
    uint64_t word = 1;
    record(context, 1, (void *[]){&word, &word});
    size_t before = questions;
    for (int i = 0; i < 100; i++)
        record(context, 1, (void *[]){&word, &word});
    assert_int_equal(questions, before);
    launch_forget_functions();
    record(context, 1, (void *[]){&word, &word});
    assert_true(questions > before);
}

/* A handle that comes again with a longer list of arguments must not be read with the old one, nor the other way round: the
 * array has two pointers, and the third is not ours to read. */
TEST(a_forgotten_function_may_change_its_layout)
{
    static struct launch_entry entries[2];
    struct context *context = fresh();
    uint64_t x = 1, y = 2;
    int n = 3;
    void *four[] = {&x, &y, &n, &n};
    handles[5] = &saxpy;
    record(context, 5, four);
    launch_forget_functions();
    handles[5] = &fill;
    record(context, 5, (void *[]){&x, &y});
    assert_int_equal(read_all(context, NULL, entries, 2), 2);
    assert_string_equal(entries[0].function->name, "fill");
    assert_int_equal(entries[0].argument_bytes, 16);
    assert_string_equal(entries[1].function->name, "saxpy"); /* what was recorded stays readable */
    /* One record for each name and layout, whatever the handle. */
    record(context, 1, (void *[]){&x, &y});
    const struct launch_function *first = entries[0].function;
    assert_int_equal(read_all(context, NULL, entries, 1), 1);
    assert_ptr_equal(entries[0].function, first);
}

/* A driver before CUDA 12.3 says nothing of its functions: the array must not be touched. */
TEST(an_old_driver_gives_no_arguments)
{
    static struct launch_entry entry;
    struct context *context = fresh();
    driver = &old;
    launch_forget_functions();
    record(context, 0, (void *[]){(void *)1, (void *)1, (void *)1, (void *)1});
    assert_int_equal(read_all(context, NULL, &entry, 1), 1);
    assert_string_equal(entry.function->name, "");
    assert_false(entry.function->has_layout);
    assert_int_equal(entry.argument_bytes, 0);
    assert_int_equal(entry.grid[0], 8);
    launch_forget_functions();
}

TEST(a_context_that_is_gone_leaves_no_launches)
{
    static struct launch_entry entries[SIZE];
    struct context *context = fresh(), *next = CONTEXT(0xe);
    uint64_t word = 1;
    for (int i = 0; i < 2 * SIZE; i++)
        record(context, 1, (void *[]){&word, &word});
    launch_forget_context(context);
    assert_int_equal(launch_count(context), 0);
    assert_int_equal(read_all(context, NULL, entries, SIZE), 0);
    record(NULL, 1, (void *[]){&word, &word}); /* nobody's, and not that of the ring that is free */
    assert_int_equal(read_all(NULL, NULL, entries, SIZE), 0);
    record(next, 1, (void *[]){&word, &word});
    assert_int_equal(launch_count(next), 1);
    assert_int_equal(read_all(NULL, NULL, entries, SIZE), 1);
    assert_int_equal(entries[0].sequence, 1);
    launch_forget_context(next);
}

TEST(many_contexts_are_counted)
{
    fresh();
    uint64_t word = 1;
    for (uintptr_t i = 0; i < 80; i++)
        record(CONTEXT(0x100 + i), 1, (void *[]){&word, &word});
    for (uintptr_t i = 0; i < 80; i++) {
        uint64_t before = launch_count(CONTEXT(0x100 + i));
        record(CONTEXT(0x100 + i), 1, (void *[]){&word, &word});
        assert_int_equal(before, 1);
        assert_int_equal(launch_count(CONTEXT(0x100 + i)), 2);
    }
    for (uintptr_t i = 0; i < 80; i++)
        launch_forget_context(CONTEXT(0x100 + i));
}

/* ---- threads ---- */

enum { WRITERS = 4, ROUNDS = 20000 };
static atomic_int has_read; /* the writers go on until the reader has had its turn */
static atomic_size_t written;

static void *write_launches(void *user)
{
    struct context *context = user;
    uint64_t i;
    for (i = 0; i < ROUNDS || !atomic_load(&has_read); i++) {
        uint64_t a = i * 2654435761u, b = ~a;
        if (i % 2000 == 0)
            launch_forget_functions();
        record(context, 1, (void *[]){&a, &b});
    }
    atomic_fetch_add(&written, i);
    return NULL;
}

/* Readers see whole launches only, and take nothing from the writers' count. */
TEST(writers_and_a_reader_do_not_disturb_each_other)
{
    static struct launch_entry entries[SIZE];
    struct context *context = fresh();
    pthread_t threads[WRITERS];
    size_t seen = 0;
    for (size_t i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_launches, context), 0);
    while (!seen || launch_count(context) < WRITERS * ROUNDS) {
        size_t count = read_all(context, "fill", entries, SIZE);
        seen += count;
        for (size_t i = 0; i < count; i++) {
            uint64_t words[2];
            memcpy(words, entries[i].bytes, sizeof words);
            assert_int_equal(words[0], ~words[1]);
            assert_true(i == 0 || entries[i].time_ns <= entries[i - 1].time_ns);
            for (size_t k = 0; k < i; k++)
                assert_true(entries[k].tid != entries[i].tid || entries[k].sequence > entries[i].sequence);
        }
    }
    atomic_store(&has_read, 1);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(launch_count(context), atomic_load(&written));
    assert_true(read_all(context, "fill", entries, SIZE) > 0);
}

static void *read_on(void *user)
{
    static struct launch_entry read[SIZE];
    while (atomic_load(&has_read))
        read_all(user, "fill", read, SIZE);
    return NULL;
}

/* What a row of a buffer was last used by must not depend on who makes a report just then. */
TEST(a_thread_knows_its_newest_launch_while_another_one_reads)
{
    struct context *context = fresh();
    pthread_t reader;
    size_t known = 0;
    atomic_store(&has_read, 1);
    assert_int_equal(pthread_create(&reader, NULL, read_on, context), 0);
    for (uint64_t i = 0; i < 20 * ROUNDS; i++) {
        record(context, 1, (void *[]){&i, &i});
        known += launch_newest(context).slot != NULL;
    }
    atomic_store(&has_read, 0);
    pthread_join(reader, NULL);
    assert_int_equal(known, 20 * ROUNDS);
}

struct burst {
    struct context *context;
    uint64_t count, first;
};

static void *write_burst(void *user)
{
    const struct burst *burst = user;
    for (uint64_t i = 0; i < burst->count; i++)
        record(burst->context, 1, (void *[]){&(uint64_t){burst->first + i}, &(uint64_t){0}});
    return NULL;
}

/* A thread that launches much does not push out what another has launched before, and the newest of all come first. */
TEST(each_thread_has_a_ring_of_its_own)
{
    static struct launch_entry entries[3 * SIZE];
    struct context *context = fresh();
    pthread_t thread;
    write_burst(&(struct burst){context, 2, 100});
    usleep(20000); /* later by more than a tick of the clock */
    assert_int_equal(pthread_create(&thread, NULL, write_burst, &(struct burst){context, 3 * SIZE, 200}), 0);
    pthread_join(thread, NULL);
    usleep(20000);
    write_burst(&(struct burst){context, 1, 102});
    assert_int_equal(launch_count(context), 3 * SIZE + 3);
    assert_int_equal(read_all(context, NULL, entries, 3 * SIZE), SIZE + 3);
    const uint64_t wanted[] = {102, 200 + 3 * SIZE - 1, 200 + 3 * SIZE - 2}, last[] = {200 + 2 * SIZE, 101, 100};
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(entries[i].bytes, &wanted[i], 8);
        assert_memory_equal(entries[SIZE + i].bytes, &last[i], 8);
    }
    assert_int_equal(read_all(context, NULL, entries, 2), 2);
    assert_memory_equal(entries[1].bytes, &wanted[1], 8);
}

TEST(without_a_ring_launches_are_counted)
{
    static struct launch_entry entry;
    struct context *context = CONTEXT(0x60);
    uint64_t word = 1;
    for (uintptr_t i = 1; i < 0x20; i++)
        launch_forget_context(CONTEXT(i));
    launch_open(0);
    size_t before = questions;
    record(context, 1, (void *[]){&word, &word});
    launch_record_graph(context, (CUgraphExec)(uintptr_t)0x77, STREAM, NULL);
    assert_int_equal(launch_count(context), 2);
    assert_int_equal(questions, before);
    assert_int_equal(read_all(context, NULL, &entry, 1), 0);
}
