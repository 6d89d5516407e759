/*
 * Reports of every kind, as text, JSON and annotation, and snapshots, as the files in tests/golden have them byte for byte.
 * `bin/unit_golden --update` writes the files anew: read the difference before you commit it.
 */
#include "support/told.h"

#include "golden_finding.h"

#include "support/schema.h"

#include "analysis/bundle/snapshot_json.h"
#include "finding/finding.h"

/* ---- faults ---- */

static char *json_of(const struct story *story, const struct rerun_result *rerun, const struct fault_memory *memory,
                     const struct finding_source *from)
{
    struct diagnosis diagnosis;
    fault_diagnose_rerun(&story->evidence, rerun, memory, &diagnosis);
    return told_rerun(finding_json, &diagnosis, rerun, from);
}

/* What is read back is the same snapshot, and tells the same. */
static void check_read_back(const char *bytes, const struct story *story, const struct finding_source *from)
{
    struct snapshot *snapshot;
    struct problem problem;
    assert_int_equal(snapshot_read(bytes, strlen(bytes), &snapshot, &problem), CUFENCE_OK);
    char *again = snapshot_write(&snapshot->memory, &snapshot->origin, &snapshot->rerun);
    assert_string_equal(again, bytes);
    free(again);
    snapshot->rerun.evidence = story->rerun.evidence;               /* which is a dump of its own */
    if (!story->memory.recent_count && !story->memory.is_unknown) { /* those are not kept */
        char *before = json_of(story, &story->rerun, &story->memory, from);
        char *after = json_of(story, &snapshot->rerun, &snapshot->memory, from);
        assert_string_equal(after, before);
        free(before);
        free(after);
    }
    snapshot_free(snapshot);
}

static void check_snapshot(const char *name, const struct story *story, const struct finding_source *of)
{
    const struct snapshot_source from = {
        4242, -1, 1, "NVIDIA H100 80GB HBM3", "/usr/bin/python3", "uaf=strict", 1795318140155089896};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    char *bytes = snapshot_write(&story->memory, &from, &story->rerun);
    assert_non_null(bytes);
    check_read_back(bytes, story, of);
    put(out, bytes);
    fclose(out);
    golden_check(GOLDEN "snapshots.expect", name, text);
    free(text);
}

static void check_story(const char *name, const struct story *story, const struct finding_source *from)
{
    struct finding finding;
    struct diagnosis diagnosis;
    fault_diagnose_rerun(&story->evidence, &story->rerun, &story->memory, &diagnosis);
    finding_of_fault(&finding, &diagnosis, &story->rerun, from);
    check_finding(name, &finding);
    check_snapshot(name, story, from);
}

TEST(faults)
{
#define STORY(name)                                                                                                            \
    {                                                                                                                          \
#name, name                                                                                                            \
    }
    /* clang-format off */
    static const struct {
        const char *name;
        void (*make)(struct story *story);
    } stories[] = {
        STORY(overrun), STORY(without_parameters), STORY(vector_overrun), STORY(approximate), STORY(underrun),
        STORY(use_after_free), STORY(slack_behind_the_end), STORY(null_pointer), STORY(null_field), STORY(host_pointer),
        STORY(wild_outside), STORY(wild_inside), STORY(misaligned), STORY(another_devices_buffer), STORY(exited),
        STORY(exited_with_parameters), STORY(address_not_decoded), STORY(far_from_its_buffer), STORY(by_tensor_map), STORY(by_good_tensor_map), STORY(by_one_of_many_tensor_maps),
        STORY(assertion), STORY(trap),
        STORY(wrong_vote_mask), STORY(bystander), STORY(two_kernels), STORY(no_exception), STORY(launched),
        STORY(launched_twice), STORY(launched_from_two_places), STORY(launched_in_a_graph), STORY(launched_with_structs),
        STORY(exited_launched), STORY(exited_launched_traced), STORY(exited_launched_loaded), STORY(exited_launched_const),
        STORY(exited_launched_twice), STORY(rerun), STORY(rerun_given), STORY(rerun_for_nothing), STORY(rerun_second_launch),
        STORY(rerun_exited), STORY(rerun_all_over), STORY(rerun_result_elsewhere_in_it),
        STORY(rerun_well), STORY(rerun_well_with_variables), STORY(not_rerun), STORY(rerun_with_all),
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        struct story story;
        stories[i].make(&story);
        check_story(stories[i].name, &story, &origin);
    }
}

