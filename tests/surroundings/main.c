/*
 * Plays seeds, each in a process of its own that is forked from this one, and tells what has become of each: one line of JSON.
 * surroundings.py starts it with the preload library and without, and judges.
 */
#include "base/clock.h"
#include "play.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 12000 /* until a seed counts as hanging */
#define LEFT_MS 2000  /* until a process that has outlived the program counts as left behind */

static int64_t now_us(void)
{
    return (int64_t)(monotonic_ns() / 1000);
}

/* ---- what is left behind ---- */

/* As a subreaper this process is the parent of whatever the program has started. Ends what has outlived it, and returns how
 * many they were. */
static int count_left(void)
{
    char path[64], line[512] = "";
    int64_t until = now_us() + LEFT_MS * 1000;
    int left = 0;
    pid_t found;
    while ((found = waitpid(-1, NULL, WNOHANG)) >= 0 && now_us() < until) {
        if (found == 0)
            usleep(500);
    }
    if (found < 0)
        return 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    if (file && fgets(line, sizeof line, file)) {
        for (char *at = line, *end; (found = (pid_t)strtol(at, &end, 10)) > 0; at = end, left++)
            kill(found, SIGKILL);
    }
    if (file)
        fclose(file);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    return left;
}

/* Prints the names of what is in a folder, and removes it. */
static void tell_left_files(int at, const char *folder, const char *comma)
{
    int file = openat(at, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *opened = file >= 0 ? fdopendir(file) : NULL;
    for (struct dirent *entry; opened && (entry = readdir(opened)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        printf("%s\"%s\"", comma, entry->d_name);
        comma = ", ";
        if (unlinkat(file, entry->d_name, 0) != 0)
            tell_left_files(file, entry->d_name, comma);
    }
    if (opened)
        closedir(opened);
    unlinkat(at, folder, AT_REMOVEDIR);
}

/* ---- a seed ---- */

static void print_text(const char *name, int file)
{
    static char text[65536];
    ssize_t size = pread(file, text, sizeof text, 0);
    printf(", \"%s\": \"", name);
    for (ssize_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        printf(c < 32 || c > 126 || c == '"' || c == '\\' ? "\\u%04x" : "%c", c);
    }
    printf("\"");
}

static void print_record(const struct json_table *record)
{
    printf(", \"steps\": [");
    for (unsigned i = 0; i < record->count; i++)
        printf("%s\"%s %llx\"", i ? ", " : "", record->steps[i].name, (unsigned long long)record->steps[i].value);
    printf("], \"planted\": %d", record->is_planted);
}

/* Waits for the player, who may be a grandchild. Returns its status, or -1 if it hangs. */
static int await(const struct plan *plan, const struct json_table *record, int64_t started)
{
    int status;
    int64_t kill_at = plan->kill_after_us ? started + plan->kill_after_us : INT64_MAX;
    for (;;) {
        pid_t found = waitpid(-1, &status, WNOHANG);
        pid_t wanted = __atomic_load_n(&record->player, __ATOMIC_RELAXED);
        if (found == wanted)
            return status;
        if (found < 0 && errno == ECHILD)
            return -2;
        int64_t now = now_us();
        if (now >= kill_at) {
            kill(wanted, SIGKILL);
            kill_at = INT64_MAX;
        }
        if (now - started > HANG_MS * 1000) {
            kill(wanted, SIGABRT);
            usleep(100000);
            kill(wanted, SIGKILL);
            return -1;
        }
        if (found == 0)
            usleep(now - started < 20000 ? 200 : 1000);
    }
}

static void play_seed(uint64_t seed, const char *folder, struct json_table *record)
{
    struct plan plan;
    char own[4096];
    plan_draw(&plan, seed);
    snprintf(own, sizeof own, "%s/%llu", folder, (unsigned long long)seed);
    mkdir(own, 0777);
    chmod(own, 0777);
    int out = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), err = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    *record = (struct json_table){.player = -2}; /* nobody yet */
    fflush(NULL);
    int64_t started = now_us();
    pid_t child = fork();
    if (child == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        player = (struct player){.plan = &plan, .record = record, .random = seed ^ 0x5eed, .folder = own};
        play();
    }
    if (!plan.is_daemon)
        record->player = child;
    int status = await(&plan, record, started);
    int64_t took = now_us() - started;
    printf("{\"seed\": %llu, \"plan\": \"", (unsigned long long)seed);
    plan_print(&plan, stdout);
    printf("\", \"status\": %d, \"ms\": %lld, \"is_cut\": %d, \"left\": %d", status, (long long)took / 1000,
           plan.kill_after_us != 0, count_left());
    print_record(record);
    print_text("out", out);
    print_text("err", err);
    printf(", \"files\": [");
    tell_left_files(AT_FDCWD, own, "");
    printf("]}\n");
    fflush(stdout);
    close(out);
    close(err);
}

int main(int count, char **arguments)
{
    if (count == 2 && strcmp(arguments[1], "--inherited") == 0)
        return tell_inherited();
    if (count != 5) {
        fprintf(stderr, "usage: surroundings FIRST COUNT FOLDER WITHOUT\n");
        return 2;
    }
    struct json_table *record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (record == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return 2;
    plan_without = arguments[4];
    driver_find();
    for (uint64_t seed = strtoull(arguments[1], NULL, 10), end = seed + strtoull(arguments[2], NULL, 10); seed < end; seed++)
        play_seed(seed, arguments[3], record);
    return 0;
}
