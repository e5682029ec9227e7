// An atomic of libcu++.
#include <cuda/atomic>
extern "C" __global__ void kernel(int* out) { cuda::atomic_ref<int, cuda::thread_scope_device>(*out).fetch_add(1); }
