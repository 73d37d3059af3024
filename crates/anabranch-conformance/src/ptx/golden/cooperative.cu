// Golden kernels whose threads work together.

typedef unsigned u32;
typedef unsigned long long u64;

#define AT (blockIdx.x * blockDim.x + threadIdx.x)
#define ALL 0xffffffffu

// Bits of floats that can be compared: a sum by a tree has one order.
extern "C" __global__ void sum_shared(float *out, const float *in) {
    __shared__ float own[256];
    own[threadIdx.x] = in[AT];
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            own[threadIdx.x] += own[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        out[blockIdx.x] = own[0];
    }
}

extern "C" __global__ void sum_shuffles(double *out, const double *in) {
    double sum = in[AT];
    for (int step = 16; step; step /= 2) {
        sum += __shfl_down_sync(ALL, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
        out[AT / 32] = sum;
    }
}

extern "C" __global__ void scan_shared(u32 *out, const u32 *in) {
    extern __shared__ u32 both[];
    u32 n = blockDim.x, from = 0;
    both[threadIdx.x] = in[AT];
    __syncthreads();
    for (u32 step = 1; step < n; step *= 2) {
        u32 value = both[from + threadIdx.x];
        if (threadIdx.x >= step) {
            value += both[from + threadIdx.x - step];
        }
        from = n - from;
        both[from + threadIdx.x] = value;
        __syncthreads();
    }
    out[AT] = both[from + threadIdx.x];
}

extern "C" __global__ void scan_shuffles(u32 *out, const u32 *in) {
    __shared__ u32 sums[32];
    u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, value = in[AT];
    for (u32 step = 1; step < 32; step *= 2) {
        u32 other = __shfl_up_sync(ALL, value, step);
        value += lane >= step ? other : 0;
    }
    if (lane == 31) {
        sums[warp] = value;
    }
    __syncthreads();
    for (u32 i = 0; i < warp; ++i) {
        value += sums[i];
    }
    out[AT] = value;
}

extern "C" __global__ void matrix_product(float *c, const float *a, const float *b, u32 n) {
    __shared__ float x[16][16], y[16][17];
    u32 i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (u32 tile = 0; tile < n; tile += 16) {
        x[threadIdx.y][threadIdx.x] = a[i * n + tile + threadIdx.x];
        y[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + j];
        __syncthreads();
        for (u32 k = 0; k < 16; ++k) {
            sum = fmaf(x[threadIdx.y][k], y[k][threadIdx.x], sum);
        }
        __syncthreads();
    }
    c[i * n + j] = sum;
}

extern "C" __global__ void transpose(u64 *out, const u64 *in, u32 w, u32 h) {
    __shared__ u64 tile[16][17];
    u32 x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x < w && y < h) {
        tile[threadIdx.y][threadIdx.x] = in[y * w + x];
    }
    __syncthreads();
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    if (x < h && y < w) {
        out[y * h + x] = tile[threadIdx.x][threadIdx.y];
    }
}

extern "C" __global__ void bitonic_sort(int *data) {
    extern __shared__ int own[];
    u32 i = threadIdx.x;
    own[i] = data[AT];
    for (u32 size = 2; size <= blockDim.x; size *= 2) {
        for (u32 step = size / 2; step; step /= 2) {
            __syncthreads();
            u32 other = i ^ step;
            int a = own[i], b = own[other];
            if (other > i && (a > b) == !(i & size)) {
                own[i] = b;
                own[other] = a;
            }
        }
    }
    __syncthreads();
    data[AT] = own[i];
}

// Moves numbers to the places that their lowest four bits say, in order.
extern "C" __global__ void radix_pass(u32 *out, const u32 *in) {
    __shared__ u32 counts[16][33];
    u32 i = threadIdx.x, warp = i / 32, lane = i % 32, key = in[i] & 15, warps = blockDim.x / 32;
    u32 peers = __match_any_sync(ALL, key);
    for (u32 j = i; j < 16 * 33; j += blockDim.x) {
        counts[j / 33][j % 33] = 0;
    }
    __syncthreads();
    u32 before = __popc(peers & ((1u << lane) - 1));
    if (before == 0) {
        counts[key][warp] = __popc(peers);
    }
    __syncthreads();
    u32 place = before;
    for (u32 k = 0; k <= key; ++k) {
        for (u32 w = 0; w < (k == key ? warp : warps); ++w) {
            place += counts[k][w];
        }
    }
    out[place] = in[i];
}

extern "C" __global__ void ballots(u32 *out, const u32 *in) {
    u32 x = in[AT];
    u32 votes = __ballot_sync(ALL, x & 1), result = votes;
    if (x & 1) {
        result += __popc(__ballot_sync(votes, x & 2)) + __any_sync(votes, x % 7 == 0) * 64;
        result ^= __match_any_sync(votes, x & 12);
    } else {
        result -= __all_sync(~votes, x % 3) * 128 + __shfl_sync(~votes, x, __ffs(~votes) - 1);
    }
    int all;
    result += __match_all_sync(ALL, votes, &all);
    out[AT] = result + all;
}

// A lock of each block, taken by threads of one warp one after the other.
extern "C" __global__ void lock_in_warp(u32 *data) {
    __shared__ u32 lock, sum;
    if (threadIdx.x == 0) {
        lock = 0;
        sum = 0;
    }
    __syncthreads();
    while (atomicCAS(&lock, 0u, 1u) != 0) {
    }
    __threadfence_block();
    *(volatile u32 *)&sum = *(volatile u32 *)&sum * 1u + threadIdx.x * threadIdx.x;
    __threadfence_block();
    atomicExch(&lock, 0u);
    __syncthreads();
    if (threadIdx.x == 0) {
        data[blockIdx.x] = sum;
    }
}

extern "C" __global__ void lock_over_blocks(u32 *lock, volatile u32 *data) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0u, 1u) == 0) {
            __threadfence();
            data[0] = data[0] + 1;
            data[1] = data[1] + AT;
            __threadfence();
            atomicExch(lock, 0u);
            done = true;
        }
    }
}

// A lane waits for what another lane of its warp does later.
extern "C" __global__ void hand_over(u32 *out) {
    __shared__ volatile u32 turn;
    if (threadIdx.x == 0) {
        turn = 0;
    }
    __syncthreads();
    while (turn != blockDim.x - 1 - threadIdx.x) {
    }
    out[AT] = turn * 3 + threadIdx.x;
    __threadfence_block();
    turn = turn + 1;
}

// The last block adds up what all have written.
extern "C" __global__ void last_block(u32 *out, u32 *partial, u32 *count, const u32 *in) {
    __shared__ u32 sum, last;
    if (threadIdx.x == 0) {
        sum = 0;
    }
    __syncthreads();
    atomicAdd(&sum, in[AT]);
    __syncthreads();
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        u32 total = 0;
        for (u32 i = 0; i < gridDim.x; ++i) {
            total += ((volatile u32 *)partial)[i];
        }
        *out = total;
    }
}

extern "C" __global__ void barriers(u32 *out, const u32 *in) {
    __shared__ u32 own[128];
    u32 i = threadIdx.x;
    own[i] = in[AT];
    // Two halves of the block, each with its own barrier.
    for (int round = 0; round < 3; ++round) {
        if (i < 64) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
        u32 value = own[i ^ 63] + round;
        if (i < 64) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
        own[i] = value * 5;
    }
    u32 odd = __syncthreads_count(own[i] & 1);
    out[AT] = own[i] + odd * 1000 + __syncthreads_or(own[i] == 3) + __syncthreads_and(own[i] > 0) * 2;
}
