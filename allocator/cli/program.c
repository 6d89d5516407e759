#include "cli/program.h"
#include "command_line.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/tally.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* fs/exec.c and include/uapi/linux/binfmts.h: how many bytes the kernel reads to find #!, and how many interpreters it follows.
 */
enum { HEAD_SIZE = 256, CHAIN_LONGEST = 5 };

#define UNFIT(...) (error_set(CUFENCE_ERROR_UNSUPPORTED, __VA_ARGS__), PROGRAM_UNFIT)
#define MISSING(...) (error_set(CUFENCE_ERROR_NOT_FOUND, __VA_ARGS__), PROGRAM_MISSING)

/* ---- where it is ---- */

static int is_executable_file(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return 0;
    if (S_ISDIR(file.st_mode))
        errno = EISDIR;
    else if (!S_ISREG(file.st_mode))
        errno = ESPIPE;
    return S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

const char *program_runner(const char *name)
{
    const char *dot = strrchr(name, '.');
    if (dot && !strcmp(dot, ".py"))
        return "python";
    return dot && !strcmp(dot, ".sh") ? "sh" : NULL;
}

static int refuse_file(const char *path, int error)
{
    const char *runner = program_runner(path);
    if (error == EISDIR || error == ESPIPE)
        return UNFIT("%s is a %s", path, error == EISDIR ? "directory" : "pipe, socket or device");
    if (error == EACCES)
        return UNFIT("%s is not executable: chmod +x it, or name the program that runs it, as in `cufence run -- %s %s`", path,
                     runner ? runner : "python", path);
    if (error == ENOENT || error == ENOTDIR)
        return MISSING("there is no %s", path);
    return UNFIT("%s cannot be run: %s", path, strerror(error));
}

/* No folder of PATH has it; a file of this folder may be what is meant. */
static int refuse_name(const char *command)
{
    const char *runner = program_runner(command);
    int is_script = runner && access(command, R_OK) == 0;
    if (is_script || is_executable_file(command))
        return MISSING(
            "there is no program %.200s in the folders of PATH; to run the %s in this folder: cufence run -- %s%s%.200s",
            command, is_script ? "script of that name" : "one", is_script ? runner : "./", is_script ? " " : "", command);
    return MISSING("there is no program %.200s in the folders of PATH", command);
}

/* Takes the first folder of PATH in which the command can be run. If there is none, the message names the first file of that
 * name that cannot be executed. */
static int search(const char *command, const char *path, char found[PATH_MAX])
{
    char refused[PATH_MAX] = "";
    for (const char *at = path;; at++) {
        int length = (int)strcspn(at, ":"); /* an empty entry is the working folder */
        int size = snprintf(found, PATH_MAX, "%.*s%s%s", length, at, length ? "/" : "./", command);
        if (size < PATH_MAX && is_executable_file(found))
            return PROGRAM_FITS;
        if (size < PATH_MAX && errno == EACCES && access(found, F_OK) == 0 && !refused[0])
            memcpy(refused, found, sizeof refused);
        at += length;
        if (!*at)
            return refused[0] ? refuse_file(refused, EACCES) : refuse_name(command);
    }
}

int program_find(const char *command, const char *path, char found[PATH_MAX])
{
    char system_path[256];
    if (!*command)
        return MISSING("the name of the program is empty");
    if (!strchr(command, '/')) {
        if (!path) {
            if (confstr(_CS_PATH, system_path, sizeof system_path) == 0)
                system_path[0] = '\0';
            path = system_path;
        }
        return search(command, path, found);
    }
    if (strlen(command) >= PATH_MAX)
        return MISSING("the name of the program has %zu bytes; at most %d are possible", strlen(command), PATH_MAX - 1);
    if (!is_executable_file(command))
        return refuse_file(command, errno);
    snprintf(found, PATH_MAX, "%s", command);
    return PROGRAM_FITS;
}

/* ---- whether LD_PRELOAD acts in it ---- */

static int judge_rights(int file, const char *path)
{
    struct stat status;
    const char *how = NULL;
    if (fstat(file, &status) != 0)
        return PROGRAM_FITS;
    if (status.st_mode & S_ISUID && status.st_uid != getuid())
        how = "set-uid";
    else if (status.st_mode & S_ISGID && status.st_mode & S_IXGRP && status.st_gid != getgid())
        how = "set-gid";
    else if (getuid() != 0 && fgetxattr(file, "security.capability", NULL, 0) > 0)
        how = "given file capabilities";
    if (!how || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) /* then the bits mean nothing */
        return PROGRAM_FITS;
    return UNFIT("%s is %s, and the loader ignores LD_PRELOAD for such programs: run a copy of it without that", path, how);
}

/* Reads `size` bytes at `offset`. Both come from the file, so they may be anything. */
static int read_at(int file, uint64_t offset, void *out, size_t size)
{
    uint64_t end;
    return !__builtin_add_overflow(offset, size, &end) && end <= INT64_MAX &&
           pread(file, out, size, (off_t)offset) == (ssize_t)size;
}

static int judge_loader(int file, const Elf64_Phdr *header, const char *path)
{
    char loader[PATH_MAX];
    if (header->p_filesz < 2 || header->p_filesz > sizeof loader ||
        !read_at(file, header->p_offset, loader, (size_t)header->p_filesz) || loader[header->p_filesz - 1])
        return PROGRAM_FITS;
    const char *name = strrchr(loader, '/');
    if (!strncmp(name ? name + 1 : loader, "ld-musl", strlen("ld-musl")))
        return UNFIT("%s is linked with musl (its loader is %.200s), but cufence's library and NVIDIA's driver need glibc: use "
                     "a build of it for glibc",
                     path, loader);
    if (access(loader, F_OK) != 0)
        return UNFIT("%s cannot be run: its loader %.200s cannot be found: %s", path, loader, strerror(errno));
    return PROGRAM_FITS;
}

/* Only what could run, but without the library. */
static int judge_elf(int file, const char *path)
{
    Elf64_Ehdr elf;
    Elf64_Phdr header;
    uint64_t offset;
    if (!read_at(file, 0, &elf, sizeof(Elf32_Ehdr)))
        return PROGRAM_FITS;
    if (elf.e_ident[EI_CLASS] == ELFCLASS32)
        return UNFIT("%s is a 32-bit program, but cufence's library is 64-bit, as CUDA is", path);
    if (!read_at(file, 0, &elf, sizeof elf))
        return PROGRAM_FITS;
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        if (__builtin_add_overflow(elf.e_phoff, (uint64_t)i * sizeof header, &offset) ||
            !read_at(file, offset, &header, sizeof header))
            return PROGRAM_FITS;
        if (header.p_type == PT_INTERP)
            return judge_loader(file, &header, path);
    }
    return UNFIT("%s is statically linked, so no library can be preloaded into it. Link it dynamically (the CUDA runtime alone "
                 "may stay static); if it only starts another program, put `cufence run --` before that one",
                 path);
}

