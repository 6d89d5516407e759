// The demo's planted bugs. Each line that says "planted" is the one that a report has to name.
//
// A kernel whose warp ends with the faulting store leaves no registers for the core dump, so each kernel here goes on
// working behind its bug, as most real kernels do.

// Row offsets of a sparse matrix in CSR form, from the rows' lengths. There is one offset more than there are rows, and the
// buffer has room for `rows` only. Then a blur over the lengths.
extern "C" __global__ void demo_overrun(const int *lengths, int *offsets, float *blurred, int rows, int radius)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int end = 0;
    for (int i = 0; i <= row; i++)
        end += lengths[i];
    offsets[row + 1] = end; // planted: row + 1 == rows in the last thread

    float value = 0;
    for (int i = 0; i < radius; i++)
        value = 0.5f * value + 0.5f * (float)lengths[(row + i) % rows];
    blurred[row] = value;
}

// A three-point average that takes care of the last element and forgets the first.
extern "C" __global__ void demo_underrun(const float *samples, float *smooth, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float left = samples[i - 1]; // planted: i == 0 in the first thread
    float right = i + 1 < count ? samples[i + 1] : samples[i];
    smooth[i] = (left + samples[i] + right) / 3.0f;
}

// A look-up table that the program has freed before.
extern "C" __global__ void demo_use_after_free(const float *table, const int *keys, float *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    values[i] = table[keys[i]]; // planted: the table has been freed
}
