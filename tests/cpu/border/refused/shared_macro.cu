// A macro that declares a shared variable.
#define TILE(name) __shared__ int name[32]
extern "C" __global__ void kernel(int* out) {
  TILE(tile);
  tile[threadIdx.x] = 1;
  out[threadIdx.x] = tile[threadIdx.x];
}
