/* Which links the names of files may be. */
#include "support/folder.h"

#include "base/files.h"

#define NOBODY 65534

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
    assert_true(writes(in_folder("file"), O_APPEND) && writes(in_folder("file"), O_APPEND));
    assert_int_equal(size_of(in_folder("file")), 14);
    assert_int_equal(symlink("file", in_folder("own")), 0);
    assert_true(writes(in_folder("own"), O_APPEND));
    assert_int_equal(size_of(in_folder("file")), 21);
    assert_true(writes("/dev/stderr", 0));
    if (geteuid() == 0) { /* else nobody can make another user's link */
        assert_int_equal(symlink("file", in_folder("others")), 0);
        assert_int_equal(lchown(in_folder("others"), NOBODY, NOBODY), 0);
        errno = 0;
        assert_false(writes(in_folder("others"), O_APPEND));
        assert_int_equal(errno, EACCES);
        assert_int_equal(size_of(in_folder("file")), 21);
        assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
        assert_true(writes(in_folder("others"), O_APPEND));
        assert_int_equal(size_of(in_folder("file")), 28);
    }
}

TEST_GROUP(make_folder, remove_folder)
