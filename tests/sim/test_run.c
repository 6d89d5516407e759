/* `cufence run` with a program that knows nothing of cufence (run_story.c), on the simulated device. */
#include "support/folder.h"
#include "child.h"

/* Runs a shell command, with CUFENCE (the command), STORY (the program) and FOLDER set for it. */
static int shell(const char *command)
{
    setenv("CUFENCE", CUFENCE_CLI, 1);
    setenv("STORY", CUFENCE_RUN_STORY, 1);
    setenv("FOLDER", folder, 1);
    setenv("LD_LIBRARY_PATH", CUFENCE_RUN_DRIVER, 1); /* libcuda.so.1 is the simulated device there */
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static size_t count_in(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

static void read_file(const char *name, char *text, size_t size)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

TEST(each_rank_has_its_file)
{
    char text[16384];
    /* As torchrun does: one parent, a child a rank, told by RANK. */
    int status = shell("\"$CUFENCE\" run --set \"log=$FOLDER/rank%r.txt\" -- sh -c '"
                       "RANK=0 \"$STORY\" & first=$!; RANK=1 \"$STORY\" & second=$!; "
                       "wait $first; one=$?; wait $second; two=$?; [ $one = 86 ] && [ $two = 86 ]' 2>/dev/null");
    assert_int_equal(status, 0);
    for (int rank = 0; rank < 2; rank++) {
        char name[32];
        snprintf(name, sizeof name, "rank%d.txt", rank);
        read_file(name, text, sizeof text);
        assert_int_equal(count_in(text, "out-of-bounds WRITE of 4 bytes"), 1);
        assert_int_equal(count_in(text, "buffer     #"), 1);
        assert_non_null(strstr(text, "128 bytes"));
    }
}

TEST(the_exit_status_of_a_fault_is_set)
{
    assert_int_equal(shell("\"$CUFENCE\" run -- \"$STORY\" 2>/dev/null"), 86);
    assert_int_equal(shell("\"$CUFENCE\" run --error-exitcode 41 -- \"$STORY\" 2>/dev/null"), 41);
    assert_int_equal(shell("\"$CUFENCE\" run --error-exitcode 0 -- \"$STORY\" 2>/dev/null"), 0);
}

TEST(the_file_of_json_is_one_line_a_report_between_two)
{
    char text[16384];
    assert_int_equal(shell("cd \"$FOLDER\" && \"$CUFENCE\" run --json faults.json -- sh -c 'cd / && \"$STORY\"' 2>/dev/null"),
                     86);
    read_file("faults.json", text, sizeof text);
    assert_int_equal(count_in(text, "\n"), 3);
    assert_int_equal(count_in(text, "\"kind\":\"run\""), 1);
    assert_int_equal(count_in(text, "\"kind\":\"overrun\""), 1);
    assert_int_equal(count_in(text, "\"kind\":\"guarded\""), 1);
    assert_non_null(strstr(text, "\"fill\""));
}

/* The frames behind `from`, which must be overrun() and main(), and no other. */
static void assert_called_by_main(const char *from)
{
    char frames[4096];
    const char *start = from ? strstr(from, "\"frames\":[") : NULL, *end = start ? strchr(start, ']') : NULL;
    assert_non_null(end);
    snprintf(frames, sizeof frames, "%.*s", (int)(end - start), start);
    assert_int_equal(count_in(frames, "\"function\":"), 2);
    const char *inner = strstr(frames, "\"function\":\"overrun\""), *outer = strstr(frames, "\"function\":\"main\"");
    assert_true(inner && outer && inner < outer);
}

/* Found in its unwind tables and its symbol table: it keeps no frame pointers, and its functions are not exported. */
TEST(the_report_says_who_launched_and_who_allocated)
{
    char text[16384];
    assert_int_equal(shell("\"$CUFENCE\" run --set \"json=$FOLDER/who.json\" -- \"$STORY\" 2>/dev/null"), 86);
    read_file("who.json", text, sizeof text);
    assert_called_by_main(strstr(text, "\"launch\":{"));
    assert_called_by_main(strstr(strstr(text, "\"buffer\":{"), "\"allocated\":{"));
}

TEST(without_stacks_nobody_knows_who_allocated)
{
    char text[16384];
    assert_int_equal(shell("\"$CUFENCE\" run --set \"json=$FOLDER/python.json,stacks=python\" -- \"$STORY\" 2>/dev/null"), 86);
    read_file("python.json", text, sizeof text);
    assert_int_equal(count_in(text, "\"frames\":["), 1); /* the launch's */
    assert_called_by_main(strstr(text, "\"launch\":{"));
}

TEST(a_process_without_cuda_loads_the_small_library_only)
{
    assert_int_equal(shell("\"$CUFENCE\" run -- sh -c 'grep -q libcufence_preload.so /proc/self/maps && "
                           "! grep -q libcufence.so /proc/self/maps'"),
                     0);
}

/* What shows that it is the preload that does all this. */
TEST(without_it_nothing_is_reported)
{
    char text[16384];
    assert_int_equal(shell("\"$STORY\" 2>\"$FOLDER/silent.txt\""), 0);
    read_file("silent.txt", text, sizeof text);
    assert_int_equal(count_in(text, "cufence"), 0);
}

TEST_GROUP(make_folder, remove_folder)

TEST_CONCURRENTLY
