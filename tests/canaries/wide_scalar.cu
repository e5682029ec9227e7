// defect: narrow scalar passed wide
// caught by: signature, as TypeError
// right: output[i] = n
// The kernel takes a 4-byte n; the caller passes 8 bytes. A GPU reads the low half and whatever follows it.
extern "C" __global__ void canary(const int* input, int* output, int n) {
  output[threadIdx.x] = n;
}
