// A block reduction from CUB.
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void kernel(int* out) {
  __shared__ typename cub::BlockReduce<int, 64>::TempStorage storage;
  int sum = cub::BlockReduce<int, 64>(storage).Sum(threadIdx.x);
  if (threadIdx.x == 0) *out = sum;
}