/* Everything that is known of buffers, and names of the program that are no UTF-8 or would forge a line. */
TEST(a_fault_with_all_that_can_be_known)
{
    struct story story;
    static const char *const words[] = {"python", "tr\xff.py"};
    const struct finding_process process = {.time = "2026-11-22T05:46:49Z",
                                            .host = "node7",
                                            .command = words,
                                            .word_count = 2,
                                            .job = {{"RANK", "3"}, {"SLURM_JOB_ID", "17"}},
                                            .job_count = 2};
    const struct finding_source known = {4242, 3, 2, "Tesla T4", &process};
    use_after_free(&story);
    add_launch(&story, NULL, 0, 0);
    for (size_t i = 0; i < story.memory.near_count; i++) {
        story.near[i].allocated_stack = 120;
        story.near[i].freed_stack = story.near[i].freed_ns ? 130 : 0;
        story.near[i].freed_ago = story.near[i].freed_ns ? 1200 : 0;
        story.near[i].redzone_after = 312;
        snprintf(story.near[i].label, sizeof story.near[i].label, "layer %zu\n\"w\"\xc3", i);
    }
    story.memory.frames.read = frames_of;
    story.memory.recent = story.entries;
    story.memory.recent_count = 1;
    story.stops[0].kernel = "void k<int>(int)\n\xf0\x9f\x92\xa9\xed\xa0\x80";
    story.stops[0].file = "/home/me/repo/a,b:\n100%.py";
    story.evidence.driver_major = 580;
    strcpy(story.evidence.sm_type, "sm_90");
    check_story("all_that_can_be_known", &story, &known);
}

TEST(a_fault_of_an_unknown_process)
{
    struct story story;
    const struct finding_source nobody = {1, -1, -1, NULL, NULL};
    overrun(&story);
    story.evidence.device_name[0] = '\0';
    story.memory.near = NULL;
    story.memory.near_count = 0;
    story.memory.is_unknown = 1;
    story.stops[0].exception = exception_of(14, NULL);
    check_story("memory_unknown", &story, &nobody);
    story.lanes[1].certainty = CERTAIN_NOT;
    check_story("memory_and_an_address_unknown", &story, &nobody);
}

TEST(names_and_source_in_full)
{
    struct story story;
    struct finding finding;
    struct diagnosis diagnosis;
    overrun(&story);
    story.stops[0].kernel = "void k_oob<int>(int*)";
    fault_diagnose(&story.evidence, &story.memory, &diagnosis);
    finding_of_fault(&finding, &diagnosis, NULL, &origin);
    finding.is_verbose = 1;
    finding.known = "baseline";
    finding.where.source_count = 2;
    finding.where.source[0] = (struct source_line){.number = 8, .text = "\tif (i < n)"};
    finding.where.source[1] = (struct source_line){.number = 9, .text = "x[i] = \xff; \033[2J"};
    check_finding("verbose_with_source", &finding);
}

/* ---- calls on the host ---- */

TEST(calls_on_the_host)
{
    static const struct {
        const char *name;
        cufence_place place;
        size_t buffer; /* ALL: none */
        enum access_kind access;
    } cases[] = {
        /* clang-format off */
        {"host_freed", CUFENCE_PLACE_FREED, F, ACCESS_READ}, {"host_inside", CUFENCE_PLACE_INSIDE, A, ACCESS_WRITE},
        {"host_past_end", CUFENCE_PLACE_PAST_END, A, 0}, {"host_before", CUFENCE_PLACE_BEFORE_START, A, 0},
        {"host_no_buffer", CUFENCE_PLACE_NO_BUFFER, ALL, 0}, {"host_unknown", CUFENCE_PLACE_UNKNOWN, ALL, 0},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cufence_description place = {.place = cases[i].place, .offset = 8};
        struct stack_frame frames[2];
        if (cases[i].buffer != ALL)
            place.buffer = world[cases[i].buffer];
        place.buffer.allocated_stack = 120;
        place.buffer.freed_stack = cases[i].place == CUFENCE_PLACE_FREED ? 130 : 0;
        CHECK(misuse, cases[i].name,
              &(struct misuse){.kind = "invalid free",
                               .call = "cuMemFree",
                               .sentence = "0x10 is no\nbuffer",
                               .address = A_START + 8,
                               .access = cases[i].access,
                               .bytes = cases[i].access ? 4000 : 0,
                               .where = &place,
                               .tid = 4242,
                               .frames = frames,
                               .frame_count = i < 4 ? frames_of(NULL, 41, frames, 2) : 0,
                               .now_ns = 73000000,
                               .buffer_frames = {frames_of, NULL}});
    }
}

