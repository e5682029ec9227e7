"""The checks that stand before every launch: each bound on both sides, each tensor that is not what it seems.

Calls that have to be accepted have a batch of 0, which passes every check and launches nothing.
"""

import mmap

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.autograd import forward_ad

from helpers.operations import arguments
from helpers.operations.sliding_window_attention import sliding_window_attention
from helpers.operations.sparse_attention import sparse_attention
from helpers.operations.store_cache import MAX_ROWS, store_cache
from helpers.operations.topk_transform import topk_transform


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def ints(*shape):
    return torch.zeros(shape, dtype=torch.int32)


def unbacked(shape, dtype):
    """A tensor larger than this machine's memory may be: pages that nobody touches cost nothing."""
    size = torch.empty(0, dtype=dtype).element_size()
    count = int(np.prod(shape, dtype=object))
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return torch.frombuffer(mmap.mmap(-1, count * size, flags=flags), dtype=dtype).view(shape)


# Arguments of each operation that pass every check, for any batch.
def store_arguments(rows=0):
    k, v = torch.ones(rows, 64), torch.ones(rows, 64)
    return dict(k=k, v=v, k_cache=torch.zeros(4, 64), v_cache=torch.zeros(4, 64), indices=ints(rows))


def topk_arguments(batch=0, length=64, pages=2):
    return dict(scores=torch.zeros(batch, length), seq_lens=ints(batch), page_table=ints(batch, pages))


def window_arguments(batch=0, heads=2, kv_heads=1, slots=64, pages=2):
    caches = {name: torch.zeros(slots, kv_heads, 64) for name in ("k_cache", "v_cache")}
    sizes = dict(window=64, page_size=64)
    return dict(q=torch.zeros(batch, heads, 64), **caches, page_table=ints(batch, pages), seq_lens=ints(batch)) | sizes


def sparse_arguments(batch=0, heads=2, dim=8, topk=4, rows=4):
    q, kv_cache = torch.zeros(batch, heads, dim), torch.zeros(rows, dim)
    return dict(q=q, kv_cache=kv_cache, indices=ints(batch, topk), seq_lens=ints(batch))


OPERATIONS = {
    store_cache: store_arguments,
    topk_transform: topk_arguments,
    sliding_window_attention: window_arguments,
    sparse_attention: sparse_arguments,
}


def only(operation, name):
    """A call with one argument replaced."""
    return lambda value: operation(**OPERATIONS[operation]() | {name: value})


def shaped(operation, size):
    """A call with tensors that have one size of this value."""
    return lambda value: operation(**OPERATIONS[operation](**{size: value}))


# ---- numbers ------------------------------------------------------------------------------------------------------

