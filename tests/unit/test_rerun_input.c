/* The input of a second launch, as bytes, and the messages about it. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "fault_world.h"

#include "base/error.h"
#include "json/json_table.h"
#include "rerun/input.h"

#include <sys/resource.h>
#include <sys/socket.h>

static const uint8_t arguments[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
static const struct rerun_launch two[] = {
    {.grid = {8, 1, 1}, .block = {128, 1, 1}, .argument_bytes = 12, .arguments = arguments},
    {.grid = {1, 2, 3},
     .block = {4, 5, 6},
     .cluster = {2, 1, 1},
     .shared_bytes = 70000,
     .is_cooperative = 1,
     .argument_bytes = 3,
     .arguments = arguments + 4},
};
static const struct rerun_variable variables[] = {{"limit", arguments + 2, 8}, {"none", arguments, 0}};
static const struct bundle_buffer pinned[] = {
    {.address = 0x1000, .size = 16, .mapping_start = 0x1000, .mapping_end = 0x1010},
    {.address = 0x1010, .size = 0x40, .mapping_start = 0x1010, .mapping_end = 0x1050},
    {.address = 0x20000, .size = 5, .mapping_start = 0x20000, .mapping_end = 0x20005},
};
static const struct rerun_input input = {.bundle = {.symbol = "_Z5storePfi",
                                                    .arena_start = 0x10000,
                                                    .arena_end = 0x20000,
                                                    .launches = two,
                                                    .launch_count = 2,
                                                    .has_outputs = 1,
                                                    .pinned = pinned,
                                                    .pinned_count = 3,
                                                    .variables = variables,
                                                    .variable_count = 2},
                                         .device = {1, 2},
                                         .mode = RERUN_TRACED,
                                         .is_saved = 1,
                                         .dump = "/tmp/x/core",
                                         .traced = {0x40, 0x7e0000000010, {1, 2, 3}, {4, 5, 6}},
                                         .image = arguments,
                                         .image_bytes = 5};

/* Returns the input as bytes; free() them. */
static uint8_t *written(const struct rerun_input *what, size_t *size)
{
    int fd = rerun_input_write(what);
    assert_true(fd >= 0);
    *size = (size_t)lseek(fd, 0, SEEK_END);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, *size, 0), *size);
    close(fd);
    return bytes;
}

static struct rerun_input found; /* as it was read again last */
static struct problem problem;
static uint8_t *last_bytes;

/* Writes and reads. What the one before has taken is freed. */
static cufence_status read_again(const struct rerun_input *what)
{
    size_t size;
    json_memory_free(&found.bundle.memory);
    free(last_bytes);
    last_bytes = written(what, &size);
    return rerun_input_read(last_bytes, size, &found, &problem);
}

TEST(what_is_written_is_read)
{
    assert_int_equal(read_again(&input), CUFENCE_OK);
    json_t *json = json_table_write(&rerun_input_record, &found);
    char *text = json_dumps(json, JSON_INDENT(1));
    golden_check(GOLDEN "snapshots.expect", "input_of_a_second_launch", text);
    free(text);
    json_decref(json);
    assert_int_equal(found.image_bytes, 5);
    assert_memory_equal(found.image, arguments, 5);
}

TEST(a_damaged_one_is_refused)
{
    size_t size;
    uint8_t *bytes = written(&input, &size);
    json_memory_free(&found.bundle.memory);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(rerun_input_read(bytes, cut, &found, &problem), CUFENCE_ERROR_CORRUPT);
    bytes[8]++;
    assert_int_equal(rerun_input_read(bytes, size, &found, &problem), CUFENCE_ERROR_UNSUPPORTED);
    assert_non_null(strstr(problem.text, "of version 15"));
    free(bytes);
}

