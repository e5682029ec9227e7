import pytest
import torch
from common import any_example, random_bytes, refused, same_bits
from hypothesis import given, strategies as st

from helpers.arrays.memory import is_poison, poisoned
from helpers.operations.store_cache import DTYPES, SPLITS, choose_split, choose_vector, store_cache
from helpers.proof.reference import store_cache_reference

ROWS = (1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 128, 129, 1023, 1025, 16399)
COLUMNS = (64, 128, 256, 512, 1024, 96, 98, 100)


def store_and_compare(k, v, indices, device, slots, **options):
    """Store into poisoned caches; every byte, written or not, should be as the reference says."""
    k_cache = poisoned((slots, k.shape[1]), k.dtype, device)
    v_cache = poisoned((slots, v.shape[1]), v.dtype, device)
    skip = options.get("reserved_skip_index", 0)
    expected = store_cache_reference(k.cpu(), v.cpu(), k_cache.cpu(), v_cache.cpu(), indices.cpu(), skip)
    store_cache(k.to(device), v.to(device), k_cache, v_cache, indices.to(device), **options)
    assert same_bits(k_cache, expected[0])
    assert same_bits(v_cache, expected[1])


def distinct_slots(rows, slots, dtype=torch.int32):
    return torch.randperm(slots, generator=torch.Generator().manual_seed(rows))[:rows].to(dtype)


@any_example
@given(data=st.data())
def test_any_bytes_to_any_slots(backend, data):
    """Every type, width, stride and split that goes together; slots are distinct but for those of padding rows."""
    dtype, split = data.draw(st.sampled_from(DTYPES)), data.draw(st.sampled_from((0, *SPLITS)))
    size = torch.empty(0, dtype=dtype).element_size()
    unit = 128 * split if split else 16
    rows, extra, pad = (data.draw(st.integers(low, high)) for low, high in ((0, 40), (1, 9), (0, 2)))
    sources = []
    for seed in range(2):
        columns, behind = unit * data.draw(st.integers(1, 2048 // unit)) // size, 16 * pad // size
        sources.append(random_bytes((rows, columns + behind), dtype, data.draw(st.integers(0, 99)) + seed)[:, :columns])
    slots = rows + extra
    skip = data.draw(st.integers(-1, slots - 1))
    indices = distinct_slots(rows, slots, data.draw(st.sampled_from((torch.int32, torch.int64))))
    if skip >= 0:
        padding = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), dtype=torch.bool)
        indices[padding] = skip
    options = {"num_split": split, "reserved_skip_index": skip, "pdl": data.draw(st.booleans())}
    store_and_compare(*sources, indices, backend, slots, **options)


