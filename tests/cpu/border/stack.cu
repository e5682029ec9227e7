// Local memory: large arrays, recursion, pointers to functions, lambdas.
extern "C" __global__ void large_local_array(int* out) {  // 96 KiB a thread
  int cells[24576];
  for (int i = 0; i < 24576; ++i) cells[i] = i ^ threadIdx.x;
  __syncthreads();
  int sum = 0;
  for (int i = threadIdx.x; i < 24576; i += 1024) sum += cells[i];
  out[threadIdx.x] = sum;
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x); }

__device__ int add(int a, int b) { return a + b; }
__device__ int multiply(int a, int b) { return a * b; }
extern "C" __global__ void function_pointers(int* out) {
  int (*operations[2])(int, int) = {add, multiply};
  out[threadIdx.x] = operations[threadIdx.x % 2](threadIdx.x, 10);
}

extern "C" __global__ void lambdas(int* out, int n) {
  int scale = 3;
  auto scaled = [=](int x) { return scale * x + n; };
  out[threadIdx.x] = scaled(threadIdx.x);
}

struct Shape {
  __device__ virtual int area() const { return 0; }
};
struct Square : Shape {
  int side;
  __device__ Square(int side) : side(side) {}
  __device__ int area() const override { return side * side; }
};
extern "C" __global__ void virtual_calls(int* out) {
  Square square(threadIdx.x);
  const Shape& shape = square;
  out[threadIdx.x] = shape.area();
}
