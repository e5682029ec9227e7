// defect: missing __syncthreads
// caught by: tsan, as data race
// right: output[i] = input[n - 1 - i]
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int tile[64];
  int i = threadIdx.x;
  tile[i] = input[i];  // HERE
#ifdef FIXED
  __syncthreads();
#endif
  output[i] = tile[n - 1 - i];  // HERE
}
