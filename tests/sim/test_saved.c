/* `cufence run --save-values`, and `cufence replay` of launches that did not fault, with a program that knows nothing of them
 * (saved_story.c), on the simulated device. */
#include "support/folder.h"
#include "child.h"
#include "support/shell.h"

/* Saves the stories' launches anew. */
static void save_within(const char *limit, const char *options, const char *stories)
{
    SUCCEEDS("rm -rf s; LD_LIBRARY_PATH=%s %s run --save-values '*=s%s' %s -- %s %s", CUFENCE_RUN_DRIVER, CUFENCE_CLI, limit,
             options, CUFENCE_SAVED_STORY, stories);
}

static void save(const char *options, const char *stories)
{
    save_within("", options, stories);
}

/* Gives the launch other bytes of arguments, and its record too, by which the report finds where it was launched. */
static void give(const char *launch, int offset, const char *hex)
{
    SUCCEEDS("sed -i 's/\\(\"\\(arguments\\|bytes\\)\": *\"[0-9a-f]\\{%d\\}\\)[0-9a-f]\\{%zu\\}/\\1%s/' "
             "s/%s/launch.json $(ls s/%s/facts.json)",
             2 * offset, strlen(hex), hex, launch, launch);
}

#define expect_replay(arguments, status, ...)                                                                                  \
    expect_end(run_shell("%s replay %s", CUFENCE_CLI, arguments), status, PATTERNS(__VA_ARGS__))

TEST(the_first_of_each_kernel_are_bundles)
{
    static const char *const files[] = {"launch.json", "kernel.cubin", "README.md",  "facts.json",
                                        "values.json", "0.before.npy", "1.after.npy"};
    save("", "scale");
    SAYS("save_values: 6 launches saved in .*", "save_values: 4 of them for `cufence replay`, at most 4 of a kernel");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[128];
        snprintf(path, sizeof path, "s/000001-scale/%s", files[i]);
        assert_int_equal(mode_of(path), 0600);
    }
    SUCCEEDS("ls s/*/launch.json | wc -l | grep -x 4 && ls s/*/values.json | wc -l | grep -x 6");
    SUCCEEDS("grep '1.before.npy, after the launch 1.after.npy' s/000001-scale/README.md");
    SUCCEEDS("stat -c %%h s/000001-scale/kernel.cubin | grep -x 4"); /* one file */
    save_within(";4G/1", "", "scale waver");
    SUCCEEDS("echo s/*/launch.json | grep -x 's/000001-scale/launch.json s/000007-waver/launch.json'");
    save_within(";4G/0", "", "scale");
    assert_int_equal(run_shell("ls s/*/launch.json"), 2);
}

/* One kernel in three shapes: another grid, another buffer. */
TEST(the_first_of_each_shape_is_saved)
{
    SUCCEEDS("rm -rf s; LD_LIBRARY_PATH=%s %s run --save-values '#new=s' -- %s scale shapes", CUFENCE_RUN_DRIVER, CUFENCE_CLI,
             CUFENCE_SAVED_STORY);
    SUCCEEDS("echo s/* | grep -x 's/000001-scale s/000008-scale s/000009-scale'");
}

TEST(equal_outputs_are_said)
{
    save("", "scale");
    expect_replay("s/000001-scale", 0, "^cufence replay: the launch succeeded, outputs equal \\(2 buffers, 8000 bytes\\)$");
    expect_replay("--times 3 s/000002-scale", 0, "^cufence replay: outputs equal in 3 of 3 runs that ended well$",
                  "faulted in 0 of 3 runs", "the launch succeeded, outputs equal");
    expect_replay("--json s/000001-scale", 0,
                  "^\\{\"kind\":\"replay\",\"kernel\":\"_Z5scalePKfPffi\",\"is_equal\":true,"
                  "\"compared\":2,\"different\":0,\"unread\":0\\}$");
}

