"""The CPU build's scheduler: lanes together in a branch, threads and blocks that spin, and what fences order."""


import numpy as np
import pytest
import torch
from processes import interrupted

from helpers import compile_cuda, cpu, launch

i32 = np.int32
# Every mode in the order of the numbers, and the cheap one in the other orders too.
RUNS = [(mode, "forward") for mode in cpu.MODES] + [("fast", "reverse"), ("fast", "random"), ("checked", "reverse")]


@pytest.fixture(params=RUNS, ids=lambda run: "-".join(run))
def run(request):
    """A `with` block that sets a mode and an order."""
    mode, order = request.param
    if reason := cpu.missing_modes().get(mode):
        pytest.skip(f"mode {mode} needs {reason}")
    return lambda: cpu.mode(mode, order, seed=3)


def zeros(count):
    return torch.zeros(count, dtype=torch.int32)


def run_kernel(source, grid, block, args, device="cpu"):
    name = source.split("void ", 1)[1].split("(")[0]
    launch(compile_cuda("\n" + source, device=device).get_function(name), grid, block, args)


# ---- __activemask --------------------------------------------------------------------------------------

COMPACT = """extern "C" __global__ void compact(const int* x, int* out, int* count, int n) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t < n && x[t] > 0) {
    unsigned mask = __activemask();
    int lane = threadIdx.x % 32, leader = __ffs(mask) - 1, base = 0;
    if (lane == leader) base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(mask, base, leader);
    out[base + __popc(mask & ((1u << lane) - 1))] = x[t];
  }
}"""


def test_warp_aggregated_atomics_keep_every_element_once(run):
    x = torch.arange(256, dtype=torch.int32) * 7 % 5 - 1
    out, count = zeros(256), zeros(1)
    with run():
        run_kernel(COMPACT, 2, 128, (x, out, count, i32(250)))
    want = sorted(value for value in x[:250].tolist() if value > 0)
    assert count.item() == len(want)
    assert sorted(out[: len(want)].tolist()) == want and not out[len(want) :].any()


def test_the_active_lanes_are_those_in_the_same_branch(run):
    """Two branches, a lane that has returned, and one in neither: each sees the lanes at its own call."""
    source = """extern "C" __global__ void branches(unsigned* out) {
  int t = threadIdx.x;
  if (t == 9) return;
  if (t % 3 == 0) out[t] = __activemask();
  else if (t % 3 == 1)
    out[t] = __activemask();
  else if (t == 32 + 2) __syncwarp(1u << 2);
}"""
    out = zeros(64)
    with run():
        run_kernel(source, 1, 64, (out,))
    lanes = {
        (warp, rest): sum(1 << lane for lane in range(32) if (warp * 32 + lane) % 3 == rest and warp * 32 + lane != 9)
        for warp in range(2)
        for rest in range(3)
    }
    want = [0 if t == 9 or t % 3 == 2 else lanes[t // 32, t % 3] for t in range(64)]
    assert [value & 0xFFFFFFFF for value in out.tolist()] == want


def test_coalesced_threads_are_those_at_the_same_call(run):
    source = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void sizes(int* out) {
  int t = threadIdx.x;
  if (t % 4 == 0) out[t] = cg::coalesced_threads().size();
  else out[t] = cg::coalesced_threads().size();
}"""
    out = zeros(32)
    with run():
        run_kernel(source.replace("\n  else", "\n  else\n   "), 1, 32, (out,))
    assert out.tolist() == [24 if t % 4 else 8 for t in range(32)]


# ---- threads of one block that wait for one another by spinning ------------------------------------------

SPINS = {
    "volatile": ("while (*(volatile int*)(flags + t + step) == 0) {}", "*(volatile int*)(flags + t) = 1;"),
    "atomicAdd": ("while (atomicAdd(flags + t + step, 0) == 0) {}", "atomicExch(flags + t, 1);"),
    "atomicCAS": ("while (atomicCAS(flags + t + step, 1, 1) != 1) {}", "atomicCAS(flags + t, 0, 1);"),
    "nanosleep": ("while (*(volatile int*)(flags + t + step) == 0) __nanosleep(100);", "atomicExch(flags + t, 1);"),
    "fence": ("while (*(volatile int*)(flags + t + step) == 0) __threadfence();", "atomicAdd(flags + t, 1);"),
}


@pytest.mark.parametrize("spin", SPINS)
@pytest.mark.parametrize("step", [1, -1])
def test_a_chain_of_threads_passes_a_value_on(run, spin, step):
    """Each thread waits for its neighbour, which adds one: upwards and downwards, in every order of the threads."""
    wait, tell = SPINS[spin]
    source = f"""extern "C" __global__ void chain(int* flags, int* out, int first, int step) {{
  int t = threadIdx.x + 1;
  if (t != first) {{ {wait} }}
  __threadfence();
  out[t] = t == first ? 1 : out[t + step] + 1;
  __threadfence();
  {tell}
}}"""
    flags, out = zeros(66), zeros(66)
    with run():
        run_kernel(source, 1, 64, (flags, out, i32(64 if step == 1 else 1), i32(step)))
    want = list(range(1, 65))
    assert out[1:65].tolist() == (want if step == -1 else want[::-1])


@pytest.mark.parametrize("unlock", ["atomicExch(lock, 0);", "atomicSub(lock, 1);"])
def test_a_lock_keeps_threads_and_blocks_apart(run, unlock):
    source = f"""extern "C" __global__ void locked(int* lock, int* total) {{
  while (atomicCAS(lock, 0, 1) != 0) {{}}
  __threadfence();
  *total += 1;
  __threadfence();
  {unlock}
}}"""
    lock, total = zeros(1), zeros(1)
    with run():
        run_kernel(source, 3, 64, (lock, total))
    assert total.item() == 192 and lock.item() == 0


# ---- blocks that wait for one another ------------------------------------------------------------------

GRID_BARRIER = """extern "C" __global__ void rounds(int* count, int* row, int* out, int blocks) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = blockIdx.x + 1;
  __syncthreads();
  for (int round = 1; round <= 3; ++round) {
    row[blockIdx.x * blockDim.x + threadIdx.x] = mine * round;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(count, 1);
      while (WAIT < 2 * round * blocks - blocks) {}
      __threadfence();
    }
    __syncthreads();
    int sum = 0;
    for (int i = 0; i < blocks; ++i) sum += row[i * blockDim.x + threadIdx.x];
    if (threadIdx.x == 0) mine = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(count, 1);
      while (WAIT < 2 * round * blocks) {}
      __threadfence();
    }
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = mine;
}"""


@pytest.mark.parametrize("wait", ["atomicAdd(count, 0)", "*(volatile int*)count"])
@pytest.mark.parametrize("blocks", [2, 40])
def test_blocks_meet_at_a_barrier_of_the_whole_grid(run, wait, blocks):
    """Each block keeps its own shared memory while the others run."""
    count, row, out = zeros(1), zeros(blocks * 33), zeros(blocks * 33)
    with run():
        run_kernel(GRID_BARRIER.replace("WAIT", wait), blocks, 33, (count, row, out, i32(blocks)))
    first = blocks * (blocks + 1) // 2
    assert set(out.tolist()) == {first * blocks * 2 * blocks * 3}


def test_a_block_that_goes_on_finds_its_own_shared_variables(run):
    """Reached again, the same declaration means the same memory, although other blocks have reached it since."""
    source = """__device__ int* number() { __shared__ int own; return &own; }
