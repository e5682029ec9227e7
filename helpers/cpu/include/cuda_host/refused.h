// Legal CUDA that the CPU build lacks: an error in words, at the line that uses it. Behind every other header.
#pragma once

#define CUDA_HOST_PRAGMA(text) _Pragma(#text)

#define asm CUDA_HOST_PRAGMA(GCC error                                                                           \
    "the CPU build has no PTX: put this asm into a macro that is empty here, as PDL_WAIT in kernels/store_cache.cu") \
    __asm__

#define CUDA_HOST_NO_TEXTURES CUDA_HOST_PRAGMA(GCC error                                                         \
    "the CPU build has no textures and no surfaces: read the array through a pointer")
#define cudaTextureObject_t CUDA_HOST_NO_TEXTURES unsigned long long
#define cudaSurfaceObject_t CUDA_HOST_NO_TEXTURES unsigned long long

#define __cluster_dims__(...) CUDA_HOST_PRAGMA(GCC error                                                         \
    "the CPU build has no clusters: blocks run one after another")
#define __cvta_generic_to_shared(pointer) (CUDA_HOST_PRAGMA(GCC error                                            \
    "the CPU build has no shared address space: it serves PTX alone") 0ull)
