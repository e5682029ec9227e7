// topk_transform: the k largest scores of each row, as cache slots.
//
//   positions = the topk largest of scores[b, 0 .. seq_len-1], in no particular order
//   out[b, i] = page_table[b, position / page_size] * page_size + position % page_size
//   rows with seq_len <= topk: every position in order, then -1
//
// Selection by histogram, one block a row:
//   1. count the scores in coarse bins (the top kBinBits bits of an order-preserving image of the fp16 score)
//   2. find the threshold bin, where the count from the top reaches topk
//   3. collect: scores above the bin go straight to the result, members of the bin to a buffer of kMaxNumTie
//   4. handle_tie: fill the remaining slots from the buffer
//   5. translate all topk staged positions through the page table
// "Tie" means: in the same bin. The scores need not be equal.
//
// The story, in one template parameter: what becomes of the slots that nobody fills, because the bin has more
// members than the buffer holds?
//   Overflow::Unwritten   the bug: they keep what an earlier kernel left in shared memory
//   Overflow::Sentinel    the fix (sgl-project/sglang#30512): they say -1, "no token"
//   Overflow::Position    the next day's fix (#30645): they say their own number, a valid but arbitrary position
//
//   launch: topk_transform<Overflow::Sentinel, 1024, 12><<<batch, 1024>>>(...)

#include <cuda_fp16.h>

enum class Overflow { Unwritten, Sentinel, Position };

constexpr int kMaxTopK = 2048;
constexpr int kNoToken = -1;

struct Tie {
  float score;
  int position;
};

struct Threshold {
  int bin;
  int above;  // how many members the bins above it have
};

// Larger float, larger key: flip the sign bit of positive numbers, every bit of negative ones.
__device__ unsigned int ordered_key(float score) {
  const unsigned int bits = __float_as_uint(score);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The same image of the score rounded to fp16, cut to its top bits.
template <int kBinBits>
__device__ int coarse_bin(float score) {
  const unsigned int bits = __half_as_ushort(__float2half_rn(score));
  const unsigned int image = (bits & 0x8000u ? ~bits : bits | 0x8000u) & 0xFFFFu;
  return static_cast<int>(image >> (16 - kBinBits));
}

// Find the bin in which the count from the top reaches `wanted`: above < wanted <= above + histogram[bin].
// Each thread sums a run of bins, the runs counted from the top; a prefix sum over the threads follows.
template <int kBins>
__device__ Threshold find_threshold(const int* histogram, int wanted) {
  __shared__ int warp_total[32];
  __shared__ Threshold found;

  const int run = (kBins + blockDim.x - 1) / blockDim.x;
  const int top = kBins - 1 - threadIdx.x * run;  // this thread's bins: top, top - 1, ..., run of them
  int members = 0;
  for (int i = 0; i < run && top - i >= 0; ++i) members += histogram[top - i];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  int up_to_here = members;  // members of this thread and of the lanes before it
  for (int step = 1; step < 32; step *= 2) {
    const int before = __shfl_up_sync(0xFFFFFFFFu, up_to_here, step);
    if (lane >= step) up_to_here += before;
  }
  if (lane == 31) warp_total[warp] = up_to_here;
  __syncthreads();
  int above = up_to_here - members;
  for (int w = 0; w < warp; ++w) above += warp_total[w];

  if (above < wanted && wanted <= above + members) {  // true for exactly one thread
    int bin = top;
    while (above + histogram[bin] < wanted) above += histogram[bin--];
    found.bin = bin;
    found.above = above;
  }
  __syncthreads();
  return found;
}

// Up to kCandidates ties: one warp takes a tie and counts by ballot how many others beat it. That is its rank.
template <int kCandidates>
__device__ void rank_by_ballot(const Tie* ties, int num_ties, int wanted, int* out) {
  const int lane = threadIdx.x % 32;
  for (int i = threadIdx.x / 32; i < num_ties; i += blockDim.x / 32) {
    const unsigned int key = ordered_key(ties[i].score);
    int rank = 0;
    for (int first = 0; first < kCandidates; first += 32) {
      const int j = first + lane;
      bool beats = false;
      if (j < num_ties) {
        const unsigned int other = ordered_key(ties[j].score);
        beats = other > key || (other == key && ties[j].position < ties[i].position);
      }
      rank += __popc(__ballot_sync(0xFFFFFFFFu, beats));
    }
    if (lane == 0 && rank < wanted) out[rank] = ties[i].position;
  }
}

// More ties: find the key of the last one wanted, eight bits at a time, then take every key above it
// and as many equal to it as there is room for.
__device__ void radix_select(const Tie* ties, int num_ties, int wanted, int* out, int* histogram) {
  __shared__ int num_taken, num_equal;
  unsigned int known = 0;  // the key's leading bits, as far as they are known
  int left = wanted;       // how many of the ties that share those bits are wanted
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) histogram[i] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < num_ties; i += blockDim.x) {
      const unsigned int key = ordered_key(ties[i].score);
      if (shift == 24 || key >> (shift + 8) == known) atomicAdd(&histogram[key >> shift & 255u], 1);
    }
    __syncthreads();
    const Threshold digit = find_threshold<256>(histogram, left);
    known = known << 8 | static_cast<unsigned int>(digit.bin);
    left -= digit.above;
    __syncthreads();  // everyone has the digit before the histogram is cleared again
  }

  if (threadIdx.x == 0) {
    num_taken = 0;
    num_equal = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < num_ties; i += blockDim.x) {
    const unsigned int key = ordered_key(ties[i].score);
    if (key > known || (key == known && atomicAdd(&num_equal, 1) < left))
      out[atomicAdd(&num_taken, 1)] = ties[i].position;
  }
}

