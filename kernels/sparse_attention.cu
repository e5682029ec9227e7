// sparse_attention: one decode step of attention over the tokens that a top-k chose.
//
//   out[b, h] = softmax(q[b, h] . kv[indices[b]] / sqrt(dim)) kv[indices[b]]
//   over the first min(seq_len, topk) entries of indices[b]
//
// As in multi-head latent attention, one row a token serves all heads, as key and as value.
//
// Two consumers of the same index list, in one template parameter:
//   Sentinel::Trust   reads every one of those entries unchecked, as FlashAttention-3's sparse decode does
//   Sentinel::Check   skips entries that name no slot (-1, or beyond the cache), as FlashMLA does
//
// One block a (request, head), 128 threads.
//   launch: sparse_attention<float, Sentinel::Check><<<dim3(batch, heads), 128>>>(...)

#include <cuda_bf16.h>

enum class Sentinel { Trust, Check };

constexpr int kMaxTopK = 2048;

__device__ inline double minus_infinity() { return __uint_as_float(0xFF800000u); }  // NVRTC has no INFINITY macro

template <typename T, Sentinel kSentinel>
__global__ void sparse_attention(const T* __restrict__ q,            // [batch, heads, dim]
                                 const T* __restrict__ kv_cache,     // [num_slots, dim]
                                 const int* __restrict__ indices,    // [batch, topk]
                                 const int* __restrict__ seq_lens,   // [batch]
                                 T* __restrict__ out,                // [batch, heads, dim]
                                 int heads, int dim, int topk, int num_slots, float scale) {
  __shared__ int slot[kMaxTopK];
  __shared__ double weight[kMaxTopK];  // double has room for any product of two floats, so finite inputs stay finite
  __shared__ double warp_value[32];

  const int request = blockIdx.x;
  const long long q_row = (static_cast<long long>(request) * heads + blockIdx.y) * dim;
  const int thread = threadIdx.x;
  const int lane = thread % 32, warp = thread / 32, num_warps = blockDim.x / 32;
  const int seq_len = seq_lens[request];
  const int count = seq_len < topk ? seq_len : topk;
  const auto skipped = [&](int i) { return kSentinel == Sentinel::Check && (slot[i] < 0 || slot[i] >= num_slots); };

  for (int i = thread; i < count; i += blockDim.x) slot[i] = indices[static_cast<long long>(request) * topk + i];
  __syncthreads();

  // Scores: a warp takes a token, its lanes share the dot product.
  double largest = minus_infinity();
  for (int i = warp; i < count; i += num_warps) {
    double dot = 0.0;
    if (!skipped(i)) {
      const T* row = kv_cache + static_cast<long long>(slot[i]) * dim;  // the gather
      for (int d = lane; d < dim; d += 32)
        dot += static_cast<double>(static_cast<float>(q[q_row + d])) * static_cast<float>(row[d]);
    }
    for (int step = 16; step > 0; step /= 2) dot += __shfl_xor_sync(0xFFFFFFFFu, dot, step);
    const double score = skipped(i) ? minus_infinity() : dot * scale;
    if (lane == 0) weight[i] = score;
    largest = fmax(largest, score);
  }
  if (lane == 0) warp_value[warp] = largest;
  __syncthreads();
  for (int w = 0; w < num_warps; ++w) largest = fmax(largest, warp_value[w]);

  // Weights. A skipped token's score is -inf and its weight exactly 0.
  for (int i = thread; i < count; i += blockDim.x) weight[i] = exp(weight[i] - largest);
  __syncthreads();
  double sum = 0.0;
  int num_attended = 0;
  for (int i = 0; i < count; ++i) {
    sum += weight[i];
    if (!skipped(i)) ++num_attended;
  }

  // Values: thread d owns output element d. A skipped row is not read again.
  for (int d = thread; d < dim; d += blockDim.x) {
    double accumulator = 0.0;
    for (int i = 0; i < count; ++i) {
      if (skipped(i)) continue;
      accumulator += weight[i] * static_cast<float>(kv_cache[static_cast<long long>(slot[i]) * dim + d]);
    }
    // Nothing to attend to gives 0. `sum > 0` would be no test for that: it is false for NaN, and would hide it.
    out[q_row + d] = static_cast<T>(static_cast<float>(num_attended > 0 ? accumulator / sum : 0.0));
  }
}