TEST(other_outputs_are_told)
{
    static const char other[] =
        "the launch succeeded, but 1 of 1 buffers differ from what it wrote when it was saved: buffer #1$";
    save("", "waver scale");
    expect_replay("s/000001-waver", 3, other);
    expect_replay("--times 2 s/000001-waver", 3, "outputs equal in 0 of 2 runs that ended well", other);
    expect_replay("--json s/000001-waver", 3, "\"is_equal\":false,\"compared\":1,\"different\":1,\"unread\":0\\}$");
    give("000002-scale", 20, "f4010000");
    expect_replay("s/000002-scale", 3, "but 1 of 2 buffers differ .*: buffer #3$");
}

/* What a buffer holds after the launch that leaves it alone is what it was given. */
TEST(an_edited_buffer_counts_as_given)
{
    save("", "scale");
    SUCCEEDS("cp s/000001-scale/1.before.npy s/000001-scale/0.before.npy");
    expect_replay("s/000001-scale", 3, "but 1 of 2 buffers differ .*: buffer #2$");
}

TEST(faults_are_reported)
{
    save("", "scale");
    give("000001-scale", 20, "e9030000");
    expect_replay("s/000001-scale", 86, "model.cu:130 in scale", "launched at +.*saved_story.c:[0-9]+ in launch_function",
                  "written .* buffer #2");
}

/* Where no access faults, what was written is seen all the same: what is beside the buffer in its mapping. */
TEST(writes_into_slack_are_reported)
{
    save("", "odd");
    expect_replay("s/000001-write_last", 0, "outputs equal \\(1 buffer, 4004 bytes\\)");
    give("000001-write_last", 8, "e9030000");
    expect_replay("s/000001-write_last", 86, "slack WRITE: 4 bytes changed, 0 bytes past the end of buffer #1$",
                  "buffer +#1, 4004 bytes", "found +00 00 20 40 +exact$",
                  "given to +write_last<<<\\(8,1,1\\), \\(128,1,1\\)>>>",
                  "launched at +.*saved_story.c:[0-9]+ in launch_function", "SUMMARY: cufence: slack write");
    expect_replay("--times 2 s/000001-write_last", 86, "faulted in 2 of 2 runs");
    give("000001-write_last", 8, "eb030000");
    expect_replay("--json s/000001-write_last", 86,
                  "^\\{.*\"kind\":\"slack write\".*\"changed\":12,.*\"found\":\"000020400000204000002040\".*\\}$");
    give("000001-write_last", 8, "ec030000");
    expect_replay("s/000001-write_last", 86, "out-of-bounds WRITE of 4 bytes, 12 bytes past the end of buffer #1",
                  "written +4 bytes, beginning 12 bytes past the end: 2\\.5",
                  "12 bytes past the end \\(mapped: no fault\\): 2\\.5 2\\.5 2\\.5$");
    SUCCEEDS("rm s/*/facts.json"); /* only the report needs it */
    SUCCEEDS("sed -i s/ec030000/e9030000/ s/*/launch.json");
    expect_replay("s/000001-write_last", 86, "4 bytes changed, 0 bytes past the end of buffer #1$");
}

/* The first words of the table, in its file. */
static void write_indices(const char *bytes)
{
    SUCCEEDS("printf '%s' | dd of=s/000001-write_indexed/0.before.npy bs=1 seek=128 conv=notrunc", bytes);
}

TEST(writes_before_a_buffer_are_reported)
{
    save("", "indexed");
    write_indices("\\375\\377\\377\\377");
    expect_replay("s/000001-write_indexed", 86, "slack WRITE: 4 bytes changed, 12 bytes before the start of buffer #1$");
    write_indices("\\375\\377\\377\\377\\351\\3\\0\\0"); /* -3, 1001 */
    for (int i = 0; i < 2; i++) {
        expect_replay("s/000001-write_indexed", 86, "4 bytes changed, 12 bytes before the start of buffer #1$",
                      "4 bytes changed, 0 bytes past the end of buffer #1$");
        run_shell("%s replay --json s/000001-write_indexed >lines", CUFENCE_CLI);
        SUCCEEDS("grep -c '' lines | grep -x 2 && grep -c '^{.*}$' lines | grep -x 2");
        SUCCEEDS("rm -f s/*/facts.json"); /* only the report needs it */
    }
}

