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
//               few: then one warp's lanes hold them, and rank them
//   4. count    each warp: how many keys lie above the range, how many in it; a prefix sum over the warps follows
//   5. place    a key above, or one of the first `wanted` in the range, knows its slot: how many come before it
//
// A guess can be wrong: fewer than topk reach the bar (then it falls to the bottom), or a warp's list is full (then
// that warp reads its part of the row again whenever it would have read the list). Both cost time, not correctness.
//
// kItems: scores that a thread holds in registers; 0 = lists in shared memory, for rows of any length.
// kCluster: blocks that share a row. They read each other's shared memory, which takes sm_90; elsewhere it is 1.
//   launch: exact_topk<1024, 8, 1, false><<<batch * kCluster, 1024, kItems == 0 ? list_bytes : 0>>>(...)

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PDL_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#define PDL_TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#define CLUSTER_OF(blocks) __cluster_dims__(blocks, 1, 1)
#define CLUSTER_SYNC() asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory")
#define PREFETCH(address) asm volatile("prefetch.global.L2 [%0];" ::"l"(address))
#else
#define PDL_WAIT()
#define PDL_TRIGGER()
#define CLUSTER_OF(blocks)
#define CLUSTER_SYNC() __syncthreads()
#define PREFETCH(address)
#endif

constexpr int kNoToken = -1;
constexpr int kListed = 12288;          // keys that a block's lists hold, 6 bytes each
constexpr int kStep = 128;              // positions that a warp handles at a time: 4 a lane
constexpr unsigned int kAbsent = 0;     // the key of no score
constexpr unsigned int kLowest = 1;     // the key of NaN
constexpr unsigned int kHighest = 0xFFFFFFFFu;
constexpr unsigned int kFullWarp = 0xFFFFFFFFu;
constexpr int kFew = 32;                // keys that the lanes of a warp can hold

// Larger score, larger key. -inf has key 0x007FFFFF, so smaller ones are free for NaN and for "no score".
__device__ __forceinline__ unsigned int key_of(float score) {
  int bits = __float_as_int(score);
  if (bits == static_cast<int>(0x80000000)) bits = 0;  // -0.0 equals 0.0; adding 0.0 would flush tiny scores to 0 too
  const unsigned int key = bits ^ (bits >> 31 | 0x80000000);
  return score == score ? key : kLowest;
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
  if (kCluster > 1) CLUSTER_SYNC();
  else __syncthreads();
}

__device__ __forceinline__ int lanes_before(unsigned int ballot) {
  return __popc(ballot & ((1u << (threadIdx.x % 32)) - 1));
}

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

// Two counts in one word, so that one sum or scan does both: keys above the range (at most 2047, since they are all
// selected and do not suffice), and keys in the range (less than 2^21).
constexpr unsigned int kOneAbove = 1u << 21, kInRangeMask = kOneAbove - 1;

__device__ __forceinline__ unsigned int counts_of(unsigned int key, const Range& range) {
  return key > range.high ? kOneAbove : key >= range.low ? 1u : 0u;
}

// How many of the counted keys are selected: all above, and the first `wanted` in the range.
__device__ __forceinline__ int selected(unsigned int counts, const Range& range) {
  return static_cast<int>(counts / kOneAbove) + min(static_cast<int>(counts & kInRangeMask), range.wanted);
}

// The keys of four positions in a row, kAbsent from `end` on.
__device__ __forceinline__ void load_keys(const float* row, int position, int end, bool aligned,
                                          unsigned int (&keys)[4]) {
  if (aligned && position + 4 <= end) {
    const float4 scores = *reinterpret_cast<const float4*>(row + position);
    keys[0] = key_of(scores.x);
    keys[1] = key_of(scores.y);
    keys[2] = key_of(scores.z);
    keys[3] = key_of(scores.w);
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) keys[c] = position + c < end ? key_of(row[position + c]) : kAbsent;
  }
}

