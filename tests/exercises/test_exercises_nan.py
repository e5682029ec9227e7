"""The checkers of lessons 10 and 11 accept right answers and refuse the wrong ones that a reader is likely to give."""

import torch
import torch.nn.functional as F
from answers import accept_and_refuse

from helpers.exercises import nan as exercises_nan

# ---------------------------------------------------------------- 10: one line of a kernel, as torch would say it


def attend(score, keep, combine, weigh=None):
    weight = torch.where(keep, score.exp(), 0) if weigh is None else weigh(score)
    return combine(weight[:, None]) / weight.sum()


def select(score, value, keep):
    return attend(score, keep, lambda w: torch.where(keep[:, None], w * value, 0).sum(dim=0))


def multiply(score, value, keep):
    return attend(score, keep, lambda w: (w * value).sum(dim=0))


WRONG_KERNELS = {
    "multiplies": (multiply, "NaN in the masked values"),
    "hides NaN at the end": (lambda s, v, k: multiply(s, v, k).nan_to_num(), "off by"),
    "drops every NaN": (lambda s, v, k: select(s, v.nan_to_num(), k), "inf in the masked|should show"),
    "skips what is not finite": (lambda s, v, k: select(s, torch.where(v.isfinite(), v, 0), k), "should show"),
    "selects the weight twice": (lambda s, v, k: multiply(s.masked_fill(~k, -torch.inf), v, k), "masked values"),
    "ignores the mask": (lambda s, v, k: select(s, v, torch.ones_like(k)), "off by"),
    "mask the wrong way round": (lambda s, v, k: select(s, v, ~k), "off by|NaN"),
    "masks by length": (lambda s, v, k: select(s, v, torch.arange(len(k), device=k.device) < k.sum()), "off by"),
    "selects the value, not the score": (
        lambda s, v, k: attend(s, k, lambda w: torch.where(k[:, None], w * v, 0).sum(dim=0), lambda s: s.exp() * k),
        "masked scores",
    ),
    "no division": (lambda s, v, k: select(s, v, k) * torch.where(k, s.exp(), 0).sum(), "off by"),
    "clears value in place": (
        lambda s, v, k: multiply(s.masked_fill(~k, 0), v.masked_fill_(~k[:, None], 0), k), "the value that you were"),
    "clears score in place": (lambda s, v, k: select(s.masked_fill_(~k, 0), v, k), "the score that you were given"),
    "returns nothing": (lambda s, v, k: None, "expected a tensor"),
    "wrong shape": (lambda s, v, k: select(s, v, k)[None], "shape"),
}

# ---------------------------------------------------------------- 10: the library's attention, kept safe


def library(q, k, v, keep):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep.expand(len(q), -1))


def cleaned(tensor, keep):
    return tensor.masked_fill(~keep[:, None], 0)


def by_hand(q, k, v, keep):
    weight = (q @ cleaned(k, keep).T / k.shape[1] ** 0.5).exp() * keep
    return weight @ cleaned(v, keep) / weight.sum(dim=1, keepdim=True)


WRONG_ATTENTIONS = {
    "as the library does": (library, "NaN in the masked rows of v"),
    "no maximum subtracted": (by_hand, "scores near 100: the result is 100% NaN"),
    "cleans k in place": (
        lambda q, k, v, keep: library(q, k.masked_fill_(~keep[:, None], 0), cleaned(v, keep), keep), "the k that you"),
    "cleans v in place": (
        lambda q, k, v, keep: library(q, cleaned(k, keep), v.masked_fill_(~keep[:, None], 0), keep), "the v that you"),
    "cleans v only": (lambda q, k, v, keep: library(q, k, cleaned(v, keep), keep), "NaN in the masked rows of k"),
    "cleans k only": (lambda q, k, v, keep: library(q, cleaned(k, keep), v, keep), "NaN in the masked rows of v"),
    "hides NaN in the result": (lambda q, k, v, keep: library(q, k, v, keep).nan_to_num(), "off by"),
    "hides NaN in k and v": (
        lambda q, k, v, keep: library(q, k.nan_to_num(), v.nan_to_num(), keep), "a row of v that is kept"),
    "cleans without a mask": (
        lambda q, k, v, keep: F.scaled_dot_product_attention(q, cleaned(k, keep), cleaned(v, keep)), "off by"),
    "multiplies by the mask": (
        lambda q, k, v, keep: library(q, k * keep[:, None], v * keep[:, None], keep), "NaN in the masked rows of v"),
}  # fmt: skip

# ---------------------------------------------------------------- 11


def in_place(buffer, slots):
    buffer[: len(slots)] = slots
    buffer[len(slots) :] = 0


def beyond_the_bucket(buffer, slots):
    in_place(buffer, slots)
    torch.as_strided(buffer, (len(buffer) + 1,), (1,), buffer.storage_offset())[-1] = 0


WRONG_PADDINGS = {
    "leaves the last replay's slots": (lambda b, s: b[: len(s)].copy_(s), "in a bucket of 8: the buffer at [5]"),
    "a new tensor": (lambda b, s: F.pad(s, (0, len(b) - len(s))), "the buffer at [0]"),
    "-1 for no slot": (lambda b, s: in_place(b, s) or b[len(s) :].fill_(-1), "got -1, expected 0"),
    "repeats the last slot": (lambda b, s: in_place(b, s) or b[len(s) :].fill_(int(s[-1])), "got 35, expected 0"),
    "pads in front": (lambda b, s: b.copy_(F.pad(s, (len(b) - len(s), 0))), "the buffer at [0]"),
    "one row of padding only": (lambda b, s: in_place(b[: len(s) + 1], s), "the buffer at [6]"),
    "writes past the bucket": (beyond_the_bucket, "neighbours"),
    "a bucket of 8 for all": (lambda b, s: in_place(b, s) or b.__setitem__(7, 0), "raised IndexError|got 0"),
    "clears the slots it was given": (lambda b, s: in_place(b, s) or s.zero_(), "slots that you were given"),
}

WRONG_SLOTS = {
    "no page table": lambda pages, position, size: position,
    "forgets the place in the page": lambda pages, position, size: int(pages[position // size]) * size,
    "forgets the page size": lambda pages, position, size: int(pages[position // size]) + position % size,
    "swaps page and place": lambda pages, position, size: int(pages[position % len(pages)]) * size + position // size,
    "pages of 16 only": lambda pages, position, size: int(pages[position // 16]) * 16 + position % 16,
    "one page late": lambda pages, position, size: int(pages[-(-position // size)]) * size + position % size,
}


RIGHT = {
    "safe_kernel": [select],
    "safe_attention": [lambda q, k, v, keep: library(q, cleaned(k, keep), cleaned(v, keep), keep)],
    "padded_slots": [in_place],
    "slot_of": [lambda pages, position, size: pages[position // size] * size + position % size],
}
WRONG = {
    "safe_kernel": WRONG_KERNELS,
    "safe_attention": WRONG_ATTENTIONS,
    "padded_slots": WRONG_PADDINGS,
    "slot_of": {mistake: (answer, "position|raised") for mistake, answer in WRONG_SLOTS.items()},
}

test_accepts_the_solution, test_refuses_a_wrong_answer = accept_and_refuse(exercises_nan, RIGHT, WRONG)
