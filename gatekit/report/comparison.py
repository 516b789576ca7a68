"""Two runs beside each other: what was asked for, what was served, and every question that changed sides."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gatekit.records.answers import Cell, Counts, Observation, Status, cells
from gatekit.records.canonical import Plain, to_plain
from gatekit.records.run import RunRecord
from gatekit.records.secrets import without_secrets
from gatekit.records.served_details import changed_weights
from gatekit.records.spec import EngineKind
from gatekit.stats.paired import clustered_difference, mcnemar

CONFIDENCE = 0.95
_Z = 1.959963984540054  # the normal quantile of (1 + CONFIDENCE) / 2
_NAMED_FIELDS = 5
_UNASKED = "unasked"

Met = tuple[Observation | None, Observation | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two runs in brief. `build` is None where unknown; `answers` how many of them are on record, with
    `repeats` of them to a question."""

    run_id: str
    spec: str
    model: str
    hardware: str
    engine: str
    build: str | None
    simulated: bool
    finished_at: str
    outcome: str
    key: str
    counts: Counts
    answers: int
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One named value that is not the same in both runs; `absent` says which of them has no such value at all."""

    name: str
    before: Plain
    after: Plain
    absent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """How many questions ended as `before` in the first run and as `after` in the second."""

    before: str
    after: str
    questions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeQuestions:
    """So many questions with pairs, how many of them were less often or more often right in the second run, and
    McNemar's p-value of these two: it holds however alike the repeats of a question are."""

    questions: int
    fewer: int
    more: int
    p_two_sided: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The questions that both runs answered, right or not.

    Repeats of a question are pairs of their own in all counts. `difference` is (wrong_to_right - right_to_wrong) / n
    and `stderr` its standard error by question (Miller 2024), however alike its repeats are; `low` and `high` are its
    normal 95 % interval. The last three are None where nothing changed sides, the questions do not differ in what they
    gained, or there is one: a spread of 0 would be a claim that nobody can make. `p_two_sided` is McNemar's, exact;
    `by_question` the same of whole questions, None without repeats. `same_text` counts answers that are the same
    character by character. `unanswered` questions of both runs, that one of them did not answer, are in
    none of these figures: with them the difference lies between `lowest` and `highest`, whichever they are.
    """

    n: int
    both_right: int
    right_to_wrong: int
    wrong_to_right: int
    both_wrong: int
    same_text: int
    p_two_sided: float
    by_question: WholeQuestions | None = None
    difference: float
    stderr: float | None
    low: float | None
    high: float | None
    unanswered: int
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one run made of a question."""

    status: str
    predicted: str | None
    finish_reason: str | None
    text: str | None
    reasoning: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A question that changed sides. `question` is None where its text is not at hand, `repeat` where there is one."""

    question_id: int
    repeat: int | None = None
    question: str | None
    expected: str | None
    before: Answer
    after: Answer

    @property
    def is_right_to_wrong(self) -> bool:
        """Whether the first run had it right."""
        return self.before.status == Status.CORRECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs compared. `warning` says why their difference is not a regression test, None where it may be read so.

    `key`, `spec` and `served` hold what differs, by name. `common` counts the questions asked in both runs, each as
    often as both repeated it: the first repeat of one is compared with the first of the other, and so on. `pairs` is
    None where no question was answered in both, and `unpaired` says why.
    """

    before: Side
    after: Side
    warning: str | None
    notes: tuple[str, ...]
    key: tuple[Difference, ...]
    spec: tuple[Difference, ...]
    served: tuple[Difference, ...]
    common: int
    only_before: int
    only_after: int
    pairs: Pairs | None
    unpaired: str | None
    moved: tuple[Moved, ...]
    changed: tuple[Changed, ...]


def compare(before: RunRecord, after: RunRecord, questions: Mapping[int, str]) -> Comparison:
    """What differs between two runs, and which questions changed sides, right to wrong first.

    `questions` maps the ids of the dataset to their texts, as far as these are known.
    """
    ids = _common(before, after)
    seen = {id(run): {one.cell: one for one in run.observations} for run in (before, after)}
    met = [(seen[id(before)].get(cell), seen[id(after)].get(cell)) for cell in ids]
    answered = [(a, b) for a, b in met if a is not None and b is not None and not _is_lost(a, b)]
    key = differences(before.comparability.fields, after.comparability.fields)
    is_repeated = _is_repeated(before, after)
    pairs = _pairs(answered, met, is_repeated=is_repeated) if answered else None
    return Comparison(
        before=_side(before),
        after=_side(after),
        warning=_warning(before, after, key),
        notes=tuple(_notes(before, after)),
        key=key,
        spec=differences(_asked_for(before), _asked_for(after)),
        served=differences(_served(before), _served(after)),
        common=len(ids),
        only_before=len(before.dataset.question_ids) - len(ids),
        only_after=len(after.dataset.question_ids) - len(ids),
        pairs=pairs,
        unpaired=None if pairs is not None else _unpaired(before, after, len(ids)),
        moved=_moved(met) if before.observations and after.observations else (),
        changed=_changed(answered, questions, is_repeated=is_repeated),
    )


