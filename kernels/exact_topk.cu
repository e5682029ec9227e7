// exact_topk: the k largest scores of each row, exactly, as cache slots in ascending order of position.
//
//   positions = the topk largest of scores[b, 0 .. seq_len-1] by (score descending, position ascending), then sorted
//   out[b, i] = page_table[b, position / page_size] * page_size + position % page_size;   -1 only behind seq_len
//
// -0.0 equals 0.0, NaN ranks below everything. Nothing is capped, nothing depends on the order of atomics, and every
// slot is written because its number is computed: count first, then place.
//
//   1. bar      guess a score that a good deal more than topk scores reach, from a sample of the row
//   2. keep     read the row once and keep it: a short row in registers (kItems scores a thread), of a long one
//               what reaches the bar, in a list a warp
//   3. narrow   histogram the kept keys over [low, high], find the bin where the count from the top reaches what is
//               wanted, make it the new [low, high]; until all its members are wanted, or all are equal, or they are
//               few: then gather and rank them
//   4. count    each warp: how many keys lie above the range, how many in it; a prefix sum over the warps follows
//   5. place    a key above, or one of the first `wanted` in the range, knows its slot: how many come before it
//
// A guess can be wrong: fewer than topk reach the bar (then it falls to the bottom), or a warp's list is full (then
// that warp reads its part of the row again whenever it would have read the list). Both cost time, not correctness.
//
// kItems: scores that a thread holds in registers; 0 = lists in shared memory, for rows of any length.
// kCluster: blocks that share a row. They read each other's shared memory, which takes sm_90; elsewhere it is 1.
// kListed: scores that a block's lists hold, 6 bytes each. 12288 take more than the 64 KiB that a block can have on
//   sm_75; with half as many, more lists are full, and more of the row is read again.
//   launch: exact_topk<1024, 8, 1, false><<<batch * kCluster, 1024, kItems == 0 ? 6 * kListed : 0>>>(...)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PDL_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#define PDL_TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define CLUSTER_OF(blocks) __cluster_dims__(blocks, 1, 1)
#define CLUSTER_ARRIVE() asm volatile("barrier.cluster.arrive.aligned;" ::: "memory")
#define CLUSTER_WAIT() asm volatile("barrier.cluster.wait.aligned;" ::: "memory")
#define PREFETCH(address) asm volatile("prefetch.global.L2 [%0];" ::"l"(address))
#else
#define PDL_WAIT()
#define PDL_TRIGGER()
#define CLUSTER_OF(blocks)
#define CLUSTER_ARRIVE()
#define CLUSTER_WAIT()
#define PREFETCH(address)
#endif

constexpr int kNoToken = -1;
constexpr int kMaxTopk = 2048;
constexpr int kStep = 128;    // scores of a long row that a warp reads at a time: 4 a lane
constexpr int kPlaces = 256;  // where the sample looks at a long row: at four neighbours each
constexpr int kFew = 128;     // keys that are ranked, not counted
constexpr unsigned int kFullWarp = 0xFFFFFFFF;

constexpr unsigned int kAbsent = 0;               // the key of no score
constexpr unsigned int kLowest = 0x00FFFFFE;      // the key of NaN; -inf has the next
constexpr unsigned int kZero = 0x807FFFFF;        // the key of 0.0
constexpr unsigned int kHighest = 0xFFFFFFFF;     // the key of +inf
constexpr unsigned int kEightOctaves = 8u << 23;  // from the key of a positive score to that of 256 times as much

// Larger score, larger key. Bits only: arithmetic on the score could flush a tiny one to 0.
__device__ __forceinline__ unsigned int key_of(float score) {
  const int bits = __float_as_int(score), negative = bits >> 31;  // negative: 0 or -1
  unsigned int key = bits ^ (negative | 0x80000000);  // sorts like scores, but -0.0 is one below 0.0, NaN at both ends
  key += 0x007FFFFF - negative;                       // now -0.0 is with 0.0, and NaN above +inf have wrapped round
  return max(key, kLowest);                           // so that all NaN are at the lower end: make them equal
}

