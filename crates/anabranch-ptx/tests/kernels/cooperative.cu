// Reductions, scans, histograms, sorting, locks and barriers.

extern "C" __global__ void reduce(const float *in, float *out, int n) {
    __shared__ float partial[32];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int step = 16; step; step >>= 1) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
        if (threadIdx.x == 0) atomicAdd(out, sum);
    }
}

extern "C" __global__ void scan(int *data, int n) {
    extern __shared__ int buffer[];
    int t = threadIdx.x;
    buffer[t] = t < n ? data[t] : 0;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        int v = t >= step ? buffer[t - step] : 0;
        __syncthreads();
        buffer[t] += v;
        __syncthreads();
    }
    if (t < n) data[t] = buffer[t];
}

extern "C" __global__ void warp_scan(const int *in, int *out) {
    int lane = threadIdx.x % 32, v = in[threadIdx.x];
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, v, step);
        if (lane >= step) v += other;
    }
    out[threadIdx.x] = v;
}

extern "C" __global__ void histogram(const unsigned char *in, unsigned *out, int n) {
    __shared__ unsigned bins[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}

extern "C" __global__ void bitonic(unsigned *data) {
    extern __shared__ unsigned values[];
    unsigned t = threadIdx.x;
    values[t] = data[t];
    __syncthreads();
    for (unsigned size = 2; size <= blockDim.x; size *= 2)
        for (unsigned stride = size / 2; stride; stride /= 2) {
            unsigned other = t ^ stride;
            if (other > t) {
                bool up = (t & size) == 0;
                unsigned a = values[t], b = values[other];
                if ((a > b) == up) { values[t] = b; values[other] = a; }
            }
            __syncthreads();
        }
    data[t] = values[t];
}

// Each thread takes the lock: lanes of a warp must make progress independently.
extern "C" __global__ void locked(int *lock, int *counter, int times) {
    for (int i = 0; i < times; i++) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        volatile int *c = counter;
        *c = *c + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}

// One warp waits for another one of its block.
extern "C" __global__ void handoff(volatile int *flag, int *out) {
    if (threadIdx.x < 32) {
        while (flag[0] == 0) {}
        out[threadIdx.x] = flag[1];
    } else if (threadIdx.x == 32) {
        flag[1] = 42;
        __threadfence();
        flag[0] = 1;
    }
}

extern "C" __global__ void votes(const int *in, unsigned *out) {
    int v = in[threadIdx.x];
    out[threadIdx.x * 6 + 0] = __ballot_sync(~0u, v > 0);
    out[threadIdx.x * 6 + 1] = __all_sync(~0u, v > -100);
    out[threadIdx.x * 6 + 2] = __any_sync(~0u, v == 7);
    out[threadIdx.x * 6 + 3] = __match_any_sync(~0u, v);
    int all;
    out[threadIdx.x * 6 + 4] = __match_all_sync(~0u, v / 1000, &all) + all;
    if (threadIdx.x % 3) {
        unsigned active = __activemask();
        out[threadIdx.x * 6 + 5] = __shfl_sync(active, threadIdx.x, __ffs(active) - 1) + __popc(active);
    }
}

extern "C" __global__ void counts(const int *in, int *out) {
    int n = __syncthreads_count(in[threadIdx.x] > 0);
    int all = __syncthreads_and(in[threadIdx.x] > -1000);
    int any = __syncthreads_or(in[threadIdx.x] == 3);
    out[threadIdx.x] = n * 4 + (all != 0) * 2 + (any != 0);
}

extern "C" __global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d) {
    int t = threadIdx.x + blockIdx.x * blockDim.x;
    atomicAdd(&i[0], t); atomicSub(&i[1], t); atomicMin(&i[2], 50 - t); atomicMax(&i[3], t - 50);
    atomicAnd(&u[0], ~(1u << (t % 32))); atomicOr(&u[1], 1u << (t % 32)); atomicXor(&u[2], t);
    atomicInc(&u[3], 6); atomicDec(&u[4], 6);
    atomicAdd(&l[0], (unsigned long long)t << 32); atomicMax(&l[1], (unsigned long long)t * t);
    atomicAdd(f, 0.5f); atomicAdd(d, 0.25);
}

// Named barriers: two halves of the block, with counts.
extern "C" __global__ void named(int *out) {
    __shared__ int box[2];
    int half = threadIdx.x / 64;
    if (threadIdx.x % 64 == 0) box[half] = half + 10;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    out[threadIdx.x] = box[half];
}

extern "C" __global__ void diverged(int *out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    switch (threadIdx.x % 5) {
    case 0: atomicAdd(&sum, 1); break;
    case 1: for (int i = 0; i < threadIdx.x; i++) atomicAdd(&sum, 2); break;
    case 2: if (threadIdx.x > 40) return; atomicAdd(&sum, 3); break;
    default: atomicAdd(&sum, 4);
    }
    __syncthreads();
    out[threadIdx.x] = sum;
}
