/*
 * Core dumps: what is read of those recorded on a GPU, as tests/golden/dumps.expect has it; row sizes of older drivers; warps
 * and lanes that are not there any more. fuzz.coredump has damaged ones.
 */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/fixture.h"
#include "support/golden.h"

#include "analysis/dump/evidence.h"
#include "fault/arming.h"
#include "analysis/sass/sass.h"

#include "base/error.h"

#include "synthetic_dump.h"

#include <dirent.h>
#include <semaphore.h>
static struct problem problem;
static struct evidence *evidence; /* that was read last */

/* ---- Recorded dumps ---- */

static void tell_stop(FILE *out, const struct evidence_stop *stop)
{
    static const char *const accesses[] = {"unknown", "read", "write", "atomic"};
    fprintf(out, "%s, symbol %s, at %s:%d, +0x%x%s\n", stop->kernel, stop->symbol, stop->file, stop->line,
            (unsigned)stop->kernel_offset, stop->is_in_driver ? ", in the driver" : "");
    fprintf(out, "exception %u, %s, class %d, by a %s of %u bytes, %s\n", stop->exception.number, stop->exception.name,
            (int)stop->exception.class, accesses[stop->access], stop->access_bytes,
            stop->instruction ? stop->instruction : "no instruction");
    fprintf(out, "address of words 0x%x, known %d, loaded %d; box at %d,%d\n", stop->source.words, stop->source.is_known,
            stop->source.is_loaded, stop->box.corner[0], stop->box.corner[1]);
    fprintf(out, "SM %u, warp %u, alive %d in block %u, grid %d: %u of %u with %zu bytes of parameters\n", stop->sm, stop->warp,
            stop->is_warp_alive, stop->block_index[0], stop->has_grid, stop->grid[0], stop->block[0], stop->parameter_bytes);
    for (size_t i = 0; i < stop->lane_count; i++)
        fprintf(out, "  lane %u, thread %u,%u: 0x%lx, certainty %d\n", stop->lanes[i].lane, stop->lanes[i].thread[0],
                stop->lanes[i].thread[1], (unsigned long)stop->lanes[i].address, (int)stop->lanes[i].certainty);
}

static void check_evidence(const char *name)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    fprintf(out, "%s (%s), device %d, bus %x, context 0x%lx, thread %u, driver %d, %zu sites\n", evidence->device_name,
            evidence->sm_type, evidence->device, (unsigned)evidence->pci_bus, (unsigned long)evidence->context,
            evidence->host_tid, evidence->driver_major, evidence->stop_count);
    for (size_t i = 0; i < evidence->stop_count; i++)
        tell_stop(out, &evidence->stops[i]);
    fclose(out);
    if (!strcmp(name, "misaligned"))
        assert_true(evidence->warps == 32 && evidence->grids == 1);
    golden_check(GOLDEN "dumps.expect", name, text);
    free(text);
}

static cufence_status parse(struct span file)
{
    evidence_free(evidence);
    evidence = NULL;
    cufence_status status = evidence_from_coredump(file.bytes, file.size, &evidence, &problem);
    fixture_free(file); /* the evidence stands on its own */
    assert_true((status == CUFENCE_OK) == (evidence != NULL));
    return status;
}

TEST(test_recorded)
{
    DIR *folder = opendir(CUFENCE_DUMPS);
    assert_non_null(folder);
    unsigned count = 0;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char name[256];
        snprintf(name, sizeof(name), "%s", entry->d_name);
        char *end = strstr(name, ".core.gz");
        if (!end)
            continue;
        *end = '\0';
        assert_int_equal(parse(fixture_read("%s.core", name)), CUFENCE_OK);
        check_evidence(name);
        count++;
    }
    closedir(folder);
    assert_true(count >= 10);
}

/* ---- Synthetic dumps ---- */

static void check_made(const char *name)
{
    assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
    check_evidence(name);
}

TEST(test_row_sizes)
{
    make_synthetic(&oldest);
    check_made("made_with_small_rows");
    make_synthetic(&newest);
    check_made("made_with_large_rows");
}

