// Floating-point functions that CUDA has beside those of C. One row each.
#include <math_constants.h>
#include <cuda/std/limits>

extern "C" __global__ void fast_math(const float* x, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, row = 0;
  if (i >= n) return;
  float v = x[i], s, c;
  out[n * row++ + i] = __expf(v);
  out[n * row++ + i] = __logf(v);
  out[n * row++ + i] = __log2f(v);
  out[n * row++ + i] = __log10f(v);
  out[n * row++ + i] = __powf(v, 1.5f);
  out[n * row++ + i] = __sinf(v);
  out[n * row++ + i] = __cosf(v);
  out[n * row++ + i] = __fdividef(v, 3.0f);
  out[n * row++ + i] = rsqrtf(v);
  out[n * row++ + i] = __frsqrt_rn(v);
  out[n * row++ + i] = exp10f(v);
  out[n * row++ + i] = sinpif(v);
  out[n * row++ + i] = cospif(v);
  out[n * row++ + i] = normcdff(v);
  out[n * row++ + i] = rcbrtf(v);
  out[n * row++ + i] = norm3df(v, 2.0f, 3.0f);
  out[n * row++ + i] = __saturatef(v - 1.0f);
  __sincosf(v, &s, &c);
  out[n * row++ + i] = s + 2 * c;
}

extern "C" __global__ void double_math(const double* x, double* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  out[i] = rsqrt(x[i]);
  out[n + i] = normcdf(x[i]);
  out[2 * n + i] = __hiloint2double(__double2hiint(x[i]), __double2loint(x[i]));
  out[3 * n + i] = exp10(x[i]);
}

extern "C" __global__ void constants(float* out) {
  out[0] = CUDART_INF_F;
  out[1] = CUDART_PI_F;
  out[2] = CUDART_MAX_NORMAL_F;
  out[3] = cuda::std::numeric_limits<float>::infinity();
  out[4] = CUDART_PI;
  out[5] = isnan(CUDART_NAN_F);
}
