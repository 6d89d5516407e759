/*
 * Where addresses come from: kernels of nvcc and Triton for sm_80 to sm_120 (tests/fixtures/cubins, with their sources), whose
 * threads are followed over memory of the test.
 */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/lines/cubin.h"
#include "analysis/sass/emulate.h"
#include "analysis/sass/origin.h"
#include "analysis/sass/slice.h"

#define OUT UINT64_C(0x10000000000)
#define TABLE UINT64_C(0x20000000000)
#define KEYS UINT64_C(0x40000000000)

/* Every element of KEYS is `key`; the other memory is unknown. */
static int read_key(void *user, uint64_t address, void *bytes, size_t size)
{
    const uint64_t *key = user;
    if (address < KEYS)
        return 0;
    memset(bytes, 0, size);
    memcpy(bytes, key, size < sizeof *key ? size : sizeof *key);
    return 1;
}

/* A thread of a kernel. */
struct thread {
    const char *file, *kernel;
    unsigned access; /* number of its load or store */
    uint32_t block_index[3], thread[3], block[3];
    uint64_t key;
    uint8_t parameters[48];
    size_t parameter_bytes;
};

static void give(struct thread *thread, uint64_t value, size_t bytes)
{
    size_t at = (thread->parameter_bytes + bytes - 1) / bytes * bytes;
    memcpy(thread->parameters + at, &value, bytes);
    thread->parameter_bytes = at + bytes;
}

static int find(struct span cubin, const struct thread *thread, struct origin *origin)
{
    struct cubin_kernel kernel;
    struct sass_access access;
    unsigned left = thread->access;
    uint64_t at = 0, address = 0, budget = 100000;
    if (!cubin_find_kernel(cubin, thread->kernel, &kernel))
        return -1;
    for (;; at += SASS_INSTRUCTION_BYTES) {
        struct span bytes = span_part(kernel.code, at, SASS_INSTRUCTION_BYTES);
        if (!bytes.bytes)
            return -1;
        if (sass_decode(sass_load(bytes.bytes), kernel.sm, &access) && !left--)
            break;
    }
    const struct emulate_memory memory = {read_key, (void *)(uintptr_t)&thread->key};
    struct emulate_launch launch = {.code = kernel.code,
                                    .sm = kernel.sm,
                                    .parameters = {thread->parameters, thread->parameter_bytes},
                                    .grid = {100, 64, 1}};
    launch.parameters_at = kernel.parameters_at ? kernel.parameters_at : slice_parameters_at(kernel.sm);
    launch.memory = thread->key ? &memory : NULL;
    memcpy(launch.block, thread->block, sizeof launch.block);
    struct emulate_lane lane = {.pc = at};
    memcpy(lane.block_index, thread->block_index, sizeof lane.block_index);
    memcpy(lane.thread, thread->thread, sizeof lane.thread);
    emulate(&launch, &lane, at, &access, &budget, &address);
    return origin_find(&launch, &lane, at, &access, address, origin);
}

/* "0x8 + [0x40000000414] 3655558880 * 4 + thread.x 5 * 4; 600000 * 4096 = 2457600000, not -1837367296: 0x10249f00094" */
static void say(const struct origin *origin, char *out, size_t size)
{
    static const char *const inputs[] = {"", "block.", "thread.", "parameter "};
    int length = origin->base_at >= 0 ? snprintf(out, size, "0x%x", (unsigned)origin->base_at)
                                      : snprintf(out, size, "[0x%llx]", (unsigned long long)origin->base_from);
    for (uint32_t i = 0; i < origin->term_count; i++) {
        const struct origin_term *term = &origin->terms[i];
        char name[32] = "", factor[32] = "?";
        if (term->input == ORIGIN_LOADED)
            snprintf(name, sizeof name, "[0x%llx]", (unsigned long long)term->from);
        else if (term->input == ORIGIN_PARAMETER)
            snprintf(name, sizeof name, "parameter 0x%x", term->at);
        else
            snprintf(name, sizeof name, "%s%c", inputs[term->input], "xyz"[term->at]);
        if (term->factor)
            snprintf(factor, sizeof factor, "%lld", (long long)term->factor);
        length += snprintf(out + length, size - (size_t)length, " + %s %lld * %s", name, (long long)term->value, factor);
        if (term->times >= 0)
            length += snprintf(out + length, size - (size_t)length, " (0x%x)", (unsigned)term->times);
    }
    if (origin->constant)
        length += snprintf(out + length, size - (size_t)length, " + %lld", (long long)origin->constant);
    if (!origin->has_formula)
        length += snprintf(out + length, size - (size_t)length, " mixed");
    if (origin->wrap_count)
        snprintf(out + length, size - (size_t)length, "; %lld * %lld + %lld = %lld, not %lld: 0x%llx",
                 (long long)origin->wraps[0].a, (long long)origin->wraps[0].b, (long long)origin->wraps[0].c,
                 (long long)origin->wraps[0].exact, (long long)origin->wraps[0].wrapped,
                 (unsigned long long)origin->wraps[0].address);
}

