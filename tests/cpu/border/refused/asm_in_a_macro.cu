// PTX behind a macro, in a template.
#define WAIT() asm("bar.sync 0;")
template <int N> __device__ void wait() { WAIT(); }
extern "C" __global__ void kernel(int* out) {
  wait<1>();
  out[threadIdx.x] = 1;
}
