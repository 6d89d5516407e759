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

/* An argument. */
struct given {
    uint64_t value;
    size_t bytes;
};

/* A thread of a kernel. */
struct thread {
    const char *file, *kernel;
    unsigned access; /* number of its load or store */
    uint32_t block_index[3], thread[3], block[3];
    uint64_t key;          /* 0: the memory is not known */
    struct given given[5]; /* up to the first of 0 bytes */
    const char *wanted;    /* what is said of the address, on all architectures */
};

static size_t put_parameters(const struct thread *thread, uint8_t *parameters)
{
    size_t at = 0;
    for (const struct given *given = thread->given; given < thread->given + 5 && given->bytes; given++) {
        at = (at + given->bytes - 1) / given->bytes * given->bytes;
        memcpy(parameters + at, &given->value, given->bytes);
        at += given->bytes;
    }
    return at;
}

static int find(struct span cubin, const struct thread *thread, struct origin *origin)
{
    struct cubin_kernel kernel;
    struct sass_access access;
    unsigned left = thread->access;
    uint8_t parameters[48];
    size_t parameter_bytes = put_parameters(thread, parameters);
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
    struct emulate_launch launch = {
        .code = kernel.code, .sm = kernel.sm, .parameters = {parameters, parameter_bytes}, .grid = {100, 64, 1}};
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

/* clang-format off */
#define P(value) {value, 8} /* a pointer, or a long */
#define I(value) {value, 4}
#define LINE {128, 1, 1}
static const struct thread threads[] = {
    {"origins", "direct", 0, {7}, {104}, LINE, 0, {P(OUT), I(1000)}, "0x0 + block.x 7 * 512 + thread.x 104 * 4"},
    {"origins", "loop", 0, {7}, {104}, LINE, 0, {P(OUT), I(1000)}, "0x0 + block.x 7 * 512 + thread.x 104 * 4"},
    /* `row * stride + column`: the stride is an argument, and is named */
    {"origins", "matrix", 0, {0, 1}, {5, 3}, {32, 4, 1}, 0, {P(OUT), I(60), I(64)},
     "0x0 + block.y 1 * 1024 (0xc) + thread.y 3 * 256 (0xc) + thread.x 5 * 4"},
    /* 3655558880 is a negative number where it has a sign */
    {"origins", "gather", 1, {2}, {5}, LINE, 3655558880, {P(OUT), P(TABLE), P(KEYS), I(1000)},
     "0x8 + [0x40000000414] -639408416 * 4"},
    {"origins", "gather_unsigned", 1, {2}, {5}, LINE, 3655558880, {P(OUT), P(TABLE), P(KEYS), I(1000)},
     "0x8 + [0x40000000414] 3655558880 * 4"},
    {"origins", "gather_long", 1, {2}, {5}, LINE, 3655558880, {P(OUT), P(TABLE), P(KEYS), I(1000)},
     "0x8 + [0x40000000828] 3655558880 * 4"},
    {"origins", "gather_long", 1, {2}, {5}, LINE, (uint64_t)-2, {P(OUT), P(TABLE), P(KEYS), I(1000)},
     "0x8 + [0x40000000828] -2 * 4"},
    {"origins", "gather_long", 1, {2}, {5}, LINE, 0, {P(OUT), P(TABLE), P(KEYS), I(1000)}, "unknown"},
    {"origins", "paged", 1, {2, 3}, {5}, LINE, 70000, {P(OUT), P(TABLE), P(KEYS), I(8), I(4096)},
     "0x8 + [0x4000000004c] 70000 * 16384 (0x1c) + thread.x 5 * 4"},
    {"origins", "expert", 1, {2, 3}, {5}, LINE, 4104, {P(OUT), P(TABLE), P(KEYS), P(640)},
     "0x8 + [0x40000000010] 4104 * 2560 (0x18) + thread.x 5 * 4"},
    /* of the table in memory, the second pointer */
    {"origins", "table", 1, {0}, {7}, LINE, OUT, {P(KEYS), I(1000)}, "[0x40000000008] + thread.x 7 * 4"},
    /* a product wraps */
    {"origins", "wrap", 0, {4096}, {1}, LINE, 0, {P(OUT), I(10000000), I(4096)},
     "0x0 + block.x 4096 * ? + thread.x 1 * 16384 (0xc); 524289 * 4096 + 0 = 2147487744, not -2147479552: 0x10200004000"},
    {"origins", "wrap_unsigned", 0, {9000}, {1}, LINE, 0, {P(OUT), I(10000000), I(4096)},
     "0x0 + block.x 9000 * ? + thread.x 1 * 16384 (0xc) + 28; 1152001 * 4096 + 7 = 4718596103, not 423628807: "
     "0x1046500401c"},
    /* both halves of a 64-bit number, of which the lower one wraps as it should */
    {"origins", "far_but_right", 0, {4096}, {1}, LINE, 0, {P(OUT), P(UINT64_C(1) << 31)},
     "0x0 + block.x 4096 * 8589934592 + thread.x 1 * 4"},
    {"origins", "far_but_right", 0, {1}, {1}, LINE, 0, {P(OUT), P((uint64_t) - (INT64_C(3) << 30))},
     "0x0 + block.x 1 * -12884901888 + thread.x 1 * 4"},
    {"triton_paged", "paged", 1, {2, 3}, {37}, LINE, 70000, {P(OUT), P(TABLE), P(KEYS), I(8)},
     "0x8 + [0x4000000004c] 70000 * 4096 + thread.x 37 * 16"},
    {"triton_experts", "experts", 1, {2, 3}, {37}, LINE, 4104, {P(OUT), P(TABLE), P(KEYS), I(100), I(640)},
     "0x8 + [0x40000000010] 4104 * 2560 (0x1c) + thread.x 37 * 4"},
    {"triton_rows", "rows", 2, {2, 3}, {37}, LINE, 70000, {P(OUT), P(TABLE), P(KEYS), I(1000)},
     "0x8 + [0x40000000088] 70000 * 256 + thread.x 37 * ?"},
    {"triton_wrap", "wrap", 0, {600000}, {37}, LINE, 0, {P(OUT), I(4096)},
     "0x0 + block.x 600000 * ? + thread.x 37 * 4; 600000 * 4096 + 0 = 2457600000, not -1837367296: 0x10249f00094"},
};
/* clang-format on */

TEST(what_an_address_is_made_of_is_said)
{
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        for (size_t k = 0; k < sizeof architectures / sizeof *architectures; k++) {
            struct span cubin = fixture_read("cubins/%s_%u.cubin", threads[i].file, architectures[k]);
            struct origin origin;
            char said[512] = "unknown";
            if (find(cubin, &threads[i], &origin) > 0)
                say(&origin, said, sizeof said);
            if (strcmp(said, threads[i].wanted) != 0)
                fail_msg("%s for sm_%u: %s", threads[i].kernel, architectures[k], said);
            fixture_free(cubin);
        }
}

/* i % n does not add a multiple of i; and what is divided depends on all that is added before. */
TEST(what_is_no_sum_is_not_said_to_be_one)
{
    const struct thread thread = {"origins", "divided", 0, {1}, {7}, {128, 1, 1}, 0, {{OUT, 8}, {TABLE, 8}, {1000, 4}}, NULL};
    struct thread store = thread; /* by the remainder of 135 and 37 */
    store.access = 1;
    store.given[2].value = 37;
    for (size_t i = 0; i < sizeof architectures / sizeof *architectures; i++) {
        struct span cubin = fixture_read("cubins/origins_%u.cubin", architectures[i]);
        struct origin origin;
        assert_int_equal(find(cubin, &thread, &origin), 1);
        assert_false(origin.has_formula);
        assert_int_equal(find(cubin, &store, &origin), 1);
        assert_int_equal(origin.address, OUT + 4 * (135 % 37));
        fixture_free(cubin);
    }
}
