// The host's part of a program.
extern "C" __global__ void kernel(int* out) { out[threadIdx.x] = 1; }
int main() {
  int* out;
  cudaMalloc(&out, 128);
  kernel<<<1, 32>>>(out);
}