extern "C" __global__ void meet(int* count, int* out) {
  if (threadIdx.x == 0) *number() = blockIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
    while (atomicAdd(count, 0) < gridDim.x) {}
  }
  __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = *number();
}"""
    out = zeros(5 * 40)
    with run():
        launch(compile_cuda("\n" + source, device="cpu").get_function("meet"), 5, 40, (zeros(1), out))
    assert out.tolist() == [block + 1 for block in range(5) for _ in range(40)]


LAST_BLOCK = """extern "C" __global__ void reduce(const int* x, VOLATILE int* sums, unsigned* ticket, int* out) {
  __shared__ bool last;
  __shared__ int part[64];
  int t = threadIdx.x;
  part[t] = x[blockIdx.x * 64 + t];
  __syncthreads();
  for (int half = 32; half; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t == 0) {
    sums[blockIdx.x] = part[0];
    FENCE
    last = atomicInc(ticket, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t == 0) {
    int sum = 0;
    for (int i = 0; i < gridDim.x; ++i) sum += sums[i];
    *out = sum;
    *ticket = 0;
  }
}"""


@pytest.mark.parametrize("volatile", ["", "volatile"])
def test_the_last_block_reduces_what_the_others_have_fenced(run, volatile):
    x = torch.arange(512, dtype=torch.int32)
    sums, ticket, out = zeros(8), zeros(1), zeros(1)
    source = LAST_BLOCK.replace("VOLATILE", volatile).replace("FENCE", "__threadfence();")
    with run():
        run_kernel(source, 8, 64, (x, sums, ticket, out))
    assert out.item() == 511 * 256


@pytest.mark.parametrize("barrier", ["__syncthreads();", "__syncwarp();"])
def test_fences_before_a_barrier_count_for_the_thread_that_publishes(run, barrier):
    source = f"""extern "C" __global__ void hand_over(int* data, int* flag, int* out) {{
  int t = threadIdx.x;
  if (blockIdx.x == 0) {{
    data[t] = t + 1;
    __threadfence();
    {barrier}
    if (t == 5) atomicExch(flag, 1);
  }} else {{
    if (t == 7) while (atomicAdd(flag, 0) == 0) {{}}
    {barrier}
    __threadfence();
    out[t] = data[31 - t];
  }}
}}"""
    out = zeros(32)
    with run():
        run_kernel(source, 2, 32, (zeros(32), zeros(1), out))
    assert out.tolist() == list(range(32, 0, -1))


RACES = {
    "last block": (LAST_BLOCK.replace("VOLATILE", "").replace("FENCE", ""), 8, 64, (512, 8, 1, 1)),
    "unlock": (
        """extern "C" __global__ void locked(int* lock, int* total) {
  while (atomicCAS(lock, 0, 1) != 0) {}
  __threadfence();
  *total += 1;
  atomicExch(lock, 0);
}""",
        2,
        32,
        (1, 1),
    ),
    "written behind the fence": (
        """extern "C" __global__ void late(int* data, int* flag, int* out) {
  if (blockIdx.x == 0) {
    __threadfence();
    data[0] = 7;
    atomicExch(flag, 1);
  } else {
    while (atomicAdd(flag, 0) == 0) {}
    __threadfence();
    out[0] = data[0];
  }
}""",
        2,
        1,
        (1, 1, 1),
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_a_missing_fence_is_a_race(name):
    if reason := cpu.missing_modes().get("tsan"):
        pytest.skip(f"mode tsan needs {reason}")
    source, grid, block, sizes = RACES[name]
    with cpu.mode("tsan"), pytest.raises(cpu.KernelFault) as caught:
        run_kernel(source, grid, block, tuple(zeros(size) for size in sizes))
    assert caught.value.kind == "data race"


# ---- what can never end --------------------------------------------------------------------------------


def fault_of(source, grid, block, *sizes):
    with pytest.raises(cpu.KernelFault) as caught:
        run_kernel(source, grid, block, tuple(zeros(size) for size in sizes))
    return caught.value


@pytest.mark.parametrize("wait", ["*(volatile int*)flag == 0", "atomicAdd(flag, 0) == 0"])
def test_a_flag_that_nobody_sets_is_a_fault_with_its_line(run, wait):
    source = f"""extern "C" __global__ void never(int* flag) {{
  if (threadIdx.x == 5)
    while ({wait}) {{}}
  __syncthreads();
}}"""
    with run():
        fault = fault_of(source, 1, 64, 1)
    assert (fault.kind, fault.line, fault.thread, fault.block) == ("endless spin", 4, (5, 0, 0), (0, 0, 0))
    assert "1 thread, this one first, spins on a value that no running thread changes" in str(fault)
    assert "63 wait, the first, thread (0, 0, 0) of block (0, 0, 0), in __syncthreads at line 5" in str(fault)


def test_blocks_for_which_there_is_no_room_are_named():
    source = """extern "C" __global__ void all(int* count, int blocks) {
  if (threadIdx.x == 0) atomicAdd(count, 1);
  while (atomicAdd(count, 0) < blocks) {}
}"""
    with pytest.raises(cpu.KernelFault) as caught:
        run_kernel(source, 200, 32, (zeros(1), i32(200)))
    assert (caught.value.kind, caught.value.line) == ("absent block", 4)
    assert "132 blocks are under way" in str(caught.value)


@pytest.mark.parametrize("mode", ["fast", "checked", "msan"])
def test_a_thread_that_works_for_long_is_not_taken_for_one_that_spins(mode):
    """For longer than the patience with spinners, in a loop whose state changes: no fault, and the right answer."""
    if reason := cpu.missing_modes().get(mode):
        pytest.skip(f"mode {mode} needs {reason}")
    source = """extern "C" __global__ void work(int* flag, unsigned* out, int n) {
  if (threadIdx.x == 0) {
    unsigned x = 1;
    for (int i = 0; i < n; ++i) x = x * 1664525u + 1013904223u;
    out[0] = x;
    __threadfence();
    atomicExch(flag, 1);
  } else {
    while (*(volatile int*)flag == 0) {}
    __threadfence();
    out[threadIdx.x] = out[0];
  }
}"""
    steps = 300_000_000
    out = zeros(4)
    with cpu.mode(mode):
        run_kernel(source, 1, 4, (zeros(1), out, i32(steps)))
    x, a, c, n = 1, 1664525, 1013904223, steps  # the generator's n-th step, by squaring
    while n:
        if n & 1:
            x = (x * a + c) % 2**32
        a, c, n = a * a % 2**32, c * (a + 1) % 2**32, n >> 1
    assert [value & 0xFFFFFFFF for value in out.tolist()] == [x] * 4


def test_ctrl_c_names_the_line_of_an_endless_loop():
    program = """
import numpy as np, torch
from helpers import compile_cuda, launch
source = '''
extern "C" __global__ void endless(int* x) {
  for (int i = 0;; ++i)
    atomicAdd(x, i);
}'''
function = compile_cuda(source, device="cpu").get_function("endless")
print("ready", flush=True)
try:
    launch(function, 1, 1, (torch.zeros(1, dtype=torch.int32),))
except KeyboardInterrupt as stop:
    print(stop)
"""
    assert "endless was interrupted at inline.cu:4 (block (0, 0, 0), thread (0, 0, 0))" in interrupted(program)
