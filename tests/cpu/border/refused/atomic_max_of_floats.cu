// An atomic that CUDA doesn't have.
extern "C" __global__ void kernel(float* out) { atomicMax(out, 1.0f); }
