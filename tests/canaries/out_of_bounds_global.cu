// defect: out of bounds, global
// caught by: checked, as out of bounds
// right: output[i] = input[max(i - 1, 0)]
extern "C" __global__ void canary(const int* input, int* output, int n) {
  int i = threadIdx.x;
#ifdef FIXED
  int before = max(i - 1, 0);
#else
  int before = i - 1;
#endif
  output[i] = input[before];  // HERE
}
