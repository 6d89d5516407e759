/* Kernels for test_rerun.c, in a library: the process that launches them again needs them too. */
#include <sim.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int number(const cusim_thread *t)
{
    return (int)(t->block_index[0] * t->block[0] + t->thread_index[0]);
}

/* The rerun process has no CUFENCE_OPTIONS. */
static int is_second(void)
{
    return getenv("CUFENCE_OPTIONS") == NULL;
}

static volatile float *first(void *const *arguments)
{
    return *(volatile float *const *)arguments[0];
}

static int second(void *const *arguments)
{
    return *(const int *)arguments[1];
}

/* All n elements, and one more. */
static void write_past(const cusim_thread *t, volatile float *out, int n)
{
    if (number(t) <= n)
        out[number(t)] = 2.5f;
}

static void write_last(const cusim_thread *t, void *const *arguments)
{
    write_past(t, first(arguments), second(arguments));
}

/* The pointer is in a table, and that in a second one. */
static void write_by_table(const cusim_thread *t, void *const *arguments)
{
    float ***tables = *(float ***const *)arguments[0];
    write_past(t, tables[1][2], second(arguments));
}

struct hosted {
    volatile float *out;
    int n;
};

struct large {
    char before[1000];
    float *out;
};

static void write_by_struct(const cusim_thread *t, void *const *arguments)
{
    write_past(t, ((const struct large *)arguments[0])->out, second(arguments));
}

/* From one past the end to far past it. */
static void write_far(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    int n = second(arguments);
    if (number(t) >= n)
        out[number(t) == n ? n : n + (3 << 20)] = 2.5f;
}

/* One past the end, and 4 GiB behind that. */
static void write_farther(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    long n = second(arguments);
    if (number(t) >= n)
        out[number(t) == n ? n : n + (1L << 30)] = 2.5f;
}

/* The first element says which one is written, and the second, unless it is 0, says another one. */
static void write_indexed(const cusim_thread *t, void *const *arguments)
{
    volatile int *table = *(volatile int *const *)arguments[0];
    if (number(t) == 0) {
        int other = table[1];
        table[table[0]] = 1;
        if (other)
            table[other] = 1;
    }
}

/* One element too many, of each width. */
#define PUT(bytes, type)                                                                                                       \
    static void put_##bytes(const cusim_thread *t, void *const *arguments)                                                     \
    {                                                                                                                          \
        volatile type *out = *(volatile type *const *)arguments[0];                                                            \
        if (number(t) <= second(arguments))                                                                                    \
            out[number(t)] = (type)7;                                                                                          \
    }
PUT(1, char)
PUT(2, short)
PUT(8, double)

/* n elements, of which the last may lie half in the buffer. */
static void put_aligned(const cusim_thread *t, void *const *arguments)
{
    int is_misaligned = (uintptr_t)first(arguments) % sizeof(float) != 0;
    if (is_misaligned && number(t) == 0)
        cusim_raise(6);
    if (!is_misaligned && number(t) < second(arguments))
        first(arguments)[number(t)] = 2.5f;
}

/* n elements in front of the buffer; a loop that counts down to one of them. */
static void put_before(const cusim_thread *t, void *const *arguments)
{
    if (number(t) < second(arguments))
        first(arguments)[number(t) - second(arguments)] = 2.5f;
}

static void count_down(const cusim_thread *t, void *const *arguments)
{
    for (int i = second(arguments) - 1; number(t) == 0 && i >= -1; i--)
        first(arguments)[i] = 2.5f;
}

/* Of its buffers it changes nothing but the bytes behind the second. */
static void write_end(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = *(volatile float *const *)arguments[1];
    int n = *(const int *)arguments[2];
    if (number(t) == n)
        out[n] = 2.5f;
}

/* The same of the first buffer; kernels.sass has machine code for it. */
static void store_first(const cusim_thread *t, void *const *arguments)
{
    write_past(t, first(arguments), *(const int *)arguments[2]);
}

static void store_there(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    if (number(t) == 0)
        out[**(const volatile int *const *)arguments[1]] = 2.5f;
}

/* How many elements there are is said in memory of the host. */
static void write_hosted(const cusim_thread *t, void *const *arguments)
{
    write_past(t, first(arguments), (*(const struct hosted *const *)arguments[1])->n);
}

/* The pointer is there, too. */
static void write_by_hosted(const cusim_thread *t, void *const *arguments)
{
    const struct hosted *hosted = *(const struct hosted *const *)arguments[1];
    write_past(t, hosted->out, hosted->n);
}

