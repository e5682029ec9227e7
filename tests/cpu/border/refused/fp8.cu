// Eight-bit floats.
#include <cuda_fp8.h>
extern "C" __global__ void kernel(__nv_fp8_e4m3* out) { out[threadIdx.x] = __nv_fp8_e4m3(1.0f); }
