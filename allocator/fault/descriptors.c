#include "descriptors.h"

#include "base/lock.h"
#include "base/clock.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE */
/* A second launch with one buffer and one block of pinned memory needs about ten at a time (simulated device), and one more for
 * each further buffer or block. */
#define MOST 24
#define ANSWER_MS 1000   /* for who asks to make room in the pipe */
#define SHARE 8          /* of the limit: no more than one of that many */
#define LEAST_NUMBER 200 /* programs expect the low ones for their own files */

/* ---- the pipe ---- */

static struct {
    struct lock lock; /* guards all but `thread`; a leaf */
    pthread_cond_t change;
    pthread_t thread;
    int is_made, is_over; /* is_made: -1 if it cannot be had */
    int is_begun;         /* bytes of a dump have come, so its end matters */
    uint64_t came, seen;  /* how often something has come, and until when hidden_wait() knows of it */
    uint32_t id;          /* of the thread */
    int number;           /* of the pipe in its table */
    char request;
} hidden = {.lock = LOCK(RANK_LEAF)};

/* Closes what the thread's new table has of the program's. Sanitizers need not know: it is no other thread's. */
static int close_copies(void)
{
    char folder[64];
    snprintf(folder, sizeof folder, "/proc/self/task/%u/fd", thread_id());
    DIR *open = opendir(folder);
    if (!open)
        return 0;
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;) {
        int number = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);
        if (number >= 0 && number != dirfd(open))
            syscall(SYS_close, number);
    }
    closedir(open);
    return 1;
}

/* Gives the thread an empty table of its own. The program's files stay open in the program's, with their locks. */
static int leave_table(void)
{
    return syscall(SYS_close_range, 0, ~0u, UNSHARE) == 0 || (unshare(CLONE_FILES) == 0 && close_copies());
}

/* Returns the end of a new pipe that is read, -1 on failure. */
static int make_pipe(void)
{
    int ends[2];
    if (syscall(SYS_pipe2, ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    syscall(SYS_close, ends[1]);        /* the end of a dump is when nobody has this one */
    syscall(SYS_fchmod, ends[0], 0666); /* the program may change its user; no other process gets this far */
    return ends[0];
}

/* Returns an epoll set that tells of each change: a pipe whose last writer has closed it reports a hang-up until the next one.
 */
static int watch(int pipe, int has_requests)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int events = pipe >= 0 ? (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC) : -1;
    if (events >= 0 && has_requests)
        syscall(SYS_epoll_ctl, events, EPOLL_CTL_ADD, HIDDEN_REQUESTS, &event);
    return events >= 0 && syscall(SYS_epoll_ctl, events, EPOLL_CTL_ADD, pipe, &event) == 0 ? events : -1;
}

/* The newest one counts. */
static void note_request(void)
{
    char bytes[64];
    long got = syscall(SYS_read, HIDDEN_REQUESTS, bytes, sizeof bytes);
    if (got <= 0)
        return;
    HOLD(&hidden.lock);
    hidden.request = bytes[got - 1];
    hidden.came++;
    pthread_cond_broadcast(&hidden.change);
}

/* Also a program that closes what it does not know changes the pipe: that is nothing to wake anyone for. Returns 0 at the end.
 */
static int note(int pipe)
{
    int bytes = 0;
    HOLD(&hidden.lock);
    if (hidden.is_begun || (syscall(SYS_ioctl, pipe, FIONREAD, &bytes) == 0 && bytes > 0)) {
        hidden.came++;
        pthread_cond_broadcast(&hidden.change);
    }
    return !hidden.is_over;
}

/* fifo: NULL for a pipe. System calls by number: sanitizers would take the descriptors for the program's. */
static void *listen_to(void *fifo)
{
    pthread_setname_np(pthread_self(), fifo ? "cufence-fifo" : HIDDEN_THREAD);
    int pipe = fifo ? open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : leave_table() ? make_pipe() : -1;
    int has_requests = !fifo && pipe >= 0 && make_pipe() == HIDDEN_REQUESTS && make_pipe() == HIDDEN_ANSWERS;
    int events = watch(pipe, has_requests);
    lock_take(&hidden.lock);
    hidden.is_made = events >= 0 ? 1 : -1;
    hidden.id = thread_id();
    hidden.number = pipe;
    pthread_cond_broadcast(&hidden.change);
    lock_release(&hidden.lock);
    struct epoll_event event;
    while (events >= 0 && (syscall(SYS_epoll_pwait, events, &event, 1, -1, NULL, 0) >= 0 || errno == EINTR) && note(pipe))
        if (has_requests)
            note_request();
    if (events >= 0)
        syscall(SYS_close, events);
    if (pipe >= 0)
        syscall(SYS_close, pipe);
    return NULL;
}

/* Without waiting for a reader. */
static int open_to_write(const char *path)
{
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
}

static void init_change(void)
{
    lock_condition_init(&hidden.change);
}

int hidden_listen(const char *fifo)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_change);
    hidden.is_made = hidden.is_over = hidden.is_begun = 0;
    hidden.seen = hidden.came = 0;
    if (thread_start(&hidden.thread, listen_to, (void *)(uintptr_t)fifo) != 0)
        return 0;
    lock_take(&hidden.lock);
    while (!hidden.is_made)
        lock_wait(&hidden.lock, &hidden.change, NULL);
    int is_made = hidden.is_made > 0;
    lock_release(&hidden.lock);
    if (!is_made) {
        pthread_join(hidden.thread, NULL);
        hidden.is_made = 0;
    }
    return is_made;
}

