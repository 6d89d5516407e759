/* What a process meets, each surrounding at one moment; and where its steps are played: on small stacks, and in threads that
 * are cancelled. */
#include "surround.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define OTHER_USER 54321

int surround_has(enum surrounding which)
{
    return (player.plan->surroundings >> which & 1) != 0;
}

static void limit(int resource, rlim_t most)
{
    int is_set = setrlimit(resource, &(struct rlimit){most, most}) == 0;
    need("setrlimit", is_set || surround_has(SURROUNDING_refused));
}

/* ---- descriptors ---- */

static void begin_few_descriptors(void)
{
    limit(RLIMIT_NOFILE, 32 + pick(player.world, 32));
}

static void begin_no_descriptors(void)
{
    int file, last[DESCRIPTORS_MOST] = {0};
    limit(RLIMIT_NOFILE, 100);
    for (unsigned i = 0; (file = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0; i++)
        last[i % DESCRIPTORS_MOST] = file;
    for (unsigned i = 0; i < player.plan->descriptors_left; i++)
        close(last[i]);
}

static int own_pipe[2], own_file;

/* Without its own descriptors a driver does not work. */
static int is_of_driver(int descriptor)
{
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return readlink(path, name, sizeof name - 1) > 0 && strstr(name, "memfd:cufence-sim") != NULL;
}

/* As daemons do. What opens files from now on gets the numbers that others may believe to be theirs. */
static void begin_closed(void)
{
    usleep(5000); /* whoever is just reading a file has closed it */
    for (int i = 3; i < 256; i++) {
        if (!is_of_driver(i))
            close(i);
    }
    need("pipe", pipe2(own_pipe, O_CLOEXEC | O_NONBLOCK) == 0);
    own_file = open("/dev/zero", O_RDWR | O_CLOEXEC);
    need("own file", own_file >= 0 && write(own_pipe[1], "own", 3) == 3);
    for (int i = 0; i < 12; i++)
        need("own descriptor", fcntl(own_pipe[i % 2], F_DUPFD_CLOEXEC, 3) >= 0);
}

static void begin_closed_standard(void)
{
    int which = 1 + (int)pick(player.world, 7);
    for (int i = 0; i < 3; i++) {
        if (which >> i & 1)
            close(i);
    }
}

void surround_check(void)
{
    char text[16] = "";
    if (own_pipe[1] == 0)
        return;
    note("own pipe", read(own_pipe[0], text, sizeof text) == 3 && memcmp(text, "own", 3) == 0);
    note("own file", fcntl(own_file, F_GETFD) == FD_CLOEXEC);
}

static void put_at_2(int file)
{
    need("dup2", file >= 0 && dup2(file, STDERR_FILENO) == STDERR_FILENO);
    close(file);
}

static void begin_full(void)
{
    put_at_2(open("/dev/full", O_WRONLY));
}

static void begin_no_reader(void)
{
    int ends[2];
    need("pipe", pipe(ends) == 0);
    close(ends[0]);
    put_at_2(ends[1]);
}

/* ---- limits ---- */

static void begin_address_space(void)
{
    limit(RLIMIT_AS, (rlim_t)(4u << pick(player.world, 3)) << 30);
}

static void begin_stack_limit(void)
{
    limit(RLIMIT_STACK, 256 << 10);
}

static void begin_file_size(void)
{
    limit(RLIMIT_FSIZE, pick(player.world, 2) * 512);
}

/* The limit holds for a user; the super user is exempt. */
static void begin_no_processes(void)
{
    if (geteuid() == 0) {
        uid_t user = OTHER_USER + (uid_t)(player.plan->seed % 1000);
        need("setuid", setgid(user) == 0 && setuid(user) == 0);
    }
    limit(RLIMIT_NPROC, 0);
}

static void begin_refused(void)
{
    static const unsigned calls[] = {SYS_process_vm_readv, SYS_socketpair,   SYS_prctl,      SYS_pipe2,   SYS_mknodat,
                                     SYS_mkdirat,          SYS_eventfd2,     SYS_prlimit64,  SYS_kcmp,    SYS_getrandom,
                                     SYS_readlinkat,       SYS_memfd_create, SYS_pidfd_open, SYS_sysinfo, SYS_sched_getaffinity,
                                     SYS_timer_create,     SYS_statx};
    struct sock_filter code[64] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short n = 1;
    uint64_t bits = draw(player.world);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (!(bits >> i & 1))
            continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (i % 2 ? EPERM : ENOSYS));
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = code};
    need("seccomp", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* ---- signals, folders, time ---- */

static void nothing(int number)
{
}

static void begin_alarms(void)
{
    const struct sigaction action = {.sa_handler = nothing};
    const struct itimerval timer = {{0, 2000}, {0, 2000}};
    need("alarms", sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

static void begin_blocked(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP}; /* also what the simulated device needs */
    sigset_t most;
    sigfillset(&most);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&most, faults[i]);
    sigprocmask(SIG_BLOCK, &most, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void begin_not_dumpable(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void begin_no_environment(void)
{
    char folder[4096];
    snprintf(folder, sizeof folder, "%s/gone", player.folder);
    need("folder", mkdir(folder, 0700) == 0 && chdir(folder) == 0 && rmdir(folder) == 0);
    clearenv();
}

static void begin_no_folder(void)
{
    setenv("TMPDIR", "/proc/no-such-folder", 1);
}

static void begin_slow(void)
{
    static const char *const calls[] = {"cuMemMap",       "cuMemUnmap",   "cuMemSetAccess",      "cuEventRecord",
                                        "cuLaunchKernel", "cuEventQuery", "cuStreamSynchronize", "cuMemCreate"};
    for (int i = 0; i < 2; i++)
        sim.set_latency(calls[pick(player.world, sizeof calls / sizeof *calls)], 100 + pick(player.world, 1000));
}

void surround(enum moment now)
{
#define BEGIN(name, moment)                                                                                                    \
    if (moment == now && surround_has(SURROUNDING_##name))                                                                     \
        begin_##name();
    SURROUNDINGS(BEGIN)
#undef BEGIN
}

/* ---- places: small stacks ---- */

static void (*to_run)(void);

static void *run(void *unused)
{
    to_run();
    return unused;
}

static void on_small_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    size_t bytes = (size_t)PTHREAD_STACK_MIN + pick(player.world, 2) * 16384;
    need("pthread_attr_setstacksize", pthread_attr_setstacksize(&attributes, bytes) == 0);
    need("pthread_create", pthread_create(&thread, &attributes, run, NULL) == 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

/* ---- a fibre: a stack of the program's own, with an unmapped page below ---- */

static ucontext_t back, fibre;

static void run_fibre(void)
{
    to_run();
}

static void on_fibre(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = page * (4 + pick(player.world, 5));
    char *stack = mmap(NULL, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need("mmap", stack != MAP_FAILED && mprotect(stack, page, PROT_NONE) == 0 && getcontext(&fibre) == 0);
    fibre.uc_stack = (stack_t){.ss_sp = stack + page, .ss_size = bytes};
    fibre.uc_link = &back;
    makecontext(&fibre, run_fibre, 0);
    need("swapcontext", swapcontext(&back, &fibre) == 0);
    munmap(stack, bytes + page);
}

/* ---- cancellation ---- */

/* It takes effect at the first cancellation point, which has to be the program's own. */
static void *run_cancelled(void *unused)
{
    pthread_cancel(pthread_self());
    to_run();
    note("not cancelled inside", 1);
    pthread_testcancel();
    return unused;
}

static void on_cancelled_thread(void)
{
    pthread_t thread;
    void *result;
    need("pthread_create", pthread_create(&thread, NULL, run_cancelled, NULL) == 0);
    pthread_join(thread, &result);
    note("cancelled", result == PTHREAD_CANCELED);
}

/* Works on memory of its own until it is cancelled. */
static void *work_until_cancelled(void *unused)
{
    struct world *world = player.world;
    CUstream stream;
    context_enter(world, 0);
    MUST(world, cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (;; pthread_testcancel()) {
        CUdeviceptr address, other;
        MUST(world, cu.cuMemAllocAsync(&address, 5000, stream));
        MUST(world, launch_fill(&world->contexts[0].kernels, stream, address, 4000, 1, 1));
        MUST(world, cu.cuMemAlloc(&other, 1000));
        MUST(world, cu.cuMemFreeAsync(address, stream));
        MUST(world, cu.cuMemFree(other));
    }
    return unused;
}

static void beside_cancelled_thread(void)
{
    pthread_t thread;
    void *result;
    need("pthread_create", pthread_create(&thread, NULL, work_until_cancelled, NULL) == 0);
    usleep(pick(player.world, 3000));
    pthread_cancel(thread);
    pthread_join(thread, &result);
    note("cancelled", result == PTHREAD_CANCELED);
    to_run();
}

void place_run(void (*function)(void))
{
    static void (*const places[])(void) = {[PLACE_SMALL_THREAD] = on_small_thread,
                                           [PLACE_FIBRE] = on_fibre,
                                           [PLACE_CANCELLED] = on_cancelled_thread,
                                           [PLACE_BESIDE_CANCELLED] = beside_cancelled_thread};
    to_run = function;
    if (player.plan->place == PLACE_MAIN)
        function();
    else
        places[player.plan->place]();
}
