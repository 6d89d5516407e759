// A pool that hands out pieces of one allocation, and says which of its bytes nobody may use: cufence_poison(), where cufence
// is there. Without it the program is an ordinary one. The first argument says what is wrong:
//   clean   nothing: pieces are written and summed up, given back and handed out again, on a stream of their own
//   past    two floats are written past a piece of 1000 bytes, into what the pool rounds it up by
//   late    a piece is written to after it was given back
#include "check.h"

#include <cstring>

extern "C" __attribute__((weak)) int cufence_poison(const void *pointer, size_t bytes, cudaStream_t stream);
extern "C" __attribute__((weak)) int cufence_unpoison(const void *pointer, size_t bytes, cudaStream_t stream);

#define PIECES 1024
#define PITCH 1024 // from one piece to the next
#define FLOATS 250 // of a piece

__global__ void fill(float *piece, int count, float value)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        piece[i] = value; // WRITES
}

__global__ void add_up(const float *piece, int count, float *sum)
{
    for (int i = 0; i < count; i++)
        *sum += piece[i];
}

static char *memory;
static cudaStream_t stream;

static void open_pool()
{
    CALL(cudaMalloc(&memory, PIECES * PITCH));
    if (cufence_poison)
        EXPECT(cufence_poison(memory, PIECES * PITCH, stream) == 0);
}

static float *take(int i)
{
    float *piece = (float *)(memory + i * PITCH);
    if (cufence_unpoison)
        EXPECT(cufence_unpoison(piece, FLOATS * sizeof *piece, stream) == 0);
    return piece;
}

static void give_back(float *piece)
{
    if (cufence_poison)
        EXPECT(cufence_poison(piece, PITCH, stream) == 0);
}

int main(int argc, char **arguments)
{
    const char *wrong = argc > 1 ? arguments[1] : "clean";
    float *sum, found;
    CALL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CALL(cudaMalloc(&sum, sizeof *sum));
    open_pool();
    for (int turn = 0; turn < 50; turn++) {
        float *first = take(0), *second = take(1);
        CALL(cudaMemsetAsync(sum, 0, sizeof *sum, stream));
        fill<<<1, 256, 0, stream>>>(first, FLOATS, 1);
        fill<<<1, 256, 0, stream>>>(second, FLOATS, 2);
        add_up<<<1, 1, 0, stream>>>(first, FLOATS, sum);
        add_up<<<1, 1, 0, stream>>>(second, FLOATS, sum);
        give_back(first); // its kernels may be under way
        give_back(second);
        CALL(cudaMemcpyAsync(&found, sum, sizeof found, cudaMemcpyDeviceToHost, stream));
        CALL(cudaStreamSynchronize(stream));
        EXPECT(found == 3 * FLOATS);
    }
    float *piece = take(0);
    fill<<<1, 256, 0, stream>>>(piece, strcmp(wrong, "past") ? FLOATS : FLOATS + 2, 1);
    if (!strcmp(wrong, "late")) {
        give_back(piece);
        fill<<<1, 256, 0, stream>>>(piece, 1, 1);
    }
    CALL(cudaStreamSynchronize(stream));
    printf("done\n");
    return 0;
}