TEST(a_call_from_deep_within_a_library)
{
    enum { DEPTH = 12 };
    struct stack_frame frames[DEPTH] = {0};
    const cufence_description place = {.place = CUFENCE_PLACE_FREED, .buffer = world[F]};
    for (int i = 0; i < DEPTH; i++)
        frames[i] = (struct stack_frame){.is_python = 1,
                                         .file = "/venv/lib/python3.12/site-packages/torch/nn/module.py",
                                         .function = "call",
                                         .line = 100 + i};
    strcpy(frames[DEPTH - 2].file, "/home/me/train.py");
    CHECK(misuse, "deep_stack",
          &(struct misuse){.kind = "double free",
                           .call = "cuMemFree",
                           .sentence = "has been freed before",
                           .address = place.buffer.address,
                           .where = &place,
                           .frames = frames,
                           .frame_count = DEPTH});
}

TEST(stream_races)
{
    const cufence_description place = {.place = CUFENCE_PLACE_INSIDE, .buffer = world[A]};
    struct stack_frame frames[2];
    const struct launch_entry entry = {.grid = {8, 1, 1}, .block = {128, 1, 1}};
    const struct earlier_use launch = {.kernel = "_Z5scalePfi",
                                       .entry = &entry,
                                       .stream = 0x5581c0,
                                       .by_stream = 0x5581c8,
                                       .tid = 4243,
                                       .time_ns = 50000000,
                                       .frames = frames,
                                       .frame_count = frames_of(NULL, 41, frames, 2)};
    const struct earlier_use copy = {.call = "cuMemcpyAsync", .by_host = 1, .stream = 0x5581c0, .tid = 4243};
    struct misuse misuse = {.kind = "stream race",
                            .call = "cuMemFreeAsync",
                            .sentence = "what it did",
                            .address = place.buffer.address,
                            .bytes = 16,
                            .where = &place,
                            .now_ns = 73000000,
                            .earlier = &launch};
    CHECK(misuse, "race_with_a_launch", &misuse);
    misuse.access = ACCESS_WRITE;
    misuse.earlier = &copy;
    CHECK(misuse, "race_with_a_copy", &misuse);

    /* Where the launch was made is not on record each time: the race is the same. */
    const struct earlier_use unplaced = {.kernel = launch.kernel};
    char *keys[2];
    for (int i = 0; i < 2; i++) {
        struct finding finding;
        misuse.earlier = i ? &unplaced : &launch;
        finding_of_misuse(&finding, &misuse, &origin);
        keys[i] = finding_key(&finding);
        finding_free(&finding);
    }
    assert_string_equal(keys[0], keys[1]);
    free(keys[0]);
    free(keys[1]);
}

/* ---- what is found without a fault ---- */

TEST(unexplained_faults)
{
    struct finding finding;
    const struct finding_source second = {4242, 1, -1, NULL, NULL};
    finding_unexplained(&finding, "its core dump (7 bytes) cannot be read: it is not an ELF file", &second);
    check_finding("unexplained", &finding);
}

static struct slack_write slack_before(const cufence_buffer *buffer)
{
    return (struct slack_write){.buffer = buffer,
                                .found = {.is_before = 1,
                                          .address = buffer->address - 8,
                                          .span = 20,
                                          .changed = 4,
                                          .bytes = {0x00, 0x00, 0x20, 0x40, [19] = 1},
                                          .byte_count = 20,
                                          .buffers = 1,
                                          .first_id = 1},
                                .now_ns = 90000000};
}

