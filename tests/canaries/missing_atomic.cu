// defect: missing atomic
// caught by: tsan, as data race
// right: output[i] = n
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
#ifdef FIXED
  atomicAdd(&count, 1);
#else
  count += 1;  // HERE
#endif
  __syncthreads();
  output[threadIdx.x] = count;
}