template <int kThreads, int kItems, int kCluster, bool kPdl>
__global__ void CLUSTER_OF(kCluster) __launch_bounds__(kThreads) exact_topk(
    const float* __restrict__ scores,    // [batch] rows of length, score_stride apart; the first seq_len count
    const int* __restrict__ seq_lens,    // [batch], negative counts as 0, more than length as length
    const int* __restrict__ page_table,  // [batch, num_pages]
    int* __restrict__ out,               // [batch, topk] slots
    int* __restrict__ raw_out,           // [batch, topk] positions, or null
    int length, long long score_stride, int num_pages, int topk, int page_bits) {  // page_size = 1 << page_bits
  constexpr int kWarps = kThreads / 32;
  constexpr int kListLength = kListed / kWarps;
  constexpr int kBins = kCluster == 1 ? 2048 : 4096 / kCluster;
  constexpr int kRun = kBins > kThreads ? kBins / kThreads : 1;  // bins a thread
  constexpr bool kAlone = kCluster == 1;
  static_assert(kItems == 0 || kAlone, "only a row that one block holds is kept in registers");
  __shared__ int histogram[2][kBins];
  __shared__ unsigned int warp_total[kWarps], warp_low[kWarps], warp_high[kWarps];
  __shared__ unsigned int block_counts;
  __shared__ Range found;
  __shared__ unsigned int few[kFew], smallest_member, largest_member;
  __shared__ int num_few;
  extern __shared__ unsigned int lists[];  // kItems == 0: kListLength keys a warp, then as many 16-bit offsets

  const int request = blockIdx.x / kCluster, rank = blockIdx.x % kCluster;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (kPdl) PDL_WAIT();

  // Each warp has positions first .. end-1, a chunk of whole steps. Registers: chunks of one size for every row, so
  // that the loads need not wait for seq_len. Lists: seq_len split evenly among all warps of the cluster.
  constexpr int kAllWarps = kCluster * kWarps;
  const float* row = scores + request * score_stride;
  const bool aligned = reinterpret_cast<unsigned long long>(row) % 16 == 0;
  const int whole_warp = rank * kWarps + warp;
  unsigned int held[kItems > 0 ? kItems : 4];
  if (kItems > 0) {
#pragma unroll
    for (int i = 0; i < kItems; i += 4)
      load_keys(row, whole_warp * kItems * 32 + i * 32 + lane * 4, length, aligned,
                reinterpret_cast<unsigned int(&)[4]>(held[i]));
  }
  const int seq_len = min(seq_lens[request], length);
  const int* row_pages = page_table + static_cast<long long>(request) * num_pages;
  const auto emit = [&](int i, int position, int page) {
    const long long at = static_cast<long long>(request) * topk + i;
    out[at] = position == kNoToken ? kNoToken : page << page_bits | (position & ((1 << page_bits) - 1));
    if (raw_out != nullptr) raw_out[at] = position;
  };

  if (seq_len <= topk) {  // nothing to choose
    if (rank == 0)
      for (int i = threadIdx.x; i < topk; i += kThreads)
        i < seq_len ? emit(i, i, row_pages[i >> page_bits]) : emit(i, kNoToken, 0);
    if (kPdl) PDL_TRIGGER();
    return;
  }
  for (int i = 32 * threadIdx.x; i <= (seq_len - 1) >> page_bits; i += 32 * kThreads) PREFETCH(row_pages + i);

  const int chunk = kItems > 0 ? kItems * 32 : (seq_len + kAllWarps * kStep - 1) / (kAllWarps * kStep) * kStep;
  const int first = whole_warp * chunk;
  const int end = min(first + chunk, seq_len);
#pragma unroll
  for (int i = 0; i < kItems; i += 4)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (first + i * 32 + lane * 4 + c >= seq_len) held[i + c] = kAbsent;

  // Where the last wanted key can lie. Each round counts keys in bins of 1 << shift, from range.low up.
  Range range = {kLowest, kHighest, topk, -1};
  unsigned int span;  // the bins' reach; keys beyond it count in the last bin
  int round = 0;
  for (int i = threadIdx.x; i < kBins; i += kThreads) histogram[0][i] = histogram[1][i] = 0;
  if (threadIdx.x == 0) {
    num_few = 0;
    smallest_member = kHighest;
    largest_member = kAbsent;
  }

  const auto shift_of = [&] { return 32 - __clz(span / kBins); };
  const auto count_key = [&](unsigned int key) {
    if (key >= range.low && key <= range.high)
      atomicAdd(&histogram[round % 2][min((key - range.low) >> shift_of(), kBins - 1u)], 1);
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
    const bool enough = __reduce_add_sync(kFullWarp, total) >= range.wanted;
    int above = __reduce_add_sync(kFullWarp, lane < warp ? total : 0) + up_to_here - in_run;
    if (above < range.wanted && range.wanted <= above + in_run) {  // true for one thread, if there are enough
      int bin = top, members = counts[0];
#pragma unroll
      for (int i = 1; i < kRun; ++i) {
        if (above + members >= range.wanted) continue;
        above += members;
        members = counts[i];
        bin = top - i;
      }
      found.low = range.low + (static_cast<unsigned int>(bin) << shift);
      found.high = bin == kBins - 1 ? range.high : found.low + min((1u << shift) - 1, range.high - found.low);
      found.wanted = range.wanted - above;
      found.members = members;
    }
    __syncthreads();
    if (enough) range = found;
    span = range.high - range.low;
    return enough;
  };

  // 1. The bar. Of a sample of 1024 scores, in groups of 8: the smallest of the groups' largest is a score that about
  // half of all reach. That will do for a row in registers.
  constexpr int kSamples = 1024 / kThreads;
  unsigned int samples[kSamples], low_here = kHighest, high_here = kAbsent;
#pragma unroll
  for (int i = 0; i < kSamples; ++i) {
    const int sampled = static_cast<int>(static_cast<long long>((i * 32 + lane) * kWarps + warp) * seq_len / 1024);
    samples[i] = kItems > 0 ? held[i] : key_of(row[sampled]);
  }
#pragma unroll
  for (int i = 0; i < kSamples; ++i) {
    unsigned int largest = samples[i];
#pragma unroll
    for (int step = 1; step < 8; step *= 2) largest = max(largest, __shfl_xor_sync(kFullWarp, largest, step));
    low_here = min(low_here, __reduce_min_sync(kFullWarp, largest));
    high_here = max(high_here, __reduce_max_sync(kFullWarp, largest));
  }
  if (lane == 0) {
    warp_low[warp] = low_here;
    warp_high[warp] = high_here;
  }
  __syncthreads();
  unsigned int bar = max(kLowest, __reduce_min_sync(kFullWarp, warp_low[lane % kWarps]));
  const unsigned int sample_high = max(bar, __reduce_max_sync(kFullWarp, warp_high[lane % kWarps]));
  if (kItems > 0) {
    if (topk > seq_len / 4) bar = kLowest;
  } else {
    // A list should be short: as large a part of the sample as topk is of the row, and five standard deviations more.
    const float expected = 1024.0f * topk / seq_len;
    range.low = bar;
    range.wanted = static_cast<int>(expected + 5.0f * sqrtf(expected)) + 8;
    span = sample_high - bar;
#pragma unroll
    for (int i = 0; i < kSamples; ++i) count_key(samples[i]);
    __syncthreads();
    bar = narrow(1) ? range.low : kLowest;
  }
  range = Range{bar, kHighest, topk, -1};
  span = sample_high - bar;

  // 2. Keep what reaches the bar, in order of position.
  unsigned int* list_keys = lists + warp * kListLength;
  unsigned short* list_offsets = reinterpret_cast<unsigned short*>(lists + kWarps * kListLength) + warp * kListLength;
  int listed = 0;  // may pass kListLength: then the list is not used
  if (kItems == 0) {
    for (int start = first; start < end; start += 4 * kStep) {
      unsigned int keys[4][4];  // four loads are on their way before the first is needed
#pragma unroll
      for (int s = 0; s < 4; ++s) load_keys(row, start + s * kStep + lane * 4, end, aligned, keys[s]);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        int at = listed;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const unsigned int reaches = __ballot_sync(kFullWarp, keys[s][c] >= bar);
          at += lanes_before(reaches);
          listed += __popc(reaches);
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (keys[s][c] < bar) continue;
          if (at < kListLength) {
            list_keys[at] = keys[s][c];
            list_offsets[at] = static_cast<unsigned short>(start + s * kStep + lane * 4 + c - first);
          }
          ++at;
        }
      }
    }
    __syncwarp();
  }

  // Call f(keys, positions) with four kept keys a lane, in order of position, until the warp's part is through.
  bool below_bar = false;  // whether keys below the bar are wanted too
  const auto visit = [&](const auto& f) {
    unsigned int keys[4];
    int positions[4];
    if (kItems > 0) {
#pragma unroll
      for (int i = 0; i < kItems; i += 4) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          keys[c] = held[i + c];
          positions[c] = first + i * 32 + lane * 4 + c;
        }
        f(keys, positions);
      }
    } else if (!below_bar && listed <= kListLength) {
      for (int i = 0; i < listed; i += kStep) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          const int at = i + lane * 4 + c;
          keys[c] = at < listed ? list_keys[at] : kAbsent;
          positions[c] = at < listed ? first + list_offsets[at] : 0;
        }
        f(keys, positions);
      }
    } else {
      for (int start = first; start < end; start += kStep) {
        load_keys(row, start + lane * 4, end, aligned, keys);
#pragma unroll
        for (int c = 0; c < 4; ++c) positions[c] = start + lane * 4 + c;
        f(keys, positions);
      }
    }
  };

  // 3. Narrow.
  const auto settled = [&] { return range.members == range.wanted || range.low == range.high; };
  while (!settled() && (range.members < 0 || range.members > kFew)) {
    // Many members of one bin: as a rule they are equal. The whole cluster's, told by its first block.
    unsigned int* first_smallest = in_first_block<kCluster>(&smallest_member);
    unsigned int* first_largest = in_first_block<kCluster>(&largest_member);
    if (range.members > 0) {
      unsigned int smallest = kHighest, largest = kAbsent;
      visit([&](const unsigned int (&keys)[4], const int (&)[4]) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          if (keys[c] < range.low || keys[c] > range.high) continue;
          smallest = min(smallest, keys[c]);
          largest = max(largest, keys[c]);
        }
      });
      smallest = __reduce_min_sync(kFullWarp, smallest);
      largest = __reduce_max_sync(kFullWarp, largest);
      if (lane == 0) {
        atomicMin(first_smallest, smallest);
        atomicMax(first_largest, largest);
      }
    }
    visit([&](const unsigned int (&keys)[4], const int (&)[4]) {
#pragma unroll
      for (int c = 0; c < 4; ++c) count_key(keys[c]);
    });
    cluster_sync<kCluster>();
    if (range.members > 0 && *first_smallest == *first_largest) {
      range.low = range.high = *first_smallest;
      break;
    }
    if (!narrow(kCluster)) {  // the bar was too high
      range.low = kLowest;
      span = kHighest - kLowest;
      below_bar = true;
    }
  }
  if (!settled()) {  // few are left: gather them in the cluster's first block, in any order
    unsigned int* gathered = in_first_block<kCluster>(&few[0]);
    int* count = in_first_block<kCluster>(&num_few);
    visit([&](const unsigned int (&keys)[4], const int (&)[4]) {
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (keys[c] >= range.low && keys[c] <= range.high) gathered[atomicAdd(count, 1)] = keys[c];
    });
    cluster_sync<kCluster>();
    const unsigned int mine = lane < range.members ? gathered[lane] : kAbsent;
    int larger = 0, not_smaller = 0;
    for (int i = 0; i < range.members; ++i) {
      const unsigned int other = __shfl_sync(kFullWarp, mine, i);
      larger += other > mine;
      not_smaller += other >= mine;
    }
    const bool is_last_wanted = lane < range.members && larger < range.wanted && range.wanted <= not_smaller;
    const int last = __ffs(__ballot_sync(kFullWarp, is_last_wanted)) - 1;  // equal ones all qualify: any of them
    range.low = range.high = __shfl_sync(kFullWarp, mine, last);
    range.wanted -= __shfl_sync(kFullWarp, larger, last);
  }

  // 4. Count, by warp, then before each warp of this block, then before this block.
  unsigned int counts_here = 0;
  visit([&](const unsigned int (&keys)[4], const int (&)[4]) {
#pragma unroll
    for (int c = 0; c < 4; ++c) counts_here += counts_of(keys[c], range);
  });
  const unsigned int warp_counts = __reduce_add_sync(kFullWarp, counts_here);
  if (lane == 0) warp_total[warp] = warp_counts;
  __syncthreads();
  const unsigned int total = lane < kWarps ? warp_total[lane] : 0;
  unsigned int before = __reduce_add_sync(kFullWarp, lane < warp ? total : 0u);
  if (!kAlone) {
    const unsigned int all_counts = __reduce_add_sync(kFullWarp, total);
    if (threadIdx.x == 0) block_counts = all_counts;
    cluster_sync<kCluster>();
    before += __reduce_add_sync(kFullWarp, lane < rank ? *in_block(&block_counts, lane) : 0u);
  }

  // 5. Place. Within a step, positions ascend by lane and then by c.
  if (selected(before + warp_counts, range) > selected(before, range)) {
    visit([&](const unsigned int (&keys)[4], const int (&positions)[4]) {
      unsigned int counts[4], lane_counts = 0;
#pragma unroll
      for (int c = 0; c < 4; ++c) lane_counts += counts[c] = counts_of(keys[c], range);
      if (!__any_sync(kFullWarp, lane_counts != 0)) return;
      const unsigned int up_to_here = up_to_lane(lane_counts);
      const unsigned int here = before + up_to_here - lane_counts;
      int slot = selected(here, range), seen_in_range = here & kInRangeMask, slots[4], pages[4];
      bool takes[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        takes[c] = counts[c] > 1 || (counts[c] == 1 && seen_in_range < range.wanted);
        slots[c] = slot;
        slot += takes[c];
        seen_in_range += counts[c] == 1;
        pages[c] = takes[c] ? row_pages[positions[c] >> page_bits] : 0;  // four look-ups are on their way at once
      }
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (takes[c]) emit(slots[c], positions[c], pages[c]);
      before += __shfl_sync(kFullWarp, up_to_here, 31);
    });
  }
  if (kPdl) PDL_TRIGGER();
  if (!kAlone) cluster_sync<kCluster>();  // a block's shared memory has to outlive its readers
}
