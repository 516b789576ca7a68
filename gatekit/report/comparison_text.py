"""A comparison of two runs as text: what differs, the four counts, and the questions that changed sides."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import takewhile
from textwrap import wrap

from gatekit.gate.wording import p_value
from gatekit.records.canonical import Plain
from gatekit.report.by_question import named
from gatekit.report.comparison import Answer, Changed, Comparison, Difference, Pairs, Side, WholeQuestions
from gatekit.report.escape import escape_terminal
from gatekit.report.table import aligned

_WIDTH = 110
_LABEL_WIDTH = 16
_VALUE_CHARACTERS = 42
_BEFORE_CHANGE = 12
_QUESTION_CHARACTERS = 400
_ENDING_CHARACTERS = 160
_PREDICTED_CHARACTERS = 40
_FEW_CHANGES = 10
_MOMENT = 19
_UTC = ("Z", "+00:00")
_COUNTS = ("correct", "wrong", "no_answer", "truncated", "lost", "unasked", "n")


def comparison_text(found: Comparison, *, limit: int, full: bool = False) -> str:
    """The whole comparison; of the questions that changed sides the first `limit`.

    Answers are cut to their last characters unless `full`. Nothing foreign reaches the terminal as it is.
    """
    lines = [*aligned([_headings(), _run("before", found.before), _run("after", found.after)])]
    if found.warning is not None:
        lines += ["", *wrap(f"WARNING: {escape_terminal(found.warning)}", _WIDTH)]
    for note in (*_order(found.before, found.after), *found.notes):
        lines += ["", *wrap(f"note: {escape_terminal(note)}", _WIDTH)]
    lines += ["", *_tables(found), *_counts(found.before, found.after), ""]
    lines += [f"not compared: {escape_terminal(found.unpaired)}"] if found.unpaired else []
    lines += _paired(found, found.pairs) if found.pairs else []
    lines += _changes(found.changed, limit=limit, full=full)
    return "\n".join(lines).rstrip("\n") + "\n"


def _headings() -> tuple[str, ...]:
    return ("", "RUN", "FINISHED", "SPEC", "HARDWARE", "ENGINE", "OUTCOME")


def _run(label: str, side: Side) -> tuple[str, ...]:
    engine = side.engine if side.build is None else f"{side.engine} {side.build}"
    outcome = side.outcome + (" (simulated)" if side.simulated else "")
    return (label, side.run_id, _moment(side.finished_at), side.spec, side.hardware, engine, outcome)


def _moment(finished_at: str) -> str:
    """To the second, with the zone: UTC is Z, whichever way it was written."""
    head, zone = finished_at[:_MOMENT], finished_at[_MOMENT:].lstrip(".0123456789")
    return head + ("Z" if zone in _UTC else zone)


def _order(before: Side, after: Side) -> Iterator[str]:
    """Dates are compared as UTC, which is how a run writes them."""
    if before.finished_at[:_MOMENT] > after.finished_at[:_MOMENT]:
        yield f"{before.run_id}, named first, is the newer run: before and after are as named, not by date"


def _tables(found: Comparison) -> Iterator[str]:
    """What differs, each name once: a field of the key is not repeated among those of the spec."""
    in_key = {difference.name for difference in found.key}
    spec = [difference for difference in found.spec if difference.name not in in_key]
    for title, differences in (("COMPARABILITY KEY", found.key), ("SPEC", spec), ("SERVED", found.served)):
        if differences:
            yield from aligned([(title, "BEFORE", "AFTER"), *map(_cells, differences)])
            yield ""
    same = [name for name, items in (("key", found.key), ("spec", found.spec), ("served", found.served)) if not items]
    if same:
        yield f"the same in both: {', '.join(same)}"
        yield ""


def _cells(difference: Difference) -> tuple[str, ...]:
    before, after = _value(difference.before), _value(difference.after)
    before, after = _around_change(before, after)
    return (
        difference.name,
        "(none)" if difference.absent == "before" else before,
        "(none)" if difference.absent == "after" else after,
    )


def _value(plain: Plain) -> str:
    return plain if isinstance(plain, str) and plain else json.dumps(plain, ensure_ascii=False)


def _around_change(before: str, after: str) -> tuple[str, str]:
    """Both texts cut so that the place where they part is seen."""
    if max(len(before), len(after)) <= _VALUE_CHARACTERS:
        return before, after
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    skipped = max(0, same - _BEFORE_CHANGE)
    head = "..." if skipped else ""
    cut = [escape_terminal(head + text[skipped:], _VALUE_CHARACTERS) for text in (before, after)]
    return cut[0], cut[1]


def _counts(before: Side, after: Side) -> list[str]:
    rows = [
        (name.replace("_", " "), str(old), str(new))
        for name in _COUNTS
        for old, new in [(getattr(before.counts, name), getattr(after.counts, name))]
        if old or new or name in ("correct", "n")
    ]
    return aligned([("COUNTS", "BEFORE", "AFTER"), *rows, ("accuracy", _accuracy(before), _accuracy(after))])


def _accuracy(side: Side) -> str:
    """In per cent; where answers are missing the range from all of them wrong to all of them right."""
    counts = side.counts
    if counts.n == 0:
        return "-"
    missing = counts.lost + counts.unasked
    low, high = 100 * counts.correct / counts.n, 100 * (counts.correct + missing) / counts.n
    return f"{low:.2f} to {high:.2f} %" if missing else f"{low:.2f} %"


def _paired(found: Comparison, pairs: Pairs) -> list[str]:
    table = (
        (f"{pairs.n} {_units(found).upper()}", "RIGHT AFTER", "NOT RIGHT AFTER"),
        ("right before", str(pairs.both_right), str(pairs.right_to_wrong)),
        ("not right before", str(pairs.wrong_to_right), str(pairs.both_wrong)),
    )
    lines = [*aligned(table), ""]
    for label, text in _facts(found, pairs):
        indent = " " * (_LABEL_WIDTH + 2)
        lines += wrap(text, _WIDTH, initial_indent=f"  {label:<{_LABEL_WIDTH}}", subsequent_indent=indent)
    return [*lines, ""]


def _facts(found: Comparison, pairs: Pairs) -> Iterator[tuple[str, str]]:
    change = f"{pairs.right_to_wrong} right to wrong, {pairs.wrong_to_right} wrong to right"
    yield "changed sides", f"{change}; {pairs.same_text} of {pairs.n} answers are the same text"
    if found.moved:
        moves = (f"{_words(move.before)} to {_words(move.after)} {move.questions}" for move in found.moved)
        yield "ended otherwise", ", ".join(moves)
    chance = "how often so uneven a split comes about by chance alone"
    if pairs.by_question is not None:
        chance += ", if each answer is one of its own"
    yield "McNemar", f"p {p_value(pairs.p_two_sided)} (exact, two-sided): {chance}"
    if pairs.by_question is not None:
        yield "by question", _whole_questions(pairs.by_question)
    yield "difference", _difference(pairs)
    if found.only_before or found.only_after:
        only = f"{found.only_before} {_units(found)} only before, {found.only_after} only after"
        yield "left out", f"{only}: compared are the {found.common} in both"
    if pairs.unanswered:
        ends = f"{_signed(pairs.lowest)} and {_signed(pairs.highest)} points over all {found.common}"
        what = "questions without an answer" if _units(found) == "questions" else "answers that never came"
        yield "left out", f"{pairs.unanswered} {what}: with them, it lies between {ends}"


def _whole_questions(found: WholeQuestions) -> str:
    """Repeats hang together: what is left of the p-value where each question counts once."""
    split = f"of {found.questions} questions {found.fewer} were right less often after, {found.more} more often"
    return f"{split}: p {p_value(found.p_two_sided)}, however alike the repeats of a question are"


def _units(found: Comparison) -> str:
    """What is counted: each repeat of a question is an answer."""
    return "questions" if max(found.before.repeats, found.after.repeats) == 1 else "answers"


def _words(status: str) -> str:
    return status.replace("_", " ")


def _difference(pairs: Pairs) -> str:
    if pairs.stderr is None or pairs.low is None or pairs.high is None:
        return f"{_signed(pairs.difference)} points ({_no_spread(pairs)})"
    by_question = "" if pairs.by_question is None else " by question"
    rough = " (few changes: rough)" if pairs.right_to_wrong + pairs.wrong_to_right < _FEW_CHANGES else ""
    ends = f"{_signed(pairs.low)} to {_signed(pairs.high)}"
    error = f"standard error{by_question} {100 * pairs.stderr:.2f}"
    return f"{_signed(pairs.difference)} points, {error}, 95 % {ends}{rough}"


def _no_spread(pairs: Pairs) -> str:
    """Why a difference has no standard error."""
    if pairs.right_to_wrong + pairs.wrong_to_right == 0:
        unit = "question" if pairs.by_question is None else "answer"
        return f"no {unit} changed sides, which gives no spread"
    is_one = pairs.by_question is None or pairs.by_question.questions == 1
    return "one question gives no spread" if is_one else "all questions changed alike, which gives no spread"


def _signed(share: float) -> str:
    return f"{100 * share:+.2f}"


def _changes(changed: Sequence[Changed], *, limit: int, full: bool) -> Iterator[str]:
    shown = changed[:limit]
    for is_worse, title in ((True, "RIGHT TO WRONG"), (False, "WRONG TO RIGHT")):
        members = [one for one in shown if one.is_right_to_wrong is is_worse]
        if members:
            yield title
        for one in members:
            yield from _question(one, full=full)
            yield ""
    if len(changed) > limit:
        yield f"({len(changed) - limit} more changed sides: --limit is {limit})"


def _question(one: Changed, *, full: bool) -> Iterator[str]:
    expected = "" if one.expected is None else f", expected {escape_terminal(one.expected, _PREDICTED_CHARACTERS)}"
    name = named((one.question_id, one.repeat or 0), is_repeated=one.repeat is not None)
    yield f"  question {name}{expected}"
    if one.question is not None:
        text = escape_terminal(one.question, None if full else _QUESTION_CHARACTERS)
        yield from wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")
    for label, answer in (("before", one.before), ("after", one.after)):
        yield from _answer(label, answer, full=full)


def _answer(label: str, answer: Answer, *, full: bool) -> Iterator[str]:
    read = "no answer" if answer.predicted is None else escape_terminal(answer.predicted, _PREDICTED_CHARACTERS)
    source = "" if answer.text or not answer.reasoning else " (reasoning)"
    text = answer.text or answer.reasoning or ""
    head = f"    {label:<7} {_words(answer.status):<10} {read}{source}"
    if full:
        yield head
        yield from (f"      | {escape_terminal(line)}" for line in text.split("\n"))
    elif text:
        yield f"{head}  {_ending(text)}"
    else:
        yield f"{head}  (empty)"


def _ending(text: str) -> str:
    """The last characters on one line: an answer stands at the end."""
    escaped = escape_terminal(text[-_ENDING_CHARACTERS:].strip())
    return f"...{escaped}" if len(text) > _ENDING_CHARACTERS else escaped
