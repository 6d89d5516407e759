/* The report as JSON: parsed back, and compared with the story and the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/version.h"
#include "support/told.h"
#include "rerun_stories.h"

static const struct finding_origin origin = {.pid = 4242, .rank = 3, .device = 0};

struct told {
    struct story story; /* the diagnosis points into it */
    struct diagnosis diagnosis;
    char *text;
    json_t *json;
};

/* Appends the line to the file for test_schema.py, if it asks for one. */
static void keep(const char *line)
{
    const char *path = getenv("CUFENCE_KEEP_JSON");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    fputs(line, file);
    fclose(file);
}

static struct told *tell(void (*make)(struct story *story))
{
    struct told *told = calloc(1, sizeof *told);
    assert_non_null(told);
    make(&told->story);
    const struct rerun_result *rerun = &told->story.rerun;
    fault_diagnose_rerun(&told->story.evidence, rerun, &told->story.memory, &told->diagnosis);
    told->text = told_rerun(finding_text, &told->diagnosis, rerun, &origin);
    char *line = told_rerun(finding_json, &told->diagnosis, rerun, &origin);
    assert_non_null(told->text);
    assert_non_null(line);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    told->json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(told->json);
    keep(line);
    free(line);
    return told;
}

static void forget(struct told *told)
{
    json_decref(told->json);
    free(told->text);
    free(told);
}

/* The member that a path such as "buffer.distance" or "candidates.buffers.0.id" names; NULL if there is none. */
static json_t *at(json_t *json, const char *path)
{
    char key[64];
    while (json && *path) {
        size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        json = json_is_array(json) ? json_array_get(json, strtoul(key, NULL, 10)) : json_object_get(json, key);
        path += length + (path[length] == '.');
    }
    return json;
}

