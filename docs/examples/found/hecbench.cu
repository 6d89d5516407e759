/* What is wrong in four programs of HeCBench, in short. Below each kernel: how it is launched. */

/* histogram */
__global__ void accumulate(const unsigned *parts, int bins, unsigned *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= bins)
        out[i] = parts[i]; // < is meant
}
// unsigned parts[1024], out[768]: accumulate<<<7, 128>>>(parts, 768, out);

/* bscan */
__global__ void vote(unsigned *out)
{
    unsigned below = (1u << (threadIdx.x & 31)) - 1;
    out[threadIdx.x] = __popc(__ballot_sync(below, threadIdx.x & 1));
}
// unsigned out[64]: vote<<<1, 64>>>(out);

/* tqs */
__global__ void take(const int2 *queue, int *consumed, int tasks, int *out)
{
    for (;;) {
        int next = atomicAdd(consumed, 1);
        int2 task = queue[next]; // belongs after the check
        if (next >= tasks) {
            out[tasks] = task.x; // kept, so that the compiler keeps the read
            return;
        }
        out[next] = task.y;
    }
}
// int2 queue[320], int consumed = 0, out[321]: take<<<320, 1>>>(queue, consumed, 320, out);

/* quantAQLM */
__global__ void rows(unsigned short *out, int rows)
{
    int row = (blockDim.x * blockIdx.x + threadIdx.x) / 32;
    if (row < rows && threadIdx.x % 32 == 0)
        out[row] = 1;
}
// unsigned short out[4 * 12288 / 32], where 4 * 12288 is meant: rows<<<768, 512>>>(out, 12288);
