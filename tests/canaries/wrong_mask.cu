// defect: wrong mask
// caught by: scheduler, as absent lanes
// right: output[i] = i % 32 < 16
// Half a warp votes, with a mask that names the whole warp. The other half waits elsewhere.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  int lane = threadIdx.x % 32, votes = 0;
#ifdef FIXED
  unsigned mask = 0x0000ffff;
#else
  unsigned mask = 0xffffffff;
#endif
  if (lane < 16) votes = __ballot_sync(mask, true) != 0;  // HERE
  __syncwarp();  // HERE
  output[threadIdx.x] = votes;
}