/* A buffer that is moved to the edge of the address space, or past it. */
TEST(unsound_moves_are_refused)
{
    static const struct {
        uint64_t to, bytes;
        int is_sound;
    } cases[] = {{UINT64_C(1) << 37, 4000, 1},
                 {0, 4000, 0},
                 {MOVED_ROOM, 1, 1},
                 {MOVED_ROOM - 1, 1, 0},
                 {(UINT64_C(1) << 40) - MOVED_ROOM - 5, 4, 1},
                 {(UINT64_C(1) << 40) - MOVED_ROOM - 4, 4, 0},
                 {UINT64_C(1) << 37, UINT64_MAX, 0},
                 {UINT64_MAX, 4, 0},
                 {0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rerun_input made = {
            .bundle = {.symbol = "k", .arena_end = UINT64_C(1) << 40, .launches = two, .launch_count = 1}, .dump = ""};
        made.image = (const uint8_t *)"image";
        made.image_bytes = 5;
        made.moved_from = 0x1000;
        made.moved_bytes = cases[i].bytes;
        made.moved_to = cases[i].to;
        assert_int_equal(read_again(&made), cases[i].is_sound ? CUFENCE_OK : CUFENCE_ERROR_CORRUPT);
        assert_true(!cases[i].is_sound ||
                    (found.moved_to == cases[i].to && found.moved_bytes == cases[i].bytes && found.moved_from == 0x1000));
    }
}

/* Ranges that cannot be mapped: empty, out of order or overlapping, in cufence's address space, beyond the host's, too many. */
TEST(unsound_pinned_memory_is_refused)
{
    static const struct rerun_range cases[][2] = {
        {{0x1000, 0}},
        {{0x2000, 16}, {0x1000, 16}},
        {{0x1000, 16}, {0x100f, 16}},
        {{0xfff0, 17}},
        {{0x1ffff, 1}},
        {{0x1000, 0x40000}},
        {{UINT64_C(1) << 57, 1}},
        {{UINT64_MAX - 15, 32}},
        {{UINT64_C(1) << 32, RERUN_PINNED_BYTES + 1}},
        {{UINT64_C(1) << 32, RERUN_PINNED_BYTES}, {UINT64_C(1) << 33, 1}},
    };
    struct bundle_buffer blocks[2];
    struct rerun_input bad = input;
    bad.bundle.pinned = blocks;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t k = 0; k < 2; k++)
            blocks[k] = bundle_pinned_of(cases[i][k].address, cases[i][k].bytes);
        bad.bundle.pinned_count = cases[i][1].address ? 2 : 1;
        assert_false(bundle_has_sound_pinned(&bad.bundle));
        assert_int_equal(read_again(&bad), CUFENCE_ERROR_CORRUPT);
    }
    blocks[0] = bundle_pinned_of(UINT64_C(1) << 32, RERUN_PINNED_BYTES);
    bad.bundle.pinned_count = 1;
    assert_true(bundle_has_sound_pinned(&bad.bundle));
    bad.bundle.pinned_count = RERUN_PINNED + 1;
    assert_false(bundle_has_sound_pinned(&bad.bundle));
}

/* ---- the ranges of memory that the process is asked to describe ---- */

TEST(ranges_arrive)
{
    struct rerun_input with = input;
    for (size_t count = 0; count <= RERUN_RANGES; count += RERUN_RANGES / 2) {
        with.range_count = count;
        for (size_t i = 0; i < count; i++)
            with.ranges[i] = (struct rerun_range){ARENA + i, 1000 - i};
        assert_int_equal(read_again(&with), CUFENCE_OK);
        assert_int_equal(found.range_count, count);
        assert_memory_equal(found.ranges, with.ranges, count * sizeof *with.ranges);
        assert_memory_equal(found.bundle.launches[0].arguments, arguments, 12);
        assert_memory_equal(found.image, arguments, 5);
    }
}

/* One more, in front of the list as it was written. */
TEST(too_many_ranges_are_refused)
{
    static const char list[] = "\"ranges\":[", more[] = "{\"address\":\"0x1\",\"bytes\":\"0x1\"},";
    struct rerun_input with = input;
    for (size_t count = RERUN_RANGES - 1; count <= RERUN_RANGES; count++) {
        size_t size, added = sizeof more - 1;
        with.range_count = count;
        for (size_t i = 0; i < count; i++)
            with.ranges[i] = (struct rerun_range){ARENA + i, 1};
        uint8_t *bytes = written(&with, &size);
        bytes = realloc(bytes, size + added);
        assert_non_null(bytes);
        uint8_t *first = memmem(bytes, size, list, sizeof list - 1);
        assert_non_null(first);
        first += sizeof list - 1;
        memmove(first + added, first, (size_t)(bytes + size - first));
        memcpy(first, more, added);
        ((struct rerun_head *)bytes)->json_bytes += (uint32_t)added;
        json_memory_free(&found.bundle.memory);
        assert_int_equal(rerun_input_read(bytes, size + added, &found, &problem),
                         count < RERUN_RANGES ? CUFENCE_OK : CUFENCE_ERROR_CORRUPT);
        free(bytes);
    }
}

TEST(what_arguments_point_to_is_described)
{
    uint64_t words[40] = {A_START + 8, B_START, 17, A_START + 8, A_END, A_START};
    struct rerun_launch launch = {.argument_bytes = 6 * 8 + 4, .arguments = (const uint8_t *)words};
    cufence_buffer near[2] = {world[0], world[1]};
    const struct fault_memory memory = {.near = near, .near_count = 2};
    struct rerun_input with = {.range_count = 0};
    rerun_input_describe(&with, &launch, &memory);
    assert_int_equal(with.range_count, 3);
    assert_int_equal(with.ranges[0].address, A_START + 8);
    assert_int_equal(with.ranges[0].bytes, 3992);
    assert_int_equal(with.ranges[1].address, B_START);
    assert_int_equal(with.ranges[1].bytes, 8000);
    assert_int_equal(with.ranges[2].bytes, 4000);
    near[0].freed_ns = 1; /* its memory is gone */
    with.range_count = 0;
    rerun_input_describe(&with, &launch, &memory);
    assert_int_equal(with.range_count, 1);
    for (size_t i = 0; i < 40; i++)
        words[i] = B_START + i;
    launch.argument_bytes = sizeof words;
    rerun_input_describe(&with, &launch, &memory);
    assert_int_equal(with.range_count, RERUN_RANGES);
}

