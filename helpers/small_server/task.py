"""What the model has learned: to walk through a document, from record to record.

A document is records in any order, with filler between them. A record is two tokens: a pointer to another record, and
its own name. The prompt ends in a pointer, and the answer goes on from there in rounds of four tokens:

    the pointer in the record that the last token points to         far away in the prompt
    the pointer in the record that this one points to               far away in the prompt
    the digit of the first of the two (its number mod 8)            2 tokens back
    a pointer to the hub of the second (its number mod 16)          2 tokens back

Wrong top-k indices lose the records; a broken window loses the rest.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate

END, START = 0, 1  # no answer holds END: it is what argmax makes of a row of NaN
DIGITS, HUBS, RECORDS, FILLERS = 8, 16, 48, 16  # records 0 .. HUBS-1 are hubs: every document has them all
DIGIT, NAME, POINTER, FILLER, TOKENS = accumulate((2, DIGITS, RECORDS, RECORDS, FILLERS))
SHORTEST = 2 * (2 * HUBS) + 2  # the shortest prompt


@dataclass(frozen=True)
class Problem:
    """prompt: token ids. answer: as many right tokens as were asked for."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def problem(length: int, answer_length: int, rng: random.Random) -> Problem:
    """A prompt of `length` tokens (at least SHORTEST) and the walk that answers it."""
    # The walk passes all hubs before it comes back to one: else it could be copied from its own last tokens. So each
    # hub has one record that ends at it, and one of its own to start with.
    ends = [HUBS * rng.randrange(1, RECORDS // HUBS) + hub for hub in range(HUBS)]
    spare = [name for name in range(HUBS, RECORDS) if name not in ends]
    others = ends + rng.sample(spare, rng.randint(0, min(len(spare), (length - SHORTEST) // 2)))
    target = {name: rng.choice(others) for name in others}
    order = rng.sample(range(HUBS), HUBS)
    for hub, first, after in zip(order, rng.sample(others, HUBS), order[1:] + order[:1], strict=True):
        target |= {hub: first, first: ends[after]}
    names = rng.sample(list(target), len(target))
    gaps = [0] * (len(names) + 1)
    for _ in range(length - 2 - 2 * len(names)):
        gaps[rng.randrange(len(gaps))] += 1

    prompt = [START]
    for gap, name in zip(gaps, [*names, None], strict=True):
        prompt += [FILLER + rng.randrange(FILLERS) for _ in range(gap)]
        if name is not None:
            prompt += [POINTER + target[name], NAME + name]
    at = rng.randrange(HUBS)
    prompt.append(POINTER + at)

    answer = []
    while len(answer) < answer_length:
        first, second = target[at], target[target[at]]
        at = second % HUBS
        answer += [POINTER + first, POINTER + second, DIGIT + first % DIGITS, POINTER + at]
    return Problem(tuple(prompt), tuple(answer[:answer_length]))
