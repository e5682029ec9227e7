// An intrinsic that the CPU build has no code for.
extern "C" __global__ void kernel(unsigned* out) { out[threadIdx.x] = __vadd4(out[threadIdx.x], 0x01010101); }
