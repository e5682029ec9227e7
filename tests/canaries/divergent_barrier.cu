// defect: divergent barrier
// caught by: scheduler, as divergent barrier
// right: output[i] = input[n - 1 - i]
// Half the block waits at one barrier, half at another.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int tile[64];
  int i = threadIdx.x;
  tile[i] = input[i];
#ifdef FIXED
  __syncthreads();
  output[i] = tile[n - 1 - i];
#else
  if (i < 32) {
    __syncthreads();  // HERE
    output[i] = tile[n - 1 - i];
  } else {
    __syncthreads();  // HERE
    output[i] = tile[n - 1 - i];
  }
#endif
}
