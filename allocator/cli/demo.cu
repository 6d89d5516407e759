// The demo's planted bugs. Each line that says "planted" is the one that a report has to name.
//
// A kernel whose warp ends with the faulting store leaves no registers for the core dump, so each kernel that faults goes on
// working after its bug, as most real kernels do.

// Row offsets of a sparse matrix in CSR form, from the rows' lengths. There is one offset more than there are rows, and the
// buffer has room for `rows` only. Then a blur over the lengths.
__global__ void demo_overrun(const int *lengths, int *offsets, float *blurred, int rows, int radius)
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
__global__ void demo_underrun(const float *samples, float *smooth, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float left = samples[i - 1]; // planted: i == 0 in the first thread
    float right = i + 1 < count ? samples[i + 1] : samples[i];
    smooth[i] = (left + samples[i] + right) / 3.0f;
}

// A look-up table that the program has freed before.
__global__ void demo_use_after_free(const float *table, const int *keys, float *values, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] = table[keys[i]]; // planted: the table has been freed
}

// Copies a text of `length` letters, and ends it with a NUL that the buffer has no room for.
__global__ void demo_slack_write(const char *text, char *copy, int length)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < length)
        copy[i] = text[i];
    else if (i == length)
        copy[i] = '\0'; // planted: copy[length] is past the end
}

// Correct: the bug is in the program, which frees `samples` while this may still read them.
__global__ void demo_stream_race(const float *samples, float *squares, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        squares[i] = samples[i] * samples[i];
}

// The sign of each sample.
__global__ void demo_first_nan(const float *samples, float *signs, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        signs[i] = samples[i] / fabsf(samples[i]); // planted: 0 / 0 is NaN
}
