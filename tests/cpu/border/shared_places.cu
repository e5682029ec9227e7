// Where, and how, a __shared__ variable can be declared.
#define SHARED __shared__
#define ALIGNED_SHARED static __shared__ __align__(16)

__shared__ int counts[32], total;
extern __shared__ float dynamic[];

template <typename T> struct Pair { T first, second; };

__device__ void count(int t) {
  if (t == 0) total = 0;
  counts[t] = t * t;
  __syncthreads();
  atomicAdd(&total, counts[t]);
  __syncthreads();
}
__device__ int twice(const int* counts, int i) { return 2 * counts[i]; }  // its own `counts`

extern "C" {
__global__ void file_scope(int* out) {
  count(threadIdx.x);
  out[blockIdx.x * 32 + threadIdx.x] = total + counts[31 - threadIdx.x] + twice(counts, threadIdx.x) + sizeof(counts) / sizeof(counts[0]);
}
__global__ void file_scope_dynamic(float* out, int n) {
  dynamic[threadIdx.x] = threadIdx.x * 0.5f;
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = dynamic[n - 1 - threadIdx.x];
}
}

extern "C" __global__ void behind_a_macro(int* out) {
  SHARED int row[32];
  ALIGNED_SHARED unsigned char bytes[64];
  row[threadIdx.x] = reinterpret_cast<unsigned long long>(bytes) % 16;
  bytes[2 * threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = row[31 - threadIdx.x] + bytes[62 - 2 * threadIdx.x];
}

extern "C" __global__ void types_in_place(int* out) {
  __shared__ struct { int key; float weight; } best, all[32];
  __shared__ union Word { float as_float; int as_int; } words[32];
  float __shared__ after_the_type[32];
  __shared__ volatile int flag;
  __shared__ Pair<int> pairs[32];
  int t = threadIdx.x;
  all[t].key = t;
  words[t].as_float = 1.0f;
  after_the_type[t] = t;
  pairs[t] = {t, -t};
  if (t == 3) best.key = 7, best.weight = 0.5f, flag = 1;
  __syncthreads();
  Word word = words[31 - t];
  out[blockIdx.x * 32 + t] = all[31 - t].key + best.key + (int)(best.weight * 4) + (word.as_int == 0x3f800000) * 100 +
           (int)after_the_type[31 - t] * 1000 + flag + pairs[31 - t].second * 100000;
}

template <typename T>
__global__ void dynamic_of_a_template(T* x, int n) {
  extern __shared__ __align__(16) unsigned char bytes[];
  T* items = reinterpret_cast<T*>(bytes);
  items[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = items[(threadIdx.x + 1) % n];
}
