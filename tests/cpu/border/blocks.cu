// The threads of a block work together: shared memory and barriers.
extern "C" __global__ void sum_blocks(const int* x, int* sums, int n) {
  __shared__ int part[128];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = part[0];
}

extern "C" __global__ void transpose(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[16][17];
  int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  if (row < rows && column < columns) tile[threadIdx.y][threadIdx.x] = x[row * columns + column];
  __syncthreads();
  int new_column = blockIdx.y * 16 + threadIdx.x, new_row = blockIdx.x * 16 + threadIdx.y;
  if (new_row < columns && new_column < rows) y[new_row * rows + new_column] = tile[threadIdx.x][threadIdx.y];
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[8][8], tb[8][8];
  int row = blockIdx.y * 8 + threadIdx.y, column = blockIdx.x * 8 + threadIdx.x;
  float sum = 0;
  for (int step = 0; step < n; step += 8) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + step + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(step + threadIdx.y) * n + column];
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* bins, int n) {
  extern __shared__ unsigned local[];
  for (int b = threadIdx.x; b < 16; b += blockDim.x) local[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i] / 16], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 16; b += blockDim.x) atomicAdd(&bins[b], local[b]);
}

extern "C" __global__ void prefix_sum(const int* x, int* y) {  // Hillis and Steele, two buffers in turn
  __shared__ int sums[2][64];
  int t = threadIdx.x, now = 0;
  sums[0][t] = x[t];
  __syncthreads();
  for (int step = 1; step < 64; step *= 2, now = 1 - now) {
    sums[1 - now][t] = sums[now][t] + (t >= step ? sums[now][t - step] : 0);
    __syncthreads();
  }
  y[t] = sums[now][t];
}

extern "C" __global__ void exclusive_prefix_sum(int* x) {  // Blelloch, up and down one tree
  __shared__ int tree[64];
  int t = threadIdx.x;
  tree[2 * t] = x[2 * t];
  tree[2 * t + 1] = x[2 * t + 1];
  int step = 1;
  for (int d = 32; d > 0; d /= 2, step *= 2) {
    __syncthreads();
    if (t < d) tree[step * (2 * t + 2) - 1] += tree[step * (2 * t + 1) - 1];
  }
  if (t == 0) tree[63] = 0;
  for (int d = 1; d < 64; d *= 2) {
    step /= 2;
    __syncthreads();
    if (t < d) {
      int left = step * (2 * t + 1) - 1, right = step * (2 * t + 2) - 1, old = tree[left];
      tree[left] = tree[right];
      tree[right] += old;
    }
  }
  __syncthreads();
  x[2 * t] = tree[2 * t];
  x[2 * t + 1] = tree[2 * t + 1];
}

extern "C" __global__ void bitonic_sort(int* x) {
  __shared__ int keys[64];
  int t = threadIdx.x;
  keys[t] = x[t];
  __syncthreads();
  for (int size = 2; size <= 64; size *= 2)
    for (int step = size / 2; step > 0; step /= 2) {
      int other = t ^ step;
      if (other > t && (keys[t] > keys[other]) == ((t & size) == 0)) {
        int key = keys[t];
        keys[t] = keys[other];
        keys[other] = key;
      }
      __syncthreads();
    }
  x[t] = keys[t];
}

extern "C" __global__ void softmax(const float* x, float* y, int columns) {
  __shared__ float part[64];
  const float* row = x + blockIdx.x * columns;
  float largest = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) largest = fmaxf(largest, row[i]);
  part[threadIdx.x] = largest;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - largest);
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = expf(row[i] - largest) / part[0];
}

extern "C" __global__ void game_of_life(const int* old, int* next, int n) {
  __shared__ int cells[10][10];
  for (int y = threadIdx.y; y < 10; y += 8)
    for (int x = threadIdx.x; x < 10; x += 8)
      cells[y][x] = old[(blockIdx.y * 8 + y + n - 1) % n * n + (blockIdx.x * 8 + x + n - 1) % n];
  __syncthreads();
  int alive = 0;
  for (int y = 0; y < 3; ++y)
    for (int x = 0; x < 3; ++x) alive += cells[threadIdx.y + y][threadIdx.x + x];
  int here = cells[threadIdx.y + 1][threadIdx.x + 1];
  next[(blockIdx.y * 8 + threadIdx.y) * n + blockIdx.x * 8 + threadIdx.x] = alive == 3 || (here && alive == 4);
}

extern "C" __global__ void multiply_sparse(const int* starts, const int* columns, const float* values, const float* x,
                                           float* y, int rows) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = starts[row]; i < starts[row + 1]; ++i) sum += values[i] * x[columns[i]];
  y[row] = sum;
}
