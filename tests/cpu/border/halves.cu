// 16-bit floats and pairs of them. One row for each operation.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void arithmetic(const T* x, const T* y, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  T a = x[i], b = y[i];
  out[n * row++ + i] = a + b;
  out[n * row++ + i] = __hsub(a, b);
  out[n * row++ + i] = a * b;
  out[n * row++ + i] = __hdiv(a, b);
  out[n * row++ + i] = __hfma(a, b, a);
  out[n * row++ + i] = __hmax(a, b);
  out[n * row++ + i] = __hmin(a, b);
  out[n * row++ + i] = -a;
  out[n * row++ + i] = __habs(b);
  out[n * row++ + i] = hsqrt(__habs(a));
  out[n * row++ + i] = hfloor(a);
  out[n * row++ + i] = T(float(__hgt(a, b) + 2 * __hle(a, b) + 4 * __heq(a, a)));
}

template <typename T2>
__global__ void pairs(const T2* x, const T2* y, T2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  T2 a = x[i], b = y[i];
  out[n * row++ + i] = __hadd2(a, b);
  out[n * row++ + i] = a * b;
  out[n * row++ + i] = __hfma2(a, b, b);
  out[n * row++ + i] = __hmax2(a, b);
  out[n * row++ + i] = __hneg2(a);
  out[n * row++ + i] = __hlt2(a, b);
  out[n * row++ + i] = __lowhigh2highlow(a);
  a += b;
  out[n * row++ + i] = a;
}

extern "C" __global__ void conversions(const float* x, __half* h, __nv_bfloat16* b, int* whole, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  h[i] = __float2half_rn(x[i]);
  h[n + i] = __float2half_rz(x[i]);
  h[2 * n + i] = __float2half_ru(x[i]);
  h[3 * n + i] = __float2half_rd(x[i]);
  b[i] = __float2bfloat16(x[i]);
  b[n + i] = __float2bfloat16_rz(x[i]);
  whole[i] = __half2int_rn(h[i]);
  whole[n + i] = __half2int_rz(h[i]);
}

extern "C" __global__ void dot_of_halves(const __half2* x, const __half2* y, float* sum, int n) {
  float total = 0;
  for (int i = threadIdx.x; i < n; i += 32) {
    float2 a = __half22float2(x[i]), b = __half22float2(y[i]);
    total += a.x * b.x + a.y * b.y;
  }
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_down_sync(~0u, total, offset);
  if (threadIdx.x == 0) *sum = total;
}

extern "C" __global__ void add_atomically(__half* h, __half2* pair, __nv_bfloat16* b) {
  atomicAdd(h, __float2half(0.5f));
  atomicAdd(pair, __floats2half2_rn(1.0f, 2.0f));
  atomicAdd(b, __float2bfloat16(0.25f));
}