static int open_hidden(int number, char *path, size_t size)
{
    snprintf(path, size, "/proc/self/task/%u/fd/%d", hidden.id, number);
    return open_to_write(path);
}

int hidden_open(char *path, size_t size)
{
    if (!hidden_listen(NULL))
        return 0;
    int fd = open_hidden(hidden.number, path, size); /* as the driver will */
    if (fd >= 0)
        close(fd);
    else
        hidden_close(path);
    return fd >= 0;
}

int hidden_wait(int ms, int is_begun)
{
    const struct timespec until = clock_after(CLOCK_MONOTONIC, ms < 0 ? 0 : (uint64_t)ms * NS_PER_MS);
    int failed = 0;
    HOLD(&hidden.lock);
    hidden.is_begun &= is_begun;
    while (hidden.came == hidden.seen && !hidden.is_over && !failed)
        failed = lock_wait(&hidden.lock, &hidden.change, ms < 0 ? NULL : &until);
    int result = hidden.is_over ? -1 : hidden.came != hidden.seen;
    hidden.is_begun |= result > 0;
    hidden.seen = hidden.came;
    return result;
}

char hidden_request(void)
{
    HOLD(&hidden.lock);
    char request = hidden.request;
    hidden.request = 0;
    return request;
}

/* What nobody takes stays, until the next one asks. */
void hidden_answer(const char *text)
{
    const char *end = text + strlen(text) + 1;
    char path[64];
    struct pollfd pipe = {.fd = open_hidden(HIDDEN_ANSWERS, path, sizeof path), .events = POLLOUT};
    while (text < end && pipe.fd >= 0 && poll(&pipe, 1, ANSWER_MS) > 0) {
        ssize_t sent = write(pipe.fd, text, (size_t)(end - text));
        text = sent > 0 ? text + sent : end;
    }
    close(pipe.fd);
}

void hidden_stop(void)
{
    HOLD(&hidden.lock);
    hidden.is_over = 1;
    pthread_cond_broadcast(&hidden.change);
}

void hidden_close(const char *path)
{
    if (!hidden.is_made)
        return;
    hidden_stop();
    int fd = open_to_write(path); /* a writer that comes and goes wakes the thread */
    if (fd >= 0) {
        close(fd);
        pthread_join(hidden.thread, NULL);
    } else {
        pthread_detach(hidden.thread);
    }
    hidden.is_made = 0;
}

/* ---- spares ---- */

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
