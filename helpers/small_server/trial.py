"""One run of the small server over a trace of requests, and what a reader wants to know of it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers.kernel import device

from .cache import Variant
from .engine import Capacity, Engine, Step, serve
from .model import DenseAttention, Model, load
from .task import Problem, problem

Arrival = tuple[int, Problem]


def trace(count: int, seed: int = 0, *, lengths: tuple[int, int] = (90, 380), wanted: tuple[int, int] = (8, 24),
          gap: float = 0.0) -> list[Arrival]:  # fmt: skip
    """(step of arrival, problem) of `count` requests. gap: mean number of steps between arrivals, 0 for all at once.

    lengths, wanted: least and most tokens of a prompt, and of an answer.
    """
    rng = random.Random(seed)
    arrivals, now = [], 0.0
    for _ in range(count):
        arrivals.append((int(now), problem(rng.randint(*lengths), rng.randint(*wanted), rng)))
        now += rng.expovariate(1 / gap) if gap else 0.0
    return arrivals


@dataclass(frozen=True)
class Result:
    """A run that came to its end. tokens: the answer of each request. had_nan: which had NaN, as in Request."""

    tokens: list[list[int]]
    had_nan: list[bool]
    steps: list[Step]

    @property
    def accept_length(self) -> float:
        """Tokens that a request gets in a step, on average: 1 of the model's own, and the accepted drafts."""
        return statistics.fmean(gained for step in self.steps for gained in step.gained)

    def tokens_per_second(self) -> tuple[float, float, float]:
        """Median and quartiles over the decode steps. Prefill is left out."""
        low, median, high = statistics.quantiles([sum(step.gained) / step.seconds for step in self.steps], n=4)
        return median, low, high

    @property
    def poisoned_in(self) -> int | None:
        """The first step after which slot 0 held NaN."""
        return next((at for at, step in enumerate(self.steps) if step.slot_0_is_nan), None)


def trial(variant: Variant, arrivals: Sequence[Arrival], concurrencies: Sequence[int],
          recorded: bool = True) -> dict[int, Result]:  # fmt: skip
    """Serve a trace with the trained model at each concurrency, one after another: concurrency -> Result.

    Meant for a child process. Raises ServingFault when a kernel fails.
    """
    results = {}
    for concurrency in concurrencies:
        engine = Engine(load(device()), variant, Capacity(running=concurrency), recorded=recorded)
        done = serve(engine, [(step, asked.prompt, len(asked.answer)) for step, asked in arrivals])
        tokens, had_nan = [request.tokens for request in done], [request.had_nan for request in done]
        results[concurrency] = Result(tokens, had_nan, engine.steps)
    return results


@torch.no_grad()
def dense_logits(model: Model, tokens: Sequence[int], choose: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Logits [tokens, vocabulary] of one sequence in one pass; `choose` as in DenseAttention."""
    where = model.embed.weight.device
    ids = torch.tensor([tokens], device=where)
    positions = torch.arange(len(tokens), device=where).unsqueeze(0)
    return model.logits(model(ids, positions, DenseAttention(model.sizes, choose)))[0].cpu()


def reference(model: Model, problems: Sequence[Problem]) -> list[list[int]]:
    """What the model answers when everything is dense: no cache, no pages, no selection, no drafts, no batch.

    Starts from the right answers and lets the model correct them from left to right until it agrees with itself;
    that is greedy decoding, in one pass where the model is right.
    """
    answers = []
    for asked in problems:
        answer = list(asked.answer)
        while (said := _said(model, asked, answer)) != answer:
            wrong = next(i for i, (a, b) in enumerate(zip(said, answer, strict=True)) if a != b)
            answer[wrong] = said[wrong]
        answers.append(answer)
    return answers


def _said(model, asked, answer, choose=None):
    """The model's token at each place of an answer, given all before it."""
    logits = dense_logits(model, [*asked.prompt, *answer], choose)
    return logits.argmax(dim=-1)[len(asked.prompt) - 1 : -1].tolist()


def right_tokens(model: Model, problems: Sequence[Problem], choose: Callable[[Tensor], Tensor] | None = None) -> float:
    """The share of right tokens in the answers, each given all before it; `choose` as in DenseAttention."""
    answers = [asked.answer for asked in problems]
    said = [_said(model, asked, asked.answer, choose) for asked in problems]
    return 1 - wrong_tokens(said, answers) / sum(map(len, answers))


def index_rows(model: Model, asked: Problem) -> list[Tensor]:
    """The index scores of each token of the right answer, from a dense run: [tokens so far] each."""
    kept = []

    def everything(scores):
        kept.append(scores[0].cpu())
        return scores > -torch.inf

    dense_logits(model, asked.prompt + asked.answer, everything)
    return [kept[0][at, : at + 1] for at in range(len(asked.prompt), len(kept[0]))]


def wrong_tokens(tokens: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> int:
    """How many tokens differ, over all requests."""
    pairs = zip(tokens, expected, strict=True)
    return sum(a != b for mine, theirs in pairs for a, b in zip(mine, theirs, strict=True))


def right_answers(tokens: Sequence[Sequence[int]], problems: Sequence[Problem]) -> float:
    """The share of requests whose answer is right to the last token."""
    return statistics.fmean(tuple(mine) == asked.answer for mine, asked in zip(tokens, problems, strict=True))


def fates(result: Result | None, expected: Sequence[Sequence[int]]) -> list[int]:
    """How many requests were right, wrong without NaN, NaN, and lost in a crash (then there is no result)."""
    if result is None:
        return [0, 0, 0, len(expected)]
    nan = sum(result.had_nan)
    triples = zip(result.tokens, expected, result.had_nan, strict=True)
    right = sum(mine == theirs and not bad for mine, theirs, bad in triples)
    return [right, len(expected) - right - nan, nan, 0]
