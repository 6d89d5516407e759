#include "output.h"

#include "aside.h"
#include "clock.h"
#include "files.h"
#include "lock.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define KEPT_BYTES ((size_t)1 << 20)
#define MESSAGE_BYTES 4096
#define OTHER_CHUNK 512 /* for terminals and the like: poll() says that there is room, but not how much */

/* Unwritten text. `messages` counts the messages in it, a partly written one included. */
struct kept {
    char *text;
    size_t size;
    unsigned messages;
};

static struct {
    struct lock lock; /* guards all of this; a leaf */
    struct kept kept;
    int is_printing;  /* a thread is printing, and goes on until nothing is kept */
    int has_given_up; /* a wait timed out, and nothing has been written since */
    unsigned lost;    /* number of lost messages, and the error that lost the last one */
    int lost_error;
} output = {.lock = LOCK(RANK_LEAF)};

/* What descriptor 2 was at process start. Set before main(), or by cufence_output_began_with() before anything is printed. */
static struct {
    int is_open;
    dev_t device;
    ino_t inode;
} began;

void cufence_output_began_with(const struct stat *standard_error)
{
    began.is_open = standard_error != NULL;
    if (standard_error) {
        began.device = standard_error->st_dev;
        began.inode = standard_error->st_ino;
    }
}

static void begin_anew(void)
{
    lock_init(&output.lock, RANK_LEAF);
    output.kept = (struct kept){0}; /* the parent prints it */
    output.is_printing = 0;
}

__attribute__((constructor)) static void look_at_standard_error(void)
{
    struct stat found;
    cufence_output_began_with(fstat(STDERR_FILENO, &found) == 0 ? &found : NULL);
    pthread_atfork(NULL, NULL, begin_anew);
}

/* Checks that descriptor 2 is still standard error (see output.h). Returns 0, or the errno value to report. */
static int check_standard_error(void)
{
    struct stat now;
    int flags = fcntl(STDERR_FILENO, F_GETFL), of_descriptor = fcntl(STDERR_FILENO, F_GETFD);
    if (!began.is_open || flags < 0 || of_descriptor < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(STDERR_FILENO, &now) != 0)
        return EBADF;
    if (now.st_dev == began.device && now.st_ino == began.inode)
        return 0;
    int is_redirection = 0;
    if (S_ISCHR(now.st_mode) || S_ISFIFO(now.st_mode))
        is_redirection = 1;
    else if (S_ISREG(now.st_mode)) /* databases are opened for reading too; a temporary file that captures output may be as
                                    * well */
        is_redirection = (flags & O_ACCMODE) == O_WRONLY || (flags & O_APPEND) || now.st_nlink == 0;
    return is_redirection && !(of_descriptor & FD_CLOEXEC) ? 0 : EBADF;
}

int output_is_terminal(void)
{
    return check_standard_error() == 0 && isatty(STDERR_FILENO);
}

/* ---- writing to a descriptor ---- */