static void expect_member(json_t *json, const char *path, const char *expected)
{
    char *found = at(json, path) ? json_dumps(at(json, path), JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (!expected && found)
        fail_msg("%s is %s, and should be absent", path, found);
    if (expected && (!found || strcmp(found, expected) != 0))
        fail_msg("%s is %s, and should be %s", path, found ? found : "absent", expected);
    free(found);
}

/* 64 bytes of floats, 2.0 each. */
#define FOUR "00000040000000400000004000000040"
#define VALUES FOUR FOUR FOUR FOUR

/* clang-format off */
static const struct {
    void (*make)(struct story *story);
    const char *facts[18][2]; /* path, JSON; NULL: absent */
} stories[] = {
    {overrun, {{"kind", "\"overrun\""}, {"address", "{\"value\":\"0x7e0004200000\",\"certainty\":\"exact\",\"in_arena\":true}"},
               {"access", "{\"kind\":\"write\",\"bytes\":4}"}, {"buffer.id", "1"}, {"buffer.size", "4000"},
               {"buffer.distance", "{\"bytes\":0,\"from\":\"past the end\"}"}, {"buffer.certainty", "\"exact\""},
               {"buffer.argument_word", "1"}, {"rival", NULL}, {"candidates", NULL}, {"next.id", "2"},
               {"counts", "{\"threads\":2,\"warps\":1}"}, {"thread", "{\"block\":[7,0,0],\"thread\":[104,0,0]}"}}},
    {without_parameters, {{"kind", "\"underrun\""}, {"buffer.id", "2"}, {"buffer.certainty", "\"derived\""},
               {"buffer.reason", "\"nearer end, no argument decides\""}, {"buffer.argument_word", NULL},
               {"buffer.distance", "{\"bytes\":34599008,\"from\":\"before the start\"}"}, {"rival.id", "1"},
               {"rival.certainty", "\"candidate\""}, {"rival.distance", "{\"bytes\":34599008,\"from\":\"past the end\"}"}}},
    {vector_overrun, {{"kind", "\"overrun\""}, {"access", "{\"kind\":\"read\",\"bytes\":16,\"bytes_past_end\":8}"},
               {"kernel.cluster", "[1,2,1]"}, {"kernel.file", "\"oob.py\""}, {"kernel.line", NULL}, {"kernel.instruction", NULL},
               {"counts.warps", "3"}}},
    {approximate, {{"address.certainty", "\"derived\""}, {"access", NULL}, {"kernel.grid", NULL}, {"kernel.symbol", NULL},
               {"kernel.offset", NULL}, {"kernel.file", NULL}, {"kernel.line", NULL}, {"kernel.name", "\"k_oob\""}}},
    {underrun, {{"kind", "\"underrun\""}, {"access.kind", "\"atomic\""}, {"buffer.label", "\"layer 3\\nattention \xc3\xa9\""},
               {"buffer.distance", "{\"bytes\":32,\"from\":\"before the start\"}"}, {"buffer.size", "2097152"}}},
    {use_after_free, {{"kind", "\"use-after-free\""}, {"buffer.id", "3"}, {"buffer.is_mapped", "false"},
               {"buffer.distance", "{\"bytes\":40,\"from\":\"the start\"}"}, {"previous.id", "2"}, {"next.id", "7"},
               {"buffer.freed", "{\"ns\":50000000,\"ago_ns\":23000000,\"tid\":4243,\"stream\":\"0x5581c8\"}"}}},
    {slack_behind_the_end, {{"kind", "\"overrun\""}, {"buffer.id", "7"}, {"buffer.distance.bytes", "15"}}},
    {null_pointer, {{"kind", "\"null pointer\""}, {"address", "{\"value\":\"0x0\",\"certainty\":\"exact\",\"in_arena\":false}"},
               {"buffer", NULL}, {"candidates", NULL}}},
    {null_field, {{"kind", "\"null pointer\""}, {"address.value", "\"0x10\""}}},
    {host_pointer, {{"kind", "\"host pointer\""}, {"address.value", "\"0x7fff12345678\""}, {"address.in_arena", "false"}}},
    {wild_outside, {{"kind", "\"wild address\""}, {"address.in_arena", "false"}, {"buffer", NULL},
               {"candidates.from", "\"arguments\""}, {"candidates.buffers.0.id", "1"}}},
    {wild_inside, {{"kind", "\"wild address\""}, {"address.in_arena", "true"}, {"previous.id", "1"}, {"next.id", "7"}}},
    {misaligned, {{"kind", "\"misaligned access\""}, {"exception", "{\"number\":6,\"name\":\"misaligned address\"}"},
               {"address.misaligned", "true"}, {"buffer.distance", "{\"bytes\":10,\"from\":\"the start\"}"}}},
    {another_devices_buffer, {{"kind", "\"illegal access\""}, {"buffer.id", "2"}, {"buffer.distance.bytes", "12"},
               {"address.certainty", "\"exact\""}}},
    {exited, {{"kind", "\"illegal access\""}, {"address", NULL}, {"thread", NULL}, {"warp_exited", "true"},
               {"counts", "{\"sms\":3}"}, {"device.driver", "\"580.159\""}, {"kernel.grid", NULL},
               {"candidates.from", "\"live buffers\""}, {"candidates.total", "12"}, {"candidates.buffers.0.id", "1"},
               {"candidates.buffers.1.certainty", "\"candidate\""}, {"candidates.buffers.2", NULL},
               {"candidates.buffers.0.argument_word", NULL},
               {"notes.1", "\"candidates are the live buffers of the device, newest first\""}, {"notes.2", NULL}}},
    {exited_with_parameters, {{"kernel.name", NULL}, {"kernel.pc", "\"0x7f0000001400\""}, {"device.driver", NULL},
               {"candidates.from", "\"arguments\""}, {"candidates.total", "2"}, {"candidates.narrowed", NULL},
               {"candidates.buffers.0.id", "3"}, {"candidates.buffers.0.argument_word", "0"},
               {"candidates.buffers.0.freed.tid", "4243"}, {"candidates.buffers.1.freed", NULL}}},
    {address_not_decoded, {{"address", NULL}, {"buffer", NULL}, {"warp_exited", "false"}, {"access", NULL},
               {"kernel.instruction", "\"UTMALDG.2D\""}, {"candidates.buffers.0.id", "1"}}},
    {half_known, {{"kind", "\"use-after-free\""}, {"address.completed", "true"}, {"address.certainty", "\"derived\""},
               {"address.value", "\"0x7e000c5ff9e8\""}, {"buffer.id", "3"}}},
    {half_known_between_arguments, {{"address.completed", "true"}, {"buffer.id", "1"}, {"buffer.certainty", "\"derived\""}}},
    {high_half_known, {{"address", NULL}, {"candidates.narrowed", "true"}, {"candidates.total", "1"},
               {"candidates.buffers.0.id", "2"}, {"candidates.buffers.0.address", "\"0x7e01083fe0c0\""}}},
    {assertion, {{"kind", "\"exception\""}, {"exception.number", "12"}, {"exception.name", "\"assertion failed\""},
               {"exception.no_buffer", "true"}, {"exception.possible_cause", NULL}, {"address", NULL}, {"access", NULL},
               {"candidates", NULL}, {"buffer", NULL}, {"thread.thread", "[105,0,0]"}, {"kernel.name", "\"k_oob\""},
               {"kernel.offset", NULL}}},
    {trap, {{"exception.meaning", "\"the kernel trapped by itself\""}, {"exception.no_buffer", "true"},
               {"kernel.instruction", "\"BPT\""}, {"candidates", NULL}}},
    {wrong_vote_mask, {{"exception.possible_cause", "\"the mask of a vote does not match the threads that run it\""}}},
    {bystander, {{"kind", "\"illegal access\""}, {"warp_exited", "true"}, {"thread", NULL}, {"address", NULL}, {"buffer", NULL},
               {"candidates.from", "\"running\""}, {"counts", "{\"sms\":1}"}, {"kernel.grid", NULL}}},
    {two_kernels, {{"buffer.id", "1"}, {"also.0.kernel.name", "\"k_other\""}, {"also.0.exception.number", "14"},
               {"also.1", NULL}}},
    {launched, {{"launch.certainty", "\"exact\""}, {"launch.fits", "1"}, {"launch.graph", NULL},
               {"launch.launched", "{\"ns\":60000000,\"ago_ns\":13000000,\"tid\":4242,\"stream\":\"0x5581c0\"}"},
               {"launch.frames.0", "{\"function\":\"step\",\"file\":\"train.py\",\"line\":41,\"python\":true}"},
               {"launch.frames.2", NULL}, {"buffer.argument", "1"}, {"arguments.certainty", "\"exact\""},
               {"arguments.list.0", "{\"size\":8,\"value\":\"0x0\"}"},
               {"arguments.list.1", "{\"size\":8,\"value\":\"0x7e00041ff060\",\"buffer\":1,\"offset\":0}"},
               {"arguments.list.2", "{\"size\":4,\"value\":\"0x3e8\"}"}, {"arguments.list.3", NULL}}},
    {launched_twice, {{"launch.certainty", "\"derived\""}, {"launch.fits", "2"}, {"arguments.list.0.offset", "12"}}},
    {launched_from_two_places, {{"launch.certainty", "\"candidate\""}, {"launch.frames.0.python", NULL},
               {"launch.frames.0.module", "\"libmodel.so\""}, {"launch.frames.0.offset", "4848"}}},
    {launched_in_a_graph, {{"launch.graph", "true"}, {"launch.fits", "0"}, {"launch.certainty", "\"candidate\""},
               {"arguments", NULL}, {"buffer.argument", NULL}, {"buffer.argument_word", "1"}}},
    {launched_with_structs, {{"arguments.list.0.pointers", "[{\"at\":8,\"buffer\":1,\"offset\":8},{\"at\":16,\"buffer\":2,\"offset\":0}]"},
               {"arguments.list.4", "{\"size\":12,\"pointers\":[]}"}, {"arguments.list.5", "{\"size\":248}"},
               {"buffer.argument", "0"}}},
    {exited_launched, {{"candidates.from", "\"launches\""}, {"candidates.total", "1"}, {"candidates.const_excluded", NULL},
               {"candidates.buffers.0.certainty", "\"candidate\""}, {"candidates.buffers.0.argument", "1"},
               {"arguments.certainty", "\"derived\""}, {"access.loaded", NULL}, {"access.argument", NULL}}},
    {exited_launched_traced, {{"candidates.traced", "true"}, {"candidates.buffers.0.certainty", "\"derived\""},
               {"access.argument", "1"}, {"access.argument_word", "1"}}},
    {exited_launched_loaded, {{"candidates.traced", NULL}, {"candidates.buffers.0.certainty", "\"candidate\""},
               {"access.loaded", "true"}, {"access.argument", NULL}}},
    {exited_launched_const, {{"candidates.const_excluded", "true"}, {"candidates.total", "1"}}},
    {exited_launched_twice, {{"candidates.total", "2"}, {"candidates.buffers.1.certainty", "\"candidate\""},
               {"arguments", NULL}}},
    {rerun, {{"kind", "\"overrun\""}, {"headline", "\"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1 (re-run)\""},
               {"address", "{\"value\":\"0x7e0004200000\",\"certainty\":\"re-run\",\"in_arena\":true}"},
               {"buffer.certainty", "\"re-run\""}, {"buffer.argument", "1"}, {"candidates", NULL}, {"warp_exited", "true"},
               {"thread", "{\"block\":[7,0,0],\"thread\":[104,0,0],\"rerun\":true}"}, {"counts", "{\"threads\":2,\"warps\":1}"},
               {"kernel.grid", "[8,1,1]"}, {"kernel.grid_rerun", "true"}, {"kernel.pc", "\"0x7f0000001400\""},
               {"launch.certainty", "\"re-run\""}, {"launch.fits", "1"}, {"arguments.certainty", "\"re-run\""},
               {"rerun", "{\"outcome\":\"faulted\",\"launches\":1,\"written_bytes\":96,\"ms\":131}"},
               {"written.0.values", "\"" VALUES "\""}, {"written.1", NULL}}},
    {rerun_given, {{"arguments.list.0.figures.type", "\"float64\""}, {"arguments.list.0.figures.is_guess", "true"},
               {"arguments.list.0.figures.count", "1000"}, {"arguments.list.0.figures.of_bytes", "64"},
               {"arguments.list.0.figures.first", "[-0.25,1e22,0.10000000000000001,3.0]"},
               {"arguments.list.1.figures", "{\"type\":\"float32\",\"count\":1000,\"of_bytes\":4000,\"min\":-4.0,\"max\":3.0,"
                                            "\"mean\":-0.49599198396793587,\"zeros\":125,\"nan\":1,\"inf\":1,"
                                            "\"first\":[-4.0,\"NaN\",\"-Infinity\",-1.0]}"},
               {"arguments.list.2.figures", NULL}, {"arguments.certainty", "\"re-run\""}}},
    {rerun_for_nothing, {{"address.certainty", "\"exact\""}, {"warp_exited", "false"}, {"thread.rerun", NULL},
               {"kernel.grid_rerun", NULL}, {"launch.certainty", "\"exact\""}, {"also", NULL},
               {"written.0.distance", "400"}, {"written.0.bytes", "8"}}},
    {rerun_second_launch, {{"buffer.id", "2"}, {"launch.fits", "2"}, {"launch.certainty", "\"re-run\""},
               {"launch.frames.0.module", "\"libmodel.so\""}, {"written", NULL}, {"rerun.launches", "2"}}},
    {rerun_exited, {{"address.certainty", "\"re-run\""}, {"warp_exited", "true"}, {"thread", NULL}, {"buffer.id", "1"},
               {"counts", "{\"sms\":1}"}, {"buffer.reason", "\"the second launch wrote into its guard\""}}},
    {rerun_emulated, {{"address.certainty", "\"re-run\""}, {"warp_exited", "true"},
               {"thread", "{\"block\":[7,0,0],\"thread\":[104,0,0],\"emulated\":true}"}, {"counts", "{\"threads\":2,\"warps\":1}"}}},
    {rerun_all_over, {{"written.0", "{\"buffer\":1,\"side\":\"past_end\",\"distance\":128,\"address\":\"0x7e0004200080\",\"bytes\":8,"
                                   "\"values\":\"ffffffff801d2c04\"}"},
               {"written.1.side", "\"before_start\""}, {"written.1.distance", "64"}, {"written.2.distance", "0"},
               {"written.3.buffer", NULL}, {"written.3.side", NULL}, {"written.3.address", "\"0x7e00107ffff2\""},
               {"written.4.bytes", "4"}}},
    {rerun_result_elsewhere_in_it, {{"address", NULL}, {"kernel.line", "9"}, {"rerun.outcome", "\"faulted\""},
               {"candidates.total", "1"}, {"notes.2", "\"launched again on the memory as the fault left it, the kernel faulted at "
                                                      "another place: oob.py:12 in k_oob+0x4c0\""}}},
    {rerun_well, {{"address", NULL}, {"rerun", "{\"outcome\":\"no fault\",\"launches\":1,\"ms\":98}"}}},
    {not_rerun, {{"rerun.outcome", "\"failed\""},
               {"rerun.reason", "\"the device has no memory\\nfor copies of 3 buffers\""},
               {"notes.2", "\"could not be launched again: the device has no memory?for copies of 3 buffers\""}}},
    {no_exception, {{"kind", "\"exception\""}, {"exception", NULL}, {"kernel", NULL}, {"warp_exited", NULL}, {"counts", NULL},
               {"device.name", "\"NVIDIA H100 80GB HBM3\""}}},
};
/* clang-format on */

static void launched_without_frames(struct story *story)
{
    overrun(story);
    add_launch(story, NULL, 0, 0);
}

static void every_story_has_its_facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        struct told *told = tell(stories[i].make);
        expect_member(told->json, "schema", "2");
        expect_member(told->json, "cufence", "\"" VERSION_TEXT "\"");
        expect_member(told->json, "process", "{\"pid\":4242,\"rank\":3}");
        expect_member(told->json, "device.ordinal", "0");
        for (size_t k = 0; k < 18 && stories[i].facts[k][0]; k++)
            expect_member(told->json, stories[i].facts[k][0], stories[i].facts[k][1]);
        forget(told);
    }
}

