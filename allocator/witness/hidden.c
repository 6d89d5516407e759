#include "hidden.h"

#include "base/thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNSHARE 2u /* CLOSE_RANGE_UNSHARE */

static struct {
    pthread_mutex_t lock; /* guards all but `thread`; a leaf */
    pthread_cond_t change;
    pthread_t thread;
    int is_made, is_over; /* is_made: -1 if it cannot be had */
    uint32_t id;          /* of the thread */
    int number;           /* of the pipe in its table */
} hidden = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

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

static void *hold(void *unused)
{
    (void)unused;
    int ends[2];
    pthread_setname_np(pthread_self(), "cufence-pipe");
    int is_made = leave_table() && syscall(SYS_pipe2, ends, O_CLOEXEC) == 0 ? 1 : -1;
    if (is_made > 0)
        syscall(SYS_close, ends[1]); /* the end of a dump is when nobody has this one */
    pthread_mutex_lock(&hidden.lock);
    hidden.is_made = is_made;
    hidden.id = thread_id();
    hidden.number = ends[0];
    pthread_cond_signal(&hidden.change);
    while (is_made > 0 && !hidden.is_over)
        pthread_cond_wait(&hidden.change, &hidden.lock);
    pthread_mutex_unlock(&hidden.lock);
    return NULL;
}

/* The driver will open it like this. */
static int is_reachable(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int hidden_open(char *path, size_t size)
{
    hidden.is_made = hidden.is_over = 0;
    if (thread_start(&hidden.thread, hold, NULL) != 0)
        return 0;
    pthread_mutex_lock(&hidden.lock);
    while (!hidden.is_made)
        pthread_cond_wait(&hidden.change, &hidden.lock);
    int is_made = hidden.is_made > 0;
    snprintf(path, size, "/proc/self/task/%u/fd/%d", hidden.id, hidden.number);
    pthread_mutex_unlock(&hidden.lock);
    if (is_made && is_reachable(path))
        return 1;
    hidden_close();
    return 0;
}

void hidden_close(void)
{
    if (!hidden.is_made)
        return;
    pthread_mutex_lock(&hidden.lock);
    hidden.is_over = 1;
    pthread_cond_signal(&hidden.change);
    pthread_mutex_unlock(&hidden.lock);
    pthread_join(hidden.thread, NULL);
    hidden.is_made = 0;
}
