#include "intake.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A program that has closed its standard streams must find them closed. */
static int above_standard(int fd)
{
    int low = fd;
    if (low < 0 || low > STDERR_FILENO)
        return low;
    fd = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low);
    return fd;
}

int intake_open(struct intake *intake, const char *path)
{
    struct stat file;
    intake->path = path;
    intake->pipe = above_standard(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (intake->pipe < 0 || fstat(intake->pipe, &file) != 0)
        return 0;
    intake->device = file.st_dev;
    intake->inode = file.st_ino;
    return 1;
}

/* The monitor's thread renews it while others look. */
static int pipe_of(const struct intake *intake)
{
    return __atomic_load_n(&intake->pipe, __ATOMIC_ACQUIRE);
}

static int is_ours(const struct intake *intake)
{
    struct stat file;
    return fstat(pipe_of(intake), &file) == 0 && file.st_dev == intake->device && file.st_ino == intake->inode;
}

int intake_renew(struct intake *intake)
{
    if (is_ours(intake))
        return 1;
    int again = above_standard(open(intake->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (again >= 0)
        __atomic_store_n(&intake->pipe, again, __ATOMIC_RELEASE);
    return again >= 0;
}

void intake_close(struct intake *intake)
{
    if (intake->pipe >= 0 && is_ours(intake))
        close(intake->pipe);
    intake->pipe = -1;
}

static int count_bytes(int pipe)
{
    int bytes = 0;
    return ioctl(pipe, FIONREAD, &bytes) == 0 ? bytes : 0;
}

/* poll() and open() are cancellation points. */
int intake_has_bytes(const struct intake *intake)
{
    if (is_ours(intake))
        return count_bytes(pipe_of(intake)) > 0;
    if (pipe_of(intake) < 0)
        return 0;
    int again = (int)syscall(SYS_openat, AT_FDCWD, intake->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), bytes = count_bytes(again);
    if (again >= 0)
        syscall(SYS_close, again);
    return bytes > 0;
}
