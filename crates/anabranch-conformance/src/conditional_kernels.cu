// Kernels of the conformance cases that set the value of a conditional node. The function is the device runtime's, which is
// linked when this is loaded. Each has a twin in Rust in kernels.rs, of the same name and parameters.

extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);

extern "C" __global__ void decide(unsigned long long handle, unsigned value) {
    cudaGraphSetConditional(handle, value);
}

// Runs a loop as often as the number says.
extern "C" __global__ void count_down(unsigned long long handle, unsigned *left) {
    *left -= 1;
    cudaGraphSetConditional(handle, *left);
}
