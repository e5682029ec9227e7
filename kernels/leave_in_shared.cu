// leave_in_shared: fill a block's shared memory with a pattern, and end.
//
// Shared memory is not cleared between kernels: the next block on the same multiprocessor finds what this one left.
// A server's kernels do so all the time without meaning to; this one does it on purpose, so that what an unwritten
// slot holds is known.
//
//   launch: leave_in_shared<<<at least one block a multiprocessor, 256, 4 * num_words>>>(...)

extern "C" __global__ void leave_in_shared(const unsigned int* __restrict__ pattern,  // [num_pattern]
                                           int num_pattern, int num_words) {
  extern __shared__ unsigned int words[];
  volatile unsigned int* left_behind = words;  // volatile: nobody reads it here, and it must be written all the same
  for (int i = threadIdx.x; i < num_words; i += blockDim.x) left_behind[i] = pattern[i % num_pattern];
}
