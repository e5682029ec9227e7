"""The checkers of lesson 30 accept what is right, and refuse what readers get wrong."""

from answers import accept_and_refuse

from helpers import cpu
from helpers.exercises import tools as exercises_tools

HEAD = 'extern "C" __global__ void ring(const int* x, int* y, int rounds) {\n'
ONE_THREAD = (
    HEAD
    + """
  __shared__ int tile[64];
  if (threadIdx.x) return;
  for (int i = 0; i < 64; ++i) tile[i] = x[i];
  for (int round = 0; round < rounds; ++round) {
    const int last = tile[63];
    for (int i = 63; i > 0; --i) tile[i] += tile[i - 1];
    tile[0] += last;
  }
  for (int i = 0; i < 64; ++i) y[i] = tile[i];
}
"""
)
A_ROW_A_ROUND = (
    HEAD
    + """
  __shared__ int v[4][64];
  const int i = threadIdx.x;
  v[0][i] = x[i];
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    v[round + 1][i] = v[round][i] + v[round][(i + 63) % 64];
    __syncthreads();
  }
  y[i] = v[rounds][i];
}
"""
)


def ring(before="", between=""):
    text = exercises_tools.RING_KERNEL.replace("    const int left", f"    {before}\n    const int left")
    return text.replace("    tile[i] += left", f"    {between}\n    tile[i] += left")


def short(rows, k, cap):
    return [k - cap - above for above, in_bin in rows if in_bin > cap and above < k - cap]


def with_spaces():
    text = exercises_tools.RING_KERNEL.replace("= x[i];", "= x[i];\n  __syncthreads();  // all are there")
    text = text.replace("+= left;", "+= left;\n    __syncthreads ( );")
    return text.replace("    tile[i] += left", "    /* all have read */ __syncthreads();\n    tile[i] += left")


RIGHT = {
    "count_short": [
        short,
        lambda rows, k, cap: [k - a - cap for a, b in rows if k - a > cap and b > cap],
        lambda rows, k, cap: [k - a - min(b, cap) for a, b in rows if k - a - min(b, cap) > 0],
    ],
    "race_free": [ring("__syncthreads();", "__syncthreads();"), with_spaces()],
}
WRONG = {
    "count_short": {
        "negative ones too": lambda rows, k, cap: [k - cap - above for above, in_bin in rows if in_bin > cap],
        "all below k": lambda rows, k, cap: [k - cap - above for above, in_bin in rows if above < k and in_bin > cap],
        "rows that fit": lambda rows, k, cap: [k - above - cap for above, in_bin in rows if k - above > cap // 2],
        "one that needs none": lambda rows, k, cap: (
            [k - cap - above for above, in_bin in rows if in_bin > cap and above <= k - cap]
        ),
        "the cap forgotten": lambda rows, k, cap: (
            [k - above for above, in_bin in rows if in_bin > cap and above < k - cap]
        ),
        "learnt by heart": lambda rows, k, cap: (
            [1024 - above for above, in_bin in rows if in_bin > 1024 and above < 1024]
        ),
        "a sum": lambda rows, k, cap: (
            sum(k - cap - above for above, in_bin in rows if in_bin > cap and above < k - cap)
        ),
        "nothing": lambda rows, k, cap: ...,
    },
    "race_free": {
        "another kernel, by one thread": (ONE_THREAD, "only add"),
        "another kernel, a row a round": (A_ROW_A_ROUND, "20 rounds|reports a"),
        "no barrier": ring("", ""),
        "only before": ring("__syncthreads();", ""),
        "only between": ring("", "__syncthreads();"),
        "barriers of a warp": ring("__syncwarp();", "__syncwarp();"),
        "a barrier in a branch": ring("if (i < 32) __syncthreads();", "__syncthreads();"),
        "threads that leave": ring("__syncthreads();", "__syncthreads(); tile[i] += 0 * left; if (i) continue;"),
        "no CUDA": (ring("does not compile", ""), "CompileError"),
    },
}

test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises_tools, RIGHT, WRONG)


def test_race_free_without_tsan(monkeypatch):
    monkeypatch.setattr(cpu, "missing_modes", lambda: {"checked": "g++", "tsan": "g++"})
    assert exercises_tools.race_free.verdict(ring("__syncthreads();", "__syncthreads();"))
    assert not exercises_tools.race_free.verdict(ring("", "__syncthreads();"))
