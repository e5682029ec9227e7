"""The checkers of lesson 30 accept what is right, and refuse what readers get wrong."""

import pytest

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


def test_count_short():
    def right(rows, k, cap):
        return [k - cap - above for above, in_bin in rows if in_bin > cap and above < k - cap]

    assert exercises_tools.count_short.verdict(right)
    assert exercises_tools.count_short.verdict(
        lambda rows, k, cap: [k - a - cap for a, b in rows if k - a > cap and b > cap]
    )
    assert exercises_tools.count_short.verdict(
        lambda rows, k, cap: [k - a - min(b, cap) for a, b in rows if k - a - min(b, cap) > 0]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, k, cap: [k - cap - above for above, in_bin in rows if in_bin > cap],  # negative ones too
        lambda rows, k, cap: [k - cap - above for above, in_bin in rows if above < k and in_bin > cap],
        lambda rows, k, cap: [k - above - cap for above, in_bin in rows if k - above > cap // 2],  # rows that fit
        lambda rows, k, cap: [k - cap - above for above, in_bin in rows if in_bin > cap and above <= k - cap],
        lambda rows, k, cap: [k - above for above, in_bin in rows if in_bin > cap and above < k - cap],
        lambda rows, k, cap: [1024 - above for above, in_bin in rows if in_bin > 1024 and above < 1024],
        lambda rows, k, cap: sum(k - cap - above for above, in_bin in rows if in_bin > cap and above < k - cap),
        lambda rows, k, cap: ...,
    ],
)
def test_count_short_refuses(wrong):
    assert not exercises_tools.count_short.verdict(wrong)


def test_race_free():
    assert exercises_tools.race_free.verdict(ring("__syncthreads();", "__syncthreads();"))


def test_race_free_accepts_other_barriers():
    loop_end = exercises_tools.RING_KERNEL.replace("= x[i];", "= x[i];\n  __syncthreads();  // all are there")
    loop_end = loop_end.replace("+= left;", "+= left;\n    __syncthreads ( );")
    assert exercises_tools.race_free.verdict(
        loop_end.replace("    tile[i] += left", "    /* all have read */ __syncthreads();\n    tile[i] += left")
    )


@pytest.mark.parametrize(("source", "why"), [(ONE_THREAD, "only add"), (A_ROW_A_ROUND, "20 rounds|reports a")])
def test_race_free_refuses_other_kernels(source, why):
    verdict = exercises_tools.race_free.verdict(source)
    assert not verdict and any(part in verdict.message for part in why.split("|")), verdict.message


@pytest.mark.parametrize(
    ("before", "between"),
    [
        ("", ""),
        ("__syncthreads();", ""),
        ("", "__syncthreads();"),
        ("__syncwarp();", "__syncwarp();"),
        ("if (i < 32) __syncthreads();", "__syncthreads();"),
        ("__syncthreads();", "__syncthreads(); tile[i] += 0 * left; if (i) continue;"),
        ("does not compile", ""),
    ],
)
def test_race_free_refuses(before, between):
    verdict = exercises_tools.race_free.verdict(ring(before, between))
    assert not verdict and verdict.message


def test_race_free_without_tsan(monkeypatch):
    monkeypatch.setattr(cpu, "missing_modes", lambda: {"checked": "g++", "tsan": "g++"})
    assert exercises_tools.race_free.verdict(ring("__syncthreads();", "__syncthreads();"))
    assert not exercises_tools.race_free.verdict(ring("", "__syncthreads();"))
