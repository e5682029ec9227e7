// A lambda with an annotation.
extern "C" __global__ void kernel(int* out) {
  auto twice = [] __device__(int x) { return 2 * x; };
  out[threadIdx.x] = twice(threadIdx.x);
}