TEST(test_row_too_small)
{
    static const struct {
        int part;
        uint64_t stride;
        cufence_status status;
        size_t stops; /* the SM's own exception is left where the warp cannot be read */
    } cases[] = {{DEVICES, 71, CUFENCE_ERROR_UNSUPPORTED, 0}, {GRIDS, 96, CUFENCE_ERROR_UNSUPPORTED, 0},
                 {WARPS, 24, CUFENCE_ERROR_UNSUPPORTED, 0},   {LANES, 1, CUFENCE_ERROR_UNSUPPORTED, 0},
                 {WARPS, 0, CUFENCE_ERROR_CORRUPT, 0},        {LANES, UINT64_MAX, CUFENCE_OK, 1},
                 {SMS, (uint64_t)1 << 63, CUFENCE_OK, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_synthetic(&oldest);
        synthetic.builder.sections[synthetic.part[cases[i].part]].sh_entsize = cases[i].stride;
        assert_int_equal(parse(dump_file(0xBE)), cases[i].status);
        if (evidence)
            assert_int_equal(evidence->stop_count, cases[i].stops);
    }
}

TEST(test_not_a_dump)
{
    make_synthetic(&oldest);
    assert_int_equal(parse(dump_file(EM_X86_64)), CUFENCE_ERROR_CORRUPT);
    assert_non_null(strstr(problem.text, "machine"));
    assert_int_equal(parse((struct span){NULL, 0}), CUFENCE_ERROR_CORRUPT);
}

/* Warps that have exited leave an SM's error PC only; with a running grid of the same kernel its launch is known. */
TEST(test_exited_warp)
{
    for (int has_grid = 0; has_grid < 2; has_grid++) {
        make_synthetic(&oldest);
        synthetic.builder.sections[synthetic.part[WARPS]].sh_size = 0;
        if (!has_grid)
            synthetic.builder.sections[synthetic.part[GRIDS]].sh_size = 0;
        put32(SMS, oldest.sm + 12, 1);
        put64(SMS, oldest.sm + 16, KERNEL_START + 0x10);
        check_made(has_grid ? "made_exited_of_a_grid" : "made_exited");
    }
}

/* At the PC of a warp that has exited, a module of another device has other code. */
TEST(test_code_of_another_device)
{
    make_synthetic(&oldest);
    synthetic.builder.sections[synthetic.part[WARPS]].sh_size = 0;
    put32(SMS, oldest.sm + 12, 1);
    put64(SMS, oldest.sm + 16, KERNEL_START + 0x10);
    synthetic.builder.sections[synthetic.part[CONTEXTS]].sh_link =
        builder_add(&synthetic.builder, 0x80000009, oldest.device, oldest.device, 0, 0);
    assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
    assert_int_equal(evidence->stop_count, 1);
    assert_null(evidence->stops[0].symbol);
}

/* A warp of one kernel stands where one of another has faulted: nothing of it is the other's. */
TEST(test_warp_of_another_kernel)
{
    for (int is_named_kernel = 0; is_named_kernel < 2; is_named_kernel++) {
        make_synthetic(&newest);
        put64(GRIDS, 24, KERNEL_START + 0x1000);
        static const uint64_t start = KERNEL_START;
        const Elf64_Shdr *section = &synthetic.builder.sections[synthetic.part[CUBIN]];
        uint8_t *cubin = bytes_of_section(synthetic.part[CUBIN]), *value = cubin;
        /* The symbol's value stands behind its st_other and st_shndx; the section's address stands before it. */
        while (is_named_kernel && value) {
            value = memmem(value + 1, section->sh_size - (size_t)(value + 1 - cubin), &start, sizeof(start));
            if (value && value[-4] == ELF64_ST_INFO(STB_GLOBAL, STT_FUNC))
                value[-3] = 0x10;
        }
        check_made(is_named_kernel ? "made_of_a_named_kernel" : "made_of_another_kernel");
    }
}

/* A failed assert() ends in code of the driver's, which the dump does not hold. */
TEST(test_called_code_is_not_in_the_dump)
{
    make_synthetic(&newest);
    put64(WARPS, 0, KERNEL_START + 0x100000);
    check_made("made_in_the_driver");
}

static void put_code(uint64_t offset, const uint64_t (*code)[2], size_t count)
{
    static const uint64_t store = 0x0000100402007386;
    const Elf64_Shdr *cubin = &synthetic.builder.sections[synthetic.part[CUBIN]];
    uint8_t *at = memmem(bytes_of_section(synthetic.part[CUBIN]), cubin->sh_size, &store, sizeof store);
    assert_non_null(at);
    memcpy(at - 0x10 + offset, code, count * sizeof *code);
}

/* The address is in R2:R3 = 0x7fdeadbe00, and the registers are read at +0x40. */
TEST(an_address_is_told_if_its_registers_are_unchanged)
{
    static const struct {
        const char *name;
        uint64_t code[2][2]; /* at +0x10 and +0x20 */
        enum certainty certainty;
    } cases[] = {
        {"LDG R3, [R2]", {{0x0000000002037381, 0x000ea200001ee900}, {0x0000000000007918, 0}}, CERTAIN_NOT},
        {"LDG R2, [R2]", {{0x0000000002027381, 0x000ea200001ee900}, {0x0000000000007918, 0}}, CERTAIN_NOT},
        {"LDG.64 R2, [R2]", {{0x0000000002027381, 0x000ea200001eeb00}, {0x0000000000007918, 0}}, CERTAIN_NOT},
        {"LDG R4, [R2]", {{0x0000000002047381, 0x000ea200001ee900}, {0x0000000000007918, 0}}, CERTAIN_EXACT},
        {"STG; MOV R3", {{0x0000000402007386, 0x000fe2000010eb00}, {0x0000000000037802, 0x000fe20000000f00}}, CERTAIN_NOT},
        {"STG; MOV R2", {{0x0000000402007386, 0x000fe2000010eb00}, {0x0000000000027802, 0x000fe20000000f00}}, CERTAIN_NOT},
        {"LDG R4, then BRA",
         {{0x0000000002047381, 0x000ea200001ee900}, {0xfffffff000007947, 0x000fc0000383ffff}},
         CERTAIN_DERIVED},
        {"LDG R4, then the unknown", {{0x0000000002047381, 0x000ea200001ee900}, {0x00008800ff00ffff, 0}}, CERTAIN_DERIVED},
        {"LDG R2, in a loop", {{0x0000000002027381, 0x000ea200001ee900}, {0x0000000000007918, 0}}, CERTAIN_NOT},
        {"LDG R4, in a loop", {{0x0000000002047381, 0x000ea200001ee900}, {0x0000000000007918, 0}}, CERTAIN_DERIVED},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        make_synthetic(&newest);
        put_code(0x10, cases[i].code, 2);
        int is_back = strstr(cases[i].name, "in a loop") != NULL; /* in its next turn, before the access */
        for (uint64_t row = 0; row < 2 && is_back; row++)
            put64(LANES, row * newest.lane, KERNEL_START);
        assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
        const struct evidence_lane *lane = &evidence->stops[0].lanes[0];
        if (lane->certainty != cases[i].certainty || (lane->certainty != CERTAIN_NOT && lane->address != 0x7fdeadbe00))
            fail_msg("%s: certainty %d, address 0x%lx", cases[i].name, (int)lane->certainty, (unsigned long)lane->address);
    }
}

/* In front of a branch and behind it, whichever comes first in the dump. */
TEST(each_lane_is_judged_by_where_it_is)
{
    static const uint64_t code[2][2] = {{0x0000000002047381, 0x000ea200001ee900},  /* LDG R4, [R2] */
                                        {0xffffffe000007947, 0x000fc0000383ffff}}; /* BRA to it */
    static const uint64_t stops[][2] = {{0x20, 0x40}, {0x40, 0x20}, {0x20, 0x20}, {0x40, 0x40}, {0x30, 0x40}};
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        make_synthetic(&newest);
        uint32_t registers = builder_add(&synthetic.builder, 0x80000005, 4, 32, synthetic.part[LANES], 0);
        put_code(0x10, code, 2);
        builder_put32(&synthetic.builder, registers, 8, 0xdeadbe00);
        builder_put32(&synthetic.builder, registers, 12, 0x7f);
        put32(LANES, 32, 14);
        for (uint64_t row = 0; row < 2; row++)
            put64(LANES, row * newest.lane, KERNEL_START + stops[i][row]);
        assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
        assert_int_equal(evidence->stops[0].lane_count, 2);
        for (size_t row = 0; row < 2; row++)
            assert_int_equal(evidence->stops[0].lanes[row].certainty, stops[i][row] == 0x20 ? CERTAIN_EXACT : CERTAIN_DERIVED);
    }
}