TEST(slack)
{
    static struct launch_function function = {.name = "_Z5storePfi"};
    const struct launch_entry entry = {.function = &function, .grid = {8, 1, 1}, .block = {128, 1, 1}, .time_ns = 2000};
    const struct launch_entry nameless = {.time_ns = 95000000};
    struct stack_frame frames[2];
    cufence_buffer buffer = world[A];
    strcpy(buffer.label, "y");
    struct slack_write write = slack_before(&buffer);
    CHECK(slack, "slack_by_nobody", &write);
    write.launches[0] = (struct fault_launch){.entry = &entry, .frames = frames, .frame_count = frames_of(NULL, 9, frames, 2)};
    write.launches[1] = (struct fault_launch){.entry = &nameless};
    write.launch_count = write.launch_total = 1;
    write.found.span = write.found.byte_count = 4;
    write.has_type = 1; /* VALUE_FLOAT32 */
    CHECK(slack, "slack_by_one", &write);
    write.type = VALUE_INT16;
    write.graphs = 1; /* which makes it a candidate, and so do older launches that are not known */
    CHECK(slack, "slack_by_one_or_a_graph", &write);
    write.graphs = 0;
    write.has_type = 0;
    write.is_incomplete = 1;
    strcpy(write.untold, "no thread wrote there");
    CHECK(slack, "slack_by_one_or_an_older_one", &write);
    write.is_incomplete = 0;
    write.apart = 1;
    strcpy(write.untold,
           "the second launch cannot have the device heap (the module calls malloc()), so its facts are not used");
    CHECK(slack, "slack_by_one_of_another_time", &write);
    write.untold[0] = '\0';
    write.is_incomplete = 1;
    write.apart = 0;
    write.launch_count = 2;
    write.launch_total = 12;
    write.graphs = 2;
    write.found.buffers = 3;
    write.found.is_before = 0;
    write.found.address = buffer.address + buffer.size + 1;
    write.found.changed = 1;
    CHECK(slack, "slack_by_several", &write);
    struct evidence_lane lane = {.lane = 9, .thread = {105}};
    const struct evidence_stop stop = {.is_warp_alive = 1,
                                       .kernel = "store(float*, int)",
                                       .symbol = "_Z5storePfi",
                                       .kernel_offset = 0xc0,
                                       .error_pc = 0x7f0000001cc0,
                                       .file = "k.cu",
                                       .line = 14,
                                       .instruction = "STG.E [R2.64], R5",
                                       .access = ACCESS_WRITE,
                                       .access_bytes = 4,
                                       .block_index = {7}};
    write.again = (struct slack_again){&stop, &lane, write.found.address, 3, 1, 1};
    write.launch_count = write.launch_total = 2;
    write.graphs = 0;
    write.is_incomplete = 0;
    write.found.buffers = 1;
    CHECK(slack, "slack_launched_again", &write);
}

/* The report stands in the page as an example, indented by two, without a space at a line's end. */
static void check_page(const char *page, char *report)
{
    char *whole = golden_read(page), *shown = NULL;
    size_t size;
    FILE *out = open_memstream(&shown, &size);
    for (char *line = strtok(report, "\n"); line; line = strtok(NULL, "\n"))
        fprintf(out, "  %.*s\n", (int)strlen(line) - (line[strlen(line) - 1] == ' '), line);
    fclose(out);
    assert_non_null(whole);
    if (!strstr(whole, shown))
        fail_msg("%s shows another report than\n%s", page, shown);
    free(shown);
    free(whole);
    free(report);
}

