// The 32 lanes of a warp work together: shuffles, votes, matches.
extern "C" __global__ void warp_sum(const float* x, float* sums) {
  float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (threadIdx.x % warpSize == 0) sums[(blockIdx.x * blockDim.x + threadIdx.x) / warpSize] = sum;
}

extern "C" __global__ void block_sum_by_warps(const int* x, int* sum) {
  __shared__ int sums[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, value = x[threadIdx.x];
  for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
  if (lane == 0) sums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = lane < blockDim.x / 32 ? sums[lane] : 0;
    for (int offset = 16; offset > 0; offset >>= 1) value += __shfl_xor_sync(~0u, value, offset);
    if (lane == 0) *sum = value;
  }
}

extern "C" __global__ void warp_prefix_sum(const int* x, int* y) {
  int sum = x[threadIdx.x];
  for (int delta = 1; delta < 32; delta *= 2) {
    int before = __shfl_up_sync(~0u, sum, delta);
    if (threadIdx.x >= delta) sum += before;
  }
  y[threadIdx.x] = sum;
}

extern "C" __global__ void compact_positive(const int* x, int* y, int* count) {
  unsigned keep = __ballot_sync(~0u, x[threadIdx.x] > 0);
  if (x[threadIdx.x] > 0) y[__popc(keep & ((1u << threadIdx.x) - 1))] = x[threadIdx.x];
  if (threadIdx.x == 0) *count = __popc(keep);
}

extern "C" __global__ void matches(const int* x, unsigned* any, unsigned* all, int* equal) {
  int t = threadIdx.x, same_half, same_warp;
  any[t] = __match_any_sync(~0u, x[t]);
  unsigned half = t < 16 ? 0xffffu : 0xffff0000u;
  all[t] = __match_all_sync(half, x[t] / 8, &same_half);
  all[32 + t] = __match_all_sync(~0u, 1.5 + x[t], &same_warp);
  equal[t] = same_half + 10 * same_warp;
}

extern "C" __global__ void vote(const int* x, int* out) {
  int t = threadIdx.x;
  out[t] = __any_sync(~0u, x[t] == 5) + 10 * __all_sync(~0u, x[t] < 9) + 100 * __reduce_add_sync(~0u, (unsigned)x[t]);
}

extern "C" __global__ void sort_a_warp(float* x) {
  float key = x[threadIdx.x];
  for (int size = 2; size <= 32; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      float other = __shfl_xor_sync(~0u, key, step);
      bool lower = (threadIdx.x & step) == 0, up = (threadIdx.x & size) == 0;
      key = lower == up ? fminf(key, other) : fmaxf(key, other);
    }
  x[threadIdx.x] = key;
}
