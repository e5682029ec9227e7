// Every atomic, on each type that CUDA has it for. 64 threads in 2 blocks.
extern "C" __global__ void atomics(int* i, unsigned* u, unsigned long long* ull, long long* ll, float* f, double* d) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&i[0], t);
  atomicSub(&i[1], t);
  atomicMax(&i[2], t - 70);
  atomicMin(&i[3], -t);
  atomicAnd(&i[4], ~(1 << t % 8));
  atomicOr(&i[5], 1 << t % 8);
  atomicXor(&i[6], 1 << t % 7);
  atomicAdd(&u[0], 1u);
  atomicInc(&u[1], 9);
  atomicDec(&u[2], 9);
  atomicMax(&u[3], 0xfffffff0u + t % 4);
  atomicAdd(&ull[0], 1ull << 33);
  atomicMax(&ull[1], (unsigned long long)t << 40);
  atomicOr(&ull[2], 1ull << t);
  atomicMin(&ll[0], -(1ll << 40) - t);
  atomicAdd(&f[0], 0.5f);
  atomicAdd(&d[0], 0.25);
  atomicAdd_block(&i[7], 1);
}

extern "C" __global__ void locks_of_cas(int* lowest, float* largest, const float* x) {
  int t = threadIdx.x, old = atomicAdd(lowest, 0), seen;  // a minimum by compare and swap
  while (t < old && (seen = atomicCAS(lowest, old, t)) != old) old = seen;
  int bits = atomicAdd((int*)largest, 0);  // a maximum of floats, as every course has it
  while (__int_as_float(bits) < x[t]) {
    int before = atomicCAS((int*)largest, bits, __float_as_int(x[t]));
    if (before == bits) break;
    bits = before;
  }
}

extern "C" __global__ void handed_out(int* next, int* owner, float* last) {
  int place = atomicAdd(next, 1);
  owner[place] = 1 + blockIdx.x * blockDim.x + threadIdx.x;
  atomicExch(last, 3.5f);
}
