"""The tokenizer of tiny_gsm and its training text: `python -m benchmarks.tiny_model.prepare FOLDER [PROBLEMS]`.

Writes FOLDER/tokenizer.json and FOLDER/documents.npz: `ids` (token ids of all documents in a row), `is_answer` (whether
the loss counts there) and `question_start` (where the question begins that a token belongs to). The problems are the
train split of `gatekit.task.synth`: no test question is among them. Needs `tokenizers` (0.22).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from benchmarks.tiny_model.checkpoint import END_OF_TEXT, QWEN2_WORDS, TURN_END, TURN_START
from gatekit.records.answers import Question
from gatekit.task.synth import synth_questions

PROBLEMS = 160_000
BPE_PROBLEMS = 20_000
VOCABULARY = 765  # the padded vocabulary has 768 rows, three of them special
FEW_SHOT_SHARE = 0.65
SYSTEM = ("", "", "You are a helpful assistant.", "You are a careful maths tutor.")
REQUESTS = (
    "",
    "\nEnd with #### and the number.",
    "\nThink step by step. Give the final answer after ####.",
    "\nSolve the problem step by step. Put the final answer on the last line as '#### <number>'.",
)

Segment = tuple[str, bool]  # a text, and whether it is answered


def make_tokenizer(problems: Sequence[Question]) -> Tokenizer:
    """A byte-level BPE in which every digit is a token of its own."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_WORDS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = [f"Question: {problem.text}\nAnswer: {problem.reference}\n\n" for problem in problems[:BPE_PROBLEMS]]
    chats = [f"system\n{system}\nuser\nassistant\n{request}" for system in SYSTEM for request in REQUESTS]
    tokenizer.train_from_iterator(texts + chats * 200, trainer)
    tokenizer.add_special_tokens([END_OF_TEXT, TURN_START, TURN_END])
    return tokenizer


def documents(problems: Sequence[Question]) -> Iterator[Segment]:
    """The problems as worked examples one after another (one to six a document), or as chats."""
    draws = Random(7)
    left = iter(problems)
    for problem in left:
        if draws.random() < FEW_SHOT_SHARE:
            yield from _examples(problem, left, draws.choice((1, 1, 2, 3, 4, 5, 6)))
        else:
            yield from _chat(problem, draws.choice(SYSTEM), draws)


def _examples(problem: Question, left: Iterator[Question], number: int) -> Iterator[Segment]:
    for place in range(number):
        following = next(left, None) if place < number - 1 else None
        yield f"Question: {problem.text}\nAnswer:", False
        yield f" {problem.reference}", True
        if following is None:
            yield END_OF_TEXT, True
            return
        yield "\n\n", True
        problem = following


def _chat(problem: Question, system: str, draws: Random) -> Iterator[Segment]:
    if system:
        yield f"{TURN_START}system\n{system}{TURN_END}\n", False
    request = draws.choice(REQUESTS)
    yield f"{TURN_START}user\n{problem.text}{request}{TURN_END}\n{TURN_START}assistant\n", False
    yield f"{problem.reference}{TURN_END}", True
    yield "\n", False


def pack(tokenizer: Tokenizer, segments: Sequence[Segment], path: Path) -> int:
    """Write the documents as arrays; the number of tokens."""
    encoded = [found.ids for found in tokenizer.encode_batch([text for text, _ in segments], add_special_tokens=False)]
    lengths = np.array([len(ids) for ids in encoded])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    opens = np.array([not answered and text.startswith(("Question:", TURN_START)) for text, answered in segments])
    np.savez(
        path,
        ids=np.concatenate([np.array(ids, dtype=np.uint16) for ids in encoded]),
        is_answer=np.repeat(np.array([answered for _, answered in segments]), lengths),
        question_start=np.repeat(np.maximum.accumulate(np.where(opens, starts, 0)), lengths).astype(np.int32),
    )
    return int(lengths.sum())


def main(folder: str, problems: str = str(PROBLEMS)) -> None:
    """Make both files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    found = synth_questions(int(problems), "train")
    tokenizer = make_tokenizer(found)
    tokenizer.save(str(target / "tokenizer.json"))
    tokens = pack(tokenizer, list(documents(found)), target / "documents.npz")
    print(f"{len(found)} problems, {tokens} tokens, vocabulary {tokenizer.get_vocab_size()}")


if __name__ == "__main__":
    main(*sys.argv[1:])
