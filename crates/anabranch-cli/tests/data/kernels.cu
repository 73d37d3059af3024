// The kernels of the tests of `anabranch run`.

// y[i] = by * x[i] + y[i]
extern "C" __global__ void saxpy(float *y, const float *x, float by, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        y[i] = by * x[i] + y[i];
    }
}

// Writes an argument of each size behind each other, and the number of each thread.
extern "C" __global__ void numbers(
    unsigned char *to, unsigned char a, short b, unsigned short c, int d, float e, long long f, double g) {
    *(unsigned char *)to = a;
    *(short *)(to + 2) = b;
    *(unsigned short *)(to + 4) = c;
    *(int *)(to + 8) = d;
    *(float *)(to + 12) = e;
    *(long long *)(to + 16) = f;
    *(double *)(to + 24) = g;
}

// Reverses a block's values in dynamic shared memory.
extern "C" __global__ void reverse(unsigned *values) {
    extern __shared__ unsigned shared[];
    unsigned x = threadIdx.x + blockDim.x * threadIdx.y;
    shared[x] = values[x];
    __syncthreads();
    values[x] = shared[blockDim.x * blockDim.y - 1 - x];
}

// Where each block is.
extern "C" __global__ void places(unsigned *to) {
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    to[block] = blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
}

// Writes one number beyond the end.
extern "C" __global__ void beyond(unsigned *to, unsigned count) {
    if (threadIdx.x == 5) {
        to[count] = 1;
    }
}