/* The memory is that of before the launch, though the program goes on, and only what leads somewhere is in the bundle. */
TEST(memory_is_followed)
{
    save("", "table");
    expect_replay("s/000001-add_by_table", 0, "outputs equal \\(3 buffers, 4080 bytes\\)");
    SUCCEEDS("cd s/*; echo *.npy | grep -x '0.before.npy buffer-1.after.npy buffer-1.npy buffer-2.npy'");
    SUCCEEDS("od -An -tf4 -j128 -N8 s/*/buffer-1.npy | grep -x ' *1 *2'");
    SUCCEEDS("od -An -tf4 -j128 -N8 s/*/buffer-1.after.npy | grep -x ' *2 *3'");
}

TEST(pinned_memory_is_there)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* the other process has its own memory where the host memory was */
#endif
    save("", "pinned");
    expect_replay("s/000001-count_hosted", 0, "outputs equal \\(2 buffers, 4008 bytes\\)");
    SUCCEEDS("od -An -td4 -j128 s/*/memory-*0.npy | grep -x ' *1000 *7'");
    SUCCEEDS("od -An -td4 -j128 s/*/memory-*.after.npy | grep -x ' *1000 *1007'");
    give("000001-count_hosted", 8, "0000000000000000");
    expect_replay("s/000001-count_hosted", 86, "null pointer|illegal");
}

TEST(the_code_is_kept)
{
    save("", "library unloaded");
    expect_replay("s/000001-scale", 0, "outputs equal");
    expect_replay("s/000002-write_last", 0, "outputs equal");
    /* Only the dump has the code that the driver has made of this text. */
    give("000002-write_last", 8, "e8030000");
    expect_replay("s/000002-write_last", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)");
    SUCCEEDS("tr -d '\\0' <s/000001-scale/kernel.cubin | grep -x // && "
             "tr -d '\\0' <s/000002-write_last/kernel.cubin | grep -x 'text that is freed'");
}

/* Its cubin for the device is unpacked, and barriers are put in, so that the thread is still there. */
TEST(fat_binaries_get_barriers)
{
    SUCCEEDS("tar -xzf %s/cubins/cubins.tar.gz write_last.fatbin", CUFENCE_FIXTURES);
    save("", "fat");
    SUCCEEDS("cmp write_last.fatbin s/000001-write_last/kernel.cubin");
    expect_replay("s/000001-write_last", 0, "outputs equal");
    give("000001-write_last", 8, "e8030000");
    expect_replay("s/000001-write_last", 86, "block \\(7,0,0\\) thread \\(104,0,0\\)");
}

/* A program that writes past a buffer where no access faults: its launches are tried again, with the buffer's end at a guard.
 */
TEST(writes_into_slack_are_launched_again)
{
    static const char *const modes[] = {"rerun", "dump"};
    SUCCEEDS("tar -xzf %s/cubins/cubins.tar.gz write_last.fatbin", CUFENCE_FIXTURES);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_shell("LD_LIBRARY_PATH=%s %s run --explain %s -- %s slack", CUFENCE_RUN_DRIVER, CUFENCE_CLI,
                                   modes[i], CUFENCE_SAVED_STORY),
                         86);
        SAYS("slack WRITE: 4 bytes changed, 0 bytes past the end of buffer #1", "found +00 00 20 40 +exact");
        assert_int_equal(has("at model\\.cu:20 in write_last, block \\(7,0,0\\) thread \\(105,0,0\\)"), i == 0);
        assert_int_equal(has("given to +write_last<<<\\(8,1,1\\), \\(128,1,1\\)>>> +re-run"), i == 0);
        assert_int_equal(has("later +write_last<<<\\(8,1,1\\), \\(128,1,1\\)>>>$"), i == 0);
        assert_int_equal(has("earlier +write_last<<<\\(8,1,1\\), \\(128,1,1\\)>>>$"), i == 0);
        assert_int_equal(has("<<<.*candidate"), i == 1);
        SAYS(i ? "hint +cufence run --set align=auto puts this edge of buffers at a guard"
               : "hint +one thread went one element too far");
    }
}

