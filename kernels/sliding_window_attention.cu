// sliding_window_attention: one decode step of attention over a paged cache, for the last `window` tokens.
//
//   out[b, h] = softmax(q[b, h] . K / sqrt(head_dim)) V     over positions max(0, seq_len - window) .. seq_len-1
//
// K and V of a position live in the slot that the page table names:
//   slot = page_table[b, position / page_size] * page_size + position % page_size
//
// A tile is 64 positions. All 64 rows are staged in shared memory first; only afterwards does the kernel ask which
// of them belong to the window. Where the sequence ends inside a tile, the rest of the tile follows the page table
// into its padding, which is page 0: that is how a kernel comes to load the reserved slot of a cache.
//
// The story, in one template parameter:
//   Masking::Multiply   as real kernels do: a masked position gets weight 0, and 0 times its value is added
//   Masking::Select     a masked value is never multiplied
//
// One block a (request, query head), 128 threads.
//   launch: sliding_window_attention<float, 128, Masking::Multiply><<<dim3(batch, heads), 128>>>(...)

#include <cuda_bf16.h>

enum class Masking { Multiply, Select };

constexpr int kTile = 64;

__device__ inline double minus_infinity() { return __uint_as_float(0xFF800000u); }  // NVRTC has no INFINITY macro

template <typename T, int kHeadDim, Masking kMasking>
__global__ void sliding_window_attention(const T* __restrict__ q,              // [batch, heads, head_dim]
                                         const T* __restrict__ k_cache,        // [slots, kv_heads, head_dim]
                                         const T* __restrict__ v_cache,        // [slots, kv_heads, head_dim]
                                         const int* __restrict__ page_table,   // [batch, pages]
                                         const int* __restrict__ seq_lens,     // [batch]
                                         T* __restrict__ out,                  // [batch, heads, head_dim]
                                         int heads, int kv_heads, int pages, int window, int page_size, float scale) {
  __shared__ float query[kHeadDim];
  __shared__ float tile[kTile][kHeadDim + 1];  // + 1: the 64 threads that walk down a row each hit another bank
  __shared__ long long tile_row[kTile];        // where each position's row starts in the cache
  __shared__ double score[kTile];              // double has room for any product of two floats: see below
  __shared__ double weight[kTile];

  const int request = blockIdx.x;
  const int head = blockIdx.y;
  const int kv_head = head / (heads / kv_heads);
  const int thread = threadIdx.x;
  const int seq_len = seq_lens[request];
  const int window_start = seq_len > window ? seq_len - window : 0;
  const auto attended = [&](int position) { return position >= window_start && position < seq_len; };

  const long long q_row = (static_cast<long long>(request) * heads + head) * kHeadDim;
  for (int d = thread; d < kHeadDim; d += blockDim.x) query[d] = static_cast<float>(q[q_row + d]);

  // Thread d owns output element d. The softmax is kept as it goes: the largest score so far, the sum of weights,
  // and the weighted sum of values, both relative to that largest score. Real kernels keep them in float, where finite
  // inputs can overflow to infinity; in double they can't, so what is not finite here came from q, K or V.
  double largest = minus_infinity(), sum = 0.0, accumulator = 0.0;

  for (int tile_start = window_start / kTile * kTile; tile_start < seq_len; tile_start += kTile) {
    // 1. Where do the tile's 64 rows live? Beyond its last page the table counts as padded with page 0.
    for (int i = thread; i < kTile; i += blockDim.x) {
      const int position = tile_start + i;
      const int page = position / page_size < pages ? page_table[request * pages + position / page_size] : 0;
      const long long slot = static_cast<long long>(page) * page_size + position % page_size;
      tile_row[i] = (slot * kv_heads + kv_head) * kHeadDim;
    }
    __syncthreads();

    // 2. Stage the K tile, every row of it.
    for (int e = thread; e < kTile * kHeadDim; e += blockDim.x)
      tile[e / kHeadDim][e % kHeadDim] = static_cast<float>(k_cache[tile_row[e / kHeadDim] + e % kHeadDim]);
    __syncthreads();

    // 3. One score a position. The mask comes here, after the load; it selects, so a NaN in K stops here.
    for (int i = thread; i < kTile; i += blockDim.x) {
      double dot = 0.0;
      for (int d = 0; d < kHeadDim; ++d) dot += static_cast<double>(query[d]) * tile[i][d];
      score[i] = attended(tile_start + i) ? dot * scale : minus_infinity();
    }
    __syncthreads();

    // 4. One weight a position. A masked score is -inf, so its weight is exactly 0. Where every score so far is -inf,
    // -inf - largest would be NaN; relative to 0 their weights are 0, and a later finite score still counts.
    double tile_largest = largest;
    for (int i = 0; i < kTile; ++i) tile_largest = fmax(tile_largest, score[i]);
    const double base = tile_largest == minus_infinity() ? 0.0 : tile_largest;
    for (int i = thread; i < kTile; i += blockDim.x) weight[i] = exp(score[i] - base);

    // 5. Stage the V tile where the K tile was.
    for (int e = thread; e < kTile * kHeadDim; e += blockDim.x)
      tile[e / kHeadDim][e % kHeadDim] = static_cast<float>(v_cache[tile_row[e / kHeadDim] + e % kHeadDim]);
    __syncthreads();

    // 6. The weighted sum. What earlier tiles gave was relative to an older largest score.
    const double rescale = exp(largest - base);
    largest = tile_largest;
    sum *= rescale;
    accumulator *= rescale;
    for (int i = 0; i < kTile; ++i) {
      sum += weight[i];
      if (thread < kHeadDim) {
        if (kMasking == Masking::Multiply) accumulator += weight[i] * tile[i][thread];
        if (kMasking == Masking::Select) accumulator += attended(tile_start + i) ? weight[i] * tile[i][thread] : 0.0;
      }
    }
    __syncthreads();  // the next tile overwrites what is shared
  }

  // A request of length 0 attends to nothing: 0 / 0, the first NaN of the story.
  if (thread < kHeadDim) out[q_row + thread] = static_cast<T>(static_cast<float>(accumulator / sum));
}