def _is_repeated(*runs: RunRecord) -> bool:
    return any(run.spec.protocol.repeats > 1 for run in runs)


def _side(run: RunRecord) -> Side:
    return Side(
        run_id=run.run_id,
        spec=run.spec.name,
        model=run.spec.model.name,
        hardware=run.spec.hw.name,
        engine=run.spec.engine.name,
        build=run.served.build if run.served else None,
        simulated=run.spec.simulated or (run.served is not None and run.served.simulated),
        finished_at=run.finished_at,
        outcome=run.verdict.outcome.value,
        key=run.comparability.key,
        counts=run.counts,
        answers=len(run.observations),
        repeats=run.spec.protocol.repeats,
    )


def _common(before: RunRecord, after: RunRecord) -> list[Cell]:
    """In the order of the first run; none where the same id is another question."""
    if not _is_same_dataset(before, after):
        return []
    others = set(cells(after.dataset.question_ids))
    return [cell for cell in cells(before.dataset.question_ids) if cell in others]


def _is_same_dataset(before: RunRecord, after: RunRecord) -> bool:
    old, new = before.dataset, after.dataset
    return old.name == new.name and old.digests.get("test") == new.digests.get("test")


def _is_lost(*answers: Observation) -> bool:
    return any(answer.status is Status.LOST for answer in answers)


def _warning(before: RunRecord, after: RunRecord, key: tuple[Difference, ...]) -> str | None:
    if before.comparability.key == after.comparability.key:
        return None
    names = [difference.name for difference in key]
    shown = names[:_NAMED_FIELDS] + (["..."] if len(names) > _NAMED_FIELDS else [])
    return (
        f"the comparability keys differ ({', '.join(shown) or 'in no field'}): what follows describes two different "
        "measurements and is NOT A REGRESSION TEST, whatever its p-value"
    )


def _notes(before: RunRecord, after: RunRecord) -> Iterator[str]:
    for newer, older in ((after, before), (before, after)):
        if newer.supersedes == older.run_id:
            yield f"{newer.run_id} scores the answers of {older.run_id} anew: what differs is the scoring"
    if before.comparability.key != after.comparability.key:
        return
    changed = changed_weights(before.served, after.served)
    if changed:
        named = ", ".join(changed[:_NAMED_FIELDS]) + (", ..." if len(changed) > _NAMED_FIELDS else "")
        yield f"the weights differ ({named}): what differs is their effect as well, and not noise alone"
    if before.spec.hw.name != after.spec.hw.name:
        machines = f"{before.spec.hw.name} and {after.spec.hw.name}"
        yield f"the hardware differs ({machines}): the difference is that of builds and machines together"
    builds = [run.served.build if run.served else None for run in (before, after)]
    if builds[0] is not None and builds[0] == builds[1] and not changed:
        yield f"both ran build {builds[0]}: what differs is noise from run to run, or a setting below"
    if None in builds:
        yield "a build is unknown: whether anything changed between the runs is not on record"


def _unpaired(before: RunRecord, after: RunRecord, common: int) -> str:
    for run in (before, after):
        if not run.observations and run.counts.correct + run.counts.wrong:
            return f"run {run.run_id} has no answers on record, only its total: no question can be compared"
        if not run.observations:
            return f"run {run.run_id} has no answers: no question can be compared"
    if not _is_same_dataset(before, after):
        return "the runs asked different datasets, where the same id is another question: no question can be compared"
    if common == 0:
        return "the runs have no question in common: no question can be compared"
    return "no question was answered in both runs: no question can be compared"


def _asked_for(run: RunRecord) -> Mapping[str, Plain]:
    """By dotted names, what is not set left out: in a spec, null and absent are the same. Tags ask for nothing."""
    found = _flat("", to_plain(without_secrets(run.spec)))
    return {name: value for name, value in found if value is not None and name != "model.tags"}


def _served(run: RunRecord) -> Mapping[str, Plain]:
    """What was really served, without the names that gatekit made up for this run alone."""
    if run.served is None:
        return {}
    plain = to_plain(run.served)
    plain["details"] = {name: value for name, value in plain["details"].items() if name != "log"}
    found = dict(_flat("", plain))
    if run.spec.engine.kind is EngineKind.ATTACH:
        return found
    return {name: _neutral(value, run) if isinstance(value, str) else value for name, value in found.items()}


def _neutral(text: str, run: RunRecord) -> str:
    """The text with placeholders for the run's own model name and port."""
    assert run.served is not None
    text = text.replace(run.served.model, "<model>") if run.served.model else text
    port = re.search(r":(\d{1,5})/?$", run.served.base_url)
    return text if port is None else re.sub(rf"(?<!\d){port.group(1)}(?!\d)", "<port>", text)


def _flat(prefix: str, plain: Plain) -> Iterator[tuple[str, Plain]]:
    """Leaves by dotted names; a list is a leaf."""
    if not isinstance(plain, dict):
        yield prefix, plain
        return
    for name, value in plain.items():
        yield from _flat(f"{prefix}.{name}" if prefix else name, value)


