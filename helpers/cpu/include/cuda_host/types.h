// Qualifiers, built-in variables and vector types of CUDA C++ for a host compiler.
#pragma once

// A Volta, whose threads are as independent as the fibers here. What asks for newer ones has PTX.
#define __CUDA_ARCH__ 700
// For what has to differ on the CPU build.
#define CUDA_ON_HOST 1

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
// Empty, because the C++ library's headers spell an attribute like this.
#define __noinline__
#define __align__(bytes) __attribute__((aligned(bytes)))

#define CUDA_HOST_VECTOR(scalar, name, two, four)                                        \
    struct __align__(sizeof(scalar)) name##1 { scalar x; };                              \
    struct __align__(two) name##2 { scalar x, y; };                                      \
    struct name##3 { scalar x, y, z; };                                                  \
    struct __align__(four) name##4 { scalar x, y, z, w; };                               \
    inline name##1 make_##name##1(scalar x) { return {x}; }                              \
    inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                 \
    inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }    \
    inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }

CUDA_HOST_VECTOR(signed char, char, 2, 4)
CUDA_HOST_VECTOR(unsigned char, uchar, 2, 4)
CUDA_HOST_VECTOR(short, short, 4, 8)
CUDA_HOST_VECTOR(unsigned short, ushort, 4, 8)
CUDA_HOST_VECTOR(int, int, 8, 16)
CUDA_HOST_VECTOR(unsigned int, uint, 8, 16)
CUDA_HOST_VECTOR(long, long, 16, 16)
CUDA_HOST_VECTOR(unsigned long, ulong, 16, 16)
CUDA_HOST_VECTOR(long long, longlong, 16, 16)
CUDA_HOST_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDA_HOST_VECTOR(float, float, 8, 16)
CUDA_HOST_VECTOR(double, double, 16, 16)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    operator uint3() const { return {x, y, z}; }
};

// The scheduler sets these before a thread runs on.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;
