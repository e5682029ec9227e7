// defect: missing __syncwarp
// caught by: tsan, as data race
// right: output[i] = input[i ^ 1]
// Neighbours of one warp exchange values. A warp's lanes don't run in lockstep since Volta.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int tile[64];
  int i = threadIdx.x;
  tile[i] = input[i];  // HERE
#ifdef FIXED
  __syncwarp();
#endif
  output[i] = tile[i ^ 1];  // HERE
}
