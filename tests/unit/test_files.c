/* Files: which links their names may be, which names could be written (base/options_path.c), and lines of sources
 * (base/files.c).
 */
#include "support/folder.h"

#include "base/files.h"
#include "base/options.h"

#include <sys/resource.h>

#define NOBODY 65534

/* There is a folder `there`, a file `file`, and source files. */
static int make_files(void **state)
{
    unsetenv("RANK");
    unsetenv("LOCAL_RANK");
    if (make_folder(state) || chdir(folder) != 0 || mkdir("there", 0700) != 0 || mkdir("elsewhere", 0700) != 0)
        return -1;
    put_text("file", "");
    put_text("here.cu", "one\n\ttwo\r\nthree\n");
    put_text("elsewhere/here.cu", "another\nanother\nanother\n");
    put_text("elsewhere/there.cu", "uno\ndue\n");
    return 0;
}

TEST_GROUP(make_files, remove_folder)

static int writes(const char *name, int flags)
{
    int fd = files_open_named(name, flags);
    int is_ok = fd >= 0 && files_write(fd, "a line\n", 7);
    if (fd >= 0)
        close(fd);
    return is_ok;
}

static long size_of(const char *name)
{
    struct stat status;
    return stat(name, &status) == 0 ? (long)status.st_size : -1;
}

TEST(a_link_of_another_user_is_not_followed)
{
    assert_true(writes(in_folder("mine"), O_APPEND) && writes(in_folder("mine"), O_APPEND));
    assert_int_equal(size_of(in_folder("mine")), 14);
    assert_int_equal(symlink("mine", in_folder("own")), 0);
    assert_true(writes(in_folder("own"), O_APPEND));
    assert_int_equal(size_of(in_folder("mine")), 21);
    assert_true(writes("/dev/stderr", 0));
    if (geteuid() == 0) { /* else nobody can make another user's link */
        assert_int_equal(symlink("mine", in_folder("others")), 0);
        if (lchown(in_folder("others"), NOBODY, NOBODY) != 0)
            skip(); /* a namespace of one user */
        errno = 0;
        assert_false(writes(in_folder("others"), O_APPEND));
        assert_int_equal(errno, EACCES);
        assert_int_equal(size_of(in_folder("mine")), 21);
        assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
        assert_true(writes(in_folder("others"), O_APPEND));
        assert_int_equal(size_of(in_folder("mine")), 28);
    }
}

TEST(a_document_goes_where_a_link_leads)
{
    struct document document;
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(mkfifo(in_folder("unread"), 0600), 0);
    assert_true(document_open(&document, in_folder("link")) && fputs("whole", document.out) >= 0 &&
                document_close(&document, 1));
    assert_int_equal(size_of(in_folder("target")), 5);
    char target[8], other[PATH_MAX];
    assert_int_equal(readlink(in_folder("link"), target, sizeof target), 6);
    snprintf(other, sizeof other, "%s/./target", folder);
    assert_true(files_are_same(other, in_folder("link")));
    snprintf(other, sizeof other, "%s//new", folder);
    assert_true(files_are_same(other, in_folder("new")));
    assert_false(files_are_same(other, in_folder("target")) || files_are_same("/dev/null", "/dev/null"));
    assert_int_equal(symlink("missing/x", in_folder("astray")), 0);
    assert_false(document_open(&document, in_folder("astray")));
    assert_int_equal(errno, ENOENT);
    assert_false(document_open(&document, in_folder("unread")));
    assert_int_equal(errno, EPIPE);
    if (geteuid() != 0 || chown(folder, 0, 0) != 0 || lchown(in_folder("link"), NOBODY, NOBODY) != 0)
        skip();
    assert_false(document_open(&document, in_folder("link")));
    assert_int_equal(errno, EACCES);
}

/* ---- sources ---- */

static void expect_line(const char *path, int line, const char *text)
{
    struct source_line lines[SOURCE_LINES];
    size_t count = source_read(path, line, lines);
    for (size_t i = 0; i < count; i++)
        if (lines[i].number == line) {
            assert_string_equal(lines[i].text, text);
            return;
        }
    assert_null(text);
}

TEST(no_part_of_a_file_is_left)
{
    struct rlimit before;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4, before.rlim_max}), 0);
    int is_put = files_put("too-large", NULL, 0, "a line\n", 7);
    int why = errno;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, was);
    assert_int_equal(is_put, 0);
    assert_int_equal(why, EFBIG);
    assert_int_equal(access("too-large", F_OK), -1);
}

