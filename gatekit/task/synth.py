"""The bundled question set `gsm8k_synth`: GSM8K-like word problems from a seed, with no file and no network.

The distribution is frozen: the same seeds give the same questions and answers for ever, because scores are
only comparable over identical questions. A question belongs to `test` or `train` by its own hash, so no
seed can bring a test question into a prompt.
"""

from __future__ import annotations

import hashlib
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from random import Random
from typing import TypeVar

from gatekit.records.answers import Question

TEST_ROWS = 1319
TRAIN_ROWS = 1000
TEST_HASH_SHARE = 8  # of 256: the first byte of a question's sha256 below this makes it a test question

T = TypeVar("T")
Numbers = dict[str, int]
Step = tuple[str, str, str]  # left, operator, right: names of drawn numbers, or "#k" for the result of step k


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = _words(
    "Ava Ben Carl Dana Emma Finn Gina Hugo Iris Jack Kira Leo Mia Noah Olga Paul Rosa Sam Tina Will Zoe Liam Nora Omar"
)
ITEMS = _words(
    "apples books cards coins eggs pens stamps shells marbles stickers cookies pencils oranges toys beads buttons"
)
PLACES = _words("shop market fair school park library")
CONTAINERS = _words("boxes bags packs baskets jars crates")
MULTIPLES = (("twice", 2), ("three times", 3), ("four times", 4))
BILLS = (20, 50, 100, 200)
STEP_HEADS = ("First", "Then", "Next", "So")