/* A row of a pool, written to while it was poisoned: what is told of it wherever that is found. */
TEST(poison)
{
    static struct launch_function function = {.name = "_Z5storePfi"};
    const struct launch_entry entry = {
        .function = &function, .grid = {8, 1, 1}, .block = {128, 1, 1}, .tid = 4242, .stream = 0x5581c0, .time_ns = 9900000};
    struct stack_frame frames[2], poisoned[2];
    struct finding finding;
    cufence_buffer buffer = world[A];
    strcpy(buffer.label, "cache");
    struct slack_write write = slack_before(&buffer);
    write.found.address = buffer.address + 3012;
    write.found.span = write.found.byte_count = 4;
    write.found.poison = (struct poison_fact){.start = buffer.address + 3000,
                                              .bytes = 1000,
                                              .ns = 1000000,
                                              .stream = 0x5581c0,
                                              .tid = 4242,
                                              .frames = poisoned,
                                              .frame_count = frames_of(NULL, 9, poisoned, 2)};
    CHECK(slack, "poison_found_at_the_end", &write); /* which launches there were is no longer known */
    write.has_type = 1;                              /* VALUE_FLOAT32 */
    write.launches[0] = (struct fault_launch){.entry = &entry};
    write.launch_count = write.launch_total = 1;
    CHECK(slack, "poison_found_at_unpoison", &write);
    write.found.poison.copy = "cuMemcpyHtoD";
    write.found.poison.copies = 2;
    CHECK(slack, "poison_that_is_copied_to", &write);
    write.found.poison.copies = 0;
    finding_of_slack(&finding, &write, &origin);
    check_page(CUFENCE_FIXTURES "/../../docs/poison.md", finding_text(&finding));
    finding_free(&finding);
    write.launches[0].frames = frames;
    write.launches[0].frame_count = frames_of(NULL, 41, frames, 2);
    write.launches[1] = (struct fault_launch){.entry = &entry};
    write.launch_count = 2;
    write.launch_total = 12;
    write.graphs = 1;
    CHECK(slack, "poison_found_by_check", &write);
    write.is_incomplete = 1;
    write.graphs = 0;
    buffer.freed_ns = 50000000; /* before the check was over */
    buffer.free_stream = 0x5581c0;
    buffer.freed_tid = 4243;
    CHECK(slack, "poison_found_at_free", &write);
}

/* The same launch at the same place of allocation is reported once; the other side is another finding. */
TEST(sides_and_launches_tell_slack_apart)
{
    static struct launch_function functions[] = {{.name = "first"}, {.name = "second"}};
    const struct launch_entry entries[] = {{.function = &functions[0]}, {.function = &functions[1]}};
    char *keys[4];
    for (int i = 0; i < 4; i++) {
        struct finding finding;
        struct slack_write write = {.buffer = &world[A],
                                    .found = {.is_before = i & 1, .address = i & 1 ? A_START - 8 : A_END},
                                    .launches = {{.entry = &entries[i >> 1]}},
                                    .launch_count = 1,
                                    .launch_total = 1};
        finding_of_slack(&finding, &write, &origin);
        keys[i] = finding_key(&finding);
        finding_free(&finding);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(keys[i], keys[j]);
    }
    for (int i = 0; i < 4; i++)
        free(keys[i]);
}

TEST(leaks)
{
    cufence_buffer buffer = world[A];
    buffer.allocated_stack = 120;
    struct leak leak = {.largest = &buffer, .buffers = 1, .bytes = 4000, .frames = {frames_of, NULL}, .now_ns = 73000000};
    CHECK(leak, "leak_of_one", &leak);
    leak.buffers = 3;
    leak.bytes = UINT64_C(3) << 30;
    CHECK(leak, "leak_of_three", &leak);
}

/* ---- what is no finding ---- */

TEST(lines_that_are_no_findings)
{
    const struct guarded guarded = {1, 2, 3, 4, 5, 6, 7};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    put(out, json_of_guarded(&origin, NULL));
    put(out, json_of_guarded(&origin, &guarded));
    fclose(out);
    golden_check(GOLDEN "findings.expect", "no_findings", text);
    free(text);
}

/* ---- the schema ---- */

TEST(the_schema_has_what_the_tables_have)
{
    json_t *whole = json_load_file(CUFENCE_FIXTURES "/../../allocator/finding/schema.json", 0, NULL);
    json_t *definitions = json_object(), *made = record_schema(&finding_facts, definitions);
    assert_non_null(whole);
    json_object_del(whole, "$comment");
    json_object_update_missing(json_object_get(made, "properties"), json_object_get(whole, "properties"));
    json_object_set(whole, "properties", json_object_get(made, "properties"));
    json_object_update_missing(json_object_get(whole, "$defs"), definitions);
    char *text = json_dumps(whole, JSON_INDENT(1));
    golden_check(CUFENCE_FIXTURES "/../../docs/finding.schema.json", NULL, text);
    free(text);
    json_decref(definitions);
    json_decref(made);
    json_decref(whole);
}