/* The memory of the freed buffer is unmapped, or another buffer's, or its context ends: not before the launch was found. */
TEST(freed_memory_stays_until_its_write_is_explained)
{
    static const char *const stories[] = {"slack_freed", "slack_freed later", "slack_ended", "slack_reused",
                                          "slack_reused later"};
    SUCCEEDS("tar -xzf %s/cubins/cubins.tar.gz write_last.fatbin", CUFENCE_FIXTURES);
    for (size_t i = 0; i < 2 * sizeof stories / sizeof *stories; i++) {
        /* to begin takes a while on a GPU */
        assert_int_equal(run_shell("CUFENCE_SIM=latency=cuDevicePrimaryCtxRetain:300000 LD_LIBRARY_PATH=%s %s run "
                                   "--explain rerun --uaf %s --set wait_ms=1000/60000 -- %s %s",
                                   CUFENCE_RUN_DRIVER, CUFENCE_CLI, i % 2 ? "strict" : "adaptive", CUFENCE_SAVED_STORY,
                                   stories[i / 2]),
                         86);
        SAYS("at model\\.cu:20 in write_last, block \\(7,0,0\\) thread \\(105,0,0\\)");
    }
}

/* Of code that the simulated device does not execute. */
#define CALL_FOR_NOP "LC_ALL=C sed -i 's/\\x18\\x79\\x00\\x00/\\x43\\x73\\x00\\x02/' shape.cubin"

/* The code is that of a launch which faults: with a guard where it writes. */
static void play_shape(const char *kernel, const char *guarded, const char *buffer, const char *options, const char *beside,
                       const char *change)
{
    SUCCEEDS("rm -rf shape.cubin k; SHAPE='%s %s' LD_LIBRARY_PATH=%s %s run --explain rerun --set keep=k,%s -- %s shape; "
             "cp k/*/kernel.cubin shape.cubin; %s",
             kernel, guarded, CUFENCE_RUN_DRIVER, CUFENCE_CLI, options, CUFENCE_SAVED_STORY, change);
    assert_int_equal(run_shell("BESIDE=%s SHAPE='%s %s' LD_LIBRARY_PATH=%s %s run --explain rerun -- %s shape", beside, kernel,
                               buffer, CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY),
                     86);
}