// The score with this key, which is not NaN's.
__device__ __forceinline__ float score_of(unsigned int key) {
  return __int_as_float(key >= kZero ? key - kZero : ~(key - 0x00800000));
}

// The same variable in the shared memory of another block of the cluster.
template <typename T>
__device__ __forceinline__ T* in_block(T* mine, int rank) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  T* theirs;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(theirs) : "l"(mine), "r"(rank));
  return theirs;
#else
  return mine;
#endif
}

// The same variable in the cluster's first block.
template <int kCluster, typename T>
__device__ __forceinline__ T* in_first_block(T* mine) {
  return kCluster == 1 ? mine : in_block(mine, 0);
}

template <int kCluster>
__device__ __forceinline__ void cluster_sync() {
  if (kCluster == 1) {
    __syncthreads();
  } else {
    CLUSTER_ARRIVE();
    CLUSTER_WAIT();
  }
}

// Sum, largest and smallest of a warp's values, in every lane: one instruction each since sm_80, five exchanges before.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
  return __reduce_add_sync(kFullWarp, value);
}

__device__ __forceinline__ unsigned int warp_max(unsigned int value) {
  return __reduce_max_sync(kFullWarp, value);
}

__device__ __forceinline__ unsigned int warp_min(unsigned int value) {
  return __reduce_min_sync(kFullWarp, value);
}
#else
template <typename T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) value += __shfl_xor_sync(kFullWarp, value, step);
  return value;
}

__device__ __forceinline__ unsigned int warp_max(unsigned int value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) value = max(value, __shfl_xor_sync(kFullWarp, value, step));
  return value;
}

__device__ __forceinline__ unsigned int warp_min(unsigned int value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) value = min(value, __shfl_xor_sync(kFullWarp, value, step));
  return value;
}
#endif

