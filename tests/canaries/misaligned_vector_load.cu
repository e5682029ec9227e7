// defect: misaligned vector load
// caught by: checked, as misaligned address
// right: output[i] = input[i + 4]
extern "C" __global__ void canary(const int* input, int* output, int n) {
#ifdef FIXED
  int first = 4;
#else
  int first = 3;
#endif
  int i = threadIdx.x;
  if (i < n / 4 - 1) {
    int4 four = *reinterpret_cast<const int4*>(input + first + 4 * i);  // HERE
    output[4 * i] = four.x;
    output[4 * i + 1] = four.y;
    output[4 * i + 2] = four.z;
    output[4 * i + 3] = four.w;
  }
}