TEST(test_lines)
{
    struct source_line lines[SOURCE_LINES];
    unsetenv("CUFENCE_SOURCES");
    assert_int_equal(source_read("here.cu", 1, lines), 2);
    assert_int_equal(source_read("here.cu", 2, lines), 3);
    expect_line("here.cu", 2, " two");
    expect_line("here.cu", 4, NULL);
    expect_line("here.cu", 0, NULL);
    expect_line(NULL, 1, NULL);
    expect_line("elsewhere", 1, NULL);
}

TEST(test_the_folder_of_sources)
{
    unsetenv("CUFENCE_SOURCES");
    expect_line("there.cu", 1, NULL);
    setenv("CUFENCE_SOURCES", in_folder("elsewhere"), 1);
    expect_line("there.cu", 1, "uno");
    expect_line("here.cu", 1, "one"); /* the current folder comes first */
    expect_line("/there.cu", 1, NULL);
    expect_line("nowhere.cu", 1, NULL);
    setenv("CUFENCE_SOURCES", "", 1);
    expect_line("there.cu", 1, NULL);
}

/* A letter that does not fit is left out. */
TEST(test_what_lines_may_hold)
{
    struct source_line lines[SOURCE_LINES];
    char text[400];
    snprintf(text, sizeof text, "\tsecond\r\n%0158d\xc3\xa9\n%0156d\xc3\xa9\n", 1, 2);
    put_text("odd.cu", text);
    expect_line("odd.cu", 1, " second");
    assert_int_equal(source_read("odd.cu", 2, lines), 3);
    assert_int_equal(strspn(lines[1].text, "01"), 158);
    assert_int_equal(strlen(lines[1].text), 158);
    assert_int_equal(strlen(lines[2].text), 158);
}

TEST(test_what_is_no_file_is_not_read)
{
    struct source_line lines[SOURCE_LINES];
    assert_int_equal(mkfifo("fifo", 0600), 0);
    static const char *const files[] = {"fifo", "/tmp", "/dev/zero", "/nonexistent/file.py"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        assert_int_equal(source_read(files[i], 1, lines), 0);
    static const int none[] = {5, 1000000000, 0, -1};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        assert_int_equal(source_read("here.cu", none[i], lines), 0);
}

static size_t below(const char *path)
{
    struct source_line lines[SOURCE_LINES];
    size_t count = source_read_below(path, 1, lines);
    assert_int_equal(count ? 0 : EXDEV, errno);
    return count;
}

/* A dump of a stranger may name any file. */
TEST(a_strangers_path_leads_nowhere_else)
{
    unsetenv("CUFENCE_SOURCES");
    assert_int_equal(below("here.cu"), 2);
    assert_int_equal(below("elsewhere/there.cu"), 2);
    assert_int_equal(below(in_folder("here.cu")), 2);
    assert_int_equal(below("/etc/passwd"), 0);
    assert_int_equal(below("../../../../../../../../etc/passwd"), 0);
    assert_int_equal(symlink("/etc/passwd", "innocent.cu"), 0);
    assert_int_equal(below("innocent.cu"), 0);
    assert_int_equal(chdir("elsewhere"), 0);
    assert_int_equal(below("../here.cu"), 0);
    setenv("CUFENCE_SOURCES", in_folder("."), 1);
    assert_int_equal(below("../here.cu"), 2);
    assert_int_equal(chdir("/"), 0); /* everything is below it */
    assert_int_equal(below("etc/passwd"), 0);
    assert_int_equal(below(in_folder("here.cu")), 2);
    unsetenv("CUFENCE_SOURCES");
    assert_int_equal(chdir(in_folder(".")), 0);
}

/* ---- names that could be written ---- */

static char said[4096];

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
        "log=/dev/null,json=/dev/null",
        "log=new,json=new.json,values=*=values",
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
        {"keep=nowhere", "keep=nowhere: nothing can be written there: nowhere: No such file or directory; name a folder", 0},
        {"keep=/proc/kept", "keep=/proc/kept: nothing can be written there: /proc: No such file or directory; name a folder",
         1},
        {"log=/proc/kept", "log=/proc/kept: nothing can be written there: /proc: No such file or directory; name a file", 1},
        {"save_values=*=file/a", "save_values=file/a: nothing can be written there: file/a: Not a directory; name a folder", 1},
        {"log=new,json=new", "json=new: log= names that file, too; name another\n", 0},
        {"log=a.%p,values=*=a.%p", "values=a.%p: log= names that file, too; name another\n", 1},
    };
    assert_int_equal(symlink("absent", "nowhere"), 0);
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