@pytest.mark.parametrize("columns", COLUMNS)
def test_copies_every_row_to_its_slot(backend, is_fast, columns):
    for rows in ROWS if is_fast else ROWS[:10]:
        k, v = (random_bytes((rows, columns), torch.bfloat16, seed) for seed in (1, 2))
        store_and_compare(k, v, distinct_slots(rows, rows + 3), backend, rows + 3)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("index_dtype", (torch.int32, torch.int64))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_index_type_and_split(backend, dtype, index_dtype, split):
    size = torch.empty(0, dtype=dtype).element_size()
    for row_bytes in (512, 1024, 2048):
        k, v = (random_bytes((37, row_bytes // size), dtype, seed) for seed in (1, 2))
        store_and_compare(k, v, distinct_slots(37, 50, index_dtype), backend, 50, num_split=split)


@pytest.mark.parametrize(("k_columns", "v_columns"), ((576, 512), (64, 1024), (1024, 2), (128, 96)))
def test_k_and_v_of_different_width(backend, k_columns, v_columns):
    k, v = random_bytes((9, k_columns), torch.bfloat16, 1), random_bytes((9, v_columns), torch.bfloat16, 2)
    store_and_compare(k, v, distinct_slots(9, 20), backend, 20)


def test_strided_rows_and_caches(backend):
    """k and v are column ranges of one fused projection; each cache is every other row of a larger buffer."""
    qkv = random_bytes((11, 768), torch.bfloat16, 3).to(backend)
    k, v = qkv[:, 256:512], qkv[:, 512:]
    indices = distinct_slots(11, 16).to(backend)
    buffers = [poisoned((32, 256), torch.bfloat16, backend) for _ in range(2)]
    caches = [buffer[::2] for buffer in buffers]
    expected = store_cache_reference(k.cpu(), v.cpu(), *(cache.cpu() for cache in caches), indices.cpu())
    store_cache(k, v, *caches, indices)
    for buffer, cache, want in zip(buffers, caches, expected, strict=True):
        assert same_bits(cache, want)
        assert bool(is_poison(buffer[1::2]).all()), "a row between two slots was written"


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("index_dtype", (torch.int32, torch.int64))
def test_padding_rows_leave_the_reserved_slot_alone(backend, index_dtype, split):
    """Upstream's proof: NaN rows at slots [0, 7, 0, 9]; with the skip slot 0 keeps its bits, without it turns NaN."""
    rows = torch.full((4, 1024), torch.nan, dtype=torch.bfloat16, device=backend)
    indices = torch.tensor([0, 7, 0, 9], dtype=index_dtype, device=backend)
    for skip, nan_slots in ((0, [7, 9]), (-1, [0, 7, 9]), (-2, [0, 7, 9]), (-(2**63), [0, 7, 9])):
        caches = [torch.ones(10, 1024, dtype=torch.bfloat16, device=backend) for _ in range(2)]
        store_cache(rows, rows, *caches, indices, num_split=split, reserved_skip_index=skip)
        for cache in caches:
            assert cache.isnan().all(dim=1).nonzero().flatten().tolist() == nan_slots
            assert bool((cache[[i for i in range(10) if i not in nan_slots]] == 1).all())


def test_any_slot_can_be_the_reserved_one(backend):
    k, v = random_bytes((6, 64), torch.float32, 1), random_bytes((6, 64), torch.float32, 2)
    store_and_compare(k, v, torch.tensor([3, 0, 5, 1, 4, 2]), backend, 6, reserved_skip_index=5)


@pytest.mark.parametrize("split", SPLITS)
def test_duplicate_slots_hold_one_source_in_each_vector(backend, split):
    """Rows that share a slot race, and may tear it; each 16-byte vector comes from one of them."""
    rows = torch.arange(1, 9, dtype=torch.float32).repeat_interleave(512).view(8, 512)
    caches = [poisoned((5, 512), torch.float32, backend) for _ in range(2)]
    store_cache(rows.to(backend), rows.to(backend), *caches, torch.full((8,), 3, device=backend), num_split=split)
    for cache in caches:
        vectors = cache[3].cpu().view(-1, 4)
        assert bool((vectors == vectors[:, :1]).all()) and set(vectors[:, 0].tolist()) <= set(range(1, 9))
        assert bool(is_poison(cache[[0, 1, 2, 4]]).all())


def test_no_rows_is_no_work(backend):
    empty = torch.empty(0, 64, device=backend)
    caches = [poisoned((4, 64), torch.float32, backend) for _ in range(2)]
    store_cache(empty, empty, *caches, torch.empty(0, dtype=torch.int32, device=backend))
    assert all(bool(is_poison(cache).all()) for cache in caches)


def test_dependent_launch_gives_the_same_bytes(backend):
    k, v = random_bytes((300, 512), torch.bfloat16, 1), random_bytes((300, 512), torch.bfloat16, 2)
    store_and_compare(k, v, distinct_slots(300, 400), backend, 400, pdl=True)


@pytest.mark.parametrize("bad", (-1, 4, 2**31 - 1))
@pytest.mark.parametrize("skip", (0, -1))
def test_an_index_outside_the_cache_is_refused(backend, bad, skip):
    """-1 as an index is an error, not a way to skip."""
    rows = torch.ones(3, 64, device=backend)
    caches = [torch.zeros(4, 64, device=backend) for _ in range(2)]
    indices = torch.tensor([1, bad, 2], device=backend)
    with refused(ValueError, "indices", str(bad), "position 1", "[0, 4)", untouched=caches):
        store_cache(rows, rows, *caches, indices, reserved_skip_index=skip)


def test_size_limit_bounds_the_indices(backend):
    rows = torch.ones(2, 64, device=backend)
    caches = [torch.zeros(8, 64, device=backend) for _ in range(2)]
    with refused(ValueError, "indices", "6", "[0, 6)", untouched=caches):
        store_cache(rows, rows, *caches, torch.tensor([5, 6], device=backend), size_limit=6)
    store_cache(rows, rows, *caches, torch.tensor([5, 1], device=backend), size_limit=6)
    assert caches[0].any(dim=1).nonzero().flatten().tolist() == [1, 5]


def test_the_kernel_itself_traps_on_a_bad_index(backend, monkeypatch):
    """With the host's look at the indices switched off. On a GPU the trap ends the context."""
    if backend.type == "cuda":
        return
    from helpers.cpu import KernelFault

    monkeypatch.setenv("KERNEL_CHECK", "0")
    rows = torch.ones(1, 64)
    caches = [torch.zeros(4, 64) for _ in range(2)]
    with pytest.raises(KernelFault) as fault:
        store_cache(rows, rows, *caches, torch.tensor([4]))
    assert "store_cache" in fault.value.kernel


BAD = {
    "k is no tensor": (dict(k=[1.0]), TypeError, ("k", "list", "tensor")),
    "dtype": (dict(k=torch.ones(2, 64, dtype=torch.float64)), TypeError, ("k", "float64")),
    "dtypes differ": (dict(v=torch.ones(2, 64, dtype=torch.float16)), TypeError, ("v", "float16", "float32")),
    "rows differ": (dict(v=torch.ones(3, 64)), ValueError, ("v", "[3, 64]", "[2, any]")),
    "cache width": (dict(k_cache=torch.ones(4, 32)), ValueError, ("k_cache", "[4, 32]", "64")),
    "cache rows": (dict(v_cache=torch.ones(5, 64)), ValueError, ("v_cache", "[5, 64]", "4")),
    "index dtype": (dict(indices=torch.tensor([1.0, 2.0])), TypeError, ("indices", "float32", "int32 or int64")),
    "index count": (dict(indices=torch.tensor([1, 2, 3])), ValueError, ("indices", "[3]", "[2]")),
    "split": (dict(num_split=3), ValueError, ("num_split", "3", "1 or 2 or 4")),
    "split too many": (dict(num_split=4), ValueError, ("num_split", "256", "512")),
    "row_bytes": (dict(row_bytes=128), ValueError, ("row_bytes", "128", "256")),
    "size_limit": (dict(size_limit=5), ValueError, ("size_limit", "5", "4")),
    "skip": (dict(reserved_skip_index=0.0), TypeError, ("reserved_skip_index", "0.0", "int")),
    "inner stride": (dict(k=torch.ones(64, 2).T), ValueError, ("k", "inner stride", "contiguous")),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_says_what_is_wrong_and_writes_nothing(backend, case):
    change, error, words = BAD[case]
    arguments = dict(k=torch.ones(2, 64), v=torch.ones(2, 64), indices=torch.tensor([1, 2]))
    arguments |= dict(k_cache=torch.zeros(4, 64), v_cache=torch.zeros(4, 64)) | change
    arguments = {k: v.to(backend) if isinstance(v, torch.Tensor) else v for k, v in arguments.items()}
    with refused(error, *words, untouched=(arguments["k_cache"], arguments["v_cache"])):
        store_cache(**arguments)


def test_a_row_that_no_vector_divides_is_refused(backend):
    rows = torch.ones(2, 63, dtype=torch.bfloat16, device=backend)
    caches = [torch.zeros(4, 63, dtype=torch.bfloat16, device=backend) for _ in range(2)]
    with refused(ValueError, "k", "126 bytes", "multiple of 4", untouched=caches):
        store_cache(rows, rows, *caches, torch.tensor([1, 2], device=backend))


@pytest.mark.parametrize("shift", (2, 4, 8))
def test_misaligned_base_and_stride_are_refused(backend, shift):
    """512 columns of bf16 move in 16-byte vectors; a base or row stride that is no multiple is refused."""
    wide = torch.ones(2 * 1024, dtype=torch.bfloat16, device=backend)
    good = torch.ones(2, 512, dtype=torch.bfloat16, device=backend)
    caches = [torch.zeros(4, 512, dtype=torch.bfloat16, device=backend) for _ in range(2)]
    indices = torch.tensor([1, 2], device=backend)
    off_base = wide[shift // 2 :][:1024].view(2, 512)
    off_stride = wide.as_strided((2, 512), (512 + shift // 2, 1))
    with refused(ValueError, "v starts at address", "16", untouched=caches):
        store_cache(good, off_base, *caches, indices)
    with refused(ValueError, "k has a row stride", str(1024 + shift), "16", untouched=caches):
        store_cache(off_stride, good, *caches, indices)


def test_tensors_on_two_devices_are_refused(backend):
    rows = torch.ones(2, 64, device=backend)
    caches = [torch.zeros(4, 64, device=backend) for _ in range(2)]
    with refused(ValueError, "indices is on meta", "a CPU or a GPU", untouched=caches):
        store_cache(rows, rows, *caches, torch.tensor([1, 2], device="meta"))


def test_the_choice_of_split_and_vector():
    """64 bytes of K and V a lane, at and beside each edge, but never for the price of a narrower vector."""
    assert [choose_split(n, n) for n in (200, 1024, 2016, 2048, 2304, 3072, 4096, 8192)] == [1, 1, 1, 2, 1, 2, 4, 4]
    assert [choose_split(k, v) for k, v in ((1024, 3072), (1152, 1024), (4096, 128), (2048, 6144))] == [2, 1, 1, 4]
    vectors = [choose_vector(n, n, s) for n, s in ((512, 1), (256, 1), (200, 1), (1024, 2), (512, 2), (512, 4))]
    assert vectors == [16, 8, 4, 16, 8, 4]


def test_k_and_v_in_one_buffer_are_apart(backend):
    """Caches and sources whose rows alternate in memory share none of it."""
    cache = poisoned((6, 2, 64), torch.float32, backend)
    rows = torch.arange(1.0, 257.0, device=backend).view(2, 128)
    store_cache(rows[:, :64], rows[:, 64:], cache[:, 0], cache[:, 1], torch.tensor([4, 2], device=backend))
    assert same_bits(cache[[4, 2]].view(2, 128), rows)
    assert bool(is_poison(cache[[0, 1, 3, 5]]).all())


def test_outputs_that_share_memory_are_refused(backend):
    rows, indices = torch.ones(3, 64, device=backend), torch.tensor([1, 2, 3], device=backend)
    one, other = (torch.zeros(10, 64, device=backend) for _ in range(2))
    overlapping = torch.zeros(1000, device=backend).as_strided((10, 64), (32, 1))
    cases = [
        ((one[1:4], rows, one, other, indices), ("k_cache", "k;")),
        ((rows, rows, one, one, indices), ("k_cache", "v_cache")),
        ((rows, rows, one[:1].expand(10, 64), other, indices), ("k_cache", "stride of 0")),
        ((rows, rows, one, overlapping, indices), ("v_cache", "rows of 64", "stride of 32")),
    ]
    for arguments, words in cases:
        with refused(ValueError, *words, untouched=(one, other)):
            store_cache(*arguments)


def test_tensors_that_are_not_what_their_memory_says_are_refused(backend):
    rows, indices = torch.ones(3, 64, device=backend), torch.tensor([1, 2, 3], device=backend)
    caches = [torch.zeros(10, 64, device=backend) for _ in range(2)]
    cases = [
        (torch._neg_view(rows), "lazy negation"),
        (rows.clone().requires_grad_(), "requires grad"),
        (torch.ones(3, 0, device=backend), "[3, 0]"),
        (rows.to_sparse(), "layout"),
    ]
    for k, words in cases:
        wide = [torch.zeros(10, k.shape[1], device=backend), caches[1]]
        with refused(ValueError, "k ", words, untouched=caches):
            store_cache(k, rows, *wide, indices)
    with refused(TypeError, "pdl", "'false'", untouched=caches):
        store_cache(rows, rows, *caches, indices, pdl="false")
    with refused(TypeError, "num_split", "True", untouched=caches):
        store_cache(rows, rows, *caches, indices, num_split=True)
