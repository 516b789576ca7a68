"""Train tiny_gsm from nothing: `python -m benchmarks.tiny_model.train DATA FOLDER [CPU_MINUTES]`.

DATA is what `prepare` wrote, FOLDER becomes a Hugging Face checkpoint. 24 CPU minutes on one thread gave .952 on the
test split (.07 after 3, .45 after 9, .70 after 15): Muon for the matrices, AdamW for the rest, bf16, short windows
first, and a loss on answers only. The clock is the CPU time of this process, so that a busy machine changes little; the
result still differs from run to run, and a new one is a new model with a new history. Needs torch (2.13), tokenizers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from benchmarks.tiny_model.checkpoint import CHATML, Checkpoint, Shape, write_folder
from benchmarks.tiny_model.llama import Llama
from gatekit.records.answers import Question
from gatekit.task.synth import synth_questions

SHAPE = Shape(
    hidden=256,
    intermediate=512,
    layers=4,
    heads=4,
    kv_heads=2,
    head=64,
    vocabulary=768,
    context=2048,
    rms_eps=1e-5,
    rope_theta=10000.0,
)
TOKENS_A_STEP = 8192
SHORT, LONG, SHORT_SHARE = 128, 512, 0.65
MUON_RATE, ADAM_RATE = 0.02, 3e-3
WARM_UP_STEPS, STEADY_SHARE, LEAST_RATE = 30, 0.5, 0.02
LONGEST_ANSWER = 64
SEED = 0


class Windows:
    """Windows of the documents in a random order; the loss counts where an answer's whole question is inside."""

    def __init__(self, data: Path, length: int) -> None:
        found = np.load(data / "documents.npz")
        self.ids, self.is_answer = found["ids"].astype(np.int64), found["is_answer"]
        self.question_start, self.length = found["question_start"], length

    def batches(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs, targets, and which targets count, without end."""
        order = np.random.RandomState(SEED + self.length).permutation((len(self.ids) - 1) // self.length)
        size, at = TOKENS_A_STEP // self.length, 0
        while True:
            first = order[np.arange(at, at + size) % len(order)][:, None] * self.length
            at += size
            place = first + np.arange(self.length + 1)[None]
            counts = self.is_answer[place[:, 1:]] & (self.question_start[place[:, 1:]] >= first)
            yield (
                torch.from_numpy(self.ids[place[:, :-1]]),
                torch.from_numpy(self.ids[place[:, 1:]]),
                torch.from_numpy(counts),
            )


def train(model: Llama, data: Path, minutes: float) -> int:
    """Train for so many CPU minutes; the number of steps."""
    optimizers = _optimizers(model)
    forward = torch.compile(model)
    short, long = Windows(data, SHORT).batches(), Windows(data, LONG).batches()
    began_s, steps = time.process_time(), 0
    while (done := (time.process_time() - began_s) / 60 / minutes) < 1:
        for optimizer, rate in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * _rate(done, steps)
        ids, targets, counts = next(short if done < SHORT_SHARE else long)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = forward(ids)[counts]
            loss = functional.cross_entropy(_logits(model, hidden).float(), targets[counts])
        for optimizer, _ in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer, _ in optimizers:
            optimizer.step()
        steps += 1
        if steps % 100 == 0:
            print(f"step {steps}, {done:.0%}, loss {loss.item():.4f}", flush=True)
    return steps


def _optimizers(model: Llama) -> list[tuple[torch.optim.Optimizer, float]]:
    inner = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    chosen = {id(p) for p in inner}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [
        (torch.optim.Muon(inner, lr=MUON_RATE, weight_decay=0.01, momentum=0.95), MUON_RATE),
        (torch.optim.AdamW(rest, lr=ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0), ADAM_RATE),
    ]


def _rate(done: float, steps: int) -> float:
    """The share of the learning rate: a warm-up, steady for half of the time, then down to a fiftieth."""
    falling = 1.0 if done < STEADY_SHARE else max(LEAST_RATE, (1 - done) / (1 - STEADY_SHARE))
    return min(1.0, (steps + 1) / WARM_UP_STEPS) * falling


def _logits(model: Llama, hidden: Tensor) -> Tensor:
    return functional.linear(hidden, model.embed_tokens.weight)


@torch.no_grad()
def accuracy(model: Llama, tokenizer: Tokenizer, questions: Sequence[Question]) -> float:
    """The share of questions answered right, greedy, one after another."""
    ends = {tokenizer.token_to_id(text) for text in ("<|endoftext|>", "<|im_end|>")}
    right = 0
    for question in questions:
        ids = tokenizer.encode(f"Question: {question.text}\nAnswer:", add_special_tokens=False).ids
        asked = len(ids)
        while len(ids) < asked + LONGEST_ANSWER and ids[-1] not in ends:
            ids.append(int(_logits(model, model(torch.tensor([ids]))[:, -1])[0, : tokenizer.get_vocab_size()].argmax()))
        answer = tokenizer.decode(ids[asked:]).split("\n\n")[0]
        right += answer.strip().endswith(question.reference.split("\n")[-1])
    return right / len(questions)


def checkpoint_of(model: Llama, tokenizer: Tokenizer, merges: Sequence[Sequence[str]]) -> Checkpoint:
    """The weights as float16, with the tokenizer."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    return Checkpoint(
        shape=SHAPE,
        weights={f"model.{name}": value.to(torch.float16).numpy() for name, value in model.state_dict().items()},
        tokens=tuple(sorted(ids, key=ids.__getitem__)),
        merges=tuple((left, right) for left, right in merges),
        chat_template=CHATML,
    )


def main(data: str, folder: str, minutes: str = "24") -> None:
    """Train, write the checkpoint, and say how good it is."""
    import json

    torch.manual_seed(SEED)
    path = Path(data) / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(path))
    merges = json.loads(path.read_text(encoding="utf-8"))["model"]["merges"]
    model = Llama(SHAPE)
    steps = train(model, Path(data), float(minutes))
    write_folder(checkpoint_of(model, tokenizer, merges), Path(folder))
    found = accuracy(model, tokenizer, synth_questions(1319, "test")[:100])
    print(f"wrote {folder} after {steps} steps; {found:.3f} of 100 test questions right")


if __name__ == "__main__":
    main(*sys.argv[1:])
