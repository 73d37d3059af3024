// The kernels of this example. Each has a twin in Rust in kernels.rs, of the same name and parameters.
//
// All arithmetic is of whole numbers, so that every device gives the same bytes. A picture is rows of `width` pixels
// without padding; what lies beyond an edge is the nearest pixel within.

static __device__ unsigned within(unsigned place, int offset, unsigned extent) {
    int shifted = (int)place + offset;
    return shifted < 0 ? 0u : min((unsigned)shifted, extent - 1u);
}

// The binomial blur of 5 by 5 pixels, rounded to the nearest.
extern "C" __global__ void blur(unsigned char *blurred, const unsigned char *source, unsigned width, unsigned rows) {
    const unsigned weights[5] = {1, 4, 6, 4, 1};
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= rows) {
        return;
    }
    unsigned sum = 128;
#pragma unroll
    for (int down = -2; down <= 2; ++down) {
        const unsigned char *row = source + (size_t)within(y, down, rows) * width;
#pragma unroll
        for (int right = -2; right <= 2; ++right) {
            sum += weights[down + 2] * weights[right + 2] * row[within(x, right, width)];
        }
    }
    blurred[(size_t)y * width + x] = (unsigned char)(sum >> 8);
}

// The strength of the edge at each pixel by Sobel's masks, as the sum of both absolute values, for `rows` rows of a
// picture of `blurred_rows` rows from row `first` on. Raises *peak to the largest.
extern "C" __global__ void gradient(unsigned short *edges, unsigned *peak, const unsigned char *blurred, unsigned width,
                                    unsigned blurred_rows, unsigned first, unsigned rows) {
    __shared__ unsigned block_peak;
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    bool leader = threadIdx.x == 0 && threadIdx.y == 0;
    if (leader) {
        block_peak = 0;
    }
    __syncthreads();
    if (x < width && y < rows) {
        const unsigned char *above = blurred + (size_t)within(first + y, -1, blurred_rows) * width;
        const unsigned char *here = blurred + (size_t)(first + y) * width;
        const unsigned char *below = blurred + (size_t)within(first + y, 1, blurred_rows) * width;
        unsigned left = within(x, -1, width), right = within(x, 1, width);
        int across = above[right] + 2 * here[right] + below[right] - above[left] - 2 * here[left] - below[left];
        int down = below[left] + 2 * below[x] + below[right] - above[left] - 2 * above[x] - above[right];
        unsigned strength = (unsigned)(abs(across) + abs(down));
        edges[(size_t)y * width + x] = (unsigned short)strength;
        atomicMax(&block_peak, strength);
    }
    __syncthreads();
    if (leader) {
        atomicMax(peak, block_peak);
    }
}

// The factor, in units of 1/65536, that makes the largest of the peaks 255. One block.
extern "C" __global__ void choose_scale(unsigned *scale, const unsigned *peaks, unsigned count) {
    __shared__ unsigned largest;
    if (threadIdx.x == 0) {
        largest = 1;
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x) {
        atomicMax(&largest, peaks[i]);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        *scale = (255u << 16) / largest;
    }
}

// result[i] = edges[i] * *scale, rounded to the nearest.
extern "C" __global__ void stretch(unsigned char *result, const unsigned short *edges, const unsigned *scale,
                                   unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        result[i] = (unsigned char)((edges[i] * *scale + 32768u) >> 16);
    }
}
