// Golden kernels of floats.

typedef unsigned u32;

#define AT (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void saxpy(float *y, const float *x, float a, u32 n) {
    if (AT < n) {
        y[AT] = a * x[AT] + y[AT];
    }
}

extern "C" __global__ void softmax(float *out, const float *in, u32 n) {
    const float *row = in + AT * n;
    float most = row[0], sum = 0;
    for (u32 i = 1; i < n; ++i) {
        most = fmaxf(most, row[i]);
    }
    for (u32 i = 0; i < n; ++i) {
        sum += expf(row[i] - most);
    }
    for (u32 i = 0; i < n; ++i) {
        out[AT * n + i] = expf(row[i] - most) / sum;
    }
}

extern "C" __global__ void layer_norm(float *out, const float *in, u32 n) {
    const float *row = in + AT * n;
    float mean = 0, variance = 0;
    for (u32 i = 0; i < n; ++i) {
        mean += row[i];
    }
    mean /= n;
    for (u32 i = 0; i < n; ++i) {
        variance += (row[i] - mean) * (row[i] - mean);
    }
    float scale = rsqrtf(variance / n + 1e-5f);
    for (u32 i = 0; i < n; ++i) {
        out[AT * n + i] = (row[i] - mean) * scale;
    }
}

// Butterflies of a transform of 64 numbers, in shared memory.
extern "C" __global__ void fft(float2 *data) {
    __shared__ float2 own[64];
    u32 i = threadIdx.x;
    own[__brev(i) >> 26] = data[AT];
    __syncthreads();
    for (u32 half = 1; half < 64; half *= 2) {
        u32 k = i & (half - 1);
        float s, c;
        sincospif(-(float)k / half, &s, &c);
        float2 a = own[i & ~half], b = own[i | half];
        float2 t = make_float2(b.x * c - b.y * s, b.x * s + b.y * c);
        __syncthreads();
        own[i] = i & half ? make_float2(a.x - t.x, a.y - t.y) : make_float2(a.x + t.x, a.y + t.y);
        __syncthreads();
    }
    data[AT] = own[i];
}

extern "C" __global__ void sparse_product(double *y, const u32 *starts, const u32 *columns, const double *values,
                                          const double *x, u32 rows) {
    if (AT < rows) {
        double sum = 0;
        for (u32 i = starts[AT]; i < starts[AT + 1]; ++i) {
            sum += values[i] * x[columns[i]];
        }
        y[AT] = sum;
    }
}

extern "C" __global__ void n_body(float4 *out, const float4 *bodies, u32 n) {
    float4 own = bodies[AT];
    float3 force = make_float3(0, 0, 0);
    for (u32 i = 0; i < n; ++i) {
        float4 other = bodies[i];
        float x = other.x - own.x, y = other.y - own.y, z = other.z - own.z;
        float inverse = rsqrtf(x * x + y * y + z * z + 0.01f);
        float s = other.w * inverse * inverse * inverse;
        force.x += x * s;
        force.y += y * s;
        force.z += z * s;
    }
    out[AT] = make_float4(force.x, force.y, force.z, 0);
}

__device__ double normal(double d) {
    return 0.5 * erfc(-d * 0.70710678118654752440);
}

extern "C" __global__ void black_scholes(double *out, const double *prices, double strike, double rate, double spread) {
    double s = prices[AT], t = 0.25 + AT % 8 * 0.25, root = sqrt(t);
    double d1 = (log(s / strike) + (rate + 0.5 * spread * spread) * t) / (spread * root);
    out[AT] = s * normal(d1) - strike * exp(-rate * t) * normal(d1 - spread * root);
}

extern "C" __global__ void mandelbrot(u32 *out, u32 w, u32 most) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = 0;
    float cx = x * 3.0f / w - 2.2f, cy = y * 3.0f / w - 1.5f, a = 0, b = 0;
    for (; i < most && a * a + b * b < 4.0f; ++i) {
        float next = a * a - b * b + cx;
        b = 2 * a * b + cy;
        a = next;
    }
    out[y * w + x] = i;
}

extern "C" __global__ void heat(float *out, const float *in, u32 w, u32 h) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, at = y * w + x;
    bool inside = x > 0 && y > 0 && x + 1 < w && y + 1 < h;
    if (x < w && y < h) {
        out[at] = inside ? in[at] + 0.2f * (in[at - 1] + in[at + 1] + in[at - w] + in[at + w] - 4 * in[at]) : in[at];
    }
}

__constant__ float taps[9] = {1 / 16.f, 2 / 16.f, 1 / 16.f, 2 / 16.f, 4 / 16.f, 2 / 16.f, 1 / 16.f, 2 / 16.f, 1 / 16.f};

extern "C" __global__ void convolve(float *out, const float *in, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) {
        return;
    }
    float sum = 0;
    for (int j = -1; j <= 1; ++j) {
        for (int i = -1; i <= 1; ++i) {
            int u = min(max(x + i, 0), w - 1), v = min(max(y + j, 0), h - 1);
            sum += taps[(j + 1) * 3 + i + 1] * in[v * w + u];
        }
    }
    out[y * w + x] = sum;
}

extern "C" __global__ void matrix_vector(double *y, const double *a, const double *x, u32 n) {
    double sum = 0;
    for (u32 j = 0; j < n; ++j) {
        sum = fma(a[AT * n + j], x[j], sum);
    }
    y[AT] = sum;
}

extern "C" __global__ void nearest_centre(u32 *out, const float2 *points, const float2 *centres, u32 k) {
    u32 best = 0;
    float least = 3e38f;
    for (u32 i = 0; i < k; ++i) {
        float x = points[AT].x - centres[i].x, y = points[AT].y - centres[i].y, d = x * x + y * y;
        if (d < least) {
            least = d;
            best = i;
        }
    }
    out[AT] = best;
}

extern "C" __global__ void rounding(float *out, const double *in) {
    double x = in[AT], y = in[AT ^ 1];
    float a = (float)x, b = (float)y, sum = __fadd_rd(a, b) + __fmul_ru(a, b) + __fdiv_rz(a, b) + __fsqrt_rn(fabsf(a));
    sum += __double2float_rd(__dadd_ru(x, y)) + (float)__double2ll_rn(x) + (float)(unsigned char)__float2int_rz(b);
    out[AT] = sum + rintf(a) + truncf(b) + floorf(a * 3) + ceilf(b * 5);
}

// Sums of products of pairs of 16 bits.
extern "C" __global__ void half_products(u32 *out, const u32 *a, const u32 *b) {
    u32 sum = 0;
    for (int i = 0; i < 8; ++i) {
        asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(a[AT * 8 + i]), "r"(b[AT * 8 + i]));
    }
    out[AT] = sum;
}

extern "C" __global__ void elementary(double *out, const double *in) {
    double x = in[AT];
    out[AT] = sin(x) + cos(x * 2) * exp(-x * x) + log1p(fabs(x)) + tanh(x) + pow(fabs(x) + 1, 1.5) + cbrt(x) + atan2(x, 2.0);
}

extern "C" __global__ void elementary_single(float *out, const float *in) {
    float x = in[AT];
    out[AT] = sinf(x) + cosf(x * 2) * expf(-x * x) + log1pf(fabsf(x)) + tanhf(x) + powf(fabsf(x) + 1, 1.5f) + cbrtf(x);
}

extern "C" __global__ void horner(double *out, const double *in, u32 n) {
    double x = in[AT], sum = 0;
    for (u32 i = n; i > 0; --i) {
        sum = sum * x + 1.0 / i;
    }
    out[AT] = sqrt(fabs(sum)) / (1 + x * x);
}
