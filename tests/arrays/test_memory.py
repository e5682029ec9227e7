import pytest
import torch
from common import refused, same_bits

from helpers import cpu
from helpers.arrays import inputs
from helpers.arrays.memory import guarded, is_poison, poisoned
from helpers.kernel import device as best_device
from helpers.operations.leave_in_shared import left_in_shared
from helpers.operations.topk_transform import topk_transform
from helpers.proof.children import run_in_child


@pytest.mark.parametrize("dtype", (torch.int32, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.int64))
def test_poison_is_seen_until_an_element_is_written(backend, dtype):
    tensor = poisoned((3, 5), dtype, backend)
    assert bool(is_poison(tensor).all())
    tensor[1, 2] = 1
    assert is_poison(tensor).flatten().nonzero(as_tuple=True)[0].numel() == 14
    assert not bool(is_poison(tensor)[1, 2])


def test_is_poison_looks_at_every_byte():
    tensor = torch.tensor([0xCBCBCBCB - 2**32, 0xCB, 0x00CBCBCB], dtype=torch.int32)
    assert is_poison(tensor).tolist() == [True, False, False]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float32))
def test_a_guarded_copy_holds_the_same_values(backend, dtype):
    tensor = torch.randn(7, 100, generator=torch.Generator().manual_seed(0)).to(dtype).to(backend)
    copy = guarded(tensor)
    assert same_bits(copy, tensor)
    assert copy.data_ptr() != tensor.data_ptr()


@pytest.mark.alone_on_gpu
def test_shared_memory_left_behind_holds_only_within_the_context(backend):
    """Outside it, the CPU build poisons shared memory again, so that no test depends on the one before it."""
    row = inputs.winners_and_zeros()
    arguments = [row, torch.tensor([8320], dtype=torch.int32), inputs.page_table(1, 130)]
    arguments = [tensor.to(backend) for tensor in arguments]

    def unwritten_positions(**options):
        raw = poisoned((1, 2048), torch.int32, backend)
        topk_transform(*arguments, overflow="unwritten", raw_out=raw, **options)
        return raw[0, 1124:].cpu()

    zero = torch.tensor([0], dtype=torch.int32)
    with left_in_shared(zero, backend.type):  # the first launch loads the kernel, which may touch shared memory
        unwritten_positions()
    with left_in_shared(zero, backend.type):
        assert unwritten_positions().tolist() == [0] * 924
    if backend.type == "cpu":
        topk_transform(*arguments, overflow="sentinel", raw_out=(raw := poisoned((1, 2048), torch.int32)))
        assert raw[0, 1124:].tolist() == [-1] * 924


def test_what_is_left_behind_is_a_row_of_int32(backend):
    for bad in (torch.zeros(3), torch.zeros(3, dtype=torch.int64), torch.zeros(1, 1, dtype=torch.int32),
                torch.zeros(0, dtype=torch.int32)):  # fmt: skip
        with refused(ValueError, "pattern", str(bad.dtype), str(list(bad.shape)), "int32 [n] with n at least 1"):
            with left_in_shared(bad, backend.type):
                pass
    if backend.type == "cpu":
        with left_in_shared(torch.tensor([5, 6], dtype=torch.int32), "cpu"):
            words = torch.frombuffer(cpu.shared_arena(), dtype=torch.int32)
            assert len(words) == 227 * 256 and words.tolist() == [5, 6] * (len(words) // 2)


def gather_of(index, sentinel, guard):
    """In a child: sparse attention with one bad index into a pool of 2 MiB. Returns the mean of the output."""
    import torch

    import helpers
    from helpers.arrays.memory import guarded
    from helpers.operations.sparse_attention import sparse_attention

    device = helpers.device()
    pool = torch.ones(3 * 4096, 128, device=device)[4096 : 2 * 4096]  # neighbours on both sides
    pool = guarded(pool) if guard else pool
    indices = torch.tensor([[5, index, 7]], dtype=torch.int32, device=device)
    lens = torch.tensor([3], dtype=torch.int32, device=device)
    q = torch.ones(1, 1, 128, device=device)
    return float(sparse_attention(q, pool, indices, lens, sentinel=sentinel).mean())


BACKENDS = [("cpu", "checked")] + ([("cuda", None)] if best_device() == "cuda" else [])


@pytest.mark.parametrize("index", (-1, 4096))
@pytest.mark.parametrize(("where", "mode"), BACKENDS)
def test_a_bad_index_into_a_guarded_pool_faults_and_names_the_kernel(where, mode, index):
    """One row before the pool, and one behind it. A consumer that checks survives both."""
    outcome = run_in_child(gather_of, index, "trust", True, device=where, mode=mode)
    assert outcome.status == "raised", outcome
    assert outcome.kernel is not None and "sparse_attention" in outcome.kernel
    outcome = run_in_child(gather_of, index, "check", True, device=where, mode=mode)
    assert (outcome.status, outcome.value) == ("finished", 1.0)


@pytest.mark.parametrize("where", ["cpu"] + (["cuda"] if best_device() == "cuda" else []))
def test_the_same_index_unguarded_reads_a_neighbour_in_silence(where):
    outcome = run_in_child(gather_of, -1, "trust", False, device=where, mode="fast")
    assert (outcome.status, outcome.value) == ("finished", 1.0)
