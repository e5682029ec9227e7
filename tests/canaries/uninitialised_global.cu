// defect: uninitialised global read
// caught by: msan, as uninitialised value
// right: output[i] = i
// `input` was allocated and never written: the test marks it so.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  int i = threadIdx.x;
  output[i] = i;
#ifndef FIXED
  if (input[i] < 0) __trap();  // HERE
#endif
}
