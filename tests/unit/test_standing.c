/* Where the threads of a core dump were, and how `cufence explain` handles files and folders. */
#include "support/test.h"

#include "support/fixture.h"

#include "analysis/dump/standing.h"
#include "finding/standing_report.h"

#include "synthetic_dump.h"

#include <jansson.h>

static struct problem problem;

/* ---- places ---- */

static struct standing *stand(struct synthetic *synthetic, struct coredump *dump)
{
    size_t size;
    struct standing *standing = NULL;
    const uint8_t *bytes = builder_finish(&synthetic->builder, 0xBE, &size);
    assert_int_equal(coredump_open(bytes, size, dump, &problem), CUFENCE_OK);
    assert_int_equal(standing_read(dump, &standing, &problem), CUFENCE_OK);
    return standing;
}

static void finish(struct synthetic *synthetic, struct coredump *dump, struct standing *standing)
{
    standing_free(standing);
    coredump_close(dump);
    builder_end(&synthetic->builder);
}

/* As the dump of a program that hangs: both lanes wait at +0x40, or one of them is further on. */
TEST(threads_are_grouped_by_place)
{
    for (int is_split = 0; is_split < 2; is_split++) {
        struct synthetic synthetic;
        struct coredump dump;
        make_synthetic(&synthetic, &newest);
        builder_put32(&synthetic.builder, synthetic.part[LANES], newest.lane + 32, 0);
        builder_put32(&synthetic.builder, synthetic.part[WARPS], 24, 0);
        builder_put32(&synthetic.builder, synthetic.part[SMS], newest.sm + 8, 0);
        if (is_split)
            builder_put64(&synthetic.builder, synthetic.part[LANES], newest.lane, KERNEL_START + 0x50);
        struct standing *standing = stand(&synthetic, &dump);
        assert_int_equal(standing->threads, 2);
        assert_int_equal(standing->warps, 1);
        assert_int_equal(standing->place_count, is_split ? 2 : 1);
        const struct standing_place *place = &standing->places[0];
        assert_int_equal(place->threads, is_split ? 1 : 2);
        assert_int_equal(place->pc, KERNEL_START + 0x40);
        assert_string_equal(place->kernel, "oob(int*)");
        assert_int_equal(place->kernel_offset, 0x40);
        assert_int_equal(place->exception.number, 0);
        assert_int_equal(place->block[0], 4);
        assert_int_equal(place->thread[0], 32);
        assert_int_equal(place->sm, 9);
        assert_int_equal(place->warp, 6);
        assert_int_equal(standing->grid_count, 1);
        assert_string_equal(standing->grids[0].kernel, "oob(int*)");
        assert_int_equal(standing->grids[0].threads, 2);
        assert_int_equal(standing->grids[0].block[0], 64);
        assert_int_equal(load_u64(standing->grids[0].parameters.bytes), 0x1122334455667788);
        uint32_t registers[256];
        assert_int_equal(coredump_words(&dump, place->lane, COREDUMP_REGISTERS, registers, 256), 0); /* they are lane 1's */
        finish(&synthetic, &dump, standing);
    }
}

TEST(those_with_an_exception_come_first)
{
    struct synthetic synthetic;
    struct coredump dump;
    uint32_t registers[256];
    make_synthetic(&synthetic, &oldest);
    struct standing *standing = stand(&synthetic, &dump);
    assert_int_equal(standing->place_count, 1);
    assert_int_equal(standing->places[0].exception.number, 14);
    assert_string_equal(standing->places[0].exception.name, "illegal address");
    assert_int_equal(standing->places[0].thread[0], 33);
    assert_int_equal(coredump_words(&dump, standing->places[0].lane, COREDUMP_REGISTERS, registers, 256), 8);
    assert_int_equal(registers[2], 0xdeadbe00);
    assert_int_equal(coredump_words(&dump, standing->places[0].lane, COREDUMP_REGISTERS, registers, 1), 1);
    finish(&synthetic, &dump, standing);
}

