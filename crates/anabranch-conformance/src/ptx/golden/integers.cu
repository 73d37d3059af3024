// Golden kernels of integers: their results are equal to the bit.

typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#define AT (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void add_numbers(u32 *out, const u32 *a, const u32 *b, u32 n) {
    if (AT < n) {
        out[AT] = a[AT] + b[AT] * 3u - (a[AT] >> 7);
    }
}

extern "C" __global__ void divide(i64 *out, const i64 *a, const i64 *b, u32 n) {
    if (AT < n) {
        i64 d = b[AT] | 1;
        out[AT] = a[AT] / d + (a[AT] % d) * 7 + (u64)a[AT] / (u64)d + (int)a[AT] / (int)d + (u32)a[AT] % (u32)d;
    }
}

extern "C" __global__ void histogram_global(u32 *bins, const unsigned char *data, u32 n) {
    for (u32 i = AT; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&bins[data[i]], 1u);
    }
}

extern "C" __global__ void histogram_shared(u32 *bins, const unsigned char *data, u32 n) {
    __shared__ u32 own[256];
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
        own[i] = 0;
    }
    __syncthreads();
    for (u32 i = AT; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&own[data[i]], 1u);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
        atomicAdd(&bins[i], own[i]);
    }
}

// Philox 4x32 with ten rounds.
extern "C" __global__ void philox(uint4 *out, u32 k0, u32 k1, u32 n) {
    uint4 c = make_uint4(AT, 0x9e37u, AT * 5u, 7u);
    for (int round = 0; round < 10; ++round) {
        u32 h0 = __umulhi(0xd2511f53u, c.x), l0 = 0xd2511f53u * c.x;
        u32 h1 = __umulhi(0xcd9e8d57u, c.z), l1 = 0xcd9e8d57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    if (AT < n) {
        out[AT] = c;
    }
}

extern "C" __global__ void find_text(u32 *found, const char *text, u32 n, const char *pattern, u32 m) {
    if (AT + m > n) {
        return;
    }
    u32 same = 0;
    while (same < m && text[AT + same] == pattern[same]) {
        ++same;
    }
    if (same == m) {
        atomicAdd(&found[0], 1u);
        atomicMin(&found[1], AT);
        atomicMax(&found[2], AT);
    }
}

extern "C" __global__ void life(unsigned char *out, const unsigned char *in, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, count = 0;
    if (x >= w || y >= h) {
        return;
    }
    for (int dy = -1; dy <= 1; ++dy) {
        for (int dx = -1; dx <= 1; ++dx) {
            count += (dx || dy) && in[(y + dy + h) % h * w + (x + dx + w) % w];
        }
    }
    out[y * w + x] = count == 3 || (count == 2 && in[y * w + x]);
}

extern "C" __global__ void sieve(unsigned char *composite, u32 n) {
    u32 p = AT + 2;
    for (u32 q = 2; q * q <= p; ++q) {
        if (p % q == 0) {
            return;
        }
    }
    for (u32 i = p * 2; i < n; i += p) {
        composite[i] = 1;
    }
}

__constant__ u32 crc_table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                  0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                  0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};

extern "C" __global__ void crc32(u32 *out, const unsigned char *data, u32 length) {
    u32 crc = ~0u;
    for (u32 i = 0; i < length; ++i) {
        crc ^= data[AT * length + i];
        crc = crc >> 4 ^ crc_table[crc & 15];
        crc = crc >> 4 ^ crc_table[crc & 15];
    }
    out[AT] = ~crc;
}