/* Faults nowhere, unless n is too large. */
static void scale(const cusim_thread *t, void *const *arguments)
{
    const volatile float *in = *(const volatile float *const *)arguments[0];
    volatile float *out = *(volatile float *const *)arguments[1];
    if (number(t) < *(const int *)arguments[3])
        out[number(t)] = in[number(t)] * *(const float *)arguments[2];
}

/* The same, but for one element, which is not the same in the rerun process. */
static void waver(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    if (number(t) < second(arguments))
        out[number(t)] = number(t) == 5 && is_second() ? 2.75f : 2.5f;
}

/* Adds one to what the pointer in the second table leads to. */
static void add_by_table(const cusim_thread *t, void *const *arguments)
{
    float ***tables = *(float ***const *)arguments[0];
    volatile float *out = tables[1][2];
    if (number(t) < second(arguments))
        out[number(t)] += 1;
}

struct counting {
    int n, count;
};

/* Says in memory of the host how many elements it has written. */
static void count_hosted(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    struct counting *counting = *(struct counting *const *)arguments[1];
    if (number(t) < counting->n)
        out[number(t)] = 2.5f;
    if (number(t) == 0)
        counting->count += counting->n;
}

static void write_once(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    int n = second(arguments);
    if (number(t) == n && !is_second())
        out[n] = 2.5f;
}

/* The second argument: a number of elements from the base of a tensor map, which has it in front. */
static void read_mapped(const cusim_thread *t, void *const *arguments)
{
    const volatile float *in = *(const volatile float *const *)arguments[0];
    int n = second(arguments);
    if (number(t) == 0)
        (void)in[n];
}

static void read_copied(const cusim_thread *t, void *const *arguments)
{
    read_mapped(t, (void *const[]){*(void *const *)arguments[0], arguments[1]});
}

/* 96 pieces; not in the last launch. */
static void write_pieces(const cusim_thread *t, void *const *arguments)
{
    static int launches;
    volatile float *out = first(arguments);
    int n = second(arguments);
    launches += number(t) == 0;
    for (int i = 0; i < 4 && number(t) >= n && launches == 1; i++)
        out[n + 8 * (4 * (number(t) - n) + i)] = 2.5f;
}

/* Its first element says which process it ran in. */
static void mark_process(const cusim_thread *t, void *const *arguments)
{
    volatile float *out = first(arguments);
    int n = second(arguments);
    if (number(t) == 0)
        out[0] = is_second() ? 2 : 1;
    if (number(t) == n)
        out[n] = 2.5f;
}

/* Tells a test the number of the rerun process. */
static void tell_process(void)
{
    const char *name = getenv("CUFENCE_TEST_RERUN");
    FILE *file = name ? fopen(name, "we") : NULL;
    if (file) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
}

static void hang_later(const cusim_thread *t, void *const *arguments)
{
    struct timespec pause = {.tv_sec = 60};
    write_once(t, arguments);
    if (is_second()) {
        if (number(t) == 0)
            tell_process();
        nanosleep(&pause, NULL);
    }
}

static void end_later(const cusim_thread *t, void *const *arguments)
{
    write_once(t, arguments);
    if (is_second())
        _Exit(3);
}

/* Writes past the end of its buffer, and hangs when it does so once more in the rerun process. */
static void hang_again(const cusim_thread *t, void *const *arguments)
{
    static int launches;
    if (number(t) == 0 && is_second() && ++launches == 2)
        nanosleep(&(struct timespec){.tv_sec = 60}, NULL);
    write_last(t, arguments);
}

/* Its code names malloc(), as that of a kernel that calls it. The device's heap has no room for it in the first process. With a
 * negative n it writes past its buffer instead. */
__attribute__((no_sanitize("address", "undefined"))) static void write_heap(const cusim_thread *t, void *const *arguments)
{
    volatile float *made = is_second() ? (volatile float *)0x123456789000 : NULL; /* NOLINT */
    if (second(arguments) < 0)
        write_past(t, first(arguments), -second(arguments));
    else if (number(t) == 0)
        made[7] = 2.5f;
}

/* Takes the pointer out of memory of the host. */
static void take_hosted(const cusim_thread *t, void *const *arguments)
{
    struct hosted *hosted = *(struct hosted *const *)arguments[1];
    volatile float *out = hosted->out;
    if (number(t) != hosted->n)
        return;
    hosted->out = NULL;
    out[hosted->n] = 2.5f;
}

/* The pointer is in a variable of the module. */
__attribute__((no_sanitize("address", "undefined"))) static void write_by_variable(const cusim_thread *t,
                                                                                   void *const *arguments)
{
    /* NULL in a test: not by write_past(), which is sanitized. */
    volatile float *out = *(volatile float *const *)cusim_variable();
    if (number(t) <= second(arguments))
        out[number(t)] = 2.5f;
}

