import math

import pytest
import torch
from common import any_example, refused
from hypothesis import given, strategies as st

from helpers import kernel
from helpers.arrays import inputs
from helpers.arrays.memory import poisoned
from helpers.kernel import captured
from helpers.operations import exact_topk
from helpers.operations.exact_topk import CPU_LIMITS, LISTED_IN_LITTLE, Launch, choose_launch, gpu_limits, launch_exact
from helpers.operations.topk_transform import topk_transform
from helpers.proof.reference import slots_of, topk_reference

CPU_LAUNCHES = [Launch(1024, 8, 1), Launch(1024, 16, 1), Launch(1024, 0, 1), Launch(512, 0, 1)]
CPU_LAUNCHES += [Launch(threads, 0, 1, LISTED_IN_LITTLE) for threads in (512, 1024)]
CLUSTER_LAUNCHES = [Launch(1024, 0, 2), Launch(512, 0, 16), Launch(1024, 0, 8)]
SPECIALS = [0.0, -0.0, math.inf, -math.inf, math.nan, -math.nan, 1e-45, -1e-45, 3.4e38, -3.4e38, 65504.0, 70000.0]


def launches(device, length):
    every = CPU_LAUNCHES + (CLUSTER_LAUNCHES if device.type == "cuda" else [])
    return [shape for shape in every if shape.items == 0 or length <= shape.threads * shape.items]