TEST(memory_is_shown_as_far_as_the_dump_has_it)
{
    struct synthetic synthetic;
    struct coredump dump;
    make_synthetic(&synthetic, &oldest);
    uint32_t section = builder_add(&synthetic.builder, COREDUMP_GLOBAL_MEMORY, 0, 64, 0, 0);
    synthetic.builder.sections[section].sh_addr = 0x7f0000100000;
    builder_put32(&synthetic.builder, section, 60, 0x04030201);
    struct standing *standing = stand(&synthetic, &dump);
    assert_int_equal(standing_memory(&dump, 0x7f0000100000, 16).size, 16);
    struct span tail = standing_memory(&dump, 0x7f000010003c, 16);
    assert_int_equal(tail.size, 4);
    assert_int_equal(tail.bytes[3], 4);
    assert_int_equal(standing_memory(&dump, 0x7f0000100040, 1).size, 0);
    assert_int_equal(standing_memory(&dump, 0x7f00000fffff, 1).size, 0);
    const struct standing_wishes wishes = {.places = 1, .has_memory = 1, .memory = 0x7f000010003c};
    char *text = standing_text(&dump, standing, &wishes);
    assert_non_null(strstr(text, "0x7f000010003c: 01020304"));
    free(text);
    finish(&synthetic, &dump, standing);
}

/* ---- the command ---- */

struct outcome {
    int status;
    char out[32768], err[4096];
};

static struct outcome explain(const char *arguments)
{
    struct outcome outcome = {0};
    char command[4096], errors[] = "/tmp/explain.XXXXXX";
    int fd = mkstemp(errors);
    assert_true(fd >= 0);
    snprintf(command, sizeof command, "%s explain %s 2>%s", CUFENCE_CLI, arguments, errors);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    outcome.out[fread(outcome.out, 1, sizeof outcome.out - 1, pipe)] = '\0';
    int status = pclose(pipe);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ssize_t got = pread(fd, outcome.err, sizeof outcome.err - 1, 0);
    outcome.err[got > 0 ? got : 0] = '\0';
    close(fd);
    unlink(errors);
    return outcome;
}

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("missing: %s\nin:\n%s", part, text);
}

TEST(a_load_is_explained)
{
    struct outcome outcome = explain("--registers " CUFENCE_DUMPS "/load_128.core.gz");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    expect_in(outcome.out, "cufence: illegal memory access by a READ of 16 bytes\n");
    expect_in(outcome.out, "  address    0x1000c1ffe60 to 0x1000c200000 by 27 lanes, any of which may have faulted");
    expect_in(outcome.out, "instruction   LDG.E.128 R4, [R6.64]   (load_128+0xe0)\n");
    expect_in(outcome.out, "  lanes      0 to 26, threads (96,0,0) to (122,0,0): 0x1000c1ffe60, then every 16 bytes");
    expect_in(outcome.out, "  threads    123 in 4 warps had not exited; by place:\n");
    expect_in(outcome.out, "27            /src/oob.cu:59   (load_128+0x270), illegal address\n");
    expect_in(outcome.out, "96            /src/oob.cu:62   (load_128+0x290)\n");
    expect_in(outcome.out, "block (1,0,0) thread (0,0,0), SM 129 warp 0; 3 warps\n");
    expect_in(outcome.out, "             R0            ");
    expect_in(outcome.out, "  launches   load_128<<<(8,1,1), (128,1,1)>>>, 123 threads left\n");
    assert_null(strstr(outcome.out, "cufence's")); /* nobody knew the buffers */
}

TEST(a_store_whose_warp_has_exited_is_explained)
{
    struct outcome outcome = explain(CUFENCE_DUMPS "/store_last.core.gz");
    assert_int_equal(outcome.status, 0);
    expect_in(outcome.out, "illegal memory access by a WRITE (address unknown: the warp had exited)");
    expect_in(outcome.out, "instruction   STG.E [R2.64], R7   (store_last+0xc0)");
    expect_in(outcome.out, "  threads    none is in the dump: all warps had exited\n");
}

/* Asked for by the user (CUDA_ENABLE_USER_TRIGGERED_COREDUMP) on an H100 while tests/fixtures/deadlock.cu hung. */
TEST(a_recorded_hang_is_explained)
{
    struct outcome outcome = explain(CUFENCE_DUMPS "/hang/deadlock.core.gz");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    expect_in(outcome.out, "cufence: no exception is in the dump of GPU 0 (NVIDIA H100 80GB HBM3)\n");
    expect_in(outcome.out, "  threads    64 in 2 warps had not exited; by place:\n");
    expect_in(outcome.out, "32            /src/deadlock.cu:9   (_Z8deadlockPViPf+0x100)\n"); /* waits for the flag */
    expect_in(outcome.out, "block (0,0,0) thread (32,0,0), SM 124 warp 1\n");
    expect_in(outcome.out,
              "32            /src/deadlock.cu:15   (_Z8deadlockPViPf+0x150)\n"); /* at the barrier; this is what follows */
    expect_in(outcome.out, "  launches   deadlock<<<(1,1,1), (64,1,1)>>>, 64 threads left\n");
}

