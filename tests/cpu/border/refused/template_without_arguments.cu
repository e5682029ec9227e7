// A template is no kernel before it has its arguments.
template <typename T> __global__ void kernel(T* out) { out[threadIdx.x] = 1; }
