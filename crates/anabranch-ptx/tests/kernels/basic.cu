// Element-wise kernels, matrix products and recursion.

extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float left[16][16], right[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        left[y][x] = a[row * n + t + x];
        right[y][x] = b[(t + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += left[y][k] * right[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void chain(float *data, float a, float b, int count) {
    float v = data[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < count; i++) v = v * a + b;
    data[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

extern "C" __global__ void recursive(int *out, int modulus) { out[threadIdx.x] = fibonacci(threadIdx.x % modulus); }

__device__ __noinline__ int deeper(int n) { return n == 0 ? 0 : deeper(n - 1) + 1 + (threadIdx.x == 99); }
extern "C" __global__ void endless(int *out, int depth) { out[threadIdx.x] = deeper(depth); }

extern "C" __global__ void mandelbrot(int *out, int width, int limit) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    float cx = -2.0f + 3.0f * x / width, cy = -1.0f + 2.0f * y / gridDim.y, zx = 0, zy = 0;
    int n = 0;
    while (n < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2.0f * zx * zy + cy;
        zx = t;
        n++;
    }
    out[y * width + x] = n;
}

extern "C" __global__ void collatz(const unsigned *in, unsigned *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long v = in[i];
    unsigned steps = 0;
    while (v != 1) { v = v % 2 ? 3 * v + 1 : v / 2; steps++; }
    out[i] = steps;
}

struct Particle { float position[3], velocity[3]; int kind; double weight; };
extern "C" __global__ void advance(Particle *particles, const Particle step, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Particle p = particles[i];
    for (int axis = 0; axis < 3; axis++) p.position[axis] += p.velocity[axis] * step.velocity[(axis + p.kind) % 3];
    p.weight *= step.weight;
    particles[i] = p;
}

extern "C" __global__ void empty() {}
