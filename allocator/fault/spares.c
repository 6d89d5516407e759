#include "hidden.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A second launch with one buffer and one block of pinned memory needs about ten at a time (simulated device), and one more for
 * each further buffer or block. */
#define MOST 24
#define SHARE 8          /* of the limit: no more than one of that many */
#define LEAST_NUMBER 200 /* programs expect the low ones for their own files */

static struct {
    int fds[MOST]; /* all of one file; the first is never lent */
    size_t count;
    dev_t device;
    ino_t inode;
} spares;

static int is_ours(int fd)
{
    struct stat file;
    return fstat(fd, &file) == 0 && file.st_dev == spares.device && file.st_ino == spares.inode;
}

static size_t count_allowed(int *least_number)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    *least_number = limit.rlim_cur / 2 < LEAST_NUMBER ? (int)limit.rlim_cur / 2 : LEAST_NUMBER;
    return limit.rlim_cur / SHARE < MOST ? (size_t)limit.rlim_cur / SHARE : MOST;
}

/* Makes the file of the first one. Returns 0 on failure. */
static int begin(int least_number)
{
    struct stat file;
    int made = memfd_create("cufence-spare", MFD_CLOEXEC), first = fcntl(made, F_DUPFD_CLOEXEC, least_number);
    if (made >= 0)
        close(made);
    if (first < 0 || fstat(first, &file) != 0)
        return 0;
    spares.fds[0] = first;
    spares.device = file.st_dev;
    spares.inode = file.st_ino;
    spares.count = 1;
    return 1;
}

void spares_take(void)
{
    int least_number = 0;
    size_t allowed = count_allowed(&least_number);
    if (spares.count ? !is_ours(spares.fds[0]) : !allowed || !begin(least_number))
        return;
    while (spares.count < allowed && (spares.fds[spares.count] = fcntl(spares.fds[0], F_DUPFD_CLOEXEC, least_number)) >= 0)
        spares.count++;
}

void spares_lend(void)
{
    for (; spares.count > 1; spares.count--)
        if (is_ours(spares.fds[spares.count - 1]))
            close(spares.fds[spares.count - 1]);
}

void spares_end(void)
{
    spares_lend();
    if (spares.count && is_ours(spares.fds[0]))
        close(spares.fds[0]);
    spares.count = 0;
}