/* Like write(), but raises no signal: SIGPIPE is that of a pipe without readers, SIGXFSZ that of a file at its limit. */
static ssize_t write_quietly(int fd, const char *text, size_t size)
{
    sigset_t raised, before, pending;
    sigemptyset(&raised);
    sigpending(&pending);
    sigaddset(&raised, SIGPIPE);
    sigaddset(&raised, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &raised, &before);
    ssize_t written = write(fd, text, size);
    int error = errno, number = error == EPIPE ? SIGPIPE : SIGXFSZ;
    if (written < 0 && (error == EPIPE || error == EFBIG) && sigismember(&pending, number) != 1) {
        const struct timespec at_once = {0};
        sigemptyset(&raised);
        sigaddset(&raised, number);
        while (sigtimedwait(&raised, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return written;
}

/* Writes what the descriptor accepts within `wait_ms`, and stores the number of bytes written in *taken. Returns 0 if
 * everything was written, else an errno value; EAGAIN means timed out. */
static int write_within(int fd, const char *text, size_t size, unsigned wait_ms, size_t *taken)
{
    struct stat what;
    uint64_t end = monotonic_ms() + wait_ms;
    *taken = 0;
    if (fstat(fd, &what) != 0)
        return errno;
    while (*taken < size) {
        size_t left = size - *taken;
        if (!S_ISREG(what.st_mode)) {
            uint64_t now = monotonic_ms();
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            int ready = poll(&room, 1, now < end ? (int)(end - now) : 0);
            if (ready == 0)
                return EAGAIN;
            if (ready < 0 && errno != EINTR)
                return errno;
            if (ready < 0)
                continue;
            /* poll() promised room in the pipe, so this much won't block. */
            size_t most = S_ISFIFO(what.st_mode) ? PIPE_BUF : OTHER_CHUNK;
            left = left < most ? left : most;
        }
        ssize_t written = S_ISSOCK(what.st_mode) ? send(fd, text + *taken, left, MSG_DONTWAIT | MSG_NOSIGNAL)
                                                 : write_quietly(fd, text + *taken, left);
        if (written > 0) {
            *taken += (size_t)written;
            end = monotonic_ms() + wait_ms;
        } else if (written < 0 && errno == EAGAIN && monotonic_ms() < end) {
            usleep(1000); /* another writer used up the room */
        } else if (written == 0 || errno != EINTR) {
            return written == 0 ? EIO : errno;
        }
    }
    return 0;
}

/* ---- standard error ---- */

/* Appends text to `kept`. Returns 0 if there is no room. */
static int keep(struct kept *kept, const char *text, size_t size, unsigned messages)
{
    char *grown = size <= KEPT_BYTES - kept->size ? realloc(kept->text, kept->size + size + 1) : NULL;
    if (!grown)
        return 0;
    memcpy(grown + kept->size, text, size);
    *kept = (struct kept){grown, kept->size + size, kept->messages + messages};
    return 1;
}

/* Puts the unwritten rest of `taken` back in front of what was kept meanwhile. Returns 0 if there is no room. */
static int put_back(const struct kept *taken, size_t from)
{
    lock_expect(RANK_LEAF);
    struct kept joined = {0}, behind = output.kept;
    if (!keep(&joined, taken->text + from, taken->size - from, taken->messages))
        return 0;
    if (behind.size && !keep(&joined, behind.text, behind.size, behind.messages)) {
        free(joined.text);
        return 0;
    }
    free(behind.text);
    output.kept = joined;
    return 1;
}

static void count_lost(unsigned messages, int error)
{
    lock_expect(RANK_LEAF);
    output.lost += messages;
    output.lost_error = error;
}

/* Reports messages lost earlier, now that writing works again. */
static void tell_of_losses(void)
{
    lock_expect(RANK_LEAF);
    char text[200];
    if (!output.lost)
        return;
    int length = snprintf(text, sizeof text, "cufence: %u message%s could not be written here: %s\n", output.lost,
                          plural(output.lost), strerror(output.lost_error));
    output.lost = 0;
    keep(&output.kept, text, length > 0 ? (size_t)length : 0, 1);
}

/* Prints kept text until none is left or the descriptor accepts no more. The lock is released while writing. */
static int print_kept(int may_wait)
{
    lock_expect(RANK_LEAF);
    int error = 0;
    output.is_printing = 1;
    while (output.kept.size && !error) {
        struct kept taken = output.kept;
        unsigned wait_ms = may_wait && !output.has_given_up ? OUTPUT_WAIT_MS : 0;
        size_t written = 0;
        output.kept = (struct kept){0};
        lock_release(&output.lock);
        error = check_standard_error();
        if (!error)
            error = write_within(STDERR_FILENO, taken.text, taken.size, wait_ms, &written);
        lock_take(&output.lock);
        if (written)
            output.has_given_up = 0;
        if (error == EAGAIN && wait_ms)
            output.has_given_up = 1;
        if (error && (error != EAGAIN || !put_back(&taken, written)))
            count_lost(taken.messages, error);
        if (!error)
            tell_of_losses();
        free(taken.text);
    }
    output.is_printing = 0;
    return error;
}

struct message {
    const char *text;
    int may_wait, error;
};

static void print(void *argument)
{
    struct message *message = argument;
    lock_take(&output.lock);
    if (!keep(&output.kept, message->text, strlen(message->text), 1)) {
        message->error = ENOBUFS;
        count_lost(1, message->error);
    } else if (!output.is_printing) {
        message->error = print_kept(message->may_wait);
    }
    lock_release(&output.lock);
}

int output_print(const char *text, int may_wait)
{
    int saved = errno;
    struct message message = {text, may_wait, 0};
    aside_call(print, &message);
    errno = saved;
    return message.error;
}

struct saying {
    const char *format;
    va_list arguments;
};

static void say(void *argument)
{
    struct saying *saying = argument;
    char text[MESSAGE_BYTES];
    size_t length = text_vformat(text, sizeof text - 1, saying->format, saying->arguments);
    text[length - (length && text[length - 1] == '\n')] = '\0';
    text_make_plain(text);
    memcpy(text + strlen(text), "\n", 2);
    output_print(text, 0);
}

void output_say(const char *format, ...)
{
    struct saying saying = {.format = format};
    va_start(saying.arguments, format);
    aside_call(say, &saying);
    va_end(saying.arguments);
}

/* What another thread is printing, and what is kept for it to print, would end with the process. */
static void flush(void *unused)
{
    const uint64_t until = monotonic_ms() + OUTPUT_WAIT_MS;
    (void)unused;
    lock_take(&output.lock);
    while (output.is_printing && monotonic_ms() < until) {
        lock_release(&output.lock);
        usleep(1000);
        lock_take(&output.lock);
    }
    if (output.kept.size && !output.is_printing)
        print_kept(1);
    lock_release(&output.lock);
}

void output_flush(void)
{
    aside_call(flush, NULL);
}

/* ---- files ---- */

struct addition {
    const char *name, *text;
    size_t size;
    int error;
};

static void append(void *argument)
{
    struct addition *addition = argument;
    size_t taken;
    int fd = files_open_named(addition->name, O_APPEND);
    addition->error = fd < 0 ? errno : write_within(fd, addition->text, addition->size, OUTPUT_WAIT_MS, &taken);
    if (fd >= 0 && close(fd) != 0 && !addition->error)
        addition->error = errno; /* network file systems report a full disk at close */
}

int output_append(const char *name, const char *text, size_t size)
{
    struct addition addition = {name, text, size, 0};
    aside_call(append, &addition);
    return addition.error;
}
