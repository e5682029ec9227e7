// Asynchronous copies.
#include <cuda_pipeline.h>
extern "C" __global__ void kernel(int* out) {
  __shared__ int tile[32];
  __pipeline_memcpy_async(&tile[threadIdx.x], &out[threadIdx.x], 4);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[threadIdx.x] = tile[threadIdx.x] + 1;
}