/* ---- messages ---- */

TEST(a_message_arrives_with_its_descriptor)
{
    int ends[2], fd, pipes[2];
    char byte = 0;
    struct rerun_message sent = {.type = MESSAGE_GIVE, .address = 77, .text = "text"}, got;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(rerun_send(ends[0], &sent, pipes[1]), 0);
    assert_int_equal(rerun_send(ends[0], &sent, -1), 0);
    assert_int_equal(rerun_receive(ends[1], &got, &fd), 1);
    assert_int_equal(got.address, 77);
    assert_string_equal(got.text, "text");
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(fd);
    assert_int_equal(rerun_receive(ends[1], &got, &fd), 1);
    assert_int_equal(fd, -1);

    memset(sent.text, 'x', sizeof sent.text); /* without its NUL */
    assert_int_equal(rerun_send(ends[0], &sent, -1), 0);
    assert_int_equal(rerun_receive(ends[1], &got, &fd), 1);
    assert_int_equal(strlen(got.text), sizeof got.text - 1);
    assert_int_equal(send(ends[0], "short", 5, 0), 5);
    assert_int_equal(rerun_receive(ends[1], &got, &fd), 0);
    close(ends[0]);
    assert_int_equal(rerun_receive(ends[1], &got, &fd), 0);
    assert_int_equal(rerun_send(ends[1], &sent, -1), -1);
    close(ends[1]);
    close(pipes[0]);
    close(pipes[1]);
}

/* Asks, and has it answered with that. */
static cufence_status ask(const struct rerun_message *answer, int passed, struct rerun_message *message, int *fd)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    errno = EMFILE;
    if (answer)
        rerun_answer(ends[0], answer, passed);
    else
        shutdown(ends[0], SHUT_WR);
    *message = (struct rerun_message){.type = MESSAGE_NEED, .address = 0x5000};
    cufence_status status = rerun_ask(ends[1], message, fd);
    close(ends[0]);
    close(ends[1]);
    return status;
}

TEST(an_answer_says_what_it_is)
{
    struct rerun_message got;
    int fd;
    const struct rerun_message give = {.type = MESSAGE_GIVE, .address = 0x4000}, file = {.type = MESSAGE_FILE},
                               zeros = {.type = MESSAGE_ZEROS, .bytes = 7}, none = {.type = MESSAGE_NONE},
                               other = {.type = MESSAGE_NOTE};
    assert_int_equal(ask(&give, open("/dev/null", O_RDONLY), &got, &fd), CUFENCE_OK);
    assert_int_equal(got.type, MESSAGE_GIVE);
    assert_int_equal(got.address, 0x4000);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ask(&zeros, -1, &got, &fd), CUFENCE_OK);
    assert_int_equal(got.type, MESSAGE_ZEROS);
    assert_int_equal(ask(&none, -1, &got, &fd), CUFENCE_OK);
    assert_int_equal(got.type, MESSAGE_NONE);
    assert_int_equal(fd, -1);
    assert_int_equal(ask(&other, -1, &got, &fd), CUFENCE_ERROR_CORRUPT);
    assert_int_equal(ask(NULL, -1, &got, &fd), CUFENCE_ERROR_SYSTEM);
    /* No descriptor was to be had: that is neither zeros nor memory that is not there. */
    assert_int_equal(ask(&give, -1, &got, &fd), CUFENCE_ERROR_SYSTEM);
    assert_int_equal(ask(&file, -1, &got, &fd), CUFENCE_ERROR_SYSTEM);
    assert_non_null(strstr(error_detail(), "0x5000 could not be handed over: Too many open files"));
}

/* The one who asks has no descriptor left. */
TEST(a_descriptor_that_does_not_arrive_is_missed)
{
    struct rerun_message got;
    struct rlimit before, none;
    int fd, ends[2];
    const struct rerun_message file = {.type = MESSAGE_FILE};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    rerun_answer(ends[0], &file, open("/dev/null", O_RDONLY));
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    got = (struct rerun_message){.type = MESSAGE_NEED};
    cufence_status status = rerun_ask(ends[1], &got, &fd);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(status, CUFENCE_ERROR_SYSTEM);
    assert_non_null(strstr(error_detail(), "its descriptor has not arrived"));
    close(ends[0]);
    close(ends[1]);
}