/* Everything that struct cufence_buffer holds. */
static void a_buffer_is_told_whole(void **state)
{
    (void)state;
    struct told *told = tell(overrun);
    expect_member(told->json, "next",
                  "{\"id\":2,\"address\":\"0x7e00083fe0c0\",\"size\":8000,\"device\":0,"
                  "\"mapping\":{\"start\":\"0x7e0008200000\",\"end\":\"0x7e0008400000\"},"
                  "\"guard\":{\"start\":\"0x7e0004200000\",\"end\":\"0x7e000c400000\"},\"is_mapped\":true,"
                  "\"allocated\":{\"ns\":1000,\"ago_ns\":72999000,\"tid\":4242,\"stream\":\"0x5581c0\"}}");
    forget(told);
}

static void frames_that_nobody_knows_are_absent(void **state)
{
    (void)state;
    struct told *told = tell(launched);
    expect_member(told->json, "launch.frames.0", "{\"function\":\"step\",\"file\":\"train.py\",\"line\":41,\"python\":true}");
    expect_member(told->json, "launch.frames.2", NULL);
    forget(told);
    told = tell(launched_without_frames);
    expect_member(told->json, "launch.certainty", "\"exact\"");
    expect_member(told->json, "launch.frames", NULL);
    forget(told);
}

