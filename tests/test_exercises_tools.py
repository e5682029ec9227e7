"""The checkers of lesson 30 accept what is right, and refuse what readers get wrong."""

import pytest

from helpers import cpu, exercises_tools

LOST = """
extern "C" __global__ void ring(const int* x, int* y, int rounds) {
  __shared__ int tile[64];
  const int i = threadIdx.x;
  tile[i] = x[i];
  for (int round = 0; round < rounds; ++round) {
    BEFORE
    const int left = tile[(i + 63) % 64];
    BETWEEN
    tile[i] += left;
  }
  y[i] = tile[i];
}
"""


def ring(before="", between=""):
    return LOST.replace("BEFORE", before).replace("BETWEEN", between)


def test_count_short():
    def right(rows, k, cap):
        return [k - cap - above for above, in_bin in rows if in_bin > cap and above < k - cap]

    assert exercises_tools.count_short.verdict(right)
    assert exercises_tools.count_short.verdict(
        lambda rows, k, cap: [k - a - cap for a, b in rows if k - a > cap and b > cap]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, k, cap: [k - cap - above for above, in_bin in rows if in_bin > cap],  # negative ones too
        lambda rows, k, cap: [k - cap - above for above, _ in rows if above < k - cap],  # rows that fit
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
    monkeypatch.setattr(cpu, "available_modes", lambda: {"tsan": "g++"})
    assert exercises_tools.race_free.verdict(ring("__syncthreads();", "__syncthreads();"))
    assert not exercises_tools.race_free.verdict(ring("", "__syncthreads();"))
