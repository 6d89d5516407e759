/* Plays seeds in hard surroundings, and tells what has become of each. torture.py starts it with the preload library and
 * without, and judges. */
#include "base/clock.h"
#include "surround.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define HANG_MS 12000 /* until a seed counts as hanging */
#define LEFT_MS 2000  /* until a process that has outlived the program counts as left behind */

struct player player;

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

/* ---- a seed ---- */

static void print_record(const struct record *record)
{
    printf(", \"steps\": [");
    for (unsigned i = 0; i < record->count; i++)
        printf("%s\"%s %llx\"", i ? ", " : "", record->steps[i].name, (unsigned long long)record->steps[i].value);
    printf("], \"planted\": %d", record->is_planted);
}

/* Waits for the player, who may be a grandchild. Returns its status, or -1 if it hangs. */
static int await(const struct plan *plan, const struct record *record, int64_t started)
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

static int open_beside(const char *folder, const char *ending)
{
    char path[4200];
    snprintf(path, sizeof path, "%s.%s", folder, ending);
    return open(path, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

static void play_seed(uint64_t seed, const char *folder, struct record *record)
{
    static struct world world;
    struct plan plan;
    char own[4096];
    plan_draw(&plan, seed, settings.without_names);
    snprintf(own, sizeof own, "%s/%llu", folder, (unsigned long long)seed);
    mkdir(own, 0777);
    chmod(own, 0777);
    int out = open_beside(own, "out"), err = open_beside(own, "err");
    *record = (struct record){.player = -2}; /* nobody yet */
    fflush(NULL);
    int64_t started = now_us();
    pid_t child = fork();
    if (child == 0) {
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        player = (struct player){.plan = &plan, .record = record, .folder = own, .world = &world};
        play_surrounded();
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
    printf("}\n");
    fflush(stdout);
    close(out);
    close(err);
}

int play_in_surroundings(uint64_t first, uint64_t count, const char *folder)
{
    struct record *record = mmap(NULL, sizeof *record, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (record == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return 2;
    for (uint64_t i = 0; i < count; i++)
        play_seed(first + i, folder, record);
    return 0;
}
