#include "tally.h"

#include "env.h"
#include "text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct content {
    char head[sizeof TALLY_HEAD];
    struct tally tally; /* atomic */
};

static unsigned char noted[128]; /* atomic */

static int read_one(int fd, struct content *content)
{
    return pread(fd, content, sizeof *content, 0) == (ssize_t)sizeof *content &&
           !memcmp(content->head, TALLY_HEAD, sizeof content->head);
}

/* Returns a descriptor of the tally of that name, -1 if it is none. */
static int open_one(const char *path)
{
    struct content content;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || read_one(fd, &content))
        return fd;
    close(fd); /* another process has the number by now */
    return -1;
}

/* The same for the next name of a list, which it takes out. A process of another user, or of another name space, may have to
 * take the descriptor that it has inherited, and one without a free descriptor has nothing else: *is_inherited. */
static int open_next(const char **list, int *is_inherited)
{
    struct content content;
    char path[TALLY_NAME];
    int process, number;
    size_t length = strcspn(*list, ":");
    int is_whole = snprintf(path, sizeof path, "%.*s", (int)length, *list) < (int)sizeof path;
    *list += length + ((*list)[length] == ':');
    int fd = is_whole ? open_one(path) : -1;
    *is_inherited = 0;
    if (fd >= 0 || sscanf(path, "/proc/%d/fd/%d", &process, &number) != 2)
        return fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", number);
    fd = open_one(path);
    *is_inherited = fd < 0 && read_one(number, &content);
    return *is_inherited ? number : fd;
}

