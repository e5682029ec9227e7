// Cooperative groups: the block, tiles of a warp, groups that a branch or a label makes.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__device__ int sum_of_group(cg::thread_group group, int* buffer, int value) {
  for (int i = group.size() / 2; i > 0; i /= 2) {
    buffer[group.thread_rank()] = value;
    group.sync();
    if (group.thread_rank() < i) value += buffer[group.thread_rank() + i];
    group.sync();
  }
  return value;
}

extern "C" __global__ void sum_any_group(const int* x, int* sums) {
  __shared__ int buffer[64];
  cg::thread_block block = cg::this_thread_block();
  int total = sum_of_group(block, buffer, x[block.thread_rank()]);
  cg::thread_group tile = cg::tiled_partition(block, 16);
  int start = block.thread_rank() / 16 * 16;
  int part = sum_of_group(tile, buffer + start, x[block.thread_rank()]);
  if (block.thread_rank() == 0) sums[0] = total;
  if (tile.thread_rank() == 0) sums[1 + start / 16] = part;
}

extern "C" __global__ void tile_shuffles(const int* x, int* out) {
  cg::thread_block block = cg::this_thread_block();
  cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
  int i = block.thread_rank(), n = block.num_threads(), v = x[i];
  out[i] = tile.shfl(v, 2);
  out[n + i] = tile.shfl_down(v, 1);
  out[2 * n + i] = tile.shfl_up(v, 3);
  out[3 * n + i] = tile.shfl_xor(v, 5);
  out[4 * n + i] = tile.ballot(v % 2) + 1000 * tile.any(v == 3) + 10000 * tile.all(v >= 0);
  auto quarter = cg::tiled_partition<4>(tile);
  out[5 * n + i] = tile.thread_rank() + 10 * tile.meta_group_rank() + 1000 * tile.meta_group_size() +
                   10000 * quarter.meta_group_rank() + 100000 * quarter.size();
}

extern "C" __global__ void tile_results(const int* x, const float* f, int* out, float* sums) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int i = threadIdx.x, n = blockDim.x;
  out[i] = cg::reduce(tile, x[i], cg::plus<int>());
  out[n + i] = cg::reduce(tile, x[i], cg::less<int>());
  out[2 * n + i] = cg::reduce(tile, x[i], cg::greater<int>());
  out[3 * n + i] = cg::inclusive_scan(tile, x[i]);
  out[4 * n + i] = cg::exclusive_scan(tile, x[i], cg::plus<int>());
  out[5 * n + i] = cg::reduce(tile, (unsigned)x[i], cg::bit_xor<unsigned>());
  sums[i] = cg::reduce(tile, f[i], cg::plus<float>());
}

extern "C" __global__ void groups_by_label(const int* x, int* out) {
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  int i = threadIdx.x;
  auto same = cg::labeled_partition(warp, x[i] % 3);
  out[i] = same.size() * 100 + same.thread_rank();
  out[32 + i] = cg::reduce(same, x[i], cg::plus<int>());
  auto side = cg::binary_partition(warp, x[i] > 15);
  out[64 + i] = side.shfl(x[i], 0) + 100 * side.ballot(i % 2 == 0);
}

extern "C" __global__ void places(unsigned* out) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::sync(block);
  out[grid.thread_rank()] = grid.size() * 1000 + block.group_index().x * 100 + block.thread_index().y * 10 + block.thread_rank();
}

struct Point { double x, y; int id; };
extern "C" __global__ void shuffle_structs(double* out) {
  auto tile = cg::tiled_partition<4>(cg::this_thread_block());
  Point point = {threadIdx.x + 0.5, threadIdx.x * 2.0, (int)threadIdx.x};
  Point other = tile.shfl_xor(point, 3);
  out[threadIdx.x] = other.x + 100 * other.y + 10000 * other.id;
}
