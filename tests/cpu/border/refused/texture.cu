// A texture.
extern "C" __global__ void kernel(float* out, cudaTextureObject_t picture) { out[threadIdx.x] = tex2D<float>(picture, threadIdx.x, 0); }
