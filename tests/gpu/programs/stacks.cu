// Everything on a thread of 64 KiB, or in a fibre whose stack is painted, to see how much of it is used: natively mostly by the
// driver.
#include "check.h"

#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { BYTES = 64 << 10, FIBRE = 256 << 10, PAINT = 0xa5, COUNT = 1000 };

__global__ void fill(float *numbers)
{
    numbers[threadIdx.x] = 1.0f;
}

static void work(bool is_guarded)
{
    float *numbers, *ordered;
    cudaStream_t stream;
    CALL(cudaMalloc(&numbers, COUNT * sizeof *numbers));
    CALL(cudaStreamCreate(&stream));
    fill<<<1, COUNT, 0, stream>>>(numbers);
    CALL(cudaGetLastError());
    for (int i = 0; i < 300; i++) {
        CALL(cudaMallocAsync(&ordered, COUNT * sizeof *ordered, stream));
        CALL(cudaFreeAsync(ordered, stream));
    }
    CALL(cudaStreamSynchronize(stream));
    CALL(cudaStreamDestroy(stream));
    CALL(cudaFree(numbers));
    if (is_guarded) {
        printf("second free: %s\n", cudaGetErrorName(cudaFree(numbers)));
        cudaGetLastError(); // the next fibre starts without an error
    }
}

static bool is_guarded;

static void *work_on_thread(void *unused)
{
    work(is_guarded);
    return unused;
}

static ucontext_t home, fibre;

static void work_on_fibre()
{
    work(is_guarded);
}

static void measure(const char *name)
{
    unsigned char *low = (unsigned char *)mmap(nullptr, FIBRE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT(low != MAP_FAILED);
    memset(low, PAINT, FIBRE);
    EXPECT(getcontext(&fibre) == 0);
    fibre.uc_stack.ss_sp = low;
    fibre.uc_stack.ss_size = FIBRE;
    fibre.uc_link = &home;
    makecontext(&fibre, work_on_fibre, 0);
    EXPECT(swapcontext(&home, &fibre) == 0);
    int untouched = 0;
    while (untouched < FIBRE && low[untouched] == PAINT)
        untouched++;
    printf("%s: %d bytes of stack\n", name, FIBRE - untouched);
    munmap(low, FIBRE);
}

int main(int argc, char **argv)
{
    pthread_attr_t attributes;
    pthread_t thread;
    is_guarded = argc > 1 && strcmp(argv[1], "guarded") == 0;
    CALL(cudaFree(nullptr)); // a context takes the driver more
    EXPECT(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, BYTES) == 0);
    EXPECT(pthread_create(&thread, &attributes, work_on_thread, nullptr) == 0);
    EXPECT(pthread_join(thread, nullptr) == 0);
    measure("first fibre");
    measure("second fibre");
    return 0;
}
