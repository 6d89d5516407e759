/* `cufence hunt --deep` with a program that knows nothing of it (saved_story.c), on the simulated device. In place of
 * compute-sanitizer stands a script that runs its program, and prints what sanitizer_output.h has recorded. */
#include "support/folder.h"
#include "support/shell.h"
#include "sanitizer_output.h"

static const char script[] = "#!/bin/sh\n"
                             "while [ \"$1\" ]; do case $1 in\n"
                             "--tool) tool=$2; shift 2;;\n"
                             "--*) shift 2;;\n"
                             "*) break;;\n"
                             "esac; done\n"
                             "\"$@\" || status=$?\n"
                             "[ -e \"$PRINTED/$tool\" ] && . \"$PRINTED/$tool\" || cat \"$PRINTED/nothing\"\n"
                             "exit ${status:-0}\n";

static void write_file(const char *name, const char *bytes, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(bytes, file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

/* The tool prints the text. */
static void print_with(const char *tool, const char *printed)
{
    char name[64], command[128];
    snprintf(name, sizeof name, "printed/%s.text", tool);
    write_file(name, printed, 0600);
    snprintf(command, sizeof command, "cat \"$PRINTED/%s.text\"\n", tool);
    snprintf(name, sizeof name, "printed/%s", tool);
    write_file(name, command, 0600);
}

static int set_up(void **state)
{
    char path[4096];
    if (make_folder(state) != 0)
        return -1;
    SUCCEEDS("mkdir bin printed tmp");
    write_file("bin/compute-sanitizer", script, 0700);
    write_file("printed/nothing", PRINTED_NOTHING, 0600);
    snprintf(path, sizeof path, "%s/bin:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    snprintf(path, sizeof path, "%s/printed", folder);
    setenv("PRINTED", path, 1);
    snprintf(path, sizeof path, "%s/tmp", folder);
    setenv("TMPDIR", path, 1);
    return 0;
}

static int begin_again(void **state)
{
    return run_shell("rm -rf printed/*check* kept tmp/* l.json");
}

/* The list goes to l.json. */
#define expect_hunt(options, stories, status, ...)                                                                             \
    expect_end(run_shell("LD_LIBRARY_PATH=%s %s hunt --deep --json l.json %s -- %s %s", CUFENCE_RUN_DRIVER, CUFENCE_CLI,       \
                         options, CUFENCE_SAVED_STORY, stories),                                                               \
               status, PATTERNS(__VA_ARGS__))

TEST_WITH(each_shape_is_looked_at_once, begin_again, NULL)
{
    expect_hunt("", "scale shapes", 0, "nothing found in 1 run$", "^compute-sanitizer has looked at 3 launches\\.$",
                "hunt: deep: 000001-scale: memcheck 0, racecheck 0, initcheck 0, synccheck 0 \\([0-9.]+ s\\)$");
    SAYS("hunt: deep: 000008-scale: ");           /* another grid */
    SAYS("hunt: deep: 000009-scale: ");           /* another buffer */
    SUCCEEDS("ls tmp/* l.json | grep -x l.json"); /* nothing is left */
    expect_hunt("--keep kept --tools racecheck", "shapes", 0, "deep: 000001-scale: racecheck 0 \\(");
    SUCCEEDS("ls kept/deep/000001-scale/scene.json");
    expect_hunt("--keep kept", "shapes", 2, "reports of an earlier hunt are there");
    expect_hunt("--keep kept,too", "shapes", 2, "the launches of --deep need a folder without , and % in its name");
}

TEST_WITH(findings_have_the_words_of_the_tool, begin_again, NULL)
{
    static const char *const kinds[] = {"memcheck", "racecheck", "initcheck", "synccheck"};
    print_with("memcheck", PRINTED_MEMCHECK);
    print_with("racecheck", PRINTED_RACECHECK);
    print_with("initcheck", PRINTED_INITCHECK);
    print_with("synccheck", PRINTED_SYNCCHECK);
    expect_hunt("", "scale", 86, "cufence hunt: 6 findings in 1 run$", "memcheck at /src/memcheck_demo.cu:34 in scale$",
                "     Invalid __global__ write of size 4 bytes, at unaligned_kernel\\(\\)\\+0x160 in",
                "     Error: Race reported between Write access", "     Warning: Race reported between Read access",
                "     Barrier error detected\\. Divergent thread\\(s\\) in warp", "launched at   .*saved_story\\.c:[0-9]+ in ");
    SAYS("found by      deep \\(2 reports\\)"); /* of two threads */
    for (size_t i = 0; i < 4; i++)
        SUCCEEDS("grep '\"kind\": \"%s\"' l.json", kinds[i]);
    SUCCEEDS("grep -A9 '\"thread\": {' l.json | tr -d ' \\n' | grep '\"block\":\\[80,0,0\\],\"thread\":\\[16,'");
}

TEST_WITH(what_is_known_of_an_earlier_hunt_is_left_out, begin_again, NULL)
{
    print_with("racecheck", PRINTED_RACECHECK);
    expect_hunt("", "scale", 86, "cufence hunt: [0-9]+ findings in 1 run$");
    SUCCEEDS("cp l.json before.json");
    expect_hunt("--known before.json", "scale", 0, "cufence hunt: [0-9]+ known findings are \\(known=\\) left out$",
                "nothing found in 1 run$");
    print_with("synccheck", PRINTED_SYNCCHECK);
    expect_hunt("--known before.json", "scale", 86, "cufence hunt: 1 finding in 1 run$");
}

TEST(a_tool_that_has_no_verdict_is_told)
{
    static const struct {
        const char *tool, *does, *said;
    } cases[] = {
        {"initcheck", "echo '========= Error: No attachable process found.'; status=1\n",
         "000001-scale: initcheck has FAILED \\(exit status 1\\), and said: Error: No attachable process found"},
        {"synccheck", "echo gone; kill -9 $$\n", "synccheck has FAILED \\(exit status 137\\), and said: gone"},
        {"racecheck", "sleep 60\n", "racecheck has not ended within 5 s \\(--seconds\\): NOT LOOKED AT"},
        {"memcheck", "echo '========= Something that nobody knows'; echo '========= ERROR SUMMARY: 3 errors'\n",
         "memcheck counts 3 errors, of which 3 are not about a place in the kernel's code: Something that nobody knows"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        begin_again(NULL);
        snprintf(name, sizeof name, "printed/%s", cases[i].tool);
        write_file(name, cases[i].does, 0600);
        expect_hunt(strcmp(cases[i].tool, "racecheck") ? "" : "--seconds 5", "scale", 87, cases[i].said,
                    "That is no verdict: not every launch was looked at by every tool\\.$",
                    "looked at 1 launch; 1 TIMES A TOOL HAD NO VERDICT, see above\\.");
    }
}

TEST_WITH(errors_beyond_what_the_tool_prints_are_more_of_the_same, begin_again, NULL)
{
    print_with("initcheck", "========= Uninitialized __global__ memory read of size 4 bytes\n"
                            "=========     at add(const float *, float *)+0x90 in deep.cu:23\n"
                            "=========     by thread (64,0,0) in block (12,0,0)\n"
                            "========= 1792 errors were skipped (error buffer overflow).\n"
                            "========= ERROR SUMMARY: 156 errors\n");
    expect_hunt("", "scale", 86, "cufence hunt: 1 finding in 1 run$", "^compute-sanitizer has looked at 1 launch\\.$");
}

TEST_WITH(initcheck_needs_fresh_memory_to_be_filled, begin_again, NULL)
{
    expect_hunt("--tools initcheck", "second_half_written", 0, "nothing found in 1 run$");
    expect_hunt("--tools initcheck --fill off", "second_half_written", 87,
                "initcheck takes all memory for written, because of fill=off: NOT LOOKED AT$");
}

TEST_WITH(what_cannot_be_saved_is_told, begin_again, NULL)
{
    expect_hunt("--save-max 9000/9", "shapes", 87, "SOME COULD NOT BE SAVED, as the program's processes have said\\.",
                "That is no verdict: not every launch was looked at by every tool\\.$");
    expect_hunt("--save-max 4G/1", "shapes", 87, "looked at 1 launch; SOME COULD NOT BE SAVED");
}

TEST(without_the_tools_nothing_is_run)
{
    assert_int_equal(run_shell("mkdir none; PATH=$PWD/none %s hunt --deep -- /bin/true", CUFENCE_CLI), 127);
    SAYS("cufence hunt: --deep needs compute-sanitizer, which comes with the CUDA toolkit: there is no program");
    assert_int_equal(run_shell("%s hunt --deep --tools raceczech -- true", CUFENCE_CLI), 2);
    SAYS("use some of: memcheck racecheck initcheck synccheck");
}

TEST_GROUP(set_up, remove_folder)
