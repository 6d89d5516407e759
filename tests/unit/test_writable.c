/* Which names of files and folders could be written (base/writable.h). */
#include "support/folder.h"

#include "base/options.h"

static char said[4096];

static int make_both(void **state)
{
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
    if (make_folder(state) || chdir(folder) != 0 || mkdir("there", 0700) != 0)
        return -1;
    put_text("file", "");
    return 0;
}

static void take(const char *option, const char *sentence)
{
    assert_int_equal(strncmp(sentence, option, strlen(option)), 0);
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", sentence);
}

static int check(const char *text, int is_here)
{
    struct options options;
    options_default(&options);
    said[0] = '\0';
    assert_int_equal(options_parse(&options, text, "test"), CUFENCE_OK);
    return writable_check(&options, is_here, take);
}

TEST(what_can_be_written_is_accepted)
{
    static const char *const good[] = {
        "",
        "log=file",
        "log=new",
        "log=./new",
        "log=there/new.%p.txt",
        "log=/dev/null",
        "keep=there",
        "keep=new",
        "keep=new/within/another",
        "keep=there/%p/%r",
        "save_values=*gemm*=new",
        "save_values=*gemm*=there/a",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        for (int is_here = 0; is_here < 2; is_here++) {
            assert_int_equal(check(good[i], is_here), 0);
            assert_string_equal(said, "");
        }
    assert_int_equal(check("json=later/%r/x.json", 0), 0); /* a launcher may make the folders of its ranks */
    assert_int_equal(check("json=there/100%%.json", 1), 0);
    assert_int_equal(access("new", F_OK), -1); /* nothing is made */
}

TEST(what_cannot_is_named)
{
    static const struct {
        const char *text, *sentence;
        int is_here;
    } bad[] = {
        {"log=there", "log=there: nothing can be written there: there: Is a directory; name a file that can be written\n", 0},
        {"log=missing/x", "log=missing/x: nothing can be written there: missing: No such file or directory; name a file", 1},
        {"log=missing/%p", "log=missing/%p: nothing can be written there: missing: No such file or directory; name a file", 0},
        {"log=later/%r/x", "log=later/%r/x: nothing can be written there: later/0: No such file or directory; name a file", 1},
        {"values=*=file/x", "values=file/x: nothing can be written there: file/x: Not a directory; name a file", 0},
        {"keep=file", "keep=file: nothing can be written there: file: Not a directory; name a folder", 0},
        {"keep=file/%p/x", "keep=file/%p/x: nothing can be written there: file: Not a directory; name a folder", 0},
        {"keep=/proc/kept", "keep=/proc/kept: nothing can be written there: /proc: No such file or directory; name a folder",
         1},
        {"log=/proc/kept", "log=/proc/kept: nothing can be written there: /proc: No such file or directory; name a file", 1},
        {"save_values=*=file/a", "save_values=file/a: nothing can be written there: file/a: Not a directory; name a folder", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(check(bad[i].text, bad[i].is_here), 1);
        if (strncmp(said, bad[i].sentence, strlen(bad[i].sentence)) != 0)
            print_error("%s", said);
        assert_int_equal(strncmp(said, bad[i].sentence, strlen(bad[i].sentence)), 0);
    }
    assert_int_equal(check("log=missing/x,keep=file", 0), 2);
}

/* Only where the user is another than root, whom no mode stops. */
TEST(a_folder_without_the_right_is_named)
{
    if (getuid() == 0)
        skip();
    assert_int_equal(chmod("there", 0500), 0);
    assert_int_equal(check("keep=there/a/b", 1), 1);
    assert_non_null(strstr(said, ": there: Permission denied; "));
    assert_int_equal(chmod("there", 0700), 0);
}

TEST_GROUP(make_both, remove_folder)
