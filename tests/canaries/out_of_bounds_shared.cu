// defect: out of bounds, shared
// caught by: checked, as out of bounds
// right: output[i] = input[(i + 1) % n]
extern "C" __global__ void canary(const int* input, int* output, int n) {
  __shared__ int tile[64];
  int i = threadIdx.x;
  tile[i] = input[i];
  __syncthreads();
  const int* next = tile + i + 1;
#ifdef FIXED
  if (i + 1 == n) next = tile;
#endif
  output[i] = *next;  // HERE
}
