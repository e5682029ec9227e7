// defect: deadlock
// caught by: scheduler, as deadlock
// right: output[i] = input[i]
// Lane 0 waits for its warp, and the warp's other lanes wait for the whole block.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  int i = threadIdx.x;
#ifdef FIXED
  __syncwarp();
  __syncthreads();
#else
  if (i == 0)
    __syncwarp();  // HERE
  else
    __syncthreads();  // HERE
#endif
  output[i] = input[i];
}
