/* Stories about what a correct program notices of cufence: how it ends, and what its process holds. */
#include "program.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say_goodbye(void)
{
    puts("goodbye");
}

/* A main thread that has left is a zombie until the process ends. */
static int is_main_over(void)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)getpid());
    FILE *in = fopen(name, "r");
    size_t got = in != NULL ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in != NULL)
        fclose(in);
    return got != 0 && strstr(text, ") Z ") != NULL;
}

static void *outlive_main(void *what)
{
    CUdeviceptr address;
    while (!is_main_over())
        usleep(1000);
    use_device(0);
    MUST(cu.cuMemAlloc(&address, 1000));
    puts("the other thread goes on");
    fflush(stdout);
    if (strcmp(what, "exit") == 0)
        exit(3);
    if (strcmp(what, "signal") == 0) {
        kill(getpid(), SIGTERM);
        pause();
    }
    return NULL;
}

/* busy_end: main() returns while a kernel waits for the host. */
STORY(busy_end)
{
    static uint32_t flag;
    start();
    CUstream stream = new_stream();
    spin(&flag, stream);
    return 0;
}

/* The super user is exempt from the limit. */
static void forbid_threads(void)
{
    if (getuid() == 0 && (setgid(54321) != 0 || setuid(54321) != 0))
        exit(4);
    if (setrlimit(RLIMIT_NPROC, &(struct rlimit){0, 0}) != 0)
        exit(4);
}

/* prctl(), which names threads, too. */
static void refuse_names(void)
{
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        exit(4);
}

/* All but one, which pthread_exit() itself needs. No thread of the simulated device is left, which is known by its name. */
static void take_descriptors(void)
{
    MUST(cu.cuDevicePrimaryCtxReset(0));
    usleep(10000);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64});
    for (int last = -1, next; (next = dup(STDOUT_FILENO)) >= 0 || close(last) != 0; last = next)
        continue;
}

/* main_leaves alone|nameless|crowded|forbidden|thread|exit|signal: by pthread_exit(); the process ends with its last thread, or
 * as that one ends it. */
STORY(main_leaves)
{
    CUdeviceptr address;
    pthread_t thread;
    if (count < 3)
        return 4;
    alarm(60);
    atexit(say_goodbye);
    if (strcmp(arguments[2], "nameless") == 0)
        refuse_names();
    start();
    MUST(cu.cuMemAlloc(&address, 1000));
    if (strcmp(arguments[2], "forbidden") == 0)
        forbid_threads();
    else if (strcmp(arguments[2], "crowded") == 0)
        take_descriptors();
    else if (strcmp(arguments[2], "nameless") != 0 && strcmp(arguments[2], "alone") != 0)
        pthread_create(&thread, NULL, outlive_main, arguments[2]);
    pthread_exit(NULL);
}

/* ---- what the process holds ---- */

static int count_entries(const char *name)
{
    DIR *folder = opendir(name);
    int count = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    if (folder != NULL)
        closedir(folder);
    return count;
}

/* The number behind `key` in a file of /proc; -1 if there is none. */
static long long proc_number(const char *name, const char *key, int base)
{
    char line[256];
    long long number = -1;
    FILE *in = fopen(name, "r");
    while (in != NULL && number < 0 && fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtoll(line + strlen(key), NULL, base);
    }
    if (in != NULL)
        fclose(in);
    return number;
}

/* How often cufence's threads have woken up so far. */
static long long count_wakeups(int *threads)
{
    long long sum = 0;
    DIR *folder = opendir("/proc/self/task");
    *threads = 0;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        char name[300], line[64] = "";
        snprintf(name, sizeof name, "/proc/self/task/%s/comm", entry->d_name);
        FILE *in = entry->d_name[0] != '.' ? fopen(name, "r") : NULL;
        int is_ours = in != NULL && fgets(line, sizeof line, in) != NULL && strncmp(line, "cufence", 7) == 0;
        if (in != NULL)
            fclose(in);
        if (!is_ours)
            continue;
        *threads += 1;
        snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
        sum += proc_number(name, "voluntary_ctxt_switches:", 10);
    }
    if (folder != NULL)
        closedir(folder);
    return sum;
}

static CUdeviceptr __attribute__((noinline)) allocate_here(size_t size, CUstream stream)
{
    CUdeviceptr address;
    MUST(cu.cuMemAllocAsync(&address, size, stream));
    return address;
}

static CUdeviceptr __attribute__((noinline)) allocate_there(size_t size, CUstream stream)
{
    CUdeviceptr address;
    MUST(cu.cuMemAlloc(&address, size));
    return address;
}

/* Steps of a loop: buffers of several places and sizes, and launches that use them. */
static void work(CUstream stream, int steps)
{
    for (int i = 0; i < steps; i++) {
        CUdeviceptr a = allocate_here(4000, stream), b = allocate_there((size_t)5 << 20, stream), c = allocate_here(100, NULL);
        MUST(store(a, 1, stream));
        MUST(store(b, 2, stream));
        MUST(cu.cuMemFreeAsync(a, stream));
        MUST(cu.cuMemFreeAsync(c, NULL));
        MUST(cu.cuStreamSynchronize(stream));
        MUST(cu.cuMemFree(b));
    }
}

/* seen STEPS SECONDS: works, then does nothing until cufence's threads sleep too, SECONDS at most; then says what there is. */
STORY(seen)
{
    enum { QUIET_MS = 1000 };
    int threads = 0, waited = 0;
    long long wakeups, before;
    if (count < 4)
        return 4;
    start();
    CUstream stream = new_stream();
    work(stream, atoi(arguments[2]));
    do {
        before = count_wakeups(&threads);
        usleep(QUIET_MS * 1000);
        wakeups = count_wakeups(&threads) - before;
        waited += QUIET_MS;
    } while (wakeups != 0 && waited < atoi(arguments[3]) * 1000);
    printf("blocked %llx ignored %llx caught %llx\n", (unsigned long long)proc_number("/proc/self/status", "SigBlk:", 16),
           (unsigned long long)proc_number("/proc/self/status", "SigIgn:", 16),
           (unsigned long long)proc_number("/proc/self/status", "SigCgt:", 16));
    fprintf(stderr, "threads of cufence %d, descriptors %d, wake-ups %lld after %d ms, resident KiB %lld, reserved KiB %lld\n",
            threads, count_entries("/proc/self/fd"), wakeups, waited, proc_number("/proc/self/status", "VmRSS:", 10),
            proc_number("/proc/self/status", "VmSize:", 10));
    return 0;
}
