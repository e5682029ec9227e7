"""A decode engine: continuous batching, recorded decode steps, drafts verified by the model.

A step serves every running request. A batch of n requests runs in the smallest bucket of at least n: a CUDA graph
recorded once for that many requests, or on a CPU the same calls on the same static buffers. Rows behind the batch are
padding. A server doesn't clear them: they keep the tokens and the page table that an earlier replay left there, and
get length 1 and slot 0.

One step of a request that has n tokens in the cache, with D drafts (T = D + 1):

    verify   T rows at positions n .. n+D: the newest token and the drafts. Row j may attend to n + 1 + j tokens.
    accept   drafts count as long as they are what the model says; one more token is the model's own
    draft    the drafting head runs over the T rows, and then step by step from the last accepted one
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from helpers import cpu
from helpers.cpu.settings import current
from helpers.operations.arguments import require_bool, require_int, require_power_of_two
from helpers.operations.sliding_window_attention import TILE

from .cache import PagedAttention, Pool, Variant, slots_of
from .model import DenseAttention, Model

BUCKETS = (1, 2, 4, 8, 16)
MAX_SLOTS = 2**31 - 1  # slots are int32
PADDING_LENGTH = 1  # what a padding row of a batch has as its length, draft rows still to be taken off


@dataclass(frozen=True)
class Capacity:
    """How much the engine can hold. running: requests at a time, at most the largest of BUCKETS.
    pages: of the pool, page 0 included. page_size: a power of two, at most 64. context: tokens a request can have,
    drafts that are thrown away included. drafts: at least 1. Raises TypeError or ValueError for what no engine can be.
    """

    running: int = 16
    pages: int = 384
    page_size: int = 16
    context: int = 448
    drafts: int = 2

    def __post_init__(self):
        require_int("running", self.running, 1, BUCKETS[-1])
        require_power_of_two("page_size", self.page_size, TILE)
        require_int("pages", self.pages, 2, MAX_SLOTS // self.page_size)
        require_int("drafts", self.drafts, 1, MAX_SLOTS // 4)
        require_int("context", self.context, self.reach(1, 1), MAX_SLOTS)

    def reach(self, prompt: int, wanted: int) -> int:
        """Tokens that a request may ever have in the cache, drafts that are thrown away included."""
        return prompt + wanted + (self.drafts + 1) + self.drafts - 1


@dataclass
class Request:
    """One request. tokens: what it has been answered so far. had_nan: whether NaN came out of the model for it, or
    out of the drafting head."""

    number: int
    prompt: list[int]
    wanted: int
    tokens: list[int] = field(default_factory=list)
    had_nan: bool = False
    pages: list[int] = field(default_factory=list)
    cached: int = 0  # tokens whose K and V are in the cache for good
    drafts: list[int] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether it has all the tokens it wanted."""
        return len(self.tokens) >= self.wanted


@dataclass(frozen=True)
class Step:
    """What one decode step did: the requests of its live rows, the bucket, tokens that each got, who had NaN."""

    requests: tuple[int, ...]
    bucket: int
    gained: tuple[int, ...]
    nan_requests: frozenset[int]
    slot_0_is_nan: bool
    seconds: float


class ServingFault(RuntimeError):
    """A step failed; no request has moved. kernel, line, report: of the KernelFault, where one is known."""

    def __init__(self, step, running, bucket, error):
        super().__init__(f"step {step}, {running} requests in a bucket of {bucket}: {_first_line(error)}")
        self.step = step
        self.kernel, self.line = getattr(error, "kernel", None), getattr(error, "line", None)
        self.report = getattr(error, "report", "") or str(error)


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def row_lengths(seq_lens: Tensor, rows: int) -> Tensor:
    """int32 [B, rows]: how many tokens each of a request's last `rows` rows attends to.

    seq_lens [B]: with all of these rows counted in. The last row attends to all, the one before to one less. In a
    padding row that gives 1, 0, -1, ...: PagedAttention clamps what is below 0, as the engine does since
    sgl-project/sglang#30378.
    """
    return seq_lens.unsqueeze(1) + torch.arange(1 - rows, 1, dtype=torch.int32, device=seq_lens.device)