TEST(json_says_the_same)
{
    struct outcome outcome = explain("--json --registers " CUFENCE_DUMPS "/load_128.core.gz");
    json_t *report = json_loads(outcome.out, 0, NULL);
    assert_non_null(report);
    assert_null(json_object_get(report, "process"));
    assert_null(json_object_get(report, "address")); /* of which lane, nobody knows */
    assert_string_equal(json_string_value(json_object_get(report, "kind")), "illegal access");
    json_t *standing = json_object_get(report, "standing");
    assert_int_equal(json_integer_value(json_object_get(standing, "threads")), 123);
    json_t *lanes = json_object_get(standing, "lanes");
    assert_int_equal(json_array_size(lanes), 27);
    assert_string_equal(json_string_value(json_object_get(json_array_get(lanes, 1), "address")), "0x1000c1ffe70");
    json_t *place = json_array_get(json_object_get(standing, "places"), 0);
    assert_int_equal(json_integer_value(json_object_get(place, "line")), 59);
    assert_true(json_array_size(json_object_get(place, "registers")) > 8);
    json_decref(report);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* Its headers: 34560 bytes at the end. The table of SMs ends at byte 57092. */
TEST(a_truncated_dump_is_explained_as_far_as_it_goes)
{
    struct span dump = fixture_read("load_128.core");
    char path[] = "/tmp/explain.XXXXXX", arguments[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file(path, dump.bytes, dump.size - 100); /* the names of the sections are lost, and the device's */
    snprintf(arguments, sizeof arguments, "--registers --memory 0x1000 %s", path);
    struct outcome outcome = explain(arguments);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    expect_in(outcome.out, "cufence: the core dump is truncated: it has 128553 of 128653 bytes\n\n");
    expect_in(outcome.out, "  device     GPU 0, compute capability 9.0\n");
    expect_in(outcome.out, "  exception  illegal address in load_128, SM 129\n");
    expect_in(outcome.out, "at            /src/oob.cu:58   LDG.E.128 R4, [R6.64]   (load_128+0xe0)\n");
    expect_in(outcome.out, "  threads    at least 123 in 4 warps had not exited; by place:\n");
    expect_in(outcome.out, "27            /src/oob.cu:59   (load_128+0x270), illegal address\n");
    expect_in(outcome.out, "             R0            ");
    expect_in(outcome.out, "load_128<<<(8,1,1), (128,1,1)>>>, at least 123 threads left\n");
    expect_in(outcome.out, "0x1000: not in the remaining part of the dump\n");
    assert_null(strstr(outcome.out, "any of which"));

    write_file(path, dump.bytes, 60000); /* no section header is left */
    outcome = explain(path);
    assert_int_equal(outcome.status, 0);
    expect_in(outcome.out, "cufence: the core dump is truncated: it has 60000 of 128653 bytes\n"
                           "  Its section headers, which are written last, are missing.");
    expect_in(outcome.out, "  exception  illegal address in load_128, SM 129\n");
    expect_in(outcome.out, "  threads    none is in the remaining part of the dump\n");
    expect_in(outcome.out, "  launches   load_128<<<(8,1,1), (128,1,1)>>>\n");
    assert_null(strstr(outcome.out, "had exited"));
    snprintf(arguments, sizeof arguments, "--json %s", path);
    json_t *report = json_loads(explain(arguments).out, 0, NULL);
    json_t *cut = json_object_get(report, "truncated"), *standing = json_object_get(report, "standing");
    assert_int_equal(json_integer_value(json_object_get(cut, "bytes")), 60000);
    assert_int_equal(json_integer_value(json_object_get(cut, "of")), 128653);
    assert_true(json_is_true(json_object_get(cut, "headers_missing")));
    json_t *exception = json_array_get(json_object_get(standing, "exceptions"), 0);
    assert_int_equal(json_integer_value(json_object_get(exception, "line")), 58);
    assert_int_equal(json_integer_value(json_object_get(exception, "sm")), 129);
    assert_null(json_object_get(report, "kind")); /* it is no finding */
    json_decref(report);

    write_file(path, dump.bytes, 57091);
    expect_in(explain(path).out, "  exception  unknown: no SM table was found\n");
    fixture_free(dump);
    unlink(path);
}

/* gzip's own end is then missing too. */
TEST(a_packed_dump_may_be_truncated)
{
    static uint8_t packed[1 << 18];
    FILE *file = fopen(CUFENCE_DUMPS "/load_128.core.gz", "rb");
    assert_non_null(file);
    size_t size = fread(packed, 1, sizeof packed, file);
    fclose(file);
    char path[] = "/tmp/explain.XXXXXX";
    int fd = mkstemp(path), told = 0;
    assert_true(fd >= 0 && size > 1000);
    close(fd);
    for (size_t part = 20; part < size; part += size / 16) {
        write_file(path, packed, part);
        struct outcome outcome = explain(path);
        if (outcome.status == 0)
            expect_in(outcome.out, " of 128653 bytes\n");
        else
            expect_in(outcome.err, "is cut off\n");
        told += strstr(outcome.out, "illegal address in load_128, SM 129\n") != NULL;
    }
    assert_true(told >= 2);
    write_file(path, packed, size - 4); /* all of the dump is there */
    expect_in(explain(path).out, "27 lanes, any of which may have faulted");
    unlink(path);
}

TEST(what_is_no_dump_gets_a_sentence)
{
    char folder[] = "/tmp/explain.XXXXXX", path[64], arguments[256];
    struct synthetic synthetic;
    size_t size;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(explain(folder).status, 1);
    expect_in(explain(folder).err, "it has no GPU core dump, plain or gzipped\n");
    snprintf(path, sizeof path, "%s/b.txt", folder);
    write_file(path, "hello", 5);
    expect_in(explain(path).err, "the core dump (5 bytes) is not an ELF64 file, or it is cut off\n");
    write_file(path, "\x1f\x8bhello", 7);
    expect_in(explain(path).err, "cannot be unpacked: ");
    write_file(path, "", 0);
    expect_in(explain(path).err, "it is empty\n");
    make_synthetic(&synthetic, &newest);
    const uint8_t *bytes = builder_finish(&synthetic.builder, 0xBE, &size);
    snprintf(path, sizeof path, "%s/a.core", folder);
    write_file(path, bytes, 100);
    assert_int_equal(explain(path).status, 1);
    expect_in(explain(path).err, "the core dump (100 bytes) is not an ELF64 file, or it is cut off\n");
    /* In a folder the dumps are explained, and the rest is passed over, also the pipe by which they are asked for. */
    write_file(path, bytes, size);
    char pipe[64];
    snprintf(pipe, sizeof pipe, "%s/corepipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect_in(explain(pipe).err, "it is not a regular file\n");
    struct outcome outcome = explain(folder);
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
    expect_in(outcome.out, "oob<<<(5,0,0), (64,0,0)>>>");
    snprintf(arguments, sizeof arguments, "%s /nonexistent", path);
    outcome = explain(arguments);
    assert_int_equal(outcome.status, 1);
    expect_in(outcome.out, "oob<<<");
    assert_string_equal(outcome.err, "cufence explain: /nonexistent: No such file or directory\n");
    unlink(path);
    unlink(pipe);
    snprintf(path, sizeof path, "%s/b.txt", folder);
    unlink(path);
    rmdir(folder);
    builder_end(&synthetic.builder);
}

TEST(a_hang_is_explained)
{
    char path[] = "/tmp/explain.XXXXXX";
    struct synthetic synthetic;
    size_t size;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    make_synthetic(&synthetic, &newest);
    builder_put32(&synthetic.builder, synthetic.part[LANES], newest.lane + 32, 0);
    builder_put32(&synthetic.builder, synthetic.part[WARPS], 24, 0);
    builder_put32(&synthetic.builder, synthetic.part[SMS], newest.sm + 8, 0);
    const uint8_t *bytes = builder_finish(&synthetic.builder, 0xBE, &size);
    write_file(path, bytes, size);
    struct outcome outcome = explain(path);
    assert_int_equal(outcome.status, 0);
    expect_in(outcome.out, "cufence: no exception is in the dump of GPU 3");
    expect_in(outcome.out, "  threads    2 in 1 warp had not exited; by place:\n");
    expect_in(outcome.out, "(_Z3oobPi+0x40)\n");
    unlink(path);
    builder_end(&synthetic.builder);
}

TEST(arguments_are_checked)
{
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"", "cufence explain: no file given; `cufence explain --help` says how to get one\n"},
        {"--all", ""}, /* a prefix that only one option has */
        {"--jsn x", "cufence explain: unknown option \"--jsn\", did you mean --json? `cufence explain --help` lists all\n"},
        {"--memory", "cufence explain: --memory needs a value: --memory ADDRESS\n"},
        {"--memory 12z x", "cufence explain: --memory '12z' is not an address, such as 0x7f0000001000\n"},
        {"--memory -1 x", "cufence explain: --memory '-1' is not an address, such as 0x7f0000001000\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome outcome = explain(cases[i].arguments);
        assert_int_equal(outcome.status, 2);
        expect_in(outcome.err, cases[i].message);
        assert_string_equal(outcome.out, "");
    }
    expect_in(explain("--help").out, "usage: cufence explain ");
}