/* A second launch without it would tell of another one. */
TEST(writes_of_launches_with_state_of_their_own_have_no_line)
{
    static const struct {
        const char *kernel, *guarded, *buffer, *beside, *said;
    } cases[] = {
        {"store_first", "1008 252", "1000 250", "pinned",
         "cannot have pinned host memory as the kernel found it, so its facts are not used"},
        {"malloc", "1008 -252", "1000 -250", "",
         "cannot have the device heap \\(the module calls malloc\\(\\)\\), so its facts"},
        {"write_once", "1008 252", "1000 250", "other", "cannot have the other launches that ran at the time, so its facts"},
        {"write_once", "1008 252", "1000 250", "", "it is not known which did it: no thread wrote there"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        play_shape(cases[i].kernel, cases[i].guarded, cases[i].buffer, "side=end", cases[i].beside, CALL_FOR_NOP);
        SAYS("slack WRITE: 4 bytes changed, 0 bytes past the end", cases[i].said);
        assert_false(has("at model\\.cu:[0-9]+ in"));
    }
}

/* By the kernel's parameter, and else nobody knows. */
TEST(what_lies_in_slack_has_the_type_that_was_written)
{
    SUCCEEDS("rm -rf s found.json");
    assert_int_equal(run_shell("LD_LIBRARY_PATH=%s %s run --small map --set slack=on,explain=dump --save-values '*=s' --json "
                               "found.json -- %s typed",
                               CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY),
                     86);
    SAYS("slack WRITE: 8 bytes changed, 0 bytes past the end", "as float32: 1998\\.0 2000\\.0$");
    SUCCEEDS("grep '\"type\":\"float32\",\"values\":\\[1998.0,2000.0\\]' found.json");
    expect_replay("s/000001-scale", 86, "as float32: 1998\\.0 2000\\.0$");
}

/* Else a kernel that was given the buffer would be blamed. */
TEST(what_a_stream_writes_into_slack_is_refused)
{
    run_shell("LD_LIBRARY_PATH=%s %s run --set slack=on -- %s value", CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY);
    SAYS("host write out of bounds by cuStreamWriteValue32: writes 4 bytes, beginning 0 bytes past the end of",
         "cuStreamWriteValue32_v2: error 1$");
    assert_false(has("slack WRITE"));
    run_shell("LD_LIBRARY_PATH=%s %s run --set slack=on -- %s values", CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY);
    SAYS("host write out of bounds by cuStreamBatchMemOp: writes 4 bytes, beginning 0 bytes past the end of",
         "cuStreamBatchMemOp_v2: error 1$");
}

/* What lies beside buffers in real programs. */
TEST(writes_of_each_shape_have_their_line)
{
    static const struct {
        const char *kernel, *guarded, *buffer, *options, *said[4];
    } shapes[] = {
        {"put_1",
         "1008 1008",
         "1003 1003",
         "side=end",
         {"slack WRITE: 1 byte changed, 0 bytes past the end",
          "model\\.cu:201 in put_1, block \\(7,0,0\\) thread \\(107,0,0\\)", "found +07 +exact"}},
        {"put_2",
         "1008 504",
         "1002 501",
         "side=end",
         {"slack WRITE: 2 bytes changed, 0 bytes past the end",
          "model\\.cu:202 in put_2, block \\(3,0,0\\) thread \\(117,0,0\\)", "as 2-byte values: 0x0007"}},
        {"put_8",
         "1008 126",
         "1000 125",
         "side=end",
         {"slack WRITE: 8 bytes changed, 0 bytes past the end",
          "model\\.cu:208 in put_8, block \\(0,0,0\\) thread \\(125,0,0\\)", "as 8-byte values: 7\\.0"}},
        {"put_aligned",
         "1008 253",
         "1003 251",
         "side=end",
         {"slack WRITE: 1 byte changed, 0 bytes past the end",
          "model\\.cu:204 in put_aligned, block \\(1,0,0\\) thread \\(122,0,0\\)", "found +40 +exact"}},
        {"put_before",
         "1008 4",
         "1008 4",
         "side=start",
         {"slack WRITE: 16 bytes changed, 16 bytes before the start",
          "model\\.cu:210 in put_before, block \\(0,0,0\\) thread \\(0,0,0\\) and 3 more", "as 4-byte values: 2\\.5 2\\.5"}},
        {"count_down",
         "1008 252",
         "1008 252",
         "side=start",
         {"slack WRITE: 4 bytes changed, 4 bytes before the start",
          "model\\.cu:220 in count_down, block \\(0,0,0\\) thread \\(0,0,0\\)", "hint +one element before the start"}},
        {"put_before",
         "1008 1",
         "1000 1",
         "side=start",
         {"slack WRITE: 4 bytes changed, 4 bytes before the start",
          "model\\.cu:210 in put_before, block \\(0,0,0\\) thread \\(0,0,0\\)", "hint +one element before the start"}},
        /* its module has malloc(), but it calls nothing */
        {"malloc", "1008 -252", "1000 -250", "side=end", {"model\\.cu:190 in malloc, block \\(1,0,0\\) thread \\(122,0,0\\)"}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        play_shape(shapes[i].kernel, shapes[i].guarded, shapes[i].buffer, shapes[i].options, "", ":");
        for (const char *const *said = shapes[i].said; *said; said++)
            SAYS(*said);
    }
}

/* The second launch reads another buffer, which was freed as well, and is due to be retired. */
TEST(other_freed_memory_of_the_launch_stays_too)
{
    SUCCEEDS("rm -rf shape.cubin k; LD_LIBRARY_PATH=%s %s run --explain rerun --set keep=k -- %s input; "
             "cp k/*/kernel.cubin shape.cubin",
             CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_shell("CUFENCE_SIM=latency=cuDevicePrimaryCtxRetain:300000 LD_LIBRARY_PATH=%s %s run "
                                   "--explain rerun --set wait_ms=1000/60000 -- %s input",
                                   CUFENCE_RUN_DRIVER, CUFENCE_CLI, CUFENCE_SAVED_STORY),
                         86);
        SAYS("at model\\.cu:130 in scale, block \\(7,0,0\\) thread \\(105,0,0\\)");
    }
}

TEST(what_cannot_be_kept_is_said_once)
{
    save("", "managed scale");
    SAYS("no bundle of write_last for `cufence replay`: an argument points to managed memory, which is not saved");
    assert_null(strstr(strstr(text, "no bundle of") + 1, "no bundle of"));
    SAYS("4 of them for");
    assert_false(mode_of("s/000001-write_last/launch.json"));
    assert_int_equal(mode_of("s/000001-write_last/values.json"), 0600);
}

/* A replay maps each buffer's own pages. */
TEST(shared_pages_are_refused)
{
    save("--small pack", "packed");
    SAYS("no bundle of scale for `cufence replay`: it reaches buffers that share a page \\(small=map",
         "no bundle of add_by_table for `cufence replay`: it reaches buffers that share a page");
    assert_false(mode_of("s/000001-scale/launch.json"));
    assert_int_equal(mode_of("s/000001-scale/values.json"), 0600);
    assert_int_equal(run_shell("ls s/*/launch.json"), 2);
}

/* 8000 bytes before and after, and some for the list of buffers. */
TEST(bytes_are_a_limit)
{
    save_within(";16200", "", "scale");
    SAYS("no bundle of scale for `cufence replay`: save_values= has no more BYTES", "5 more launches were left out");
}

/* In a large address space buffers begin 1 TiB behind its start, and only what is around them is reserved: at an address that
 * the driver grants. The third buffer begins at none. */
TEST(buffers_lie_far_from_the_start)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* so much address space takes too long there */
#endif
    setenv("CUFENCE_SIM", "reserve=32T", 1);
    save("", "scale waver");
    expect_replay("s/000001-scale", 0, "outputs equal \\(2 buffers");
    expect_replay("s/000007-waver", 3, "1 of 1 buffers differ");
    unsetenv("CUFENCE_SIM");
}