__device__ const u32 sha_table[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ u32 rotate(u32 x, int n) {
    return x >> n | x << (32 - n);
}

// One block of SHA-256 for each thread.
extern "C" __global__ void sha256(u32 *out, const u32 *message) {
    u32 w[64], s[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, v[8];
    for (int i = 0; i < 16; ++i) {
        w[i] = message[AT * 16 + i];
    }
    for (int i = 16; i < 64; ++i) {
        u32 a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 8; ++i) {
        v[i] = s[i];
    }
    for (int i = 0; i < 64; ++i) {
        u32 e = v[4], a = v[0];
        u32 t = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + sha_table[i] + w[i];
        u32 m = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (int j = 7; j > 0; --j) {
            v[j] = v[j - 1];
        }
        v[4] += t;
        v[0] = t + m;
    }
    for (int i = 0; i < 8; ++i) {
        out[AT * 8 + i] = s[i] + v[i];
    }
}

extern "C" __global__ void floyd_warshall(u32 *distances, u32 n) {
    u32 i = threadIdx.y, j = threadIdx.x;
    for (u32 k = 0; k < n; ++k) {
        u32 through = distances[i * n + k] + distances[k * n + j];
        __syncthreads();
        if (through < distances[i * n + j]) {
            distances[i * n + j] = through;
        }
        __syncthreads();
    }
}

extern "C" __global__ void binary_search(u32 *out, const u32 *sorted, u32 n, const u32 *keys) {
    u32 low = 0, high = n;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (sorted[middle] < keys[AT]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    out[AT] = low;
}

// The distance of two words by a wavefront: one thread for each column.
extern "C" __global__ void edit_distance(u32 *out, const char *a, const char *b, u32 n) {
    extern __shared__ u32 row[];
    u32 j = threadIdx.x + 1, diagonal = threadIdx.x;
    if (threadIdx.x == 0) {
        row[0] = 0;
    }
    row[j] = j;
    __syncthreads();
    for (u32 step = 0; step < 2 * n - 1; ++step) {
        u32 i = step - threadIdx.x, value = 0;
        bool on = step >= threadIdx.x && i < n;
        u32 left = on ? (threadIdx.x == 0 ? i + 1 : row[j - 1]) : 0, above = row[j];
        if (on) {
            value = min(min(left, above) + 1, diagonal + (a[i] != b[threadIdx.x]));
        }
        __syncthreads();
        if (on) {
            diagonal = left;
            row[j] = value;
        }
        __syncthreads();
    }
    out[threadIdx.x] = row[j];
}

// Sums of 256 bits, by the carry of each word.
extern "C" __global__ void long_sums(u32 *out, const u32 *a, const u32 *b) {
    const u32 *x = a + AT * 8, *y = b + AT * 8;
    u32 s[8], c;
    asm("add.cc.u32 %0, %9, %17; addc.cc.u32 %1, %10, %18; addc.cc.u32 %2, %11, %19; addc.cc.u32 %3, %12, %20;"
        "addc.cc.u32 %4, %13, %21; addc.cc.u32 %5, %14, %22; addc.cc.u32 %6, %15, %23; addc.cc.u32 %7, %16, %24;"
        "addc.u32 %8, 0, 0;"
        : "=r"(s[0]), "=r"(s[1]), "=r"(s[2]), "=r"(s[3]), "=r"(s[4]), "=r"(s[5]), "=r"(s[6]), "=r"(s[7]), "=r"(c)
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]), "r"(y[0]), "r"(y[1]),
          "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
    for (int i = 0; i < 8; ++i) {
        out[AT * 9 + i] = s[i];
    }
    out[AT * 9 + 8] = c;
}

struct Mixed {
    signed char a;
    short b;
    int c;
    i64 d;
    u32 e[5];
};

extern "C" __global__ void by_value(i64 *out, Mixed m, unsigned char x) {
    out[AT] = m.a + m.b * (i64)m.c + m.d + m.e[AT % 5] + x;
}

__device__ __noinline__ u32 ackermann(u32 m, u32 n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(u32 *out) {
    out[AT] = ackermann(AT % 3, AT / 3 % 5);
}

__device__ __noinline__ u32 twice(u32 x) {
    return x * 2;
}
__device__ __noinline__ u32 square(u32 x) {
    return x * x;
}
__device__ __noinline__ u32 flip(u32 x) {
    return __brev(x);
}

extern "C" __global__ void indirect(u32 *out, const u32 *in) {
    u32 (*all[3])(u32) = {twice, square, flip};
    u32 x = in[AT];
    for (int i = 0; i < 6; ++i) {
        x = all[(x ^ i) % 3](x) + i;
    }
    out[AT] = x;
}

extern "C" __global__ void switches(u32 *out, const u32 *in) {
    u32 x = in[AT];
    for (int i = 0; i < 8; ++i) {
        switch (x % 7) {
        case 0: x = x * 3 + 1; break;
        case 1: x ^= x >> 5;
        case 2: x += 77; break;
        case 3: x = ~x; break;
        case 4: x = __popc(x) * x; break;
        case 5: x = __clz(x) + (x << 3); break;
        default: x -= 9;
        }
    }
    out[AT] = x;
}

extern "C" __global__ void collatz(u32 *out) {
    u64 x = AT + 1;
    u32 steps = 0;
    for (; x != 1; ++steps) {
        x = x & 1 ? 3 * x + 1 : x >> 1;
    }
    out[AT] = steps;
}
