// A header of the host.
#include <vector>
extern "C" __global__ void kernel(int* out) { out[threadIdx.x] = 1; }
