// store_cache: copy each row of K and V to the cache slot that `indices` names.
//
//   k_cache[indices[row]] = k[row];   v_cache[indices[row]] = v[row];      for every row in 0 .. num_rows-1
//
// It is a copy of bytes, so one kernel serves fp32, fp16, bf16 and fp8.
//
// The story, in one argument:
//   reserved_skip_index = -1   before: padding rows of a CUDA graph write whatever they hold into slot 0
//   reserved_skip_index =  0   the fix (sgl-project/sglang#32477): rows that aim at slot 0 are not copied,
//                              yet the kernel still signals its dependents
//
// Shapes of work: kSplit warps share one row, each lane moves kVectorBytes at a time. 128 threads a block.
//   launch: store_cache<int, 4, 16, false><<<ceil(num_rows * 4 / 4 warps), 128>>>(...)

// Programmatic dependent launch (PDL) lets the next kernel start before this one ends. Two instructions rule it:
// wait until the previous kernel's writes are visible; allow the next kernel to start. Older GPUs and the CPU
// run kernels one after another, so there both are nothing.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define PDL_WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#define PDL_TRIGGER() asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
#else
#define PDL_WAIT()
#define PDL_TRIGGER()
#endif

template <int kBytes> struct VectorOf;
template <> struct VectorOf<16> { using type = uint4; };
template <> struct VectorOf<8> { using type = uint2; };
template <> struct VectorOf<4> { using type = unsigned int; };

// What a lane holds of its warp's share of a K row and of a V row: two vectors of each, so that four requests are on
// their way to memory while it waits, not one. Vector i and i + 32 of the share.
template <typename Vector>
struct Share {
  Vector k_first, k_second, v_first, v_second;

  __device__ void load(const char* k, const char* v, int k_vectors, int v_vectors, int i) {
    if (i < k_vectors) k_first = reinterpret_cast<const Vector*>(k)[i];
    if (i + 32 < k_vectors) k_second = reinterpret_cast<const Vector*>(k)[i + 32];
    if (i < v_vectors) v_first = reinterpret_cast<const Vector*>(v)[i];
    if (i + 32 < v_vectors) v_second = reinterpret_cast<const Vector*>(v)[i + 32];
  }

  __device__ void store(char* k_slot, char* v_slot, int k_vectors, int v_vectors, int i) const {
    if (i < k_vectors) reinterpret_cast<Vector*>(k_slot)[i] = k_first;
    if (i + 32 < k_vectors) reinterpret_cast<Vector*>(k_slot)[i + 32] = k_second;
    if (i < v_vectors) reinterpret_cast<Vector*>(v_slot)[i] = v_first;
    if (i + 32 < v_vectors) reinterpret_cast<Vector*>(v_slot)[i + 32] = v_second;
  }
};

template <typename Index, int kSplit, int kVectorBytes, bool kPdl>
__global__ void store_cache(const char* __restrict__ k,           // [num_rows] rows of k_bytes, k_stride bytes apart
                            const char* __restrict__ v,           // [num_rows] rows of v_bytes, v_stride bytes apart
                            char* __restrict__ k_cache,           // [size_limit] slots, k_cache_stride bytes apart
                            char* __restrict__ v_cache,           // [size_limit] slots, v_cache_stride bytes apart
                            const Index* __restrict__ indices,    // [num_rows] slot of each row
                            int num_rows, int k_bytes, int v_bytes,
                            long long k_stride, long long v_stride,
                            long long k_cache_stride, long long v_cache_stride,
                            long long size_limit, long long reserved_skip_index) {
  const int warp = static_cast<int>((static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) / 32);
  const int lane = threadIdx.x % 32;
  const int row = warp / kSplit;
  const int part = warp % kSplit;  // which share of the row this warp copies

  if (kPdl) PDL_WAIT();  // the previous kernel may still be writing k, v and indices
  if (row < num_rows) {
    const int k_share = k_bytes / kSplit, v_share = v_bytes / kSplit;
    const int k_vectors = k_share / kVectorBytes, v_vectors = v_share / kVectorBytes;
    k += row * k_stride + part * k_share;
    v += row * v_stride + part * v_share;
    // Reading needs no slot, so the row is on its way while the slot is still awaited: one wait for both.
    const long long slot = indices[row];
    Share<typename VectorOf<kVectorBytes>::type> share;
    share.load(k, v, k_vectors, v_vectors, lane);
    // A slot outside the cache is an error whatever is skipped: -1 as an index does not mean "skip".
    if (slot < 0 || slot >= size_limit) __trap();
    if (slot != reserved_skip_index) {
      char* k_slot = k_cache + slot * k_cache_stride + part * k_share;
      char* v_slot = v_cache + slot * v_cache_stride + part * v_share;
      share.store(k_slot, v_slot, k_vectors, v_vectors, lane);
      for (int i = lane + 64; i < max(k_vectors, v_vectors); i += 64) {
        share.load(k, v, k_vectors, v_vectors, i);
        share.store(k_slot, v_slot, k_vectors, v_vectors, i);
      }
    }
  }
  // Outside the predicate: the next kernel waits for every block of this one, skipped rows or not.
  if (kPdl) PDL_TRIGGER();
}