class Engine:
    """Serves requests with `model`. recorded: replay CUDA graphs (GPU), or call the same step each time.

    submit() takes a request or refuses it with TypeError or ValueError. What doesn't fit yet waits: for a place in the
    batch, or for pages. step() admits what fits, decodes once, and returns what is finished. It is all or nothing: what
    ends it early, Ctrl-C included, leaves every request and page where it was, and the next step does it again.
    """

    def __init__(self, model: Model, variant: Variant | None = None, capacity: Capacity | None = None, *,
                 recorded: bool = True) -> None:  # fmt: skip
        variant, capacity = variant or Variant(), capacity or Capacity()
        for name, value, kind in (("variant", variant, Variant), ("capacity", capacity, Capacity)):
            if not isinstance(value, kind):
                raise TypeError(f"{name} is a {type(value).__name__}; it should be a {kind.__name__}")
        require_bool("recorded", recorded)
        self.model, self.variant, self.capacity = model, variant, capacity
        self.device = model.embed.weight.device
        self.sizes, self.verified = model.sizes, capacity.drafts + 1
        self.table_pages = -(-capacity.context // capacity.page_size)
        self.pool = Pool(model.sizes, capacity.pages, capacity.page_size, self.device)
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.steps: list[Step] = []
        self.submitted = 0

        ahead = self.verified + capacity.drafts - 1  # slots: of the rows to verify, and of the drafts after them
        self._columns = [1, self.verified, ahead, self.table_pages]
        most = min(bucket for bucket in BUCKETS if bucket >= capacity.running)
        self._buckets = [bucket for bucket in BUCKETS if bucket <= most]
        self._inputs = torch.zeros(most, sum(self._columns), dtype=torch.int32, device=self.device)
        # tokens of the verified rows, accepted drafts, new drafts, NaN in what came out, NaN in slot 0
        self._outputs = torch.zeros(most, self.verified + 1 + capacity.drafts + 2, dtype=torch.int32,
                                    device=self.device)  # fmt: skip
        self._replay = {bucket: self._record(bucket, recorded) for bucket in self._buckets}

    # ------------------------------------------------------------ requests

    def submit(self, prompt: Sequence[int], wanted: int) -> int:
        """Queue a request for `wanted` tokens after `prompt`; returns its number.

        prompt: a list or tuple of ints. Raises TypeError or ValueError for another one, for an empty prompt, a token
        outside the vocabulary, and what could never fit.
        """
        self.check(prompt, wanted)
        request = Request(self.submitted, list(prompt), wanted)
        self.submitted += 1
        self.waiting.append(request)
        return request.number

    def check(self, prompt: Sequence[int], wanted: int) -> None:
        """Raise what submit() would raise for this request, and queue nothing."""
        if not isinstance(prompt, list | tuple):
            raise TypeError(f"prompt is a {type(prompt).__name__}; it should be a list or tuple of ints")
        if not prompt:
            raise ValueError("prompt is empty; it should hold at least one token")
        for at, token in enumerate(prompt):
            require_int(f"prompt[{at}]", token, 0, self.sizes.vocab - 1)
        require_int("wanted", wanted, 1, self.capacity.context)
        reach = self.capacity.reach(len(prompt), wanted)
        if reach > self.capacity.context:
            raise ValueError(f"prompt has {len(prompt)} tokens and {wanted} are wanted; with {self.capacity.drafts} "
                             f"drafts that is {reach}, and the context holds {self.capacity.context}")  # fmt: skip
        pages = self._pages_for(len(prompt), wanted)
        if pages > self.capacity.pages - 1:
            raise ValueError(f"prompt has {len(prompt)} tokens and {wanted} are wanted; that is {pages} pages, "
                             f"and the pool has {self.capacity.pages - 1}")  # fmt: skip

    def _pages_for(self, prompt, wanted):
        return -(-self.capacity.reach(prompt, wanted) // self.capacity.page_size)

    def step(self) -> list[Request]:
        """Admit, decode once, and return the requests that this finished. Raises ServingFault."""
        # As on a GPU: nobody clears shared memory, and blocks and warps run in any order.
        any_order = cpu.mode(current().mode, order="random", seed=len(self.steps))
        put_back = self._keep()
        try:
            with torch.no_grad(), cpu.shared_memory("keep"), any_order:
                self._admit()
                done = self._leave()  # one token may be all that was wanted
                if self.running:
                    self._decode()
                    done += self._leave()
            return done
        except BaseException:
            put_back()
            raise

    def _keep(self):
        """A function that brings all requests and pages back to where they are now.

        What a step wrote to the caches stays: the same step writes the same there again.
        """
        waiting, running, free, steps = self.waiting.copy(), self.running, self.pool.free.copy(), len(self.steps)
        fields = [(request, vars(request).copy()) for request in (*waiting, *running)]

        def put_back() -> None:
            self.waiting, self.running, self.pool.free = waiting, running, free
            del self.steps[steps:]
            for request, values in fields:
                vars(request).update(values)

        return put_back

    def _admit(self):
        while self.waiting and len(self.running) < self.capacity.running:
            request = self.waiting[0]
            pages = self._pages_for(len(request.prompt), request.wanted)
            if pages > len(self.pool.free):
                break
            self.waiting.popleft()
            request.pages = self.pool.take(pages)
            self.running = [*self.running, request]
            with self._faults(1):
                self._prefill(request)

    def _leave(self):
        done = [request for request in self.running if request.finished]
        self.running = [request for request in self.running if not request.finished]
        for request in done:
            del request.tokens[request.wanted :]
            self.pool.free += request.pages
        return done

    @contextlib.contextmanager
    def _faults(self, bucket):
        try:
            yield
        except (cpu.KernelFault, RuntimeError) as error:
            raise ServingFault(len(self.steps), len(self.running), bucket, error) from error

    # ------------------------------------------------------------ prefill: plain torch, and the store kernel

    def _prefill(self, request):
        n, device = len(request.prompt), self.device
        tokens = torch.tensor([request.prompt], device=device)
        positions = torch.arange(n, device=device).unsqueeze(0)
        attention = DenseAttention(self.sizes)
        hidden = self.model(tokens, positions, attention)
        logits = self.model.logits(hidden[:, -1:])
        first = logits.argmax(dim=-1)
        drafted = self.model.draft(hidden, torch.cat([tokens[:, 1:], first], dim=1), positions, attention)

        ahead = slots_of(request.pages, range(n + self.capacity.drafts - 1), self.capacity.page_size)
        slots = torch.tensor([ahead], dtype=torch.int32, device=device)
        table = torch.tensor([self._table_row(request, len(ahead))], dtype=torch.int32, device=device)
        lengths = torch.tensor([[n]], dtype=torch.int32, device=device)
        paged = self._attention(lengths, slots[:, :n], table)
        for number, (k, v) in attention.kept.items():
            paged._store(k, v, *self.pool.layers[number])
        drafts, _ = self._draft_on(drafted[:, -1:], lengths, slots[:, n - 1 :], table)

        request.cached = n
        request.tokens = [int(first)]
        request.drafts = drafts[0].tolist()
        request.had_nan = bool(logits.isnan().any())

    def _table_row(self, request, reach):
        """The pages of a request's first `reach` tokens. Others are set aside for it, but not in use yet."""
        used = request.pages[: -(-reach // self.capacity.page_size)]
        return used + [0] * (self.table_pages - len(used))

    # ------------------------------------------------------------ one decode step

    def _decode(self):
        bucket = min(bucket for bucket in self._buckets if bucket >= len(self.running))
        started = time.perf_counter()
        with self._faults(bucket):
            self._fill(bucket)
            self._replay[bucket]()
            outputs = self._outputs[: len(self.running)].tolist()  # waits for the GPU
        seconds = time.perf_counter() - started

        gained, t = [], self.verified
        for request, row in zip(self.running, outputs, strict=True):
            accepted, nan = row[t], row[-2]
            request.tokens = request.tokens + row[: accepted + 1]
            request.cached += accepted + 1
            request.drafts = row[t + 1 : -2]
            request.had_nan |= bool(nan)
            gained.append(accepted + 1)
        numbers = tuple(request.number for request in self.running)
        with_nan = frozenset(number for number, row in zip(numbers, outputs, strict=True) if row[-2])
        self.steps.append(Step(numbers, bucket, tuple(gained), with_nan, bool(outputs[0][-1]), seconds))

    def _fill(self, bucket):
        """Write the live rows of the static buffers; of the padding rows, just the length and the slots."""
        rows = []
        for request in self.running:
            reach = request.cached + self._columns[2]
            ahead = range(request.cached, reach)
            slots = slots_of(request.pages, ahead, self.capacity.page_size)
            rows.append([request.cached + self.verified, request.tokens[-1], *request.drafts, *slots,
                         *self._table_row(request, reach)])  # fmt: skip
        live = len(rows)
        self._inputs[:live] = torch.tensor(rows, dtype=torch.int32).to(self.device)
        seq_lens, _, slots, _ = self._inputs[live:bucket].split(self._columns, dim=1)
        seq_lens.fill_(PADDING_LENGTH)
        slots.zero_()

    def _step(self, bucket):
        """The recorded part: from the first `bucket` rows of the inputs to those of the outputs, nothing else."""
        seq_lens, tokens, slots, table = self._inputs[:bucket].split(self._columns, dim=1)
        tokens, table = tokens.long(), table.contiguous()
        lengths = row_lengths(seq_lens.squeeze(1), self.verified)
        positions = (lengths - 1).clamp(min=0)
        attention = self._attention(lengths, slots[:, : self.verified], table)
        hidden = self.model(tokens, positions, attention)
        logits = self.model.logits(hidden)
        said = logits.argmax(dim=-1)
        accepted = (said[:, :-1] == tokens[:, 1:]).long().cumprod(dim=1).sum(dim=1, keepdim=True)

        drafted = self.model.draft(hidden, said, positions, attention)
        last = drafted.gather(1, accepted.unsqueeze(2).expand(-1, -1, self.sizes.width))
        ahead = accepted + torch.arange(self.capacity.drafts, device=self.device)
        drafts, last = self._draft_on(last, lengths.gather(1, accepted), slots.gather(1, ahead), table)
        nan = torch.cat([hidden, drafted, last], dim=1).isnan().any(dim=2).any(dim=1, keepdim=True)
        slot_0 = self.pool.slot_0_is_nan().expand(bucket, 1)
        self._outputs[:bucket] = torch.cat([said, accepted, drafts, nan, slot_0], dim=1).int()

    def _draft_on(self, hidden, lengths, slots, table):
        """Drafts [B, D] from the drafting head's newest hidden states [B, 1, width], and the last of these states.

        lengths [B, 1]: tokens up to that state; slots [B, D]: the state's, and of the tokens after it.
        """
        drafts = [self.model.logits(hidden).argmax(dim=-1)]
        for step in range(1, self.capacity.drafts):
            attention = self._attention(lengths + step, slots[:, step : step + 1], table)
            hidden = self.model.draft(hidden, drafts[-1], (lengths + step - 1).clamp(min=0), attention)
            drafts.append(self.model.logits(hidden).argmax(dim=-1))
        return torch.cat(drafts, dim=1), hidden

    def _attention(self, lengths, slots, table):
        return PagedAttention(self.pool, self.sizes, self.variant, lengths, slots, table)

    def _record(self, bucket, recorded):
        """A function that runs the step for `bucket` requests: the replay of a CUDA graph, or the step itself."""
        if not recorded or self.device.type == "cpu":
            return lambda: self._step(bucket)
        with torch.no_grad():
            # The first call compiles. Lengths as in a real step: rows of length 0 would leave NaN in slot 0.
            self._inputs[:bucket, 0] = self.verified
            self._step(bucket)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._step(bucket)
        return graph.replay


def serve(engine: Engine, arrivals: Sequence[tuple[int, Sequence[int], int]]) -> list[Request]:
    """Serve (step of arrival, prompt, wanted tokens), sorted by step; returns the requests in that order.

    Requests that the engine still has from before are served, too, and come first. Raises TypeError or ValueError,
    with nothing submitted, for arrivals that are not sorted and for what submit() refuses.
    """
    earliest = 0
    for at, (step, prompt, wanted) in enumerate(arrivals):
        require_int(f"the step of arrivals[{at}]", step, earliest, 2**63 - 1)
        engine.check(prompt, wanted)
        earliest = step
    coming, done, now = deque(arrivals), {}, 0
    while coming or engine.waiting or engine.running:
        while coming and coming[0][0] <= now:
            engine.submit(*coming.popleft()[1:])
        for request in engine.step():
            done[request.number] = request
        now += 1
    return [done[number] for number in sorted(done)]
