"""A language model of three layers and a drafting head, in plain torch.

Layers alternate: attention over the last `window` tokens, attention over the `topk` tokens that an indexer chose,
attention over the last `window` tokens again. The drafting head (multi-token prediction, as in EAGLE) has a layer of
the first kind. What a layer attends *with* is an argument: `DenseAttention` here, for training and as the reference,
or the paged caches and CUDA kernels of the engine. The weights and everything around them are the same code.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu, softplus

WEIGHTS = Path(__file__).with_name("weights.safetensors")


@dataclass(frozen=True)
class Sizes:
    """Everything that a server of today has, some hundred times smaller."""

    vocab: int = 128
    width: int = 128
    heads: int = 2
    head_dim: int = 64  # of window layers, whose heads share one K and V
    latent: int = 128  # of sparse layers: one row a token is key and value of all heads
    index_heads: int = 2
    index_dim: int = 32
    hidden: int = 256
    window: int = 32
    topk: int = 64
    layers: tuple[str, ...] = ("window", "sparse", "window")

    @property
    def draft_layer(self) -> int:
        """The number of the drafting head's layer."""
        return len(self.layers)


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary position embedding: x [..., heads, dim] at positions [...]."""
    half = x.shape[-1] // 2
    frequency = torch.exp(torch.arange(half, device=x.device) * (-math.log(1000.0) / half))
    angle = (positions.unsqueeze(-1) * frequency).unsqueeze(-2)
    a, b = x.split(half, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], dim=-1)


def index_scores(q: Tensor, weight: Tensor, k: Tensor) -> Tensor:
    """Scores of a DSA-like indexer, [B, T, L]: sum over heads of weight x ReLU(q . k).

    q [B, T, heads, dim], weight [B, T, heads] not negative, k [B, L, dim]. Where no head fires, the score is exactly 0.
    """
    return torch.einsum("bthl,bth->btl", torch.einsum("bthd,bld->bthl", q, k).relu(), weight)


class Attention(Protocol):
    """How layers attend: DenseAttention within whole sequences, PagedAttention (cache.py) within a server's pages."""

    def window(self, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention of layer `number` to the last tokens: like q [B, T, heads, head_dim]; k, v [B, T, head_dim]."""

    def sparse(self, number: int, q: Tensor, row: Tensor, index: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """Attention of layer `number` to chosen tokens: like q [B, T, heads, latent]; row [B, T, latent] is k and v.

        index: what `index_scores` chooses by, (q, weight, k), here with k [B, T, dim].
        """


class Layer(nn.Module):
    """Attention of one kind, then a gated MLP; each adds to its input."""

    def __init__(self, sizes, number, kind):
        super().__init__()
        self.sizes, self.number, self.kind = sizes, number, kind
        if kind == "window":
            shares = [sizes.heads * sizes.head_dim, sizes.head_dim, sizes.head_dim]
        else:
            shares = [sizes.heads * sizes.latent, sizes.latent]
            self.index_shares = [sizes.index_heads * sizes.index_dim, sizes.index_dim, sizes.index_heads]
            self.index = nn.Linear(sizes.width, sum(self.index_shares), bias=False)
        self.shares = shares
        self.project = nn.Linear(sizes.width, sum(shares), bias=kind == "window")
        with torch.no_grad():
            if kind == "window":  # at first a token attends to those just before it: a constant in q and k, rotated
                self.project.bias[: shares[0] + shares[1]] = 1.0
                self.project.bias[shares[0] + shares[1] :] = 0.0
            else:  # at first a token attends to its like: in every head, q starts out as the row
                self.project.weight[: shares[0]] = self.project.weight[shares[0] :].repeat(sizes.heads, 1)
        self.out = nn.Linear(shares[0], sizes.width, bias=False)
        self.up = nn.Linear(sizes.width, 2 * sizes.hidden, bias=False)
        self.down = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """x [B, T, width] at positions [B, T] -> the same shape."""
        attend = self.attend_window if self.kind == "window" else self.attend_sparse
        x = x + self.out(attend(norm(x), positions, attention).flatten(-2))
        gate, value = self.up(norm(x)).chunk(2, dim=-1)
        return x + self.down(silu(gate) * value)

    def attend_window(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """The heads' outputs, [B, T, heads, head_dim], of a layer that looks at a window of tokens."""
        q, k, v = self.project(x).split(self.shares, dim=-1)
        q = rotate(q.unflatten(-1, (self.sizes.heads, -1)), positions)
        k = rotate(k.unsqueeze(-2), positions).squeeze(-2)
        return attention.window(self.number, q, k, v)

    def attend_sparse(self, x: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """The heads' outputs, [B, T, heads, latent], of a layer that looks at the tokens its indexer chooses."""
        q, row = self.project(x).split(self.shares, dim=-1)
        # The indexer learns from the attention, and the attention not from the indexer.
        index_q, index_k, weight = self.index(x.detach()).split(self.index_shares, dim=-1)
        index = (index_q.unflatten(-1, (self.sizes.index_heads, -1)), softplus(weight), index_k)
        return attention.sparse(self.number, q.unflatten(-1, (self.sizes.heads, -1)), norm(row), index)


class Model(nn.Module):
    """Tokens int64 [B, T] at positions [B, T] -> hidden states [B, T, width] -> logits, and drafts from both."""

    def __init__(self, sizes: Sizes | None = None) -> None:
        super().__init__()
        self.sizes = sizes = sizes or Sizes()
        self.embed = nn.Embedding(sizes.vocab, sizes.width)
        self.layers = nn.ModuleList(Layer(sizes, number, kind) for number, kind in enumerate(sizes.layers))
        self.join = nn.Linear(2 * sizes.width, sizes.width, bias=False)
        self.draft_layer = Layer(sizes, sizes.draft_layer, "window")
        self.head = nn.Linear(sizes.width, sizes.vocab, bias=False)

    def forward(self, tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Hidden states [B, T, width] of tokens int64 [B, T] at positions [B, T]."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, positions, attention)
        return x

    def draft(self, hidden: Tensor, next_tokens: Tensor, positions: Tensor, attention: Attention) -> Tensor:
        """Hidden states from which `logits` gives the token after `next_tokens`; they can be drafted from again.

        hidden [B, T, width]: of the model, or of a draft before. next_tokens [B, T]: the token that follows each.
        """
        joined = self.join(torch.cat([norm(hidden), norm(self.embed(next_tokens))], dim=-1))
        return self.draft_layer(joined, positions, attention)

    def logits(self, hidden: Tensor) -> Tensor:
        """[B, T, vocab] of hidden states [B, T, width]."""
        return self.head(norm(hidden))


def norm(x: Tensor) -> Tensor:
    """RMS norm over the last dimension, without weights; like x."""
    return rms_norm(x, x.shape[-1:], eps=1e-6)


class DenseAttention:
    """Attention of whole sequences [B, T] to themselves, with no cache, no pages and no kernels.

    choose: None, and sparse layers attend to every token before; or a function that makes of the scores [B, T, T]
    (-inf in the future) the mask of the tokens they attend to.

    kept: what each layer would store, number -> (k, v) or (row, index_k), each [B, T, dim].
    index_losses [B, T] for each sparse layer: how far the indexer's softmax is from the attention it should foresee.
    lifts [] for each sparse layer: the mean score.
    """

    def __init__(self, sizes, choose=None):
        self.sizes, self.choose = sizes, choose
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self.index_losses: list[Tensor] = []
        self.lifts: list[Tensor] = []

    def window(self, number: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See `Attention.window`."""
        self.kept[number] = (k, v)
        age = self._age(q)
        mask = (age >= 0) & (age < self.sizes.window)
        k, v = (t.unsqueeze(1).expand(-1, q.shape[2], -1, -1) for t in (k, v))
        return scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask).transpose(1, 2)

    def sparse(self, number: int, q: Tensor, row: Tensor, index: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        """See `Attention.sparse`."""
        index_q, weight, index_k = index
        self.kept[number] = (row, index_k)
        future = self._age(q) < 0
        scores = index_scores(index_q, weight, index_k).masked_fill(future, -math.inf)
        mask = ~future if self.choose is None else self.choose(scores)
        logits = torch.einsum("bthd,bsd->bhts", q, row) / math.sqrt(row.shape[-1])
        probabilities = logits.masked_fill(~mask.unsqueeze(-3), -math.inf).softmax(dim=-1)
        if torch.is_grad_enabled():
            target = probabilities.mean(dim=1).detach()
            foreseen = scores.log_softmax(dim=-1).masked_fill(future, 0.0)
            self.lifts.append(scores[~future.expand_as(scores)].mean())
            self.index_losses.append((target * ((target + 1e-9).log() - foreseen)).sum(dim=-1))
        return torch.einsum("bhts,bsd->bthd", probabilities, row)

    @staticmethod
    def _age(q):
        """[T, T]: how many tokens before the query a key lies."""
        at = torch.arange(q.shape[1], device=q.device)
        return at.unsqueeze(1) - at


def load(device: str | torch.device = "cpu", path: Path = WEIGHTS) -> Model:
    """The trained model, ready to serve. FileNotFoundError says how to train one."""
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is missing; `make train` makes it")
    model = Model()
    model.load_state_dict(load_file(path))
    return model.requires_grad_(False).to(device)