// Fill out[0 .. wanted-1] from the tie buffer. first_slot: which slot of the row out[0] is.
template <Overflow kOverflow>
__device__ void handle_tie(const Tie* ties, int num_ties, int wanted, int* out, int first_slot, int* histogram) {
  if (num_ties <= wanted) {
    for (int i = threadIdx.x; i < num_ties; i += blockDim.x) out[i] = ties[i].position;
    // The buffer can run out before the slots do: only here, where everything it holds is taken.
    if (kOverflow == Overflow::Sentinel)
      for (int i = num_ties + threadIdx.x; i < wanted; i += blockDim.x) out[i] = kNoToken;
    if (kOverflow == Overflow::Position)
      for (int i = num_ties + threadIdx.x; i < wanted; i += blockDim.x) out[i] = first_slot + i;
  } else if (num_ties <= 32) {
    rank_by_ballot<32>(ties, num_ties, wanted, out);
  } else if (num_ties <= 64) {
    rank_by_ballot<64>(ties, num_ties, wanted, out);
  } else if (num_ties <= 128) {
    rank_by_ballot<128>(ties, num_ties, wanted, out);
  } else {
    radix_select(ties, num_ties, wanted, out, histogram);
  }
}

template <Overflow kOverflow, int kMaxNumTie, int kBinBits>
__global__ void __launch_bounds__(1024) topk_transform(
    const float* __restrict__ scores,    // [batch] rows, score_stride elements apart; the first seq_len count
    const int* __restrict__ seq_lens,    // [batch]
    const int* __restrict__ page_table,  // [batch, pages]
    int* __restrict__ out,               // [batch, topk] slots
    int* __restrict__ raw_out,           // [batch, topk] positions, or null
    long long score_stride, int pages, int topk, int page_bits) {  // page_size = 1 << page_bits
  constexpr int kBins = 1 << kBinBits;
  constexpr int kHistogram = kBins > 256 ? kBins : 256;  // radix_select counts 256 digits in it
  __shared__ int histogram[kHistogram];
  __shared__ Tie ties[kMaxNumTie];
  __shared__ int staged[kMaxTopK];
  __shared__ int num_above, num_in_bin;

  const int row = blockIdx.x;
  const int seq_len = seq_lens[row];
  const float* row_scores = scores + row * score_stride;
  const int* row_pages = page_table + static_cast<long long>(row) * pages;

  const auto emit = [&](int i, int position) {
    const long long at = static_cast<long long>(row) * topk + i;
    const int in_page = position & ((1 << page_bits) - 1);
    out[at] = position == kNoToken ? kNoToken : row_pages[position >> page_bits] << page_bits | in_page;
    if (raw_out != nullptr) raw_out[at] = position;
  };

  if (seq_len <= topk) {  // nothing to choose
    for (int i = threadIdx.x; i < topk; i += blockDim.x) emit(i, i < seq_len ? i : kNoToken);
    return;
  }

  for (int i = threadIdx.x; i < kHistogram; i += blockDim.x) histogram[i] = 0;
  if (threadIdx.x == 0) {
    num_above = 0;
    num_in_bin = 0;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < seq_len; i += blockDim.x)
    atomicAdd(&histogram[coarse_bin<kBinBits>(row_scores[i])], 1);
  __syncthreads();

  const Threshold threshold = find_threshold<kBins>(histogram, topk);

  for (int i = threadIdx.x; i < seq_len; i += blockDim.x) {
    const float score = row_scores[i];
    const int bin = coarse_bin<kBinBits>(score);
    if (bin > threshold.bin) {
      staged[atomicAdd(&num_above, 1)] = i;
    } else if (bin == threshold.bin) {
      const int at = atomicAdd(&num_in_bin, 1);
      if (at < kMaxNumTie) ties[at] = Tie{score, i};  // the others are dropped: here the slots go missing
    }
  }
  __syncthreads();

  const int num_ties = num_in_bin < kMaxNumTie ? num_in_bin : kMaxNumTie;
  handle_tie<kOverflow>(ties, num_ties, topk - num_above, staged + num_above, num_above, histogram);
  __syncthreads();

  for (int i = threadIdx.x; i < topk; i += blockDim.x) emit(i, staged[i]);
}