def differences(before: Mapping[str, Plain], after: Mapping[str, Plain]) -> tuple[Difference, ...]:
    """What differs between two flat mappings, sorted by name; a value that is None and one that is absent differ."""
    return tuple(_differing(before, after))


def _differing(before: Mapping[str, Plain], after: Mapping[str, Plain]) -> Iterator[Difference]:
    for name in sorted(before.keys() | after.keys()):
        absent = "before" if name not in before else "after" if name not in after else None
        old, new = before.get(name), after.get(name)
        if absent is not None or json.dumps(old) != json.dumps(new):  # 1 and true are equal in Python only
            yield Difference(name=name, before=old, after=new, absent=absent)


def _pairs(answered: Sequence[tuple[Observation, Observation]], met: Sequence[Met], *, is_repeated: bool) -> Pairs:
    sides = Counter((a.status is Status.CORRECT, b.status is Status.CORRECT) for a, b in answered)
    n, lost, gained = len(answered), sides[True, False], sides[False, True]
    by_question = _by_question(answered)
    stderr = _stderr(by_question, n, lost + gained)
    difference = (gained - lost) / n
    margin = None if stderr is None else _Z * stderr
    gains = [_gain(a, b) for a, b in met]
    return Pairs(
        n=n,
        both_right=sides[True, True],
        right_to_wrong=lost,
        wrong_to_right=gained,
        both_wrong=sides[False, False],
        same_text=sum((a.text, a.reasoning) == (b.text, b.reasoning) for a, b in answered),
        p_two_sided=mcnemar(lost, gained).p_two_sided,
        by_question=_whole_questions(by_question) if is_repeated else None,
        difference=difference,
        stderr=stderr,
        low=None if margin is None else max(-1.0, difference - margin),
        high=None if margin is None else min(1.0, difference + margin),
        unanswered=len(met) - n,
        lowest=sum(low for low, _ in gains) / len(met),
        highest=sum(high for _, high in gains) / len(met),
    )


def _by_question(answered: Sequence[tuple[Observation, Observation]]) -> Sequence[Sequence[int]]:
    """+1, 0 or -1 for each pair of answers, together for each question."""
    gains: defaultdict[int, list[int]] = defaultdict(list)
    for a, b in answered:
        gains[a.question_id].append((b.status is Status.CORRECT) - (a.status is Status.CORRECT))
    return tuple(gains.values())


def _stderr(by_question: Sequence[Sequence[int]], n: int, flips: int) -> float | None:
    if len(by_question) < 2 or not flips:
        return None
    stderr = clustered_difference(by_question).stderr
    return stderr if stderr or n == len(by_question) else None


def _whole_questions(by_question: Sequence[Sequence[int]]) -> WholeQuestions:
    sums = [sum(own) for own in by_question]
    fewer, more = sum(one < 0 for one in sums), sum(one > 0 for one in sums)
    p = mcnemar(fewer, more).p_two_sided
    return WholeQuestions(questions=len(sums), fewer=fewer, more=more, p_two_sided=p)


def _gain(before: Observation | None, after: Observation | None) -> tuple[int, int]:
    """+1, 0 or -1 for a question, at least and at most: a missing answer may have been either."""
    (worst_before, best_before), (worst_after, best_after) = _sides(before), _sides(after)
    return worst_after - best_before, best_after - worst_before


def _sides(answer: Observation | None) -> tuple[int, int]:
    if answer is None or answer.status is Status.LOST:
        return 0, 1
    is_right = int(answer.status is Status.CORRECT)
    return is_right, is_right


def _moved(met: Sequence[Met]) -> tuple[Moved, ...]:
    """The most frequent first."""
    ends = Counter((_ending(a), _ending(b)) for a, b in met)
    moves = sorted(((number, *pair) for pair, number in ends.items() if pair[0] != pair[1]), key=_by_frequency)
    return tuple(Moved(before=old, after=new, questions=number) for number, old, new in moves)


def _by_frequency(move: tuple[int, str, str]) -> tuple[int, str, str]:
    return (-move[0], move[1], move[2])


def _ending(answer: Observation | None) -> str:
    return _UNASKED if answer is None else answer.status.value


def _changed(
    answered: Sequence[tuple[Observation, Observation]], questions: Mapping[int, str], *, is_repeated: bool
) -> tuple[Changed, ...]:
    found = [
        Changed(
            question_id=a.question_id,
            repeat=a.repeat if is_repeated else None,
            question=questions.get(a.question_id),
            expected=a.expected if b.expected is None else b.expected,
            before=_answer(a),
            after=_answer(b),
        )
        for a, b in answered
        if (a.status is Status.CORRECT) != (b.status is Status.CORRECT)
    ]
    return tuple(sorted(found, key=lambda one: not one.is_right_to_wrong))


def _answer(seen: Observation) -> Answer:
    return Answer(
        status=seen.status.value,
        predicted=seen.predicted,
        finish_reason=seen.finish_reason,
        text=seen.text,
        reasoning=seen.reasoning,
    )
