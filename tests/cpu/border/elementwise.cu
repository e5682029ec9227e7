// One thread, one element: the first kernels of every course.
__constant__ float weights[3] = {0.25f, 0.5f, 0.25f};

extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

extern "C" __global__ void grid_stride_square(const int* x, int* y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * x[i];
}

extern "C" __global__ void add_matrices(const float* a, const float* b, float* c, int rows, int columns) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < rows && column < columns) c[row * columns + column] = a[row * columns + column] + b[row * columns + column];
}

extern "C" __global__ void copy_vectors(const float4* x, float4* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    float4 v = x[i];
    y[i] = make_float4(v.w, v.z, v.y, v.x);
  }
}

extern "C" __global__ void blur(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int tap = -1; tap <= 1; ++tap)
    if (i + tap >= 0 && i + tap < n) sum += weights[tap + 1] * x[i + tap];
  y[i] = sum;
}

template <typename T, int kTimes = 2>
__global__ void __launch_bounds__(128) scale(T* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll
  for (int time = 0; time < kTimes; ++time)
    if (i < n) x[i] = x[i] + x[i];
}

namespace colours {
__device__ __forceinline__ unsigned char grey(uchar4 c) { return (c.x * 77 + c.y * 150 + c.z * 29) >> 8; }
__global__ void to_grey(const uchar4* pixels, unsigned char* grey_pixels, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) grey_pixels[i] = grey(__ldg(&pixels[i]));
}
}  // namespace colours

extern "C" __global__ void mandelbrot(int* steps, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  double cr = -2.0 + 3.0 * x / width, ci = -1.0 + 2.0 * y / height, zr = 0, zi = 0;
  int step = 0;
  while (step < 50) {  // products that no addition swallows: a fused one rounds otherwise, and would count otherwise
    double rr = __dmul_rn(zr, zr), ii = __dmul_rn(zi, zi);
    if (rr + ii > 4.0) break;
    zi = __dmul_rn(2.0 * zr, zi) + ci;
    zr = rr - ii + cr;
    ++step;
  }
  steps[y * width + x] = step;
}
