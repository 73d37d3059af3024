// Kernels of the benchmarks.

extern "C" __global__ void nothing(void) {}

extern "C" __global__ void three(const float *a, float *b, unsigned n) {}

// Keeps every multiprocessor that it is launched on busy for a while.
extern "C" __global__ void spin(unsigned long long nanoseconds) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - start < nanoseconds);
}