static const unsigned architectures[] = {80, 90, 100, 120};

static void expect(const struct thread *thread, const char *wanted)
{
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        struct span cubin = fixture_read("cubins/%s_%u.cubin", thread->file, architectures[i]);
        struct origin origin;
        char said[512] = "unknown";
        if (find(cubin, thread, &origin) > 0)
            say(&origin, said, sizeof said);
        if (strcmp(said, wanted) != 0)
            fail_msg("%s for sm_%u: %s", thread->kernel, architectures[i], said);
        fixture_free(cubin);
    }
}

/* `for (i = 0; i < n; i++) x = x * 1664525 + 1013904223; out[x] = 1;` of sm_90, x being thread.x at first: each round has a
 * result that does not fit. The last one is told, however many there were. */
TEST(the_last_round_of_a_hash_is_told)
{
    static const uint64_t code[][2] = {
        {0x00000a00ff017b82, 0x000ff00000000800}, {0x00008400ff027b82, 0x000e220000000a00},
        {0x0000000000057919, 0x000e620000002100}, {0x0000860000067ab9, 0x000fe20000000800},
        {0x0000820000047ab9, 0x000fe20000000a00}, {0x00000006ff007c0c, 0x000fe2000bf05270},
        {0x00000001ff077424, 0x000fd800078e00ff}, {0x0000000000188947, 0x000fea0003800000},
        {0x0019660dff007435, 0x000fe200000001ff}, {0x000000ffff047224, 0x000fd400078e00ff},
        {0x0000000104047810, 0x000fe20007ffe0ff}, {0x3c6ef35f05057424, 0x002fc600078e0200},
        {0x0000000604007c0c, 0x000fda000bf06070}, {0xfffffffc00f08947, 0x000fea000383ffff},
        {0x0000000405027825, 0x003fca00078e0002}, {0x0000000702007986, 0x000fe2000c101904}, /* STG.E [R2.64], R7 */
        {0x000000000000794d, 0x000fea0003800000}};
    static const uint32_t rounds[] = {3, 100, 5000, 100000};
    for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++) {
        const uint64_t parameters[] = {OUT, rounds[i]}, at = 15 * SASS_INSTRUCTION_BYTES;
        const struct emulate_launch launch = {.code = {(const uint8_t *)code, sizeof code},
                                              .sm = 90,
                                              .parameters = {(const uint8_t *)parameters, sizeof parameters},
                                              .parameters_at = slice_parameters_at(90),
                                              .grid = {1, 1, 1},
                                              .block = {128, 1, 1}};
        const struct emulate_lane lane = {.pc = at, .thread = {5}};
        struct sass_access access;
        struct origin origin;
        uint32_t before = 0, last = 5;
        for (uint32_t round = 0; round < rounds[i]; round++) {
            before = last;
            last = last * 1664525 + 1013904223;
        }
        assert_true(sass_decode(sass_load((const uint8_t *)code[15]), 90, &access));
        assert_true(origin_find(&launch, &lane, at, &access, OUT + (uint64_t)last * 4, &origin));
        assert_int_equal(origin.base_at, 0);
        assert_true(origin.wrap_count > 0);
        const struct origin_wrap *wrap = &origin.wraps[origin.wrap_count - 1];
        assert_true(wrap->place.code_at == 11 * SASS_INSTRUCTION_BYTES && (uint32_t)wrap->a == before);
        assert_true(wrap->wrapped == (int64_t)last && wrap->exact == wrap->a * 1664525 + 1013904223);
    }
}

TEST(an_index_is_computed_of_block_and_thread)
{
    struct thread thread = {"origins", "direct", 0, {7}, {104}, {128, 1, 1}, 0, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, 1000, 4);
    expect(&thread, "0x0 + block.x 7 * 512 + thread.x 104 * 4");
    thread.kernel = "loop";
    expect(&thread, "0x0 + block.x 7 * 512 + thread.x 104 * 4");
}

/* `row * stride + column`: the stride is an argument. */
TEST(a_factor_is_named)
{
    struct thread thread = {"origins", "matrix", 0, {0, 1}, {5, 3}, {32, 4, 1}, 0, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, 60, 4);
    give(&thread, 64, 4);
    expect(&thread, "0x0 + block.y 1 * 1024 (0xc) + thread.y 3 * 256 (0xc) + thread.x 5 * 4");
}

static struct thread gathering(const char *kernel, uint64_t key)
{
    struct thread thread = {"origins", kernel, 1, {2}, {5}, {128, 1, 1}, key, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, TABLE, 8);
    give(&thread, KEYS, 8);
    give(&thread, 1000, 4);
    return thread;
}

/* 3655558880 is a negative number where it has a sign. */
TEST(an_index_is_loaded)
{
    struct thread thread = gathering("gather", 3655558880);
    expect(&thread, "0x8 + [0x40000000414] -639408416 * 4");
    thread = gathering("gather_unsigned", 3655558880);
    expect(&thread, "0x8 + [0x40000000414] 3655558880 * 4");
    thread = gathering("gather_long", 3655558880);
    expect(&thread, "0x8 + [0x40000000828] 3655558880 * 4");
    thread = gathering("gather_long", (uint64_t)-2);
    expect(&thread, "0x8 + [0x40000000828] -2 * 4");
    thread.key = 0; /* the memory is not known */
    expect(&thread, "unknown");
}

