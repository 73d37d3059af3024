// data[i] = 2 * data[i], for i below n.
extern "C" __global__ void twice(float *data, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        data[i] *= 2.0f;
    }
}
