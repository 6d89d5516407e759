/*
 * Run by bench/lost_faults.py, one mode per process. The first three fault, and synchronise until CUDA reports it:
 *
 *   one    one lane, in the last instruction of its kernel    all    every lane, likewise
 *   load   every lane, at a load in the middle
 *
 * The others run correctly for about four seconds, and check their results:
 *
 *   few    a kernel of three blocks                          full   a kernel that fills the device
 *   idle   the device rests, then a short kernel             many   short kernels, one after the other
 */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>

enum { FAR = 1L << 34 };

__global__ void store_one(float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i == 1000 ? FAR : i] = 1.0f;
}

__global__ void store_all(float *y)
{
    y[FAR + threadIdx.x] = 1.0f;
}

__global__ void load_all(float *y, int n)
{
    float sum = y[FAR + threadIdx.x];
    for (int i = 0; i < n; i++)
        sum = sum * 1.0001f + y[i % 1000];
    y[threadIdx.x] = sum;
}

__global__ void spin(unsigned long long *out, long long cycles)
{
    long long start = clock64();
    while (clock64() - start < cycles)
        ;
    out[blockIdx.x * blockDim.x + threadIdx.x]++;
}

static int fault(const char *mode)
{
    float *y;
    cudaError_t error = cudaSuccess;
    if (cudaMalloc(&y, 4000) || cudaMemset(y, 0, 4000))
        return 3;
    store_one<<<8, 128>>>(y, 999);
    if (cudaDeviceSynchronize())
        return 3;
    if (!strcmp(mode, "one"))
        store_one<<<8, 128>>>(y, 1000);
    else if (!strcmp(mode, "all"))
        store_all<<<8, 128>>>(y);
    else
        load_all<<<8, 128>>>(y, 100000);
    for (int i = 0; i < 100 && !error; i++)
        error = i ? cudaMemset(y, 0, 4) ? cudaGetLastError() : cudaDeviceSynchronize() : cudaDeviceSynchronize();
    printf("error %d\n", (int)error); /* 0 if the driver swallows it, as it does with skip_abort */
    return 0;
}

static double now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static int work(const char *mode)
{
    const int blocks = strcmp(mode, "few") ? 264 : 3, threads = strcmp(mode, "few") ? 1024 : 96, count = blocks * threads;
    unsigned long long *out, *host = (unsigned long long *)calloc(count, sizeof *host), wanted = 1;
    long wrong = 0;
    if (cudaMalloc(&out, count * sizeof *out) || cudaMemset(out, 0, count * sizeof *out) || cudaDeviceSynchronize())
        return 3;
    if (!strcmp(mode, "many")) {
        double start = now();
        for (wanted = 0; now() - start < 4; wanted++) {
            spin<<<blocks, threads>>>(out, 0);
            if (wanted % 1000 == 999 && cudaDeviceSynchronize())
                break;
        }
    } else if (!strcmp(mode, "idle")) {
        sleep(4);
        spin<<<blocks, threads>>>(out, 0);
    } else {
        spin<<<blocks, threads>>>(out, 7000000000);
    }
    cudaError_t error = cudaMemcpy(host, out, count * sizeof *host, cudaMemcpyDeviceToHost);
    for (int i = 0; i < count; i++)
        wrong += host[i] != wanted;
    printf("error %d, %ld of %d wrong\n", (int)error, wrong, count);
    return error || wrong;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "one";
    int is_faulty = !strcmp(mode, "one") || !strcmp(mode, "all") || !strcmp(mode, "load");
    return is_faulty ? fault(mode) : work(mode);
}
