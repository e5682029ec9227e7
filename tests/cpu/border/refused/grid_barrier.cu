// A barrier of all blocks.
#include <cooperative_groups.h>
extern "C" __global__ void kernel(int* out) {
  out[threadIdx.x] = 1;
  cooperative_groups::this_grid().sync();
}