/* Adds to the letter's count, or sets it. */
static int change(int fd, enum tally_letter letter, unsigned count, int is_set)
{
    struct content *content = mmap(NULL, sizeof *content, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (content == MAP_FAILED)
        return 0;
    if (is_set)
        __atomic_store_n(&content->tally.counts[letter], count, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add(&content->tally.counts[letter], count, __ATOMIC_RELAXED);
    return munmap(content, sizeof *content) == 0;
}

int tally_put(int fd, enum tally_letter letter, unsigned count)
{
    return change(fd, letter, count, 1);
}

/* Adds to the letter's count in all tallies, if there is one and it is not 0. Returns how many there are. */
static int put(enum tally_letter letter, unsigned more)
{
    const char *list = env_get(TALLY_VARIABLE);
    int count = 0, is_inherited;
    while (list && *list) {
        int fd = open_next(&list, &is_inherited);
        if (fd < 0)
            continue;
        count++;
        if (letter)
            change(fd, letter, more, 0);
        if (!is_inherited)
            close(fd);
    }
    return count;
}

void tally_note(enum tally_letter letter)
{
    int error = errno;
    if (__atomic_load_n(&noted[letter], __ATOMIC_RELAXED) || __atomic_exchange_n(&noted[letter], 1, __ATOMIC_RELAXED))
        return;
    put(letter, 1);
    errno = error;
}

void tally_note_left(void)
{
    if (__atomic_load_n(&noted[TALLY_CONTEXT], __ATOMIC_RELAXED) && !__atomic_load_n(&noted[TALLY_SAID], __ATOMIC_RELAXED))
        tally_note(TALLY_LEFT);
}

void tally_note_stayed(void)
{
    if (__atomic_exchange_n(&noted[TALLY_LEFT], 0, __ATOMIC_RELAXED))
        put(TALLY_LEFT, -1u);
}

int tally_is_kept(void)
{
    return put(0, 0) != 0;
}

int tally_make(char name[TALLY_NAME])
{
    enum { APART = 100 }; /* from the descriptors that scripts use */
    static const struct content content = {.head = TALLY_HEAD};
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN); /* the command's limit, too, may be too low */
    int made = memfd_create("cufence-tally", MFD_CLOEXEC);
    int fd = made >= 0 ? fcntl(made, F_DUPFD, APART) : -1;
    if (made >= 0 && fd < 0) /* the limit is lower */
        fd = fcntl(made, F_DUPFD, 3);
    if (made >= 0)
        close(made);
    if (fd >= 0 && write(fd, &content, sizeof content) != (ssize_t)sizeof content) {
        close(fd);
        fd = -1;
    }
    signal(SIGXFSZ, before);
    snprintf(name, TALLY_NAME, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd;
}

int tally_set(const char *name)
{
    const char *outer = env_get(TALLY_VARIABLE);
    char *list = NULL;
    int is_set = asprintf(&list, "%s%s%s", name, outer ? ":" : "", outer ? outer : "") >= 0;
    is_set = is_set && setenv(TALLY_VARIABLE, list, 1) == 0;
    free(list);
    return is_set;
}

int tally_read(int fd, struct tally *tally)
{
    struct content content;
    int is_one = read_one(fd, &content);
    *tally = is_one ? content.tally : (struct tally){{0}};
    return is_one;
}

/* ---- words ---- */

static const char *reason(const struct tally *tally)
{
    if (tally->counts[TALLY_UNGUARDED])
        return "cufence could not start, as said above";
    if (tally->counts[TALLY_STARTED])
        return "CUDA was initialised, but no process created a context";
    if (tally->counts[TALLY_NO_DEVICE])
        return "CUDA could not be initialised: cuInit failed; `cufence doctor` says more";
    return "no process used CUDA; `cufence doctor` helps to find out why";
}

/* Returns 0 if there is nothing to say. */
static int sentence(const struct tally *tally, char *text, size_t size)
{
    unsigned used = tally->counts[TALLY_CONTEXT], said = tally->counts[TALLY_SAID];
    if (!used)
        snprintf(text, size, "NOTHING WAS GUARDED: %s", reason(tally));
    else if (said < used)
        snprintf(
            text, size,
            "%u process%s used CUDA without saying at the end what was guarded (still running, killed, or left by _exit or "
            "exec); allocations were guarded in %u of %u",
            used - said, plural_es(used - said), tally->counts[TALLY_GUARDED], used);
    return !used || said < used;
}

int tally_judge(const struct tally *tally, int status, size_t running, int is_silent, char *lines, size_t size)
{
    const unsigned *counts = tally->counts;
    int last = status || !counts[TALLY_FOUND] ? status : (int)counts[TALLY_EXITCODE], is_found = last != status;
    int is_all_said =
        counts[TALLY_SAID] + counts[TALLY_LEFT] >= counts[TALLY_CONTEXT] && !counts[TALLY_UNGUARDED] && !counts[TALLY_BLIND];
    char text[512];
    if (last == 0 && counts[TALLY_REQUIRED] && (running || !counts[TALLY_GUARDED] || !is_all_said))
        last = TALLY_STATUS;
    int length = !is_silent && sentence(tally, text, sizeof text)
                     ? snprintf(lines, size, "==%d== cufence: %s\n", (int)getpid(), text)
                     : snprintf(lines, size, "%s", "");
    if (last == status)
        return status;
    if (is_found)
        snprintf(text, sizeof text, "something was found (--error-exitcode 0 keeps the program's status)");
    else if (running)
        snprintf(text, sizeof text, "no verdict: %zu process%s that the program started still run%s (--require-guarded)",
                 running, plural_es(running), running == 1 ? "s" : "");
    else
        snprintf(text, sizeof text, "%s (--require-guarded)",
                 counts[TALLY_GUARDED] ? "no verdict: a process was killed, ran unguarded, or could not see or write all"
                                       : "nothing was guarded");
    snprintf(lines + length, size - (size_t)length, "cufence run: %s; exit status %d\n", text, last);
    return last;
}

void tally_await(int fd, int is_silent, int is_heard)
{
    static const char *const places[] = {"", "../bin/", "../../bin/", "../../../bin/"};
    char program[4096], number[16], *kept[] = {NULL, NULL};
    char *words[] = {(char[]){"cufence"}, (char[]){"await"}, number, is_silent ? (char[]){"silent"} : NULL, NULL};
    int nowhere = is_heard ? -1 : open("/dev/null", O_WRONLY);
    sigset_t all, before;
    Dl_info own;
    const char *slash = dladdr(noted, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    snprintf(number, sizeof number, "%d", fd);
    for (char **entry = environ; entry && *entry && !kept[0]; entry++)
        kept[0] = strncmp(*entry, "LD_LIBRARY_PATH=", 16) ? NULL : *entry;
    if (nowhere >= 0)
        dup2(nowhere, STDERR_FILENO);
    sigfillset(&all); /* the program's timers go on, without its handlers */
    sigprocmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++)
        if (snprintf(program, sizeof program, "%.*s%scufence", (int)(slash + 1 - own.dli_fname), own.dli_fname, places[i]) <
            (int)sizeof program)
            execve(program, words, kept);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