/* The first launch of a kernel has little room for what is found, the second as much as the first one lacked. */
TEST(room_follows_need)
{
    save("", "large");
    SUCCEEDS("grep 'left out: no room for what is reached through memory' s/000001-add_by_table/README.md");
    expect_replay("s/000001-add_by_table", 1, "what could be compared is equal \\(2 buffers, 80 bytes\\)",
                  "buffer #1 \\(20971520 bytes\\) is not in the bundle: it holds zeros",
                  "1 buffer could not be compared: not in");
    expect_replay("--times 2 s/000001-add_by_table", 1, "outputs equal in 0 of 2 runs");
    expect_replay("--json s/000001-add_by_table", 1, "\"is_equal\":false,\"compared\":2,\"different\":0,\"unread\":1\\}$");
    expect_replay("s/000002-add_by_table", 0, "outputs equal \\(3 buffers, 20971600 bytes\\)");
}

TEST(damaged_ones_are_refused)
{
    static const struct {
        const char *change, *pattern;
    } cases[] = {
        {"rm x/1.after.npy", "1.after.npy: No such file"},
        {"truncate -s -1 x/1.after.npy", "1.after.npy: it is truncated"},
        {"rm x/1.after.npy; ln -s ../s/000001-scale/1.after.npy x/1.after.npy", "1.after.npy: it is a symbolic link; "},
        {"sed -i s,1.after.npy,../1.after.npy, x/launch.json", "not a plain name"},
        {"sed -i s,float32,float32x3456789012, x/launch.json", "a buffer is damaged"},
        {"printf any >x/kernel.cubin", "kernel.cubin: it is not a cubin, a fat binary or complete PTX"},
        {"printf '\\177ELF' >x/kernel.cubin", "kernel.cubin: it is not a cubin"},
    };
    save("", "scale");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        SUCCEEDS("rm -rf x; cp -r s/000001-scale x; %s", cases[i].change);
        expect_replay("x", 1, cases[i].pattern);
    }
    SUCCEEDS("rm -rf x; cp -r s/000001-scale x; sed -i s,float32,unknown, x/launch.json; "
             "cp x/0.before.npy x/1.after.npy");
    expect_replay("x", 3, "buffers differ .*: buffer #2$");
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