# (call, what its message names, values just inside, values just outside)
BOUNDS = {
    "store size_limit": (only(store_cache, "size_limit"), "size_limit", (0, 1, 4), (-1, 5)),
    "store num_split": (only(store_cache, "num_split"), "num_split", (0, 1, 2), (-1, 3, 8)),
    "store row_bytes": (only(store_cache, "row_bytes"), "row_bytes", (0, 256), (-1, 255, 257)),
    "store skip": (
        only(store_cache, "reserved_skip_index"),
        "reserved_skip_index",
        (-(2**63), -2, -1, 0, 2**63 - 1),
        (-(2**63) - 1, 2**63),
    ),
    "topk": (only(topk_transform, "topk"), "topk", (1, 2048), (0, 2049)),
    "topk page_size": (only(topk_transform, "page_size"), "page_size", (1, 2, 2**20), (0, 3, 2**20 - 1, 2**21)),
    "topk max_ties": (only(topk_transform, "max_ties"), "max_ties", (1, 2048), (0, 2049)),
    "topk bin_bits": (only(topk_transform, "bin_bits"), "bin_bits", (2, 12), (1, 13)),
    "topk length": (shaped(topk_transform, "length"), "scores has rows", (0, 2**20), (2**20 + 1,)),
    "topk pages": (shaped(topk_transform, "pages"), "pages in page_table", (0, 2**31 - 1), (2**31,)),
    "window": (only(sliding_window_attention, "window"), "window", (1, 2**30), (0, 2**30 + 1)),
    "window page_size": (only(sliding_window_attention, "page_size"), "page_size", (1, 64), (0, 65)),
    "window slots": (shaped(sliding_window_attention, "slots"), "k_cache has", (64,), (0, 63)),
    "window heads": (shaped(sliding_window_attention, "heads"), "heads in q", (0, 1, 65535), (65536,)),
    "window kv_heads": (shaped(sliding_window_attention, "kv_heads"), "heads of q", (1, 2), (0, 3, 4)),
    "sparse heads": (shaped(sparse_attention, "heads"), "heads in q", (0, 65535), (65536,)),
    "sparse dim": (shaped(sparse_attention, "dim"), "last dimension of q", (1, 2**20), (0, 2**20 + 1)),
    "sparse topk": (shaped(sparse_attention, "topk"), "second dimension of indices", (1, 2048), (0, 2049)),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_is_where_it_should_be(bound, monkeypatch):
    monkeypatch.setenv("KERNEL_CHECK", "0")  # a look at 2**31 pages would take 16 GB
    call, named, inside, outside = BOUNDS[bound]
    for value in inside:
        call(value)
    for value in outside:
        with pytest.raises(ValueError, match=named) as raised:
            call(value)
        assert str(value) in str(raised.value)


WHOLE = [(operation, name) for operation, names in {
    store_cache: ("size_limit", "num_split", "row_bytes", "reserved_skip_index"),
    topk_transform: ("topk", "page_size", "max_ties", "bin_bits"),
    sliding_window_attention: ("window", "page_size"),
}.items() for name in names]  # fmt: skip


@pytest.mark.parametrize(("operation", "name"), WHOLE)
@pytest.mark.parametrize("value", (1.0, True, "1", None))
def test_only_ints_are_ints(operation, name, value):
    with pytest.raises(TypeError, match=f"{name} is {value!r}; it should be an int"):
        only(operation, name)(value)


CHOICES = [
    (topk_transform, "overflow", ("exact", "unwritten", "sentinel", "position")),
    (sliding_window_attention, "masking", ("multiply", "select")),
    (sparse_attention, "sentinel", ("trust", "check")),
]


@pytest.mark.parametrize(("operation", "name", "allowed"), CHOICES)
def test_a_word_is_one_of_those_allowed(operation, name, allowed):
    for word in allowed:
        only(operation, name)(word)
    with pytest.raises(ValueError, match=f"{name} is 'other'; it should be .*{allowed[0]!r}"):
        only(operation, name)("other")
    with pytest.raises(TypeError, match=f"{name} is 1; it should be a string"):
        only(operation, name)(1)


@pytest.mark.parametrize("operation", (store_cache, topk_transform))
def test_pdl_is_a_bool(operation):
    for value in (False, True):
        only(operation, "pdl")(value)
    for value in (0, 1, None, "true"):
        with pytest.raises(TypeError, match=f"pdl is {value!r}; it should be True or False"):
            only(operation, "pdl")(value)


# ---- sizes that a kernel gets as an int32 ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ("k", "v"))
def test_a_row_of_two_gigabytes(name):
    """4 bytes less than 2**31 is the last width that both the int32 and a vector allow."""
    for num_bytes, error in ((2**31 - 4, None), (2**31, f"the bytes of a row of {name} is 2147483648")):
        rows = {name: torch.empty(0, num_bytes // 4), f"{name}_cache": unbacked((1, num_bytes // 4), torch.float32)}
        other = "v" if name == "k" else "k"
        call = store_arguments() | {f"{other}_cache": torch.zeros(1, 64)} | rows
        if error is None:
            store_cache(**call)
        else:
            with pytest.raises(ValueError, match=error):
                store_cache(**call)


def test_more_rows_than_an_int_counts():
    """Views that repeat one row, so they take no memory."""
    many = torch.ones(1, 64).expand(MAX_ROWS, 64)
    with pytest.raises(ValueError, match=r"v has shape \[0, 64\]"):  # the next check: this one has let k through
        store_cache(**store_arguments() | {"k": many})
    with pytest.raises(ValueError, match="the number of rows in k is 536870912"):
        store_cache(**store_arguments() | {"k": torch.ones(1, 64).expand(MAX_ROWS + 1, 64)})
    lens, table = unbacked((2**31,), torch.int32), ints(1, 1).expand(2**31, 1)
    for rows, error in ((2**31, "the number of rows in scores is 2147483648"), (2**31 - 1, "seq_lens has shape")):
        with pytest.raises(ValueError, match=error):
            topk_transform(torch.ones(1, 8).expand(rows, 8), lens, table)


def test_more_slots_than_an_int_counts():
    q, indices = torch.zeros(0, 1, 1, dtype=torch.bfloat16), ints(0, 1)
    sparse_attention(q, unbacked((2**31 - 1, 1), torch.bfloat16), indices, ints(0))
    with pytest.raises(ValueError, match="the number of rows in kv_cache is 2147483648"):
        sparse_attention(q, unbacked((2**31, 1), torch.bfloat16), indices, ints(0))


def test_more_pages_than_an_int_counts(monkeypatch):
    """The kernel of the attention counts them over all rows."""
    monkeypatch.setenv("KERNEL_CHECK", "0")
    call = window_arguments(batch=2, heads=0)
    for pages, error in ((2**30 - 1, False), (2**30, True)):
        call["page_table"] = unbacked((2, pages), torch.int32)
        if error:
            with pytest.raises(ValueError, match="pages in page_table, all rows together, is 2147483648"):
                sliding_window_attention(**call)
        else:
            sliding_window_attention(**call)


def test_a_single_row_has_no_stride():
    """torch lets a view of one row claim any stride: here one that no 64-bit integer holds in bytes."""
    k = torch.arange(64.0).as_strided((1, 64), (2**62 + 1, 1))
    caches = torch.zeros(2, 4, 64)
    store_cache(k, k, *caches, int32(2))
    assert torch.equal(caches[:, 2], torch.arange(64.0).expand(2, 64))


# ---- contents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", (torch.int32, torch.int64))
def test_a_range_ends_before_its_end(dtype):
    for values in ([], [3], [9], [3, 9, 5]):
        arguments.require_range("x", torch.tensor(values, dtype=dtype), 3, 10, "a number")
    for bad in (2, 10):
        with pytest.raises(ValueError, match=rf"x holds {bad} at position 1; a number should be in \[3, 10\)"):
            arguments.require_range("x", torch.tensor([3, bad, 99], dtype=dtype), 3, 10, "a number")
    largest = torch.iinfo(dtype).max
    arguments.require_range("x", torch.tensor([largest], dtype=dtype), 0, largest + 1, "a number")


def test_a_page_is_in_use_from_its_first_token_on():
    """Pages of 16: the second starts at 16, so a sequence of 16 does not use it, and one of 17 does."""
    garbage = 2**31 - 1
    for length, table in ((0, [garbage, garbage]), (16, [0, garbage]), (17, [0, 6]), (1, [6, -1]), (32, [6, 6])):
        arguments.require_pages(int32(*table)[None], int32(length), 16, 7)
    for length, table, bad in ((17, [0, garbage], garbage), (1, [7, 0], 7), (1, [-1, 0], -1), (32, [6, 7], 7)):
        with pytest.raises(ValueError, match=rf"page_table holds {bad} at .*a page should be in \[0, 7\)"):
            arguments.require_pages(int32(*table)[None], int32(length), 16, 7)


def test_a_page_table_reaches_to_the_last_token():
    for lengths, pages in (([], 0), ([0], 0), ([1], 1), ([16], 1), ([17], 2), ([32, 3], 2), ([3, 32], 2)):
        arguments.require_page_table_covers(int32(*lengths), pages, 16)
    for lengths, pages in (([1], 0), ([17], 1), ([3, 33], 2)):
        with pytest.raises(ValueError, match=f"end at {16 * pages}; seq_lens has a sequence of {max(lengths)}"):
            arguments.require_page_table_covers(int32(*lengths), pages, 16)


def test_the_operations_look_at_contents():
    """Each of them, at each bound; the kernels of the accepted calls run."""
    scores, table = torch.zeros(1, 40), int32(1, 2, 3)[None]
    for length in (0, 40):
        topk_transform(scores, int32(length), table, 8, 16)
    for length in (-1, 41):
        with pytest.raises(ValueError, match=rf"seq_lens holds {length} .*\[0, 41\)"):
            topk_transform(scores, int32(length), table, 8, 16)
    topk_transform(scores, int32(32), table[:, :2].contiguous(), 8, 16)
    with pytest.raises(ValueError, match="2 pages of 16 tokens, which end at 32; seq_lens has a sequence of 33"):
        topk_transform(scores, int32(33), table[:, :2].contiguous(), 8, 16)
    last = 2**31 // 16 - 1
    assert topk_transform(scores, int32(16), int32(last, 2**30, 0)[None], 16, 16)[0, -1] == 2**31 - 1
    with pytest.raises(ValueError, match=f"page_table holds {last + 1} at position 0"):
        topk_transform(scores, int32(16), int32(last + 1, 0, 0)[None], 16, 16)

    call = window_arguments(1, slots=128)
    for length, table in ((0, [0, 0]), (128, [1, 1])):
        sliding_window_attention(**call | {"seq_lens": int32(length), "page_table": int32(*table)[None]})
    for length, table, error in (
        (-1, [0, 0], "seq_lens holds -1"),
        (129, [1, 1], "end at 128; seq_lens has a sequence of 129"),
        (1, [0, 2], r"page_table holds 2 at position 1; a page should be in \[0, 2\)"),  # padding is loaded too
        (1, [-1, 0], "page_table holds -1 at position 0"),
    ):
        with pytest.raises(ValueError, match=error):
            sliding_window_attention(**call | {"seq_lens": int32(length), "page_table": int32(*table)[None]})
    with pytest.raises(ValueError, match=r"seq_lens holds 1073741824 .*\[0, 1073741824\)"):
        sliding_window_attention(**call | {"seq_lens": int32(2**30)})
    with pytest.raises(ValueError, match="end at 128; seq_lens has a sequence of 1073741823"):
        sliding_window_attention(**call | {"seq_lens": int32(2**30 - 1)})

    for length in (0, 2**31 - 1):
        sparse_attention(**sparse_arguments(1) | {"seq_lens": int32(length)})
    with pytest.raises(ValueError, match="seq_lens holds -1"):
        sparse_attention(**sparse_arguments(1) | {"seq_lens": int32(-1)})

    for slot in (0, 3):
        store_cache(**store_arguments(1) | {"indices": int32(slot)})
    for slot in (-1, 4):
        with pytest.raises(ValueError, match=rf"indices holds {slot} at position 0; a slot should be in \[0, 4\)"):
            store_cache(**store_arguments(1) | {"indices": int32(slot)})


def test_contents_are_looked_at_unless_the_environment_says_no(monkeypatch):
    monkeypatch.delenv("KERNEL_CHECK", raising=False)
    assert arguments.check_values()
    for value, looked in (("0", False), ("1", True)):
        monkeypatch.setenv("KERNEL_CHECK", value)
        assert arguments.check_values() == looked


# ---- tensors --------------------------------------------------------------------------------------------------------


def fake(tensor):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(tensor)


# What torch hands over as a tensor although its values are not at its address; and what its message says.
DISGUISES = {
    "negated": (lambda t: torch._neg_view(t), "a lazy negation"),
    "zeros": (lambda t: torch._efficientzerotensor(t.shape, dtype=t.dtype), "without memory"),
    "fake": (fake, "a FakeTensor without memory"),
    "sparse": (lambda t: t.to_sparse(), "of layout torch.sparse_coo"),
    "nested": (lambda t: torch.nested.nested_tensor([t, t]), "nested"),
    "meta": (lambda t: t.to("meta"), "on meta; it should be on a CPU or a GPU"),
    "requires grad": (lambda t: t.clone().requires_grad_(), "requires grad"),
    "dual": (lambda t: forward_ad.make_dual(t, torch.ones_like(t)), "a dual tensor"),
}
TENSORS = [(operation, name) for operation, make in OPERATIONS.items()
           for name, value in make(1).items() if isinstance(value, torch.Tensor)]  # fmt: skip


WITH_DERIVATIVES = ("requires grad", "dual")  # which only floating-point tensors can be


@pytest.mark.parametrize(("operation", "name", "disguise"), [
    (operation, name, disguise) for operation, name in TENSORS for disguise in DISGUISES
    if OPERATIONS[operation]()[name].is_floating_point() or disguise not in WITH_DERIVATIVES
])  # fmt: skip
def test_a_tensor_that_is_not_what_it_seems_is_refused(operation, name, disguise):
    wear, said = DISGUISES[disguise]
    call = OPERATIONS[operation](1)
    with forward_ad.dual_level():
        call[name] = wear(call[name])
        with pytest.raises(ValueError, match=rf"^{name} is .*{said}"):
            operation(**call)


@pytest.mark.parametrize(("transform", "said"), [
    (lambda f, x: torch.func.vmap(f)(x[None]), "without memory"),
    (lambda f, x: torch.func.jvp(f, (x,), (x,)), "a dual tensor"),
    (lambda f, x: torch.func.grad(lambda y: f(y).sum())(x), "requires grad"),
    (lambda f, x: torch.func.functionalize(f)(x), "without memory"),
])  # fmt: skip
def test_a_transform_of_an_operation_is_refused(transform, said):
    call = sparse_arguments(1)
    with pytest.raises(ValueError, match=f"q is .*{said}"):
        transform(lambda q: sparse_attention(**call | {"q": q}), torch.ones(1, 2, 8))


def test_ordinary_tensors_of_other_classes_are_accepted():
    call = sparse_arguments(1)
    plain = sparse_attention(**call)
    call["kv_cache"] = torch.nn.Parameter(call["kv_cache"])
    with torch.no_grad():
        assert torch.equal(sparse_attention(**call), plain)
    with torch.inference_mode():
        assert torch.equal(sparse_attention(**sparse_arguments(1)), plain)


@pytest.mark.parametrize(("operation", "name"), TENSORS)
def test_every_tensor_has_its_type_its_dimensions_and_its_layout(operation, name):
    call = OPERATIONS[operation](2)
    tensor = call[name]
    with pytest.raises(TypeError, match=f"{name} is a list; it should be a torch tensor"):
        operation(**call | {name: tensor.tolist()})
    with pytest.raises(TypeError, match=f"{name} has dtype float64; it should be "):
        operation(**call | {name: tensor.double()})
    with pytest.raises(ValueError, match=rf"{name} has shape .*; it should have {tensor.ndim} dimensions"):
        operation(**call | {name: tensor[None]})
    every_other = torch.stack([tensor, tensor], dim=-1)[..., 0]
    with pytest.raises(ValueError, match=f"{name} has (inner stride 2|strides)"):
        operation(**call | {name: every_other})


def test_one_column_or_no_rows_may_have_any_stride():
    for tensor in (torch.zeros(9, 5).T[:, :1], torch.zeros(9, 0).T, torch.zeros(9, 5).T[:0]):
        arguments.require_tensor("x", tensor, dtypes=(torch.float32,), ndim=2)


def test_shapes_and_contiguity():
    def check(shape, want):
        arguments.require_tensor("x", torch.zeros(shape), dtypes=(torch.float32,), ndim=2, shape=want)

    for want in ((3, 4), (None, 4), (3, None), (None, None)):
        check((3, 4), want)
    for want in ((2, 4), (3, 5), (None, 3), (4, None)):
        with pytest.raises(ValueError, match=r"x has shape \[3, 4\]; it should be \["):
            check((3, 4), want)
    arguments.require_contiguous("x", torch.zeros(3, 4))
    with pytest.raises(ValueError, match=r"x has strides \[8, 1\]; it should be contiguous"):
        arguments.require_contiguous("x", torch.zeros(3, 8)[:, :4])


# ---- memory that is shared ------------------------------------------------------------------------------------------


def apart(out, other):
    try:
        arguments.require_apart({"out": out}, {"other": other})
    except ValueError as error:
        assert str(error) == "out shares memory with other; they should be apart"
        return False
    return True


@pytest.mark.parametrize("through", (torch.from_numpy, torch.from_dlpack, torch.frombuffer))
def test_two_views_of_one_buffer_are_known_by_their_addresses(through):
    """However they came in, torch takes them for two storages."""
    buffer = np.zeros((41, 64), "f")

    def view(array):
        if through is torch.frombuffer:
            start = (array.ctypes.data - buffer.ctypes.data) // 4
            flat = torch.frombuffer(buffer, dtype=torch.float32, offset=4 * start)
            return flat.as_strided(array.shape, [stride // 4 for stride in array.strides])
        return through(array)

    rows, indices = torch.ones(1, 64), int32(1)
    with pytest.raises(ValueError, match="k_cache shares memory with v_cache; they should be apart"):
        store_cache(rows, rows, view(buffer[:-1]), view(buffer[1:]), indices)
    with pytest.raises(ValueError, match="k_cache shares memory with k; they should be apart"):
        store_cache(view(buffer[3:4]), rows, view(buffer), torch.zeros(41, 64), indices)
    assert not buffer.any()
    for k_cache, v_cache in ((buffer[:20], buffer[20:40]), (buffer[:40:2], buffer[1:40:2])):
        buffer[:] = 0
        store_cache(rows, rows, view(k_cache), view(v_cache), indices)
        assert k_cache[1].sum() == v_cache[1].sum() == 64 and buffer.sum() == 128
    store_cache(rows[:, :32], rows[:, 32:], view(buffer[:, :32]), view(buffer[:, 32:]), int32(9))
    assert buffer[9].sum() == 64


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_views_of_one_buffer_on_a_gpu():
    import cupy

    buffer = cupy.zeros((41, 64), "f")
    rows, indices = torch.ones(1, 64, device="cuda"), int32(1).cuda()
    with pytest.raises(ValueError, match="k_cache shares memory with v_cache; they should be apart"):
        store_cache(rows, rows, torch.from_dlpack(buffer[:-1]), torch.from_dlpack(buffer[1:]), indices)
    assert not buffer.any()


@settings(max_examples=400, deadline=None, derandomize=True)
@given(data=st.data())
def test_memory_is_shared_exactly_where_bytes_are(data):
    """Against the set of bytes of each tensor. Only rows at different strides may be taken for shared without cause."""
    buffer = np.zeros(400, np.float32)
    tensors, bytes_ = [], []
    for name in ("out", "other"):
        rows, columns = data.draw(st.integers(1, 5), label=name), data.draw(st.integers(1, 12))
        stride = data.draw(st.integers(columns, 16) if name == "out" else st.integers(0, 16))
        start = data.draw(st.integers(0, 200))
        flat = torch.from_numpy(buffer[start:])
        tensors.append(flat.as_strided((rows, columns), (stride, 1)))
        bytes_.append({start + i * stride + j for i in range(rows) for j in range(columns)})
    shared = bool(bytes_[0] & bytes_[1])
    (a, b), told = tensors, not apart(*tensors)
    assert told or not shared
    if a.stride(0) == b.stride(0) or 1 in (a.shape[0], b.shape[0]):
        assert told == shared


def test_rows_of_an_output_may_touch_but_not_overlap():
    flat = torch.zeros(100)
    arguments.require_apart({"out": flat.as_strided((3, 8), (8, 1))}, {})
    arguments.require_apart({"out": flat.as_strided((1, 8), (0, 1))}, {})
    with pytest.raises(ValueError, match="out has rows of 8 at a stride of 7; they overlap"):
        arguments.require_apart({"out": flat.as_strided((2, 8), (7, 1))}, {})


def test_tensors_of_other_shapes_within_an_output_are_found():
    """A list of indices, or one index; but nothing of it is in a tensor without elements."""
    cache = torch.zeros(10, 64)
    for inside in (cache.view(torch.int32)[3, :5], cache.view(torch.int32)[3, :1]):
        assert not apart(cache, inside)
    for outside in (torch.zeros(5), cache[3, :0], cache[:, :0], cache[:0]):
        assert apart(cache, outside)
    left, words = cache[:, :32], cache.view(torch.int32).flatten()
    for first, end, clear in ((32, 64, True), (40, 41, True), (31, 64, False), (32, 65, False), (31, 32, False)):
        assert apart(left, words[3 * 64 + first : 3 * 64 + end]) == clear


def test_tensors_side_by_side_are_apart():
    """Rows of different widths in one buffer, one behind the other, in either order."""
    flat = torch.zeros(200)
    first, second = flat[:80].view(10, 8), flat[80:].view(10, 12)
    assert apart(first, second) and apart(second, first)
    assert not apart(flat[:90].view(10, 9), second)


def test_every_pair_of_outputs_and_inputs_is_compared():
    a, b, c = torch.zeros(3, 4, 8)
    arguments.require_apart({"a": a, "b": b}, {"c": c})
    for outputs, inputs in (({"a": a, "b": a}, {"c": c}), ({"a": a, "b": b}, {"c": a}), ({"a": a, "b": b}, {"c": b})):
        with pytest.raises(ValueError, match="shares memory with"):
            arguments.require_apart(outputs, inputs)
    arguments.require_apart({"a": a}, {"b": b, "c": b})  # inputs may share
