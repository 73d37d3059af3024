// printf, assert, function pointers, constants, globals, local arrays and faults.

__constant__ float table[4] = {1, 2, 3, 4};
__device__ int counter = 5;
__device__ int *pointer = &counter;
__device__ unsigned char grid[2][3] = {{1, 2}, {3, 4, 5}};

extern "C" __global__ void print(int k) {
    printf("thread %d of %u: %5.2f|%-6s|%c|%08x|%lld|%e|%%\n", threadIdx.x, blockDim.x, k * 1.5, "ab", 'z', k, 1LL << 40, 12345.678);
}

extern "C" __global__ void variables(float *out, int k) {
    out[0] = table[k];
    out[1] = atomicAdd(&counter, 2);
    out[2] = *pointer;
    out[3] = grid[1][k];
}

typedef int (*function)(int);
__device__ __noinline__ int plus(int a) { return a + 1; }
__device__ __noinline__ int twice(int a) { return a * 2; }
__device__ __noinline__ int square(int a) { return a * a; }
__device__ function functions[3] = {plus, twice, square};
extern "C" __global__ void indirect(int *out) { out[threadIdx.x] = functions[threadIdx.x % 3](threadIdx.x); }

struct Big { int values[20]; double last; };
__device__ __noinline__ Big make(int a) {
    Big big;
    for (int i = 0; i < 20; i++) big.values[i] = a * i;
    big.last = a;
    return big;
}
extern "C" __global__ void structures(int *out, int k, Big given) {
    Big made = make(threadIdx.x);
    out[threadIdx.x] = made.values[k] + given.values[threadIdx.x % 20] + (int)given.last;
}

extern "C" __global__ void local(int *out, int n) {
    int values[16];
    for (int i = 0; i < 16; i++) values[i] = i * threadIdx.x;
    for (int i = 0; i < n; i++) values[(i * 7 + threadIdx.x) & 15] += values[i & 15];
    out[threadIdx.x] = values[n & 15];
}

extern "C" __global__ void check(int limit) { assert(threadIdx.x < limit); }
extern "C" __global__ void out_of_bounds(int *data, int at) { if (threadIdx.x == 3) data[at] = 1; }
extern "C" __global__ void misaligned(char *data) { *(int *)(data + threadIdx.x) = 1; }
extern "C" __global__ void trapped() { if (threadIdx.x == 5) __trap(); }
extern "C" __global__ void forever(volatile int *flag) { while (*flag == 0) {} }
extern "C" __global__ void uninitialized(int *out) { __shared__ int s[64]; if (threadIdx.x == 9) s[3] = 1; __syncthreads(); out[threadIdx.x] = s[threadIdx.x / 16]; }
extern "C" __global__ void shared_bounds(int *out, int at) { __shared__ int s[8]; s[threadIdx.x & 7] = 1; out[threadIdx.x] = s[at]; }
extern "C" __global__ void barrier_divergence(int *out) { if (threadIdx.x < 7) __syncthreads(); else { __syncthreads(); out[0] = 1; } }
extern "C" __global__ void choose(int *out, int k) {
    int v = 0;
    switch ((threadIdx.x + k) % 8) {
    case 0: v = out[1] * 5; break; case 1: v = 7 + k; break; case 2: v = 9 - k; break; case 3: v = 12 ^ k; break;
    case 4: v = 19 % (k + 1); break; case 5: v = 1 << k; break; case 6: v = k / 3; break; default: v = -k;
    }
    out[threadIdx.x] = v;
}