/* Cuts the interpreter out of a first line "#! name argument"; the kernel reads HEAD_SIZE bytes of it. Returns 0 if there is
 * none.
 */
static int cut_interpreter(char *head, size_t size, char **interpreter)
{
    head[size] = '\0';
    char *at = head + strlen("#!");
    size_t line = strcspn(at, "\n");
    int is_whole = at[line] == '\n' || size < HEAD_SIZE;
    at[line] = '\0';
    at += strspn(at, " \t");
    size_t length = strcspn(at, " \t");
    is_whole |= at[length] != '\0';
    at[length] = '\0';
    *interpreter = at;
    return length > 0 && is_whole;
}

/* Judges the interpreter that a script's first line names, and copies its path to `next`. */
static int judge_script(char *head, size_t size, const char *path, char next[PATH_MAX])
{
    char *interpreter;
    if (!cut_interpreter(head, size, &interpreter))
        return PROGRAM_FITS;
    if (is_executable_file(interpreter)) {
        snprintf(next, PATH_MAX, "%s", interpreter);
        return PROGRAM_FITS;
    }
    int error = errno;
    size_t length = strlen(interpreter);
    int is_dos = length && interpreter[length - 1] == '\r';
    text_make_plain(interpreter);
    return UNFIT("%s cannot be run: its first line names the interpreter %s, which %s%s", path, interpreter,
                 error == ENOENT || error == ENOTDIR ? "does not exist" : "cannot be run",
                 is_dos ? " (its lines end in CR LF, as on Windows; dos2unix fixes that)" : "");
}

