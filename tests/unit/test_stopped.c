/* Warps that a dump has without an exception, or without a PC for it: those that trapped or asserted. */
#include "support/test.h"

#include "analysis/dump/evidence.h"
#include "analysis/sass/sass.h"
#include "synthetic_dump.h"

#define GOES_ON (KERNEL_START + 0x40)

/* The lanes stand at GOES_ON; `active` of the two ran the instruction before. */
static struct evidence *stop(uint32_t exception, uint32_t is_broken, uint32_t active)
{
    struct synthetic synthetic;
    struct evidence *evidence = NULL;
    struct problem problem;
    size_t size;
    make_synthetic(&synthetic, &newest);
    struct dump_builder *builder = &synthetic.builder;
    const uint32_t *part = synthetic.part;
    builder_put32(builder, part[SMS], newest.sm + 8, exception);
    builder_put32(builder, part[WARPS], 24, 0); /* no error PC */
    builder_put32(builder, part[WARPS], 20, is_broken);
    builder_put32(builder, part[WARPS], 16, active);
    builder_put32(builder, part[LANES], newest.lane + 32, exception);
    const uint8_t *bytes = builder_finish(builder, 0xBE, &size);
    assert_int_equal(evidence_from_coredump(bytes, size, &evidence, &problem), CUFENCE_OK);
    builder_end(builder);
    return evidence;
}

TEST(a_trap_is_named_with_its_threads)
{
    struct evidence *evidence = stop(0, 1, 2);
    assert_int_equal(evidence->site_count, 1);
    const struct evidence_site *site = &evidence->sites[0];
    assert_string_equal(site->exception.name, "trap");
    assert_int_equal(site->exception.class, CLASS_NO_BUFFER);
    assert_string_equal(site->exception.meaning, "the kernel trapped by itself");
    assert_int_equal(site->error_pc, GOES_ON - 16);
    assert_int_equal(site->kernel_offset, 0x30);
    assert_string_equal(site->symbol, "_Z3oobPi");
    assert_true(site->is_warp_alive && site->has_grid && site->lane_count == 1);
    assert_int_equal(site->lanes[0].thread[0], 33);
    evidence_free(evidence);
}

TEST(a_failed_assertion_is_where_it_was_called)
{
    struct evidence *evidence = stop(EXCEPTION_ASSERT, 0, 3);
    assert_int_equal(evidence->site_count, 1);
    const struct evidence_site *site = &evidence->sites[0];
    assert_string_equal(site->exception.name, "assertion failed");
    assert_int_equal(site->error_pc, GOES_ON - 16);
    assert_false(site->is_in_driver);
    assert_int_equal(site->lane_count, 1); /* the one that the dump marks */
    evidence_free(evidence);
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
        struct exception exception = exception_of(5, sass_thrower(cases[i].instruction));
        assert_string_equal(sass_thrower(cases[i].instruction), cases[i].name);
        assert_non_null(strstr(exception.meaning, cases[i].meaning));
        assert_non_null(exception.cause);
        assert_null(exception_of(6, cases[i].name).cause);
    }
}

TEST(a_warp_that_only_stands_there_is_no_evidence)
{
    struct evidence *evidence = stop(0, 0, 3);
    assert_int_equal(evidence->site_count, 0);
    evidence_free(evidence);
}
