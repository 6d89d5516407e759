/* What is in a bundle, as bytes: the header of NumPy's files, and the list of a launch. What cufence knew: test_golden.c, and
 * damaged fuzz.snapshot. */
#define TEST_OWN_MAIN
#include "support/test.h"

#include "support/golden.h"

#include "analysis/bundle/bundle.h"
#include "analysis/bundle/snapshot_json.h"

static struct problem problem;

/* Reads a header of version 1.0 with this text. Returns the bytes of the elements, UINT64_MAX on errors. */
static uint64_t bytes_of(const char *text)
{
    char file[256];
    uint64_t offset, bytes;
    size_t length = strlen(text);
    memcpy(file, "\x93NUMPY\1\0", 8);
    file[8] = (char)length;
    file[9] = 0;
    memcpy(file + 10, text, length);
    if (npy_read(file, 10 + length, &offset, &bytes, &problem) != CUFENCE_OK)
        return UINT64_MAX;
    assert_int_equal(offset, 10 + length);
    return bytes;
}

TEST(arrays_have_the_size_of_their_shape)
{
    assert_int_equal(bytes_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"), 24);
    assert_int_equal(bytes_of("{'descr': '|u1', 'fortran_order': False, 'shape': (7,), }\n"), 7);
    assert_int_equal(bytes_of("{'descr': '<c16', 'fortran_order': False, 'shape': (), }\n"), 16);
    assert_int_equal(bytes_of("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 5), }\n"), 0);
}

/* Nobody swaps the bytes of an array, or its rows and columns. */
TEST(arrays_in_another_order_are_refused)
{
    assert_true(bytes_of("{'descr': '>i8', 'fortran_order': False, 'shape': (5,), }\n") == UINT64_MAX);
    assert_non_null(strstr(problem.text, "big-endian"));
    assert_true(bytes_of("{'descr': '<i8', 'fortran_order': True, 'shape': (2, 5), }\n") == UINT64_MAX);
    assert_non_null(strstr(problem.text, "Fortran"));
}

TEST(damaged_headers_are_refused)
{
    static const char *const texts[] = {"",
                                        "{}",
                                        "{'descr': '|O', 'shape': (1,), }",
                                        "{'descr': '<f99999', 'shape': (1,), }",
                                        "{'descr': [('a', '<f4')], 'shape': (1,), }",
                                        "{'descr': '<f4', 'shape': (1, }",
                                        "{'descr': '<f4', 'shape': (-1,), }",
                                        "{'descr': '<f4', 'shape': (9223372036854775807,), }",
                                        "{'descr': '<f4', 'shape': (4294967296, 4294967296), }"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_true(bytes_of(texts[i]) == UINT64_MAX);
    uint64_t offset, bytes;
    assert_int_equal(npy_read("\x93NUMPY\1\0\xff\0{", 11, &offset, &bytes, &problem), CUFENCE_ERROR_CORRUPT);
}

TEST(what_is_written_is_read)
{
    char header[NPY_HEADER];
    uint64_t offset, bytes;
    npy_write(VALUE_UINT8, UINT64_C(123456789012), header);
    assert_int_equal(npy_read(header, sizeof header, &offset, &bytes, &problem), CUFENCE_OK);
    assert_int_equal(offset, NPY_HEADER);
    assert_int_equal(bytes, UINT64_C(123456789012));
}

/* ---- bundles ---- */

static const struct launch_argument two_arguments[] = {{0, 8}, {8, 4}};
static const uint8_t argument_bytes[12] = {0xab, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0xff};
static const struct bundle_buffer two_buffers[] = {{.id = 7,
                                                    .address = 0x7e0000400010,
                                                    .size = 100,
                                                    .mapping_start = 0x7e0000400000,
                                                    .mapping_end = 0x7e0000600000,
                                                    .file = "7.npy",
                                                    .after = "7.after.npy",
                                                    .type = "float16"},
                                                   {.id = 5,
                                                    .address = 0x7e0000200000,
                                                    .size = 9,
                                                    .mapping_start = 0x7e0000200000,
                                                    .mapping_end = 0x7e0000400000,
                                                    .reason = "save_max",
                                                    .label = "a \xff label"}};
static const struct bundle_buffer one_pinned[] = {
    {.address = 0x1010, .size = 8, .mapping_start = 0x1010, .mapping_end = 0x1018, .file = "pinned-1010.npy"}};
static const struct rerun_variable one_variable[] = {{"table", argument_bytes, 5}};
static const struct rerun_launch one_launch = {.grid = {1, 2, 3},
                                               .block = {4, 5, 6},
                                               .cluster = {1, 2, 1},
                                               .shared_bytes = 77,
                                               .is_cooperative = 1,
                                               .argument_bytes = sizeof argument_bytes,
                                               .arguments = argument_bytes};
static const struct bundle written = {.symbol = "_Z1kPfi",
                                      .device_name = "GPU",
                                      .compute = 120,
                                      .arena_start = 0x7e0000000000,
                                      .arena_end = 0x7f0000000000,
                                      .launches = &one_launch,
                                      .launch_count = 1,
                                      .has_outputs = 1,
                                      .layout = two_arguments,
                                      .argument_count = 2,
                                      .buffers = two_buffers,
                                      .buffer_count = 2,
                                      .pinned = one_pinned,
                                      .pinned_count = 1,
                                      .variables = one_variable,
                                      .variable_count = 1};

TEST(bundles_come_back_as_they_were)
{
    struct bundle *read = NULL;
    char *text = bundle_write(&written);
    assert_non_null(text);
    assert_int_equal(bundle_read(text, strlen(text), &read, &problem), CUFENCE_OK);
    free(text);
    text = bundle_write(read); /* its buffers by address */
    golden_check(GOLDEN "snapshots.expect", "bundle", text);
    free(text);
    assert_ptr_equal(bundle_find(read, 0x7e00005fffff), &read->buffers[1]);
    assert_null(bundle_find(read, 0x7e0000600000));
    assert_ptr_equal(bundle_find(read, 0x1017), read->pinned);
    assert_null(bundle_find(read, 0x1018));
    bundle_free(read);
}

/* In cufence's address space, twice, of another size than its mapping, too many. */
TEST(unsound_pinned_memory_is_refused)
{
    static const char format[] = "{\"bundle\": 1, \"kernel\": \"k\", \"arena_start\": \"0x10000\", \"arena_end\": \"0x20000\", "
                                 "\"launches\": [{\"grid\": [1, 1, 1], \"block\": [1, 1, 1], \"cluster\": [0, 0, 0], "
                                 "\"arguments\": \"\"}], \"buffers\": [], \"pinned\": [%s]}";
    static const char *const cases[] = {
        "{\"address\": \"0xfff0\", \"size\": 16, \"mapping_start\": \"0xfff0\", \"mapping_end\": \"0x10000\"}", /* well */
        "{\"address\": \"0xfff0\", \"size\": 17, \"mapping_start\": \"0xfff0\", \"mapping_end\": \"0x10001\"}",
        "{\"address\": \"0xfff0\", \"size\": 8, \"mapping_start\": \"0xfff0\", \"mapping_end\": \"0x10000\"}",
        "{\"address\": \"0xfff0\", \"size\": 0, \"mapping_start\": \"0xfff0\", \"mapping_end\": \"0xfff0\"}",
        ("{\"address\": \"0x1000\", \"size\": 1, \"mapping_start\": \"0x1000\", \"mapping_end\": \"0x1001\"}, "
         "{\"address\": \"0x1000\", \"size\": 1, \"mapping_start\": \"0x1000\", \"mapping_end\": \"0x1001\"}"),
        "7",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        struct bundle *read;
        snprintf(text, sizeof text, format, cases[i]);
        assert_int_equal(bundle_read(text, strlen(text), &read, &problem), i ? CUFENCE_ERROR_CORRUPT : CUFENCE_OK);
        if (i)
            assert_non_null(strstr(problem.text, i < 5 && i != 3 ? "pinned" : "damaged"));
        bundle_free(read);
    }
}

/* ---- what cufence knew ---- */

TEST(what_is_no_snapshot_gets_a_sentence)
{
    static const struct {
        const char *bytes, *sentence;
        cufence_status status;
    } cases[] = {
        {"", "not JSON: line 1", CUFENCE_ERROR_CORRUPT},
        {"[]", "not a snapshot of cufence", CUFENCE_ERROR_CORRUPT},
        {"{\"kind\":\"overrun\"}", "not a snapshot of cufence", CUFENCE_ERROR_CORRUPT},
        {"{\"snapshot\":3}", "its version is 3; this cufence reads versions up to 2", CUFENCE_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snapshot *snapshot = (struct snapshot *)&problem;
        assert_int_equal(snapshot_read(cases[i].bytes, strlen(cases[i].bytes), &snapshot, &problem), cases[i].status);
        assert_null(snapshot);
        assert_non_null(strstr(problem.text, cases[i].sentence));
    }
    snapshot_free(NULL);
}
