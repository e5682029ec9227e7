// Integer types whose header NVRTC lacks.
extern "C" __global__ void kernel(uint32_t* out) { out[threadIdx.x] = 1; }
