"""Train the small model: python -m helpers.small_server.train (make train).

Writes weights.safetensors and training_log.json next to this file. The seed decides everything that is drawn. On a
CPU two runs with the same number of threads give the same weights; a GPU may add up in another order.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from .model import WEIGHTS, DenseAttention, Model
from .task import NAME, POINTER, RECORDS, SHORTEST, problem

STEPS = {"cpu": 500, "cuda": 2000}  # what either does in a few minutes
BATCH = {"cpu": 16, "cuda": 64}
LENGTHS = ((0.0, 112), (0.5, 224), (0.8, 432))  # of the sequences: from this share of the steps on
SPARSE_FROM = 0.6  # from this share on, sparse layers see what the indexer chooses, every other step
LIFT_COST = 0.1  # what the indexer pays for each score above 0, so that it lifts few tokens


def batch(size: int, length: int, rng: random.Random) -> tuple[Tensor, Tensor]:
    """Sequences [size, length + 1] and from which token on each is an answer [size]."""
    sequences, starts = [], []
    for _ in range(size):
        document = rng.randint(max(SHORTEST, length // 3), length - length // 5)
        drawn = problem(document, length + 1 - document, rng)
        sequences.append((drawn.prompt + drawn.answer)[: length + 1])
        starts.append(len(drawn.prompt))
    return torch.tensor(sequences), torch.tensor(starts)


def choose_topk(topk: int, generator: torch.Generator) -> Callable[[Tensor], Tensor]:
    """A `choose` for DenseAttention: the topk largest scores, equals in any order, as a server breaks ties."""

    def choose(scores: Tensor) -> Tensor:
        allowed = scores > -torch.inf
        if scores.shape[-1] <= topk:
            return allowed
        noise = torch.rand(scores.shape, generator=generator, device=scores.device)
        chosen = (scores.detach() + 1e-4 * noise).topk(topk, dim=-1).indices
        return torch.zeros_like(allowed).scatter_(-1, chosen, True) & allowed

    return choose


def losses(model: Model, tokens: Tensor, starts: Tensor, attention: DenseAttention) -> dict[str, Tensor]:
    """Mean losses over the answers: of the next token, of the first and second draft, of the indexer."""
    inputs, length = tokens[:, :-1], tokens.shape[1] - 1
    positions = torch.arange(length, device=tokens.device).expand_as(inputs)
    answers = positions + 1 >= starts.unsqueeze(1)
    hidden = model(inputs, positions, attention)
    found = {"next": _loss(model, hidden, tokens[:, 1:], answers)}
    drafted = hidden
    for step in (1, 2):  # token p and the hidden state before give a guess at token p + 1 + step
        drafted, known = drafted[:, :-1], tokens[:, step : length]
        drafted = model.draft(drafted, known, positions[:, : length - step], DenseAttention(model.sizes))
        found[f"draft {step}"] = _loss(model, drafted, tokens[:, 1 + step :], answers[:, : length - step])
    index = torch.stack(attention.index_losses).mean(dim=0)
    found["indexer"] = index[answers].mean() + 0.1 * index.mean() + LIFT_COST * torch.stack(attention.lifts).mean()
    return found


def _loss(model, hidden, targets, mask):
    return cross_entropy(model.logits(hidden[mask]), targets[mask])


@torch.no_grad()
def accuracy(model: Model, tokens: Tensor, starts: Tensor, choose: Callable[[Tensor], Tensor] | None) -> float:
    """The share of right next tokens in the answers of one batch."""
    positions = torch.arange(tokens.shape[1] - 1, device=tokens.device).expand_as(tokens[:, 1:])
    logits = model.logits(model(tokens[:, :-1], positions, DenseAttention(model.sizes, choose)))
    right = logits.argmax(dim=-1) == tokens[:, 1:]
    return right[positions + 1 >= starts.unsqueeze(1)].float().mean().item()


def new_model() -> Model:
    """A model to train. Its pointers start out near the names of the records that they point to."""
    model = Model()
    with torch.no_grad():
        weight = model.embed.weight
        weight[POINTER : POINTER + RECORDS] *= 0.5
        weight[POINTER : POINTER + RECORDS] += weight[NAME : NAME + RECORDS]
    return model


def optimizers(model: Model) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between the layers; AdamW for embeddings, biases and the output."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        inner = parameter.ndim == 2 and not name.startswith(("embed", "head"))
        (matrices if inner else others).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=1e-2, momentum=0.95, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, lr=3e-3, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def train(steps: int, size: int, seed: int, device: str) -> tuple[Model, list[dict]]:
    """The trained model on `device`, and a log of the losses every 50 steps."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    model = new_model().to(device)
    choose = choose_topk(model.sizes.topk, torch.Generator(device).manual_seed(seed))
    both = optimizers(model)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(each, lambda step: min((step + 1) / 20, 1.0, 2 * (1 - step / steps)))
        for each in both
    ]
    log, started = [], time.perf_counter()
    for step in range(steps):
        length = [length for start, length in LENGTHS if step >= start * steps][-1]
        selects = step >= SPARSE_FROM * steps and step % 2 == 0
        tokens, starts = (t.to(device) for t in batch(size, length, rng))
        found = losses(model, tokens, starts, DenseAttention(model.sizes, choose if selects else None))
        sum(found.values()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for each in (*both, *schedules):
            each.step()
        for each in both:
            each.zero_grad()
        if step % 50 == 0 or step == steps - 1:
            fresh = [t.to(device) for t in batch(size, length, rng)]
            entry = {"step": step, "length": length} | {name: round(loss.item(), 4) for name, loss in found.items()}
            entry["accuracy"] = round(accuracy(model, *fresh, None), 4)
            entry["accuracy with top-k"] = round(accuracy(model, *fresh, choose), 4)
            entry["seconds"] = round(time.perf_counter() - started, 1)
            log.append(entry)
            print(entry, flush=True)
    return model, log


def main() -> None:
    """Train a model and write its weights and the log of its training into the folder of --output."""
    parser = argparse.ArgumentParser(prog="python -m helpers.small_server.train", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=WEIGHTS.parent)
    arguments = parser.parse_args()
    where = "cuda" if torch.cuda.is_available() else "cpu"
    steps, size = STEPS[where], BATCH[where]
    model, log = train(steps, size, arguments.seed, where)
    arguments.output.mkdir(parents=True, exist_ok=True)
    save_file({name: t.cpu() for name, t in model.state_dict().items()}, arguments.output / WEIGHTS.name)
    about = {"steps": steps, "batch": size, "seed": arguments.seed, "torch": torch.__version__}
    about["device"] = torch.cuda.get_device_name() if where == "cuda" else platform.processor() or platform.machine()
    text = json.dumps(about | {"log": log}, indent=1)
    (arguments.output / "training_log.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
