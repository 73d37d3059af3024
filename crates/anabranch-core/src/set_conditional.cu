// Sets the value of a conditional node. The function is the device runtime's, which is linked when this is loaded.

extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);

extern "C" __global__ void set_conditional(unsigned long long handle, const unsigned int *value)
{
    cudaGraphSetConditional(handle, *value);
}