/* Judges one file of a chain of interpreters. At its end `next` is empty. */
static int judge_link(int file, const char *path, char next[PATH_MAX])
{
    char head[HEAD_SIZE + 1] = "";
    ssize_t size = pread(file, head, HEAD_SIZE, 0);
    next[0] = '\0';
    if (size >= SELFMAG && !memcmp(head, ELFMAG, SELFMAG)) {
        int verdict = judge_rights(file, path);
        return verdict == PROGRAM_FITS ? judge_elf(file, path) : verdict;
    }
    if (size >= 2 && !memcmp(head, "#!", 2))
        return judge_script(head, (size_t)size, path, next);
    return PROGRAM_FITS;
}

int program_judge(const char *path)
{
    char at[PATH_MAX], next[PATH_MAX];
    snprintf(at, sizeof at, "%s", path);
    for (int links = 0; links <= CHAIN_LONGEST; links++) {
        int file = open(at, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (file < 0)
            return errno == EACCES ? PROGRAM_FITS : refuse_file(at, errno);
        int verdict = judge_link(file, at, next);
        close(file);
        if (verdict != PROGRAM_FITS || !next[0])
            return verdict;
        memcpy(at, next, sizeof at);
    }
    return PROGRAM_FITS;
}

int program_try(const char *path, char **argv)
{
    int status = 0;
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how the process ended */
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            execv(path, argv);
        _exit(errno == EPERM || errno == ENOSYS ? 0 : errno);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSTOPPED(status)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

/* ---- cufence's own files ---- */

int installed_program(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

int installed_preload(const char *program, char path[PATH_MAX])
{
    return installation_library(program, INSTALLED_PRELOAD, path);
}

/* In the package, in the prefix, in a checkout. */
int installed_pages(const char *program, char path[PATH_MAX])
{
    static const char *const folders[] = {"../docs/", "../share/doc/cufence/", "../../docs/"};
    if (!installation_find(program, folders, sizeof folders / sizeof *folders, "index.md", path))
        return 0;
    *strrchr(path, '/') = '\0';
    return 1;
}

/* Looks in the package beside the program, beside the package's library, and in a checkout. */
int installed_bootstrap(const char *program, char path[PATH_MAX])
{
    static const char *const folders[] = {
        "../", "", "cufence/", "../cufence/", "../lib/cufence/", "../../allocator/torch/cufence/"};
    if (!installation_find(program, folders, sizeof folders / sizeof *folders, "_bootstrap/sitecustomize.py", path))
        return 0;
    *strrchr(path, '/') = '\0';
    return 1;
}

/* ---- a process of its own ---- */

volatile sig_atomic_t child_signals, child_first_signal;

static volatile pid_t target;           /* negative: a group; 0: no child yet */
static unsigned long long target_start; /* what is left of an earlier child is older */
static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};
#define SKIPPED " %*s %*s %*s %*s %*s"
enum { PASSED_ON = sizeof passed_on / sizeof *passed_on, PAUSE_MS = 5 };

/* Reads a file of /proc, "" without it. */
static void read_of(const char *process, const char *file, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.32s/%s", process, file);
    FILE *opened = fopen(path, "re");
    text[opened ? fread(text, 1, size - 1, opened) : 0] = '\0';
    if (opened)
        fclose(opened);
}

/* When our child began, or a process that its parent has left to us, in clock ticks since boot. 0: it is none. */
static unsigned long long start_of(const char *process)
{
    char text[1024];
    int parent = 0;
    unsigned long long start = 0;
    read_of(process, "stat", text, sizeof text);
    const char *behind = strrchr(text, ')'); /* a name may have one, too; the fields are 4 and 22 of proc_pid_stat(5) */
    if (behind)
        sscanf(behind, ") %*c %d" SKIPPED SKIPPED SKIPPED " %*s %*s %llu", &parent, &start);
    return parent == getpid() ? start : 0;
}

/* Sends a signal to the child, or to its group. */
static void child_kill(int signal)
{
    if (target)
        kill(target, signal);
}

/* Ctrl-C at a terminal has reached a child in our group, too. */
static void pass_on(int signal, siginfo_t *got, void *unused)
{
    int error = errno;
    (void)unused;
    if (!child_signals++)
        child_first_signal = signal;
    if (child_signals > 1)
        child_kill(SIGKILL);
    else if (target < 0 || got->si_code != SI_KERNEL)
        child_kill(signal);
    errno = error;
}

void child_pass_signals(void)
{
    struct sigaction before, ours = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    for (int i = 0; i < PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(passed_on[i], &ours, NULL);
}

static void begin(int is_grouped)
{
    struct sigaction action;
    for (int i = 0; i < PASSED_ON; i++)
        if (sigaction(passed_on[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(passed_on[i], SIG_DFL);
    if (is_grouped)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the one signal that cannot be passed on */
}

pid_t child_start(const char *command, int (*become)(void *argument), void *argument, int is_grouped, int *refusal)
{
    int ends[2];
    char name[16];
    *refusal = 0;
    target = 0;
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL);         /* ignored, it would hide how the program ended */
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* child_wait_rest() */
    pid_t pid = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        *refusal = arguments_complain(command, STATUS_UNFIT, "no process: %s", strerror(errno));
        return -1;
    }
    if (pid == 0) {
        begin(is_grouped);
        int status = become(argument);
        _exit(write(ends[1], &status, sizeof status) < 0 ? STATUS_UNFIT : status);
    }
    if (is_grouped)
        setpgid(pid, pid); /* whichever of the two comes first */
    target = is_grouped ? -pid : pid;
    snprintf(name, sizeof name, "%d", (int)pid);
    target_start = start_of(name);
    if (child_signals) /* it came before there was a child */
        child_kill(child_first_signal);
    close(ends[1]);
    while (read(ends[0], refusal, sizeof *refusal) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    return pid;
}

int child_wait(unsigned milliseconds, int *status)
{
    const struct timespec pause = {0, PAUSE_MS * 1000000L};
    uint64_t until = monotonic_ms() + milliseconds;
    int before = child_signals;
    pid_t pid = target < 0 ? -target : target, ended;
    while ((ended = waitpid(-1, status, WNOHANG)) != pid && ended >= 0) {
        if (ended > 0) /* a process that its parent has left to us */
            continue;
        if (monotonic_ms() >= until || child_signals != before)
            return 0;
        nanosleep(&pause, NULL);
    }
    if (target > 0) /* the other processes of a group can still be reached by it */
        target = 0;
    return 1;
}

/* Whether the list of a process's environment has the tally. What has no environment, or another user's, has not. */
static int has_tally(const char *process, const char *tally)
{
    char path[64], *entry = NULL;
    size_t capacity = 0, head = strlen(TALLY_VARIABLE "=");
    int is_there = 0;
    snprintf(path, sizeof path, "/proc/%.32s/environ", process);
    FILE *file = fopen(path, "re");
    while (file && !is_there && getdelim(&entry, &capacity, '\0', file) > 0) {
        const char *at = strncmp(entry, TALLY_VARIABLE "=", head) ? NULL : strstr(entry + head, tally);
        for (; at && !is_there; at = strstr(at + 1, tally))
            is_there = strchr(":", at[strlen(tally)]) != NULL;
    }
    free(entry);
    if (file)
        fclose(file);
    return is_there;
}

/* `one` gets the name of the last, "sleep (process 4242)". */
static size_t count_rest(const char *tally, char *one, size_t size)
{
    size_t count = 0;
    char name[64];
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all && (entry = readdir(all));) {
        if (!isdigit((unsigned char)entry->d_name[0]) ||
            !(tally ? has_tally(entry->d_name, tally) : target_start && start_of(entry->d_name) >= target_start))
            continue;
        count++;
        read_of(entry->d_name, "comm", name, sizeof name);
        name[strcspn(name, "\n")] = '\0';
        text_make_plain(name);
        snprintf(one, size, "%s (process %.16s)", name, entry->d_name);
    }
    if (all)
        closedir(all);
    return count;
}

size_t child_wait_rest(const char *command, const char *tally)
{
    enum { SURE = 3, SAID_MS = 1000 }; /* a process that executes another has no environment for a moment */
    const struct timespec pause = {0, 20000000};
    uint64_t began = monotonic_ms();
    int before = child_signals;
    size_t count = 0;
    char one[128];
    for (int none = 0, is_said = 0; none < SURE; none = count ? 0 : none + 1) {
        uint64_t passed = monotonic_ms() - began;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        count = count_rest(tally, one, sizeof one);
        if (count && (passed > CHILD_REST_S * 1000ull || child_signals > before || child_signals > 1))
            break;
        if (count && passed > SAID_MS && !is_said++)
            arguments_complain(command, 0,
                               "the program's first process has ended; waiting up to %d s for %zu other%s, such as %s",
                               CHILD_REST_S, count, plural(count), one);
        nanosleep(&pause, NULL);
    }
    return count;
}