TEST(pages_and_experts)
{
    struct thread thread = {"origins", "paged", 1, {2, 3}, {5}, {128, 1, 1}, 70000, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, TABLE, 8);
    give(&thread, KEYS, 8);
    struct thread expert = thread;
    give(&thread, 8, 4);
    give(&thread, 4096, 4);
    expect(&thread, "0x8 + [0x4000000004c] 70000 * 16384 (0x1c) + thread.x 5 * 4");
    expert.kernel = "expert";
    expert.key = 4104;
    give(&expert, 640, 8);
    expect(&expert, "0x8 + [0x40000000010] 4104 * 2560 (0x18) + thread.x 5 * 4");
}

/* Of the table in memory, the second pointer. */
TEST(a_pointer_is_loaded)
{
    struct thread thread = {"origins", "table", 1, {0}, {7}, {128, 1, 1}, OUT, {0}, 0};
    give(&thread, KEYS, 8);
    give(&thread, 1000, 4);
    expect(&thread, "[0x40000000008] + thread.x 7 * 4");
}

/* i % n does not add a multiple of i; and what is divided depends on all that is added before. */
TEST(what_is_no_sum_is_not_said_to_be_one)
{
    struct thread thread = {"origins", "divided", 0, {1}, {7}, {128, 1, 1}, 0, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, TABLE, 8);
    give(&thread, 1000, 4);
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        struct span cubin = fixture_read("cubins/origins_%u.cubin", architectures[i]);
        struct origin origin;
        assert_int_equal(find(cubin, &thread, &origin), 1);
        assert_false(origin.has_formula);
        struct thread store = thread; /* by the remainder of 135 and 37 */
        store.access = 1;
        memcpy(store.parameters + 16, &(uint32_t){37}, 4);
        assert_int_equal(find(cubin, &store, &origin), 1);
        assert_int_equal(origin.address, OUT + 4 * (135 % 37));
        fixture_free(cubin);
    }
}

TEST(a_product_wraps)
{
    struct thread thread = {"origins", "wrap", 0, {4096}, {1}, {128, 1, 1}, 0, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, 10000000, 4);
    give(&thread, 4096, 4);
    expect(&thread, "0x0 + block.x 4096 * ? + thread.x 1 * 16384 (0xc); 524289 * 4096 + 0 = 2147487744, not -2147479552: "
                    "0x10200004000");
    thread.kernel = "wrap_unsigned";
    thread.block_index[0] = 9000;
    expect(&thread, "0x0 + block.x 9000 * ? + thread.x 1 * 16384 (0xc) + 28; 1152001 * 4096 + 7 = 4718596103, not 423628807: "
                    "0x1046500401c");
}

/* Both halves of a 64-bit number, of which the lower one wraps as it should. */
TEST(a_64_bit_index_does_not_wrap)
{
    struct thread thread = {"origins", "far_but_right", 0, {4096}, {1}, {128, 1, 1}, 0, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, UINT64_C(1) << 31, 8);
    expect(&thread, "0x0 + block.x 4096 * 8589934592 + thread.x 1 * 4");
    thread.block_index[0] = 1;
    thread.parameter_bytes = 8;
    give(&thread, (uint64_t) - (INT64_C(3) << 30), 8);
    expect(&thread, "0x0 + block.x 1 * -12884901888 + thread.x 1 * 4");
}

TEST(kernels_of_triton)
{
    struct thread thread = {"triton_paged", "paged", 1, {2, 3}, {37}, {128, 1, 1}, 70000, {0}, 0};
    give(&thread, OUT, 8);
    give(&thread, TABLE, 8);
    give(&thread, KEYS, 8);
    struct thread experts = thread, rows = thread;
    give(&thread, 8, 4);
    expect(&thread, "0x8 + [0x4000000004c] 70000 * 4096 + thread.x 37 * 16");
    experts.file = "triton_experts";
    experts.kernel = "experts";
    experts.key = 4104;
    give(&experts, 100, 4);
    give(&experts, 640, 4);
    expect(&experts, "0x8 + [0x40000000010] 4104 * 2560 (0x1c) + thread.x 37 * 4");
    rows.file = "triton_rows";
    rows.kernel = "rows";
    rows.access = 2;
    give(&rows, 1000, 4);
    expect(&rows, "0x8 + [0x40000000088] 70000 * 256 + thread.x 37 * ?");
    struct thread wrap = {"triton_wrap", "wrap", 0, {600000}, {37}, {128, 1, 1}, 0, {0}, 0};
    give(&wrap, OUT, 8);
    give(&wrap, 4096, 4);
    expect(&wrap, "0x0 + block.x 600000 * ? + thread.x 37 * 4; 600000 * 4096 + 0 = 2457600000, not -1837367296: 0x10249f00094");
}