// Sum over this lane and the lanes before it.
__device__ __forceinline__ unsigned int up_to_lane(unsigned int value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const unsigned int other = __shfl_up_sync(kFullWarp, value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// Keys in which the last wanted score lies: low <= key <= high. Of its `members`, the `wanted` largest are wanted.
struct Range {
  unsigned int low, high;
  int wanted, members;
};

// Which of a lane's keys lie above the range (bits 0 to 15), and which in it (bits 16 to 31).
template <int kCount>
__device__ __forceinline__ unsigned int marks_of(const unsigned int (&keys)[kCount], const Range& range) {
  unsigned int marks = 0;
#pragma unroll
  for (int c = 0; c < kCount; ++c) marks |= keys[c] > range.high ? 1u << c : keys[c] >= range.low ? 65536u << c : 0u;
  return marks;
}

// Two counts in one word, so that one sum or scan does both: keys above the range (at most 2047, since they are all
// selected and do not suffice), and keys in the range (less than 2^21).
constexpr unsigned int kOneAbove = 1u << 21, kInRangeMask = kOneAbove - 1;

__device__ __forceinline__ unsigned int counts_of(unsigned int marks) {
  return __popc(marks & 65535) * kOneAbove + __popc(marks >> 16);
}

// How many of the counted keys are selected: all above, and the first `wanted` in the range.
__device__ __forceinline__ int selected(unsigned int counts, const Range& range) {
  return static_cast<int>(counts / kOneAbove) + min(static_cast<int>(counts & kInRangeMask), range.wanted);
}

// The scores of kCount positions in a row, NaN from `end` on.
template <int kCount>
__device__ __forceinline__ void load_scores(const float* row, int position, int end, bool aligned,
                                            float (&scores)[kCount]) {
  if (aligned && position + kCount <= end) {
#pragma unroll
    for (int c = 0; c < kCount; c += 4) {
      const float4 four = *reinterpret_cast<const float4*>(row + position + c);
      scores[c] = four.x;
      scores[c + 1] = four.y;
      scores[c + 2] = four.z;
      scores[c + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int c = 0; c < kCount; ++c) scores[c] = position + c < end ? row[position + c] : __int_as_float(0x7FFFFFFF);
  }
}

template <int kThreads, int kItems, int kCluster, bool kPdl, int kListed = 12288>
__global__ void CLUSTER_OF(kCluster) __launch_bounds__(kThreads) exact_topk(
    const float* __restrict__ scores,    // [batch] rows of length, score_stride apart; the first seq_len count
    const int* __restrict__ seq_lens,    // [batch], negative counts as 0, more than length as length
    const int* __restrict__ page_table,  // [batch, num_pages]
    int* __restrict__ out,               // [batch, topk] slots
    int* __restrict__ raw_out,           // [batch, topk] positions, or null
    int length, long long score_stride, int num_pages, int topk, int page_bits) {  // page_size = 1 << page_bits
  constexpr int kWarps = kThreads / 32, kAllWarps = kCluster * kWarps;
  constexpr int kListLength = kListed / kWarps;
  constexpr int kGroup = kItems > 0 ? kItems : 4;  // neighbours that a lane handles at a time
  constexpr int kBins = kCluster == 1 ? 2048 : 4096 / kCluster;
  constexpr int kRun = kBins > kThreads ? kBins / kThreads : 1;  // bins a thread
  constexpr bool kAlone = kCluster == 1;
  static_assert(kItems == 0 || kAlone, "only a row that one block holds is kept in registers");
  static_assert(kListed % kWarps == 0, "each warp's list is as long");
  static_assert(kGroup <= 16, "marks_of has 16 bits for them");
  static_assert(kThreads >= kFew && kThreads >= kPlaces, "a thread for each");
  __shared__ int histogram[2][kBins];
  __shared__ unsigned int warp_total[kWarps], warp_low[kWarps], warp_high[kWarps];
  __shared__ unsigned int block_counts;
  __shared__ Range found;
  __shared__ unsigned int few[kFew], smallest_member, largest_member;
  __shared__ int num_few;
  __shared__ int placed[kMaxTopk];  // positions that this block has selected, ascending
  extern __shared__ float lists[];  // kItems == 0: kListLength scores a warp, then as many 16-bit offsets in its chunk

  const int request = blockIdx.x / kCluster, rank = blockIdx.x % kCluster;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, whole_warp = rank * kWarps + warp;
  if (kPdl) PDL_WAIT();

  // Each warp has positions first .. end-1. Registers: chunks of one size for every row, so that the loads need not
  // wait for seq_len. Lists: seq_len split evenly among all warps of the cluster.
  const float* row = scores + request * score_stride;
  const bool aligned = reinterpret_cast<unsigned long long>(row) % 16 == 0;
  float loaded[kGroup];
  if (kItems > 0) load_scores(row, (whole_warp * 32 + lane) * kGroup, length, aligned, loaded);
  const int seq_len = min(seq_lens[request], length);
#pragma unroll
  for (int i = threadIdx.x; i < kBins; i += kThreads) histogram[0][i] = histogram[1][i] = 0;
  if (threadIdx.x == 0) {
    num_few = 0;
    smallest_member = kHighest;
    largest_member = kAbsent;
  }
  const int* row_pages = page_table + static_cast<long long>(request) * num_pages;
  const long long row_out = static_cast<long long>(request) * topk;
  const auto slot_of = [&](int position) {
    return row_pages[position >> page_bits] << page_bits | (position & ((1 << page_bits) - 1));
  };
  const auto emit = [&](int i, int position, int slot) {
    out[row_out + i] = slot;
    if (raw_out != nullptr) raw_out[row_out + i] = position;
  };

  if (seq_len <= topk) {  // nothing to choose
    if (rank == 0) {
#pragma unroll 1
      for (int i = threadIdx.x; i < topk; i += kThreads)
        i < seq_len ? emit(i, i, slot_of(i)) : emit(i, kNoToken, kNoToken);
    }
    if (kPdl) PDL_TRIGGER();
    return;
  }
#pragma unroll 1
  for (int i = 32 * threadIdx.x; i <= (seq_len - 1) >> page_bits; i += 32 * kThreads) PREFETCH(row_pages + i);

  const int chunk = kItems > 0 ? kItems * 32 : (seq_len + kAllWarps * kStep - 1) / (kAllWarps * kStep) * kStep;
  const int first = whole_warp * chunk;
  const int end = min(first + chunk, seq_len);
  unsigned int held[kGroup];  // kItems > 0: the keys of this lane's scores
  if (kItems > 0) {
#pragma unroll
    for (int c = 0; c < kGroup; ++c) held[c] = key_of(loaded[c]);
    if (first + chunk > seq_len) {
#pragma unroll
      for (int c = 0; c < kGroup; ++c)
        if (first + lane * kGroup + c >= seq_len) held[c] = kAbsent;
    }
  }

  // Where the last wanted key can lie. A round counts the range's keys in bins. Bin 0 is for range.low alone: if that
  // is a plateau of equal scores, it is settled at once. The others have 1 << shift keys each, from `base` on; the
  // first of them also what lies below the base, the last one what lies beyond the span.
  Range range;
  unsigned int base, span;
  int round = 0;
  const auto shift_of = [&] { return 32 - __clz(span / kBins); };
  const auto bin_of = [&](unsigned int key) {
    return min(1 + ((max(key, base) - base) >> shift_of()), kBins - 1u);
  };
  const auto count_key = [&](unsigned int key) {
    if (key >= range.low && key <= range.high)
      atomicAdd(&histogram[round % 2][key == range.low ? 0 : bin_of(key)], 1);
  };
  // Sum the histograms of `blocks` blocks and move the range to the bin where the count from the top reaches
  // range.wanted. Returns false, and leaves the range, if there are fewer keys than that.
  const auto narrow = [&](int blocks) {
    int* bins = histogram[round % 2];
    const int shift = shift_of();
    // Each thread has a run of bins, the runs counted from the top; a prefix sum over the threads follows.
    const int top = kBins - 1 - threadIdx.x * kRun;
    int counts[kRun] = {}, in_run = 0;
    if (top >= 0) {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        if (blocks == 1) counts[i] = bins[top - i];
        else
#pragma unroll
          for (int r = 0; r < kCluster; ++r) counts[i] += *in_block(&bins[top - i], r);
        in_run += counts[i];
      }
    }
    // Every block is past the round before, so that one's histogram can be cleared for the next.
    for (int i = threadIdx.x; round > 0 && i < kBins; i += kThreads) histogram[(round + 1) % 2][i] = 0;
    ++round;
    const int up_to_here = up_to_lane(in_run);
    if (lane == 31) warp_total[warp] = up_to_here;
    __syncthreads();
    const int total = lane < kWarps ? warp_total[lane] : 0;
    const bool enough = warp_sum(total) >= range.wanted;
    int above = warp_sum(lane < warp ? total : 0) + up_to_here - in_run;
    if (above < range.wanted && range.wanted <= above + in_run) {  // true for one thread, if there are enough
      int bin = top, members = counts[0];
#pragma unroll
      for (int i = 1; i < kRun; ++i) {
        if (above + members >= range.wanted) continue;
        above += members;
        members = counts[i];
        bin = top - i;
      }
      const unsigned int start = base + (static_cast<unsigned int>(bin - 1) << shift);
      const unsigned int last = start + min((1u << shift) - 1, range.high - start);
      found.low = bin == 0 ? range.low : bin == 1 ? range.low + 1 : start;
      found.high = bin == 0 ? range.low : bin == kBins - 1 ? range.high : last;
      found.wanted = range.wanted - above;
      found.members = members;
    }
    __syncthreads();
    if (enough) range = found;
    base = range.low;
    span = range.high - base;
    return enough;
  };

  // 1. The bar. Of a sample of 1024 scores, in groups of 8: the smallest of the groups' largest is a score that about
  // half of all reach. That will do for a row in registers; if about half are wanted, the smallest of the sample.
  const bool half = kItems == 0 || topk <= seq_len / 4;
  unsigned int sample[4] = {}, low_here = kHighest, high_here = kAbsent;
  if (kItems > 0) {
    sample[0] = held[0];
  } else if (threadIdx.x < kPlaces) {
    const int place = static_cast<int>(static_cast<long long>(threadIdx.x) * seq_len / kPlaces) & ~3;
    float four[4];
    load_scores(row, place, seq_len, aligned, four);
#pragma unroll
    for (int c = 0; c < 4; ++c) sample[c] = key_of(four[c]);
  }
  if (kItems > 0 || threadIdx.x < kPlaces) {
    unsigned int largest = max(max(sample[0], sample[1]), max(sample[2], sample[3]));
#pragma unroll
    for (int step = 1; step < (kItems > 0 ? 8 : 2); step *= 2)
      largest = max(largest, __shfl_xor_sync(kFullWarp, largest, step));
    high_here = warp_max(largest);
    const unsigned int guess = half ? largest : sample[0];
    low_here = warp_min(guess == kAbsent ? kHighest : guess);
  }
  if (lane == 0) {
    warp_low[warp] = low_here;
    warp_high[warp] = high_here;
  }
  __syncthreads();
  unsigned int bar = max(kLowest + 1, warp_min(warp_low[lane % kWarps]));
  const unsigned int sample_high = max(bar, warp_max(warp_high[lane % kWarps]));
  if (kItems == 0) {
    // A list should be short: as large a part of the sample as topk is of the row, and five standard deviations more.
    const float expected = 1024.0f * topk / seq_len;
    range = Range{bar, kHighest, static_cast<int>(expected + 5.0f * sqrtf(expected)) + 8, -1};
    base = bar;
    span = sample_high - bar;
#pragma unroll
    for (int c = 0; c < 4; ++c) count_key(sample[c]);
    __syncthreads();
    bar = narrow(1) ? range.low : kLowest + 1;
  }
  range = Range{bar, kHighest, topk, -1};
  // Between a bar close to 0 and the largest score lie very many keys, but hardly any scores have the small ones.
  span = min(sample_high - bar, sample_high > kZero ? kEightOctaves : kHighest);
  base = sample_high - span;

  // 2. Keep what reaches the bar, in order of position.
  float* list_scores = lists + warp * kListLength;
  unsigned short* list_offsets = reinterpret_cast<unsigned short*>(lists + kListed) + warp * kListLength;
  int listed = 0;  // may pass kListLength: then the list is not used
  if (kItems == 0) {
    const float bar_score = score_of(bar);  // comparisons may take tiny numbers for 0: that lets more in, none fewer
    for (int start = first; start < end && listed <= kListLength; start += 4 * kStep) {
      float step[4][4];  // four loads are on their way before the first is needed
#pragma unroll
      for (int s = 0; s < 4; ++s) load_scores(row, start + s * kStep + lane * 4, end, aligned, step[s]);
      unsigned int reaching = 0;  // how many of this lane's scores: a byte a step, so that one prefix sum does for all
#pragma unroll
      for (int s = 0; s < 4; ++s)
#pragma unroll
        for (int c = 0; c < 4; ++c) reaching += step[s][c] >= bar_score ? 1u << 8 * s : 0u;
      const unsigned int up_to_here = up_to_lane(reaching), all = __shfl_sync(kFullWarp, up_to_here, 31);
      const int more = (all & 255) + (all >> 8 & 255) + (all >> 16 & 255) + (all >> 24);
      if (listed + more <= kListLength) {
        int step_first = listed;
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          int at = step_first + ((up_to_here - reaching) >> 8 * s & 255);
          step_first += all >> 8 * s & 255;
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            if (!(step[s][c] >= bar_score)) continue;
            list_scores[at] = step[s][c];
            list_offsets[at++] = static_cast<unsigned short>(start + s * kStep + lane * 4 + c - first);
          }
        }
      }
      listed += more;
    }
    __syncwarp();
  }

  // Call f(keys, positions) with kGroup kept keys a lane, in order of position, until the warp's chunk is through.
  bool below_bar = false;  // whether keys below the bar are wanted too
  const auto visit = [&](const auto& f) {
    int positions[kGroup];
    if (kItems > 0) {
#pragma unroll
      for (int c = 0; c < kGroup; ++c) positions[c] = first + lane * kGroup + c;
      f(held, positions);
    } else {
      const bool from_list = !below_bar && listed <= kListLength;
      const int count = from_list ? listed : end - first;
      // As many times for each lane, because f may use the whole warp's intrinsics.
#pragma unroll 1
      for (int i = lane * 4; i < count + lane * 4; i += kStep) {
        unsigned int keys[kGroup];
        float here[kGroup];
        if (from_list) {
#pragma unroll
          for (int c = 0; c < kGroup; ++c) {
            here[c] = i + c < count ? list_scores[i + c] : 0.0f;
            positions[c] = i + c < count ? first + list_offsets[i + c] : 0;
          }
        } else {
#pragma unroll
          for (int c = 0; c < kGroup; ++c) {
            positions[c] = first + i + c;
            here[c] = i + c < count ? row[positions[c]] : 0.0f;
          }
        }
#pragma unroll
        for (int c = 0; c < kGroup; ++c) keys[c] = i + c < count ? key_of(here[c]) : kAbsent;
        f(keys, positions);
      }
    }
  };

  // 3. Narrow. Before the first round nobody knows how many members there are (-1), and so nothing is settled.
  const auto settled = [&] {
    return range.members >= 0 && (range.members == range.wanted || range.low == range.high);
  };
  while (!settled() && (range.members < 0 || range.members > kFew)) {
    // Many members of one bin: as a rule they are equal. The whole cluster's, told by its first block. Never reset: a
    // block may still read these two when another one adds the next round's members, which are among this one's.
    unsigned int* first_smallest = in_first_block<kCluster>(&smallest_member);
    unsigned int* first_largest = in_first_block<kCluster>(&largest_member);
    if (range.members > 0) {
      unsigned int smallest = kHighest, largest = kAbsent;
      visit([&](const unsigned int (&keys)[kGroup], const int (&)[kGroup]) {
#pragma unroll
        for (int c = 0; c < kGroup; ++c) {
          if (keys[c] < range.low || keys[c] > range.high) continue;
          smallest = min(smallest, keys[c]);
          largest = max(largest, keys[c]);
        }
      });
      smallest = warp_min(smallest);
      largest = warp_max(largest);
      if (lane == 0) {
        atomicMin(first_smallest, smallest);
        atomicMax(first_largest, largest);
      }
    }
    visit([&](const unsigned int (&keys)[kGroup], const int (&)[kGroup]) {
#pragma unroll
      for (int c = 0; c < kGroup; ++c) count_key(keys[c]);
    });
    cluster_sync<kCluster>();
    if (range.members > 0 && *first_smallest == *first_largest) {
      range.low = range.high = *first_smallest;
      break;
    }
    if (!narrow(kCluster)) {  // the bar was too high
      range.low = base = kLowest;
      span = kHighest - kLowest;
      below_bar = true;
    }
  }
  if (!settled()) {  // few are left: gather them in the cluster's first block, in any order, and rank them, one a warp
    unsigned int* gathered = in_first_block<kCluster>(&few[0]);
    int* count = in_first_block<kCluster>(&num_few);
    visit([&](const unsigned int (&keys)[kGroup], const int (&)[kGroup]) {
      const unsigned int in_range = marks_of(keys, range) >> 16;
      if (in_range == 0) return;
      unsigned int* next = gathered + atomicAdd(count, __popc(in_range));
#pragma unroll
      for (int c = 0; c < kGroup; ++c)
        if (in_range >> c & 1) *next++ = keys[c];
    });
    cluster_sync<kCluster>();
    if (!kAlone) {
      if (rank > 0 && threadIdx.x < range.members) few[threadIdx.x] = gathered[threadIdx.x];
      __syncthreads();
    }
#pragma unroll 1
    for (int m = warp; m < range.members; m += kWarps) {
      int larger = 0, equal_before = 0;
#pragma unroll 1
      for (int i = lane; i < range.members + lane; i += 32) {
        const unsigned int other = i < range.members ? few[i] : kAbsent;
        larger += __popc(__ballot_sync(kFullWarp, other > few[m]));
        equal_before += __popc(__ballot_sync(kFullWarp, other == few[m] && i < m));
      }
      if (larger + equal_before == range.wanted - 1 && lane == 0) {  // few[m] is the last wanted
        found.low = found.high = few[m];
        found.wanted = range.wanted - larger;
      }
    }
    __syncthreads();
    range = found;
  }

  // 4. Count, by warp, then before each warp of this block, then before this block.
  unsigned int marks, counts_here = 0;
  visit([&](const unsigned int (&keys)[kGroup], const int (&)[kGroup]) {
    marks = marks_of(keys, range);
    counts_here += counts_of(marks);
  });
  const unsigned int warp_counts = warp_sum(counts_here);
  if (lane == 0) warp_total[warp] = warp_counts;
  __syncthreads();
  const unsigned int total = lane < kWarps ? warp_total[lane] : 0;
  unsigned int before = warp_sum(lane < warp ? total : 0u);
  int block_first = 0, block_count = topk;  // the slots that this block fills
  if (!kAlone) {
    const unsigned int all_counts = warp_sum(total);
    if (threadIdx.x == 0) block_counts = all_counts;
    cluster_sync<kCluster>();
    const unsigned int before_block = warp_sum(lane < rank ? *in_block(&block_counts, lane) : 0u);
    CLUSTER_ARRIVE();
    before += before_block;
    block_first = selected(before_block, range);
    block_count = selected(before_block + all_counts, range) - block_first;
  }

  // 5. Place. Positions ascend by lane and then by c.
  if (selected(before + warp_counts, range) > selected(before, range)) {
    visit([&](const unsigned int (&keys)[kGroup], const int (&positions)[kGroup]) {
      if (kItems == 0) marks = marks_of(keys, range);  // those of registers are still there from step 4
      const unsigned int lane_counts = counts_of(marks), up_to_here = up_to_lane(lane_counts);
      const unsigned int here = before + up_to_here - lane_counts;
      int* next = placed + (selected(here, range) - block_first);
      unsigned int in_range = marks >> 16;
      const int wanted = max(range.wanted - static_cast<int>(here & kInRangeMask), 0);
      while (__popc(in_range) > wanted) in_range ^= 1u << (31 - __clz(in_range));  // drop the last
#pragma unroll
      for (int c = 0; c < kGroup; ++c)
        if ((marks | in_range) >> c & 1) *next++ = positions[c];
      before += __shfl_sync(kFullWarp, up_to_here, 31);
    });
  }
  __syncthreads();
#pragma unroll 1
  for (int i = threadIdx.x; i < block_count; i += kThreads)
    emit(block_first + i, placed[i], slot_of(placed[i]));
  if (kPdl) PDL_TRIGGER();
  if (!kAlone) CLUSTER_WAIT();  // a block's shared memory has to outlive its readers
}
