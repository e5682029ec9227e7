// Rounding by name: arithmetic, and conversions between floats and integers.
#define FOUR(name, ...)                 \
  out[n * row++ + i] = name##_rn(__VA_ARGS__); \
  out[n * row++ + i] = name##_rz(__VA_ARGS__); \
  out[n * row++ + i] = name##_ru(__VA_ARGS__); \
  out[n * row++ + i] = name##_rd(__VA_ARGS__);

extern "C" __global__ void float_arithmetic(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  FOUR(__fadd, x[i], y[i])
  FOUR(__fsub, x[i], y[i])
  FOUR(__fmul, x[i], y[i])
  FOUR(__fdiv, x[i], y[i])
  FOUR(__fmaf, x[i], y[i], 0.3f)
  FOUR(__frcp, x[i])
  FOUR(__fsqrt, fabsf(x[i]))
}

extern "C" __global__ void double_arithmetic(const double* x, const double* y, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  FOUR(__dadd, x[i], y[i])
  FOUR(__dmul, x[i], y[i])
  FOUR(__ddiv, x[i], y[i])
  FOUR(__fma, x[i], y[i], 0.3)
}

extern "C" __global__ void to_integers(const float* x, long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  FOUR(__float2int, x[i])
  FOUR(__float2uint, x[i])
  FOUR(__float2ll, x[i])
  FOUR(__double2int, (double)x[i])
}

extern "C" __global__ void from_integers(const long long* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  FOUR(__int2float, (int)x[i])
  FOUR(__ll2float, x[i])
  FOUR(__ull2float, (unsigned long long)x[i])
  FOUR(__double2float, (double)x[i] / 3)
}