/* ---- the text says the same ---- */

/* Fails unless `text` has what the format makes. */
static void expect_in(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void expect_in(const char *text, const char *format, ...)
{
    char expected[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(expected, sizeof expected, format, arguments);
    va_end(arguments);
    if (!strstr(text, expected))
        fail_msg("the text lacks \"%s\":\n%s", expected, text);
}

static const char *string_at(json_t *json, const char *path)
{
    return json_string_value(at(json, path));
}

static long long number_at(json_t *json, const char *path)
{
    return json_integer_value(at(json, path));
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        count++;
    return count;
}

/* The line of the report that begins with the key; "" if there is none. */
static struct line {
    char text[512];
} line_of(const char *text, const char *key)
{
    struct line line = {""};
    char start[64];
    snprintf(start, sizeof start, "==4242==   %s ", key);
    const char *found = strstr(text, start);
    if (found)
        snprintf(line.text, sizeof line.text, "%.*s", (int)strcspn(found, "\n"), found);
    return line;
}

static size_t is_candidate(json_t *fact)
{
    const char *certainty = string_at(fact, "certainty");
    return certainty && !strcmp(certainty, "candidate");
}

static void compare_buffers(const struct told *told, json_t *candidates)
{
    size_t i;
    json_t *buffer;
    if (at(told->json, "buffer")) {
        struct line line = line_of(told->text, "buffer");
        expect_in(line.text, "#%lld, %lld bytes", number_at(told->json, "buffer.id"), number_at(told->json, "buffer.size"));
        expect_in(line.text, "[%s, ", string_at(told->json, "buffer.address"));
        expect_in(line.text, ", stream %s", string_at(told->json, "buffer.allocated.stream"));
        expect_in(told->text, "by thread %lld", number_at(told->json, "buffer.allocated.tid"));
        assert_int_equal(at(told->json, "buffer.freed") != NULL, strstr(told->text, "             freed ") != NULL);
        assert_int_equal(at(told->json, "buffer.argument_word") != NULL, strstr(told->text, "points to this buffer") != NULL);
    }
    size_t uncertain = (at(told->json, "rival") != NULL) + is_candidate(at(told->json, "launch")) +
                       (at(told->json, "exception.possible_cause") != NULL) + (at(told->json, "hint") != NULL);
    json_array_foreach(candidates, i, buffer)
    {
        expect_in(told->text, "buffer     #%lld, %lld bytes", number_at(buffer, "id"), number_at(buffer, "size"));
        uncertain += is_candidate(buffer);
    }
    assert_int_equal(uncertain, count_of(told->text, " candidate\n"));
    assert_int_equal(at(told->json, "rival") != NULL, strstr(told->text, "             or ") != NULL);
    if (at(told->json, "rival"))
        expect_in(told->text, "or %lld bytes %s of buffer #%lld", number_at(told->json, "rival.distance.bytes"),
                  string_at(told->json, "rival.distance.from"), number_at(told->json, "rival.id"));
}

static void compare_address(const struct told *told)
{
    struct line line = line_of(told->text, "address");
    assert_int_equal(at(told->json, "address") != NULL, line.text[0] != '\0');
    if (!line.text[0])
        return;
    expect_in(line.text, "%s, ", string_at(told->json, "address.value"));
    expect_in(line.text, "%s", string_at(told->json, "address.certainty"));
    if (at(told->json, "access.bytes_past_end"))
        expect_in(line.text, "%lld bytes of the access", number_at(told->json, "access.bytes_past_end"));
    else if (at(told->json, "buffer.distance"))
        expect_in(line.text, "%lld bytes ", number_at(told->json, "buffer.distance.bytes"));
    assert_int_equal(at(told->json, "address.completed") != NULL, strstr(told->text, "low half of the address; ") != NULL);
}

static void compare_kernel(const struct told *told)
{
    struct line line = line_of(told->text, "kernel");
    assert_int_equal(at(told->json, "kernel") != NULL, line.text[0] != '\0');
    if (string_at(told->json, "kernel.name")) { /* which the text shortens */
        char name[128];
        finding_kernel(&(struct evidence_site){.kernel = string_at(told->json, "kernel.name")}, name, sizeof name);
        expect_in(line.text, "%s", name);
    }
    if (at(told->json, "kernel.grid"))
        expect_in(at(told->json, "kernel.grid_rerun") ? told->text : line.text, "<<<(%lld,1,1), (%lld,1,1)>>>",
                  number_at(told->json, "kernel.grid.0"), number_at(told->json, "kernel.block.0"));
    if (at(told->json, "kernel.line"))
        expect_in(told->text, "%s:%lld", string_at(told->json, "kernel.file"), number_at(told->json, "kernel.line"));
    if (at(told->json, "kernel.instruction"))
        expect_in(told->text, "   %s", string_at(told->json, "kernel.instruction"));
    if (at(told->json, "kernel.offset"))
        expect_in(told->text, "(%s+0x%llx)", string_at(told->json, "kernel.symbol"), number_at(told->json, "kernel.offset"));
    assert_int_equal(at(told->json, "thread") != NULL, strstr(told->text, "block (") != NULL);
    if (at(told->json, "thread"))
        expect_in(told->text, "block (%lld,0,0) thread (%lld,0,0)", number_at(told->json, "thread.block.0"),
                  number_at(told->json, "thread.thread.0"));
    if (number_at(told->json, "counts.threads") > 1)
        expect_in(told->text, " and %lld more", number_at(told->json, "counts.threads") - 1);
    long long places = number_at(told->json, "counts.warps") + number_at(told->json, "counts.sms");
    assert_int_equal(places > 1, strstr(told->text, "at this instruction") != NULL);
    if (places > 1)
        expect_in(told->text, "%lld more %s", places - 1, at(told->json, "counts.warps") ? "warp" : "SM");
}

static void the_text_says_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof stories / sizeof stories[0]; i++) {
        struct told *told = tell(stories[i].make);
        compare_address(told);
        compare_kernel(told);
        compare_buffers(told, at(told->json, "candidates.buffers"));
        forget(told);
    }
}