/* Both lanes are where a branch over the access leads to, so neither need have made it; unless its code shows that. */
TEST(a_lane_may_have_gone_around_the_access)
{
    static const uint64_t no_p0 = 0x0000002000008947, p0 = 0x0000002000000947, nop = 0x0000000000007918,
                          set = 0x000000000000781c; /* PLOP3: P0 is true */
    const struct {
        uint64_t pc, branch, before;
        enum certainty certainty; /* NOT: no lane is told */
    } cases[] = {{0x40, no_p0, nop, CERTAIN_EXACT},
                 {0x50, no_p0, nop, CERTAIN_DERIVED},
                 {0x60, no_p0, nop, CERTAIN_DERIVED},
                 {0x50, no_p0, set, CERTAIN_DERIVED},
                 {0x50, p0, set, CERTAIN_NOT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t code[6][2] = {{cases[i].before, 0x000fe40003f0f070},
                                     {nop, 0},
                                     {cases[i].branch, 0x000fea0003800000},    /* to +0x50 */
                                     {0x0000000002047381, 0x000ea200001ee900}, /* LDG R4, [R2] */
                                     {nop, 0},
                                     {nop, 0}};
        make_synthetic(&newest);
        put_code(0, code, 6);
        put64(WARPS, 0, KERNEL_START + 0x30);
        for (uint64_t row = 0; row < 2; row++)
            put64(LANES, row * newest.lane, KERNEL_START + cases[i].pc);
        assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
        const struct evidence_lane *lane = &evidence->stops[0].lanes[0];
        if (lane->certainty != cases[i].certainty || (lane->certainty != CERTAIN_NOT && lane->address != 0x7fdeadbe00) ||
            lane->may_be_apart != (lane->certainty == CERTAIN_DERIVED))
            fail_msg("case %zu: certainty %d, address 0x%lx", i, (int)lane->certainty, (unsigned long)lane->address);
    }
}

/* In a loop that what is loaded ends, the first turn's address is the lane's only if its registers have it, too. */
TEST(a_later_turn_may_be_elsewhere)
{
    for (int is_same = 0; is_same < 2; is_same++) {
        const uint64_t code[6][2] = {
            {is_same ? 0xdeadbe0000027802 : 0xdeadb00000027802, 0x000fe20000000f00}, /* MOV R2, low */
            {0x0000007f00037802, 0x000fe20000000f00},                                /* MOV R3, 0x7f */
            {0x0000000002047381, 0x000ea200001ee900},                                /* LDG R4, [R2] */
            {0x0000000000007918, 0x000fe20000000000},                                /* NOP */
            {0xffffffd000008947, 0x000fc0000383ffff},                                /* @!P0 BRA to the LDG */
            {0x0000000000007918, 0x000fe20000000000},                                /* NOP: the lanes stand here */
        };
        make_synthetic(&newest);
        put_code(0, code, 6);
        put64(WARPS, 0, KERNEL_START + 0x20);
        for (uint64_t row = 0; row < 2; row++)
            put64(LANES, row * newest.lane, KERNEL_START + 0x50);
        put32(GRIDS, 84, 2);
        assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
        const struct evidence_lane *lane = &evidence->stops[0].lanes[0];
        assert_int_equal(lane->certainty, is_same ? CERTAIN_DERIVED : CERTAIN_NOT);
        assert_int_equal(lane->is_earlier, !is_same);
        assert_int_equal(lane->is_replayed, 0);
    }
}

/* A load overwrites one half of its address. Where emulation gives another address than the other half says, it is not this
 * one. */
TEST(an_emulated_address_must_fit_what_is_left_in_registers)
{
    static const uint64_t load_3 = 0x0000000002037381, load_2 = 0x0000000002027381;
    const struct {
        uint32_t low, high; /* of the address that the code computes */
        uint64_t load;
        int is_told;
    } cases[] = {{0xdeadbe00, 0x7f, load_3, 1},
                 {0xdeadbf00, 0x7f, load_3, 0},
                 {0xdeadbe00, 0x7f, load_2, 1},
                 {0xdeadbe00, 0x80, load_2, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const uint64_t code[6][2] = {
            {(uint64_t)cases[i].low << 32 | 0x27802, 0x000fe20000000f00},  /* MOV R2, low */
            {(uint64_t)cases[i].high << 32 | 0x37802, 0x000fe20000000f00}, /* MOV R3, high */
            {cases[i].load, 0x000ea200001ee900},
            {0x0000000000007918, 0x000fe20000000000}, /* NOP */
            {0x0000000000007918, 0x000fe20000000000}, /* NOP: the lanes stand here */
            {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
        };
        make_synthetic(&newest);
        put_code(0, code, 6);
        put64(WARPS, 0, KERNEL_START + 0x20);
        put32(GRIDS, 84, 2); /* no other lane can have left */
        assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
        assert_int_equal(evidence->stops[0].lane_count, 1);
        const struct evidence_lane *lane = &evidence->stops[0].lanes[0];
        assert_int_equal(lane->certainty, cases[i].is_told ? CERTAIN_DERIVED : CERTAIN_NOT);
        assert_true(!cases[i].is_told || lane->address == 0x7fdeadbe00);
    }
}

/* The other thirty lanes of the warp have exited since, the first one among them, and made the same access on their way. */
TEST(test_lanes_that_have_left)
{
    static const uint64_t code[6][2] = {
        {0xdeadbe0000027802, 0x000fe20000000f00}, /* MOV R2, 0xdeadbe00 */
        {0x0000007f00037802, 0x000fe20000000f00}, /* MOV R3, 0x7f */
        {0x0000100402007386, 0x000fe2000010eb00}, /* STG.E.64 [R2+0x10], R4 */
        {0x0000000000007918, 0x000fe20000000000}, /* NOP */
        {0x0000000000007918, 0x000fe20000000000}, /* NOP: the two that are left stand here */
        {0x000000000000794d, 0x000fea0003800000}, /* EXIT */
    };
    make_synthetic(&newest);
    put_code(0, code, 6);
    put64(WARPS, 0, KERNEL_START + 0x20);
    for (uint32_t i = 0; i < 2; i++) {
        put32(LANES, i * newest.lane + 16, 1 + i);
        put32(LANES, i * newest.lane + 20, 33 + i);
    }
    assert_int_equal(parse(dump_file(0xBE)), CUFENCE_OK);
    const struct evidence_stop *stop = &evidence->stops[0];
    assert_int_equal(stop->lane_count, 31); /* the driver blames one of those that are left */
    for (uint32_t i = 0; i < 31; i++) {
        uint32_t number = i + (i > 0); /* all but lane 1 */
        assert_int_equal(stop->lanes[i].lane, number);
        assert_int_equal(stop->lanes[i].thread[0], 32 + number);
        assert_int_equal(stop->lanes[i].address, 0x7fdeadbe10);
        assert_int_equal(stop->lanes[i].certainty, number == 2 ? CERTAIN_EXACT : CERTAIN_DERIVED);
    }
}

/* ---- Warps without an exception, or without a PC for it: those that trapped or asserted ---- */

#define GOES_ON (KERNEL_START + 0x40)

/* The lanes stand at GOES_ON; `active` of the two ran the instruction before. */
static void stop(uint32_t exception, uint32_t is_broken, uint32_t active)
{
    make_synthetic(&newest);
    put32(SMS, newest.sm + 8, exception);
    put32(WARPS, 24, 0); /* no error PC */
    put32(WARPS, 20, is_broken);
    put32(WARPS, 16, active);
    put32(LANES, newest.lane + 32, exception);
}

TEST(a_trap_is_named_with_its_threads)
{
    stop(0, 1, 2);
    check_made("made_trap");
}

TEST(a_failed_assertion_is_where_it_was_called)
{
    stop(EXCEPTION_ASSERT, 0, 3);
    check_made("made_assertion");
}

TEST(a_warp_that_only_stands_there_is_no_evidence)
{
    stop(0, 0, 3);
    check_made("made_without_exception");
}

/* Encodings by nvcc 13.0 for sm_90. */
TEST(local_and_shared_memory_are_told_apart)
{
    static const struct {
        struct sass_instruction instruction;
        const char *name, *meaning;
    } cases[] = {{{0x0000000203007387, 0x0005e20000100800}, "STL", "local"},   /* STL [R3], R2 */
                 {{0x0000040001057983, 0x000ea20000100800}, "LDL", "local"},   /* LDL R5, [R1+0x4] */
                 {{0x00000000ff007988, 0x000fe20008000805}, "STS", "shared"},  /* STS [UR5], R0 */
                 {{0x0000000000057984, 0x000e280000000800}, "LDS", "shared"}}; /* LDS R5, [R0] */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum access_kind kind;
        const char *name = sass_class(cases[i].instruction, &kind);
        struct exception exception = exception_of(5, name);
        assert_string_equal(name, cases[i].name);
        assert_non_null(strstr(exception.meaning, cases[i].meaning));
        assert_non_null(exception.cause);
        assert_null(exception_of(6, cases[i].name).cause);
    }
}

/* ---- what the driver's threads tell of a dump that it makes ---- */

#define MORE 7 /* that the driver starts at a fault */

static sem_t named, over;

static void *handle(void *unused)
{
    pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
    sem_post(&named);
    sem_wait(&over);
    return unused;
}

TEST(a_dump_is_seen_by_the_handlers_that_are_started_for_it)
{
    pthread_t threads[1 + MORE];
    sem_init(&named, 0, 0);
    sem_init(&over, 0, 0);
    assert_false(dumps_seem_begun(1));
    for (int i = 0; i < 1 + MORE; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, handle, NULL), 0);
        sem_wait(&named);
        assert_int_equal(dumps_seem_begun(1), i == MORE);
    }
    assert_false(dumps_seem_begun(2));
    for (int i = 0; i < 1 + MORE; i++)
        sem_post(&over);
    for (int i = 0; i < 1 + MORE; i++)
        pthread_join(threads[i], NULL);
}
