// Kernels of the conformance cases. Each has a twin in Rust in kernels.rs, of the same name and parameters.

extern "C" __global__ void store(unsigned *place, unsigned value) {
    *place = value;
}

// *place = *place * factor + value: its result tells in which order several of them ran.
extern "C" __global__ void add(unsigned *place, unsigned factor, unsigned value) {
    *place = *place * factor + value;
}

// destination[i] = source[i] * factor
extern "C" __global__ void scale(float *destination, const float *source, float factor, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        destination[i] = source[i] * factor;
    }
}

// Keeps the stream busy for a while.
extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}

// Writes where nothing is.
extern "C" __global__ void fault(unsigned *place) {
    *(volatile unsigned *)((char *)place + (1ull << 46)) = 1;
}

extern "C" __global__ void trap(void) {
    asm volatile("trap;");
}

// Each block reverses its own elements through dynamic shared memory, which takes a barrier.
extern "C" __global__ void reverse(unsigned *data) {
    extern __shared__ unsigned shared[];
    unsigned i = threadIdx.x, base = blockIdx.x * blockDim.x;
    shared[i] = data[base + i];
    __syncthreads();
    data[base + i] = shared[blockDim.x - 1 - i];
}

// Where each thread stands: place[linear global index] = a number made of block and thread indices.
extern "C" __global__ void indices(unsigned *place) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    place[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = block * 65536u + thread;
}

__constant__ unsigned table[4];

// place[i] = table[i], from constant memory.
extern "C" __global__ void read_table(unsigned *place) {
    place[threadIdx.x] = table[threadIdx.x];
}

extern "C" __global__ void count_up(unsigned *place) {
    atomicAdd(place, 1u);
}

struct Mixed {
    unsigned char a;
    unsigned long long b;
    float c;
};

// Arguments of all sizes arrive unharmed.
extern "C" __global__ void mixed(unsigned long long *place, unsigned char a, unsigned short b, unsigned c,
                                 unsigned long long d, float e, double f, Mixed g) {
    place[0] = a;
    place[1] = b;
    place[2] = c;
    place[3] = d;
    place[4] = (unsigned long long)e;
    place[5] = (unsigned long long)f;
    place[6] = g.a + g.b + (unsigned long long)g.c;
}