/* ---- what comes from outside ---- */

static json_t *json_of(struct story *story, const struct finding_origin *from)
{
    struct diagnosis diagnosis;
    fault_diagnose(&story->evidence, &story->memory, &diagnosis);
    char *line = told_fault(finding_json, &diagnosis, from);
    json_t *json = line ? json_loads(line, 0, NULL) : NULL;
    free(line);
    return json;
}

static void names_that_are_no_utf8_are_repaired(void **state)
{
    (void)state;
    static const struct {
        const char *name, *json;
    } cases[] = {
        {"a\xff", "\"a\xef\xbf\xbd\""},
        {"\xc3", "\"\xef\xbf\xbd\""},
        {"\xf0\x9f\x92\xa9\xed\xa0\x80", "\"\xf0\x9f\x92\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"k\n\"\\", "\"k\\n\\\"\\\\\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct story story;
        overrun(&story);
        story.sites[0].kernel = cases[i].name;
        json_t *json = json_of(&story, &origin);
        expect_member(json, "kernel.name", cases[i].json);
        json_decref(json);
    }
}

static void a_buffer_that_shares_its_page_has_redzones(void **state)
{
    (void)state;
    struct story story;
    overrun(&story);
    json_t *json = json_of(&story, &origin);
    assert_null(json_object_get(json_object_get(json, "buffer"), "redzone"));
    json_decref(json);
    for (size_t i = 0; i < story.memory.near_count; i++)
        story.near[i].redzone_after = 312;
    json = json_of(&story, &origin);
    expect_member(json, "buffer.redzone", "{\"before\":0,\"after\":312}");
    json_decref(json);
}

static void what_is_not_known_of_the_origin_is_absent(void **state)
{
    (void)state;
    static const struct {
        struct finding_origin origin;
        const char *dumped, *process, *device;
    } cases[] = {
        {{1, -1, -1, NULL, NULL}, "", "{\"pid\":1}", "{}"},
        {{1, 0, -1, NULL, NULL}, "T4", "{\"pid\":1,\"rank\":0}", "{\"name\":\"T4\"}"},
        {{1, 0, 2, "Tesla T4", NULL}, "T4", "{\"pid\":1,\"rank\":0}", "{\"ordinal\":2,\"name\":\"Tesla T4\"}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct story story;
        overrun(&story);
        strcpy(story.evidence.device_name, cases[i].dumped);
        json_t *json = json_of(&story, &cases[i].origin);
        expect_member(json, "process", cases[i].process);
        expect_member(json, "device", cases[i].device);
        json_decref(json);
    }
}

static void what_is_known_of_the_process_is_told(void **state)
{
    (void)state;
    const struct finding_process process = {.time = "2026-11-22T05:46:49Z",
                                            .host = "node7",
                                            .command = "python\0train.py\0",
                                            .command_bytes = sizeof "python\0train.py",
                                            .job = {{"RANK", "3"}, {"SLURM_JOB_ID", "17"}},
                                            .job_count = 2};
    struct story story;
    overrun(&story);
    json_t *json = json_of(&story, &(struct finding_origin){1, -1, 0, NULL, &process});
    expect_member(json, "time", "\"2026-11-22T05:46:49Z\"");
    expect_member(json, "process",
                  "{\"pid\":1,\"host\":\"node7\",\"command\":[\"python\",\"train.py\"],"
                  "\"job\":{\"RANK\":\"3\",\"SLURM_JOB_ID\":\"17\"}}");
    expect_member(json, "headline", "\"out-of-bounds WRITE of 4 bytes, 0 bytes past the end of buffer #1\"");
    json_decref(json);
}

static void a_dump_that_cannot_be_read_is_told_too(void **state)
{
    (void)state;
    const struct finding_origin nobody = {7, -1, -1, NULL, NULL};
    char *line = told_unexplained(finding_json, "cut off", &nobody);
    assert_string_equal(line, "{\"schema\":2,\"cufence\":\"" VERSION_TEXT
                              "\",\"kind\":\"unexplained\",\"headline\":\"unexplained fault "
                              "of a kernel\",\"finding_name\":\"unexplained\",\"process\":{\"pid\":7},"
                              "\"reason\":\"cut off\"}\n");
    free(line);
}

static void a_misuse_has_its_call_and_its_buffer(void **state)
{
    (void)state;
    static const struct {
        cufence_place place;
        size_t buffer; /* ALL: none */
        const char *in_arena, *distance;
    } cases[] = {
        {CUFENCE_PLACE_FREED, F, "true", "{\"bytes\":8,\"from\":\"the start\"}"},
        {CUFENCE_PLACE_INSIDE, A, "true", "{\"bytes\":8,\"from\":\"the start\"}"},
        {CUFENCE_PLACE_PAST_END, A, "true", "{\"bytes\":8,\"from\":\"past the end\"}"},
        {CUFENCE_PLACE_BEFORE_START, A, "true", "{\"bytes\":8,\"from\":\"before the start\"}"},
        {CUFENCE_PLACE_NO_BUFFER, ALL, "true", NULL},
        {CUFENCE_PLACE_UNKNOWN, ALL, "false", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cufence_description place = {.place = cases[i].place, .offset = 8};
        if (cases[i].buffer != ALL)
            place.buffer = world[cases[i].buffer];
        const struct stack_frame frame = {.function = "step", .file = "train.py", .line = 41, .is_python = 1};
        const struct misuse misuse = {.kind = "invalid free",
                                      .call = "cuMemFree",
                                      .sentence = "what it did",
                                      .address = A_START + 8,
                                      .place = &place,
                                      .tid = 4242,
                                      .frames = &frame,
                                      .frame_count = 1,
                                      .now_ns = 73000000};
        char *line = told_misuse(finding_json, &misuse, &origin);
        json_t *json = json_loads(line, 0, NULL);
        expect_member(json, "schema", "2");
        expect_member(json, "kind", "\"invalid free\"");
        expect_member(json, "process", "{\"pid\":4242,\"rank\":3}");
        expect_member(json, "finding_name", "\"invalid free by cuMemFree at train.py in step\"");
        expect_member(json, "known", NULL);
        expect_member(json, "call", "\"cuMemFree\"");
        expect_member(json, "reason", "\"what it did\"");
        expect_member(json, "called",
                      "{\"tid\":4242,\"frames\":"
                      "[{\"function\":\"step\",\"file\":\"train.py\",\"line\":41,\"python\":true}]}");
        expect_member(json, "access", NULL);
        expect_member(json, "address.value", "\"0x7e00041ff068\"");
        expect_member(json, "address.in_arena", cases[i].in_arena);
        expect_member(json, "buffer.distance", cases[i].distance);
        if (cases[i].buffer == ALL)
            expect_member(json, "buffer", NULL);
        else
            assert_int_equal(number_at(json, "buffer.id"), world[cases[i].buffer].id);
        json_decref(json);
        free(line);
    }
}

static void a_copy_out_of_bounds_tells_how_far(void **state)
{
    (void)state;
    cufence_description place = {.place = CUFENCE_PLACE_INSIDE, .offset = 8, .buffer = world[A]};
    struct misuse misuse = {.kind = "host write out of bounds",
                            .call = "cuMemcpyHtoD",
                            .sentence = "what it did",
                            .address = A_START + 8,
                            .access = ACCESS_WRITE,
                            .bytes = 4000,
                            .place = &place};
    for (int is_inside = 0; is_inside < 2; is_inside++) {
        place.place = is_inside ? CUFENCE_PLACE_INSIDE : CUFENCE_PLACE_FREED;
        char *line = told_misuse(finding_json, &misuse, &origin);
        json_t *json = json_loads(line, 0, NULL);
        expect_member(json, "access",
                      is_inside ? "{\"kind\":\"write\",\"bytes\":4000,\"bytes_past_end\":8}"
                                : "{\"kind\":\"write\",\"bytes\":4000}");
        json_decref(json);
        free(line);
    }
}

static void a_stream_race_tells_of_the_use(void **state)
{
    (void)state;
    const cufence_description place = {.place = CUFENCE_PLACE_INSIDE, .buffer = world[A]};
    const struct stack_frame frame = {.is_python = 1, .function = "step", .file = "train.py", .line = 41};
    const struct launch_entry entry = {.grid = {8, 1, 1}, .block = {128, 1, 1}};
    const struct earlier_use use = {.kernel = "_Z5scalePfi",
                                    .entry = &entry,
                                    .stream = 0x5581c0,
                                    .by_stream = 0x5581c8,
                                    .tid = 4243,
                                    .time_ns = 50,
                                    .frames = &frame,
                                    .frame_count = 1};
    const struct misuse misuse = {.kind = "stream race",
                                  .call = "cuMemcpyHtoDAsync",
                                  .sentence = "what it did",
                                  .address = A_START,
                                  .access = ACCESS_WRITE,
                                  .bytes = 4000,
                                  .place = &place,
                                  .now_ns = 73,
                                  .earlier = &use};
    char *line = told_misuse(finding_json, &misuse, &origin);
    json_t *json = json_loads(line, 0, NULL);
    expect_member(json, "used",
                  "{\"certainty\":\"derived\",\"kernel\":\"scale\",\"symbol\":\"_Z5scalePfi\",\"reason\":\"stream 0x5581c8 has "
                  "not waited for an event after that work, and neither has the host\",\"grid\":[8,1,1],\"block\":[128,1,1],"
                  "\"ns\":50,\"ago_ns\":23,\"tid\":4243,\"stream\":\"0x5581c0\",\"by_stream\":\"0x5581c8\",\"frames\":"
                  "[{\"function\":\"step\",\"file\":\"train.py\",\"line\":41,\"python\":true}]}");
    expect_member(json, "access", "{\"kind\":\"write\",\"bytes\":4000}"); /* it is within the buffer */
    expect_member(json, "hint", "\"let the stream of this call wait for an event recorded after that work\"");
    keep(line);
    json_decref(json);
    free(line);
}

static void the_rank_is_the_environments(void **state)
{
    (void)state;
    static const struct {
        const char *rank, *local_rank;
        int expected;
    } cases[] = {{NULL, NULL, -1}, {"7", "1", 7}, {NULL, "1", 1}, {"", "1", 1},
                 {"x", NULL, -1},  {"x", "2", 2}, {"-1", "0", 0}, {"99999999999", NULL, -1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsetenv("RANK");
        unsetenv("LOCAL_RANK");
        if (cases[i].rank)
            setenv("RANK", cases[i].rank, 1);
        if (cases[i].local_rank)
            setenv("LOCAL_RANK", cases[i].local_rank, 1);
        assert_int_equal(options_rank(), cases[i].expected);
    }
}

/* ---- a host without memory ---- */

static long allowance, blocks;

static void *scarce_malloc(size_t size)
{
    if (allowance-- <= 0)
        return NULL;
    blocks++;
    return malloc(size);
}

static void counted_free(void *block)
{
    blocks -= block != NULL;
    free(block);
}

static void every_failure_to_allocate_gives_no_report(void **state)
{
    (void)state;
    struct story story;
    struct diagnosis diagnosis;
    rerun_all_over(&story);
    fault_diagnose_rerun(&story.evidence, &story.rerun, &story.memory, &diagnosis);
    json_set_alloc_funcs(scarce_malloc, counted_free);
    long limit = 0;
    for (char *line = NULL; !line; limit++) {
        assert_true(limit < 10000);
        allowance = limit;
        blocks = 0;
        line = told_rerun(finding_json, &diagnosis, &story.rerun, &origin);
        assert_int_equal(blocks, line != NULL);
        if (line) {
            json_set_alloc_funcs(malloc, free);
            free(line);
            break;
        }
    }
    assert_true(limit > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_story_has_its_facts),
        cmocka_unit_test(a_buffer_is_told_whole),
        cmocka_unit_test(frames_that_nobody_knows_are_absent),
        cmocka_unit_test(the_text_says_the_same),
        cmocka_unit_test(names_that_are_no_utf8_are_repaired),
        cmocka_unit_test(what_is_not_known_of_the_origin_is_absent),
        cmocka_unit_test(what_is_known_of_the_process_is_told),
        cmocka_unit_test(a_dump_that_cannot_be_read_is_told_too),
        cmocka_unit_test(a_misuse_has_its_call_and_its_buffer),
        cmocka_unit_test(a_stream_race_tells_of_the_use),
        cmocka_unit_test(a_copy_out_of_bounds_tells_how_far),
        cmocka_unit_test(the_rank_is_the_environments),
        cmocka_unit_test(a_buffer_that_shares_its_page_has_redzones),
        cmocka_unit_test(every_failure_to_allocate_gives_no_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
