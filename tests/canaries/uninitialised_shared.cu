// defect: uninitialised shared read
// caught by: msan, as uninitialised value
// right: output[i] = input[i] + input[0]
// The lower half of the tile is never written, and the last warp decides by what it finds there.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int tile[64];
  int i = threadIdx.x;
#ifdef FIXED
  tile[i] = input[0];
#else
  if (i < 32) tile[i] = input[0];
#endif
  __syncthreads();
  output[i] = input[i];
  if (tile[i] >= 0) output[i] += tile[i];  // HERE
}