class Draws:
    """Random draws that equal those of `random.Random`'s methods one by one, at a third of their cost."""

    def __init__(self, seed: str) -> None:
        source = Random(seed)  # noqa: S311 - reproducible questions, not secrets
        self._bits, self.uniform = source.getrandbits, source.random

    def below(self, n: int) -> int:
        """An integer in [0, n), without modulo bias."""
        width = n.bit_length()
        value = self._bits(width)
        while value >= n:
            value = self._bits(width)
        return value

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        n = high - low + 1  # `below`, written out: this is the hot path
        width = n.bit_length()
        value = self._bits(width)
        while value >= n:
            value = self._bits(width)
        return low + value

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.below(len(options))]

    def two_of_many(self, options: Sequence[T]) -> tuple[T, T]:
        """Two different options, as `random.sample` draws them from more than 21: again until they differ."""
        first = second = self.below(len(options))
        while second == first:
            second = self.below(len(options))
        return options[first], options[second]

    def two_of_few(self, options: Sequence[T]) -> tuple[T, T]:
        """Two different options, as `random.sample` draws them from up to 21: the last one fills the gap."""
        last = len(options) - 1
        first, second = self.below(last + 1), self.below(last)
        return options[first], options[last if second == first else second]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One kind of problem: how often it comes, its numbers, its wordings, and the steps to the answer."""

    weight: int
    draw: Callable[[Draws], Numbers]
    wordings: tuple[str, ...]
    steps: tuple[Step, ...]


def _add(d: Draws) -> Numbers:
    return {"x": d.between(2, 99), "y": d.between(2, 99)}


def _subtract(d: Draws) -> Numbers:
    x = d.between(12, 120)
    return {"x": x, "y": d.between(2, x - 2)}


def _multiply(d: Draws) -> Numbers:
    return {"x": d.between(2, 12), "y": d.between(2, 20)}


def _divide(d: Draws) -> Numbers:
    y, quotient = d.between(2, 12), d.between(2, 20)
    return {"x": y * quotient, "y": y}


def _subtract_multiply(d: Draws) -> Numbers:
    x = d.between(8, 40)
    return {"x": x, "y": d.between(2, x - 3), "m": d.between(2, 9)}


def _multiply_add(d: Draws) -> Numbers:
    return {"x": d.between(2, 12), "m": d.between(2, 12), "y": d.between(2, 60)}


def _multiply_subtract(d: Draws) -> Numbers:
    x, m = d.between(3, 12), d.between(3, 12)
    return {"x": x, "m": m, "y": d.between(2, x * m - 2)}


def _half(d: Draws) -> Numbers:
    half = d.between(3, 60)
    return {"x": 2 * half, "two": 2}


def _times(d: Draws) -> Numbers:
    multiple = d.below(len(MULTIPLES))
    return {"x": d.between(3, 40), "m": MULTIPLES[multiple][1], "word": multiple}


def _add_divide(d: Draws) -> Numbers:
    parts, share = d.between(2, 9), d.between(3, 15)
    x = d.between(2, parts * share - 2)
    return {"x": x, "y": parts * share - x, "k": parts}


def _add_subtract(d: Draws) -> Numbers:
    x, y = d.between(5, 80), d.between(5, 80)
    return {"x": x, "y": y, "w": d.between(2, x + y - 2)}


def _basket(d: Draws) -> Numbers:
    return {"n": d.between(2, 9), "m": d.between(2, 9), "u": d.between(2, 12), "v": d.between(2, 12)}


def _change(d: Draws) -> Numbers:
    n, u, v = d.between(2, 9), d.between(2, 9), d.between(2, 19)
    return {"n": n, "u": u, "v": v, "bill": d.pick([bill for bill in BILLS if bill > n * u + v])}


FAMILIES = (
    Family(
        weight=1,
        draw=_add,
        wordings=(
            "{a} has {x} {i}. {b} gives {a} {y} more {i}. How many {i} does {a} have now?",
            "There are {x} {i} and {y} {j} at the {p}. How many things are there in total?",
            "{a} found {x} {i} at the {p} and {b} found {y}. How many {i} did they find together?",
        ),
        steps=(("x", "+", "y"),),
    ),
    Family(
        weight=1,
        draw=_subtract,
        wordings=(
            "{a} had {x} {i} and gave {y} of them to {b}. How many {i} are left?",
            "The {p} has {x} {i}. {y} of them are sold. How many {i} remain?",
            "{a} has {x} {i} and {b} has {y}. How many more {i} does {a} have than {b}?",
        ),
        steps=(("x", "-", "y"),),
    ),
    Family(
        weight=1,
        draw=_multiply,
        wordings=(
            "{a} buys {x} {c} of {i}. Each holds {y} {i}. How many {i} does {a} have?",
            "{a} reads {y} pages every day. How many pages does {a} read in {x} days?",
            "One of the {i} costs ${y}. How many dollars do {x} {i} cost?",
        ),
        steps=(("x", "*", "y"),),
    ),
    Family(
        weight=1,
        draw=_divide,
        wordings=(
            "{a} shares {x} {i} equally among {y} friends. How many {i} does each friend get?",
            "{a} packs {x} {i} into {c} of {y}. How many {c} are needed?",
        ),
        steps=(("x", "/", "y"),),
    ),
    Family(
        weight=2,
        draw=_subtract_multiply,
        wordings=(
            "{a} collects {x} {i} per day, keeps {y} and sells the rest at the {p} for ${m} each. "
            "How many dollars does {a} make per day?",
            "There were {x} {c} at the {p} but {y} were broken. Each other one holds {m} {i}. How many {i} are there?",
        ),
        steps=(("x", "-", "y"), ("#1", "*", "m")),
    ),
    Family(
        weight=2,
        draw=_multiply_add,
        wordings=(
            "{a} has {x} {c} with {m} {i} each and {y} loose {i}. How many {i} does {a} have?",
            "{a} saves ${m} a week for {x} weeks and gets ${y} from {b}. How many dollars does {a} have?",
        ),
        steps=(("x", "*", "m"), ("#1", "+", "y")),
    ),
    Family(
        weight=2,
        draw=_multiply_subtract,
        wordings=(
            "{a} buys {x} {c} of {m} {i} and eats {y} of them. How many {i} are left?",
            "{a} earns ${m} an hour, works {x} hours and spends ${y} at the {p}. How many dollars are left?",
        ),
        steps=(("x", "*", "m"), ("#1", "-", "y")),
    ),
    Family(
        weight=1,
        draw=_half,
        wordings=(
            "{a} sold {x} {i} in April and half as many in May. How many {i} did {a} sell altogether?",
            "{a} has {x} {i}. {b} has half as many. How many {i} do they have together?",
        ),
        steps=(("x", "/", "two"), ("x", "+", "#1")),
    ),
    Family(
        weight=1,
        draw=_times,
        wordings=("{a} has {x} {i}. {b} has {word} as many {i} as {a}. How many {i} do they have in total?",),
        steps=(("x", "*", "m"), ("#1", "+", "x")),
    ),
    Family(
        weight=1,
        draw=_add_divide,
        wordings=(
            "{a} has {x} {i} and {b} has {y}. They put all of them into {k} {c} equally. How many {i} go in each?",
        ),
        steps=(("x", "+", "y"), ("#1", "/", "k")),
    ),
    Family(
        weight=2,
        draw=_add_subtract,
        wordings=("{a} had {x} {i}, got {y} more from {b} and lost {w} at the {p}. How many {i} does {a} have now?",),
        steps=(("x", "+", "y"), ("#1", "-", "w")),
    ),
    Family(
        weight=2,
        draw=_basket,
        wordings=(
            "{a} buys {n} {i} for ${u} each and {m} {j} for ${v} each at the {p}. How many dollars does {a} pay?",
        ),
        steps=(("n", "*", "u"), ("m", "*", "v"), ("#1", "+", "#2")),
    ),
    Family(
        weight=2,
        draw=_change,
        wordings=(
            "{a} buys {n} {i} for ${u} each and a bag for ${v}, and pays with ${bill}. "
            "How many dollars of change does {a} get?",
        ),
        steps=(("n", "*", "u"), ("#1", "+", "v"), ("bill", "-", "#2")),
    ),
)
_CUMULATIVE = tuple(accumulate(family.weight for family in FAMILIES))


@cache
def synth_questions(n: int, split: str, seed: int = 0) -> tuple[Question, ...]:
    """The first n questions of a split ("test" or "train"); test questions are all different."""
    found: list[Question] = []
    seen: set[str] = set()
    for family, numbers, text in _problems(Draws(f"gsmlike-{split}-{seed}")):
        if len(found) == n:
            break
        if _split_of(text) != split or text in seen:
            continue
        if split == "test":
            seen.add(text)
        found.append(Question(id=len(found), text=text, reference=_reference(family.steps, numbers)))
    return tuple(found)


def _problems(draws: Draws) -> Iterator[tuple[Family, Numbers, str]]:
    """Problems without end. The order of the draws is the distribution: never change it."""
    while True:
        family = FAMILIES[bisect(_CUMULATIVE, draws.uniform() * _CUMULATIVE[-1])]
        a, b = draws.two_of_many(PEOPLE)
        i, j = draws.two_of_few(ITEMS)
        p, c = draws.pick(PLACES), draws.pick(CONTAINERS)
        numbers = family.draw(draws)
        wording = family.wordings[0] if len(family.wordings) == 1 else draws.pick(family.wordings)
        words: dict[str, int | str] = {"a": a, "b": b, "i": i, "j": j, "p": p, "c": c, **numbers}
        if "word" in numbers:
            words["word"] = MULTIPLES[numbers["word"]][0]
        yield family, numbers, wording.format_map(words)


def _split_of(text: str) -> str:
    return "test" if hashlib.sha256(text.encode()).digest()[0] < TEST_HASH_SHARE else "train"


def _reference(steps: tuple[Step, ...], numbers: Mapping[str, int]) -> str:
    """The worked answer: one sentence a step, then `#### N`."""
    known = dict(numbers)
    lines: list[str] = []
    result = 0
    for index, (left, operator, right) in enumerate(steps):
        result = _apply(known[left], operator, known[right])
        known[f"#{index + 1}"] = result
        lines.append(f"{STEP_HEADS[index]}, {known[left]} {operator} {known[right]} = {result}.")
    return "\n".join(lines) + f"\n#### {result}"


def _apply(x: int, operator: str, y: int) -> int:
    match operator:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case _:
            return x // y