def assert_exact(scores, lengths, topk, device, page_size=64, shape=None):
    """Every slot of `out` and `raw_out`, in order, against the reference; both start poisoned."""
    batch, width = scores.shape
    table = inputs.page_table(batch, -(-max(width, 1) // page_size), seed=width)
    lens = torch.tensor(lengths, dtype=torch.int32)
    out, raw = (poisoned((batch, topk), torch.int32, device) for _ in range(2))
    on_device = [tensor.to(device) for tensor in (scores, lens, table)]
    if shape is None:
        topk_transform(*on_device, topk, page_size, raw_out=raw, out=out)
    else:
        launch_exact(*on_device, topk, page_size, out, raw, False, shape)
    for b, length in enumerate(lengths):
        positions = topk_reference(scores[b], length, topk).sort().values
        padding = torch.full((topk - len(positions),), -1)
        assert torch.equal(raw[b].cpu().long(), torch.cat([positions, padding])), f"row {b}"
        slots = slots_of(table[b], positions, page_size)
        assert torch.equal(out[b].cpu().long(), torch.cat([slots, padding])), f"row {b}"


def sampled_positions(width):
    """Where the kernel's sample looks at a long row: at four neighbours in each of 256 places."""
    return (torch.arange(256) * width // 256 // 4 * 4)[:, None].add(torch.arange(4)).flatten()


@pytest.mark.parametrize("family", inputs.SCORE_FAMILIES)
def test_every_family_on_every_launch(backend, family):
    for width, topk in ((2500, 1), (5000, 100), (8192, 2048), (7001, 2048), (20000, 512)):
        scores = inputs.scores(family, 2, width, seed=topk)
        for shape in launches(backend, width):
            assert_exact(scores, [width, width - 333], topk, backend, shape=shape)


ODD_ROWS = ["field", "zeros", "few positive", "negative plateau", "neighbours"]
ODD_ROWS += ["descending", "late", "one value", "two values"]


@pytest.mark.parametrize("row", ODD_ROWS)
def test_rows_on_which_the_guess_of_the_bar_goes_wrong(backend, row):
    """Lists overflow, or too few scores reach the bar: slower, never wrong."""
    torch.manual_seed(0)
    width = 30000
    scores = {
        "field": torch.nn.functional.pad(inputs.field_row(), (0, width - 7613), value=-1.0),
        "zeros": torch.nn.functional.pad(inputs.winners_and_zeros(), (0, width - 8320)),
        "few positive": torch.where(torch.arange(width) % 20 == 3, torch.rand(1, width), 0.0),
        "negative plateau": torch.where(torch.arange(width) % 20 == 3, torch.randn(1, width), -0.01),
        "neighbours": (0x3F800000 + torch.randperm(width, dtype=torch.int32)).view(torch.float32)[None],
        "descending": torch.arange(width, 0, -1.0)[None],
        "late": torch.cat([torch.zeros(1, width - 3000), 1 + torch.rand(1, 3000)], 1),
        "one value": torch.full((1, width), -2.5),
        "two values": torch.where(torch.arange(width) % 1000 == 7, 5.0, 4.0)[None],
    }[row]
    # A spike wherever the sample looks: the bar is then far above what topk scores reach.
    spiked, infinite = scores.clone(), scores.clone()
    spiked[0, sampled_positions(width)] = 1e6 + torch.arange(1024.0)
    infinite[0, sampled_positions(width)] = math.inf
    for tried in (scores, spiked, infinite):
        for shape in launches(backend, width):
            assert_exact(tried, [width], 2048, backend, shape=shape)


def test_special_values(backend):
    """Signed zeros, numbers too small for full precision, infinities, NaN: none is taken for another."""
    g = torch.Generator().manual_seed(5)
    scores = torch.tensor(SPECIALS)[torch.randint(0, len(SPECIALS), (3, 9000), generator=g)]
    for topk in (1, 700, 1400, 2048):
        for shape in launches(backend, 8000):
            assert_exact(scores[:, :8000].contiguous(), [8000, 7000, 3000], topk, backend, shape=shape)


def test_a_bar_at_infinity_settles_nothing(backend):
    """Every score that the sample sees is +inf, the highest there is, yet more are wanted than there are such."""
    for row, topk in (([math.inf, 0.0, 0.0], 2), ([math.inf] * 3 + [-math.inf, math.nan, 5.0], 5)):
        for shape in launches(backend, len(row)):
            assert_exact(torch.tensor([row]), [len(row)], topk, backend, page_size=1, shape=shape)


@any_example
@given(data=st.data())
def test_any_scores_at_all(backend, data):
    """Any input family; or a few values of any kind, so that ties, signed zeros, infinities and NaN meet."""
    width = data.draw(st.integers(1, 12) | st.integers(1, 400) | st.integers(401, 3000))
    family, seed = data.draw(st.none() | st.sampled_from(list(inputs.SCORE_FAMILIES))), data.draw(st.integers(0, 99))
    if family is None:
        pool = data.draw(st.lists(st.floats(width=32) | st.sampled_from(SPECIALS), min_size=1, max_size=6))
        picks = torch.randint(len(pool), (1, width), generator=torch.Generator().manual_seed(seed))
        scores = torch.tensor(pool, dtype=torch.float32)[picks]
    else:
        scores = inputs.scores(family, 1, width, seed)
    topk = data.draw(st.integers(1, min(2048, width)) | st.integers(1, 2048))
    page_size = data.draw(st.sampled_from((1, 16, 64)))
    length = data.draw(st.integers(0, width) | st.just(width))
    shape = data.draw(st.sampled_from(launches(backend, width)))
    assert_exact(scores, [length], topk, backend, page_size, shape)


@pytest.mark.parametrize("page_size", (1, 64, 4096))
def test_ragged_batches(backend, page_size):
    lengths = [0, 1, 99, 100, 101, 5000, 9999, 10000]
    assert_exact(inputs.scores("randn", len(lengths), 10000), lengths, 100, backend, page_size)


def test_strided_and_misaligned_rows(backend):
    wide = inputs.scores("8 values", 3, 9001)
    for first in (0, 1, 2, 3):
        scores = wide.to(backend)[:, first : first + 8990]
        out = topk_transform(scores, torch.full((3,), 8990, dtype=torch.int32, device=backend),
                             inputs.page_table(3, 141, permuted=False, first_page=0).to(backend), 300)  # fmt: skip
        for b in range(3):
            expected = topk_reference(scores[b], 8990, 300).sort().values + b * 141 * 64
            assert torch.equal(out[b].cpu().long(), expected)


def test_four_runs_are_bit_identical(backend):
    scores = inputs.scores("8 values", 4, 20000).to(backend)
    arguments = (
        scores,
        torch.full((4,), 20000, dtype=torch.int32, device=backend),
        inputs.page_table(4, 313).to(backend),
    )
    first = topk_transform(*arguments)
    assert all(torch.equal(first, topk_transform(*arguments)) for _ in range(3))


def test_every_one_of_the_first_slots_is_valid_and_distinct(backend):
    """Where the others leave garbage, say -1 or repeat themselves: no slot of the first min(seq_len, k) is bad."""
    for row in (inputs.field_row(), inputs.winners_and_zeros(), torch.full((1, 9000), math.nan)):
        lens = torch.tensor([row.shape[1]], dtype=torch.int32, device=backend)
        table = inputs.page_table(1, -(-row.shape[1] // 64)).to(backend)
        out = topk_transform(row.to(backend), lens, table)
        assert len(out.unique()) == 2048 and int(out.min()) >= 64


def test_negative_lengths_are_refused_where_they_can_be_seen_and_count_as_0_elsewhere(backend, monkeypatch):
    scores, table = torch.randn(2, 100, device=backend), inputs.page_table(2, 2).to(backend)
    lens = torch.tensor([50, -4], dtype=torch.int32, device=backend)
    with refused(ValueError, "seq_lens", "-4", "position 1"):
        topk_transform(scores, lens, table, 16)
    monkeypatch.setenv("KERNEL_CHECK", "0")
    out = topk_transform(scores, lens, table, 16)
    assert bool((out[0] >= 64).all()) and out[1].tolist() == [-1] * 16


def test_bad_input_says_what_is_wrong(backend):
    lens = torch.tensor([10], dtype=torch.int32, device=backend)
    table = inputs.page_table(1, 1).to(backend)
    with refused(ValueError, "scores", "1048577", "1048576"):
        topk_transform(torch.zeros(1, 2**20 + 1, device=backend), lens, table)
    with refused(ValueError, "pdl", "'sentinel'", "'exact'"):
        topk_transform(torch.zeros(1, 10, device=backend), lens, table, overflow="sentinel", pdl=True)
    out = poisoned((1, 4), torch.int32, backend)
    with refused(ValueError, "items=8", "8192", "9000", untouched=[out]):
        launch_exact(torch.zeros(1, 9000, device=backend), lens, table, 4, 64, out, None, False, Launch(1024, 8, 1))


def test_the_launch_that_is_chosen():
    """On a GPU of 132 multiprocessors: registers, then as many blocks a row as there are to spare."""
    shapes = {(1, 8192): (1024, 8, 1), (64, 8192): (1024, 8, 1), (8192, 8192): (1024, 8, 1), (1, 8193): (1024, 16, 1)}
    shapes |= {(132, 16384): (1024, 16, 1), (133, 16384): (512, 0, 1), (1, 16385): (512, 0, 2)}
    shapes |= {(1, 131072): (512, 0, 16), (1, 2**19): (512, 0, 16), (1, 2**20): (1024, 0, 16)}
    shapes |= {(64, 131072): (1024, 0, 2), (256, 65536): (512, 0, 1), (8192, 2**20): (512, 0, 1)}
    h200 = gpu_limits(9, 132, 227 * 1024)
    assert {key: choose_launch(*key, h200) for key in shapes} == {key: Launch(*shape) for key, shape in shapes.items()}


@pytest.mark.parametrize(
    ("gpu", "shape"),
    [
        ((7, 40, 64 * 1024), Launch(1024, 0, 1, LISTED_IN_LITTLE)),  # T4
        ((8, 108, 163 * 1024), Launch(1024, 0, 1)),  # A100
        ((8, 58, 99 * 1024), Launch(1024, 0, 1)),  # L4
        ((10, 148, 227 * 1024), Launch(1024, 0, 16)),  # B200
        ((12, 170, 99 * 1024), Launch(1024, 0, 8)),  # RTX 5090
    ],
)
def test_the_launch_for_a_long_row_is_one_that_the_gpu_grants(gpu, shape):
    assert choose_launch(1, 2**20, gpu_limits(*gpu)) == shape


def test_without_a_gpu_blocks_do_not_share_a_row():
    assert choose_launch(1, 2**20, CPU_LIMITS) == Launch(1024, 0, 1)


class OlderGpusModule:
    """exact_topk.cu as a GPU of sm_75 would get it, in a form that a newer one can load."""

    def __init__(self, folder, name):
        import cupy
        from cupy.cuda import nvrtc

        source = kernel._read("exact_topk.cu")
        program = nvrtc.createProgram(kernel._nvrtc_text(source), source.name, (), ())
        nvrtc.addNameExpression(program, name)
        nvrtc.compileProgram(program, (*kernel._nvrtc_options(()), "-arch=compute_75", "-default-device"))
        self.lowered = nvrtc.getLoweredName(program, name)
        path = folder / "exact_topk.ptx"
        path.write_bytes(nvrtc.getPTX(program))
        self.module = cupy.RawModule(path=str(path))

    def get_function(self, name):
        return self.module.get_function(self.lowered)


@pytest.mark.skipif(kernel._why_no_cuda() is not None, reason="needs a GPU")
@pytest.mark.parametrize("shape", CPU_LAUNCHES)
def test_the_code_for_an_older_gpu(shape, monkeypatch, tmp_path):
    """Without the warp-wide reductions, clusters and early launches that a GPU has since."""
    module = OlderGpusModule(tmp_path, shape.kernel())
    monkeypatch.setattr(exact_topk, "compile_cuda", lambda *arguments, **options: module)
    width = shape.threads * shape.items or 30000
    for family in inputs.SCORE_FAMILIES:
        scores = inputs.scores(family, 2, width)
        assert_exact(scores, [width, width - 333], 2048, torch.device("cuda", 0), shape=shape)


def test_in_a_graph_and_with_dependent_launches(backend):
    """Captured once, replayed on new scores and lengths; without a graph, one launch behind another."""
    scores = inputs.scores("randn", 3, 12000).to(backend)
    lens = torch.full((3,), 12000, dtype=torch.int32, device=backend)
    table = inputs.page_table(3, 188).to(backend)
    out, raw = (poisoned((3, 2048), torch.int32, backend) for _ in range(2))

    def select():
        topk_transform(scores, lens, table, raw_out=raw, out=out, pdl=True)

    replay = captured(select, 2) if backend.type == "cuda" else select
    for seed, lengths in ((1, [12000, 3000, -4]), (2, [0, 2048, 2049])):
        scores.copy_(inputs.scores("8 values", 3, 12000, seed))
        lens.copy_(torch.tensor(lengths).clamp(min=0) if backend.type == "cpu" else torch.tensor(lengths))
        replay()
        for b, length in enumerate(lengths):
            positions = topk_reference(scores[b], max(0, length), 2048).sort().values
            padding = torch.full((2048 - len(positions),), -1)
            assert torch.equal(raw[b].cpu().long(), torch.cat([positions, padding])), (seed, b)


@pytest.mark.parametrize("page_size", (2**16, 2**20))
def test_pages_larger_than_the_row(backend, page_size):
    assert_exact(inputs.scores("randn", 1, 9000), [9000], 2048, backend, page_size)


def test_a_length_beyond_the_row_counts_as_the_row(backend, monkeypatch):
    """Where nobody looks at the lengths: every position is there to be chosen, and no more."""
    monkeypatch.setenv("KERNEL_CHECK", "0")
    for width, topk in ((100, 150), (9000, 2048)):
        scores = inputs.scores("randn", 1, width)
        lens = torch.tensor([width + 100], dtype=torch.int32, device=backend)
        table = inputs.page_table(1, 160, permuted=False, first_page=0).to(backend)
        out = topk_transform(scores.to(backend), lens, table, topk)
        expected = topk_reference(scores[0], width, topk).sort().values.tolist()
        assert out[0].tolist() == expected + [-1] * (topk - len(expected))
