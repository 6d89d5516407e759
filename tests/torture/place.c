/* Where steps are played: on small stacks, and in threads that are cancelled. */
#include "surround.h"

#include <limits.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

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