/* Ends in an illegal instruction. */
static void end_illegally(const cusim_thread *t, void *const *arguments)
{
    if (number(t) == second(arguments))
        cusim_raise(4);
}

__attribute__((constructor)) static void register_kernels(void)
{
    static const size_t pointer_and_count[] = {8, 4}, two_pointers[] = {8, 8, 4};
    static const size_t of_scale[] = {8, 8, 4, 4};
    static const size_t map_and_count[] = {128, 4};
    static const size_t large_and_count[] = {sizeof(struct large), 4};
    static const cusim_kernel kernels[] = {
        {"write_by_struct", write_by_struct, large_and_count, 2, "model.cu", 26, 4, 0, 1},
        {"write_last", write_last, pointer_and_count, 2, "model.cu", 20, 4, 0, 1},
        {"write_by_table", write_by_table, pointer_and_count, 2, "model.cu", 31, 4, 0, 1},
        {"write_far", write_far, pointer_and_count, 2, "model.cu", 42, 4, 0, 1},
        {"write_farther", write_farther, pointer_and_count, 2, "model.cu", 120, 4, 0, 1},
        {"write_indexed", write_indexed, pointer_and_count, 2, "model.cu", 47, 4, 0, 1},
        {"write_once", write_once, pointer_and_count, 2, "model.cu", 53, 4, 0, 1},
        {"write_pieces", write_pieces, pointer_and_count, 2, "model.cu", 59, 4, 0, 1},
        {"hang_later", hang_later, pointer_and_count, 2, "model.cu", 64, 4, 0, 1},
        {"hang_again", hang_again, pointer_and_count, 2, "model.cu", 68, 4, 0, 1},
        {"malloc", write_heap, pointer_and_count, 2, "model.cu", 190, 4, 0, 1},
        {"take_hosted", take_hosted, two_pointers, 2, "model.cu", 115, 4, 0, 1},
        {"end_later", end_later, pointer_and_count, 2, "model.cu", 75, 4, 0, 1},
        {"mark_process", mark_process, pointer_and_count, 2, "model.cu", 80, 4, 0, 1},
        {"write_end", write_end, two_pointers, 3, "model.cu", 86, 4, 0, 1},
        {"put_1", put_1, pointer_and_count, 2, "model.cu", 201, 1, 0, 1},
        {"put_2", put_2, pointer_and_count, 2, "model.cu", 202, 2, 0, 1},
        {"put_8", put_8, pointer_and_count, 2, "model.cu", 208, 8, 0, 1},
        {"put_aligned", put_aligned, pointer_and_count, 2, "model.cu", 204, 4, 0, 1},
        {"put_before", put_before, pointer_and_count, 2, "model.cu", 210, 4, 0, 1},
        {"count_down", count_down, pointer_and_count, 2, "model.cu", 220, 4, 0, 1},
        {"store_first", store_first, two_pointers, 3, "model.cu", 90, 4, 0, 1},
        {"store_there", store_there, two_pointers, 2, "model.cu", 97, 4, 0, 1},
        {"write_hosted", write_hosted, two_pointers, 2, "model.cu", 100, 4, 0, 1},
        {"write_by_hosted", write_by_hosted, two_pointers, 2, "model.cu", 110, 4, 0, 1},
        {"_Z5scalePKfPffi", scale, of_scale, 4, "model.cu", 130, 4, 0, 1},
        {"_Z5waverPfi", waver, pointer_and_count, 2, "model.cu", 135, 4, 0, 1},
        {"add_by_table", add_by_table, pointer_and_count, 2, "model.cu", 140, 4, 0, 1},
        {"count_hosted", count_hosted, two_pointers, 2, "model.cu", 150, 4, 0, 1},
        {"read_mapped", read_mapped, map_and_count, 2, "model.cu", 160, 4, 0, 0},
        {"read_copied", read_copied, pointer_and_count, 2, "model.cu", 160, 4, 0, 0},
        {"write_by_variable", write_by_variable, pointer_and_count, 2, "model.cu", 180, 4, 0, 1},
        {"end_illegally", end_illegally, pointer_and_count, 2, "model.cu", 170, 4, 0, 1},
        {"_Z9write_endPKdPfi", write_end, two_pointers, 3, "model.cu", 97, 4, 0, 1},
    };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cusim_register_kernel(&kernels[i]);
    if (getenv("SIM_TEST_VARIABLE"))
        cusim_declare_variable(getenv("SIM_TEST_VARIABLE"));
}
