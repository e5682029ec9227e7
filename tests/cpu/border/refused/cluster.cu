// Blocks in clusters.
extern "C" __global__ void __cluster_dims__(2, 1, 1) kernel(int* out) { out[blockIdx.x] = 1; }
