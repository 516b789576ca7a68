"""What a run refuses before its first request, as far as the spec alone tells: each check belongs to another room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gatekit.engine.argv import server_argv
from gatekit.errors import ConfigError
from gatekit.gate.needs import check_gate, check_repeated_observed
from gatekit.records.spec import EngineKind, Spec
from gatekit.spec.reader import KeyPath

Found = Iterator[tuple[KeyPath, str, str, str]]

# Where the mistake stands that a check of another room names by its id.
_PLACES: Mapping[str, KeyPath] = {
    "floor-delta-needs-observed": ("gate", "delta"),
    "drop-too-large": ("gate", "delta"),
    "early-stop-needs-delta": ("gate", "early_stop"),
    "early-stop-needs-order": ("gate", "early_stop"),
    "early-stop-needs-reference": ("gate", "early_stop"),
    "early-stop-with-repeats": ("gate", "early_stop"),
    "repeats-of-other-questions": ("gate", "observed"),
    "path-without-use": ("task", "path"),
    "dataset-missing": ("task", "dataset"),
    "dataset-url-refused": ("task", "files"),
    "n-out-of-range": ("task", "n"),
    "too-many-answers": ("protocol", "repeats"),
    "too-many-shots": ("protocol", "shots"),
    "template-shows-answer": ("protocol", "question_template"),
    "model-path": ("model", "name"),
    "context-missing": ("engine", "max_model_len"),
    "knob-not-spelled": (),  # wherever the problem itself says
    "chat-only-key": (),
    "same-think-tags": ("protocol", "think_tags"),
    "repeats-without-sampling": ("protocol", "repeats"),
    "repeats-without-seeds": ("protocol", "seed"),
    "extra-body-overrides": (),
    "shot-not-in-turns": ("protocol", "shot_template"),
    "bad-history-url": ("history", "url"),
}

# What the schemas or other rules say of the same value.
_TOLD = frozenset({"gate-observed-impossible", "unknown-knob", "unknown-dataset"})


def gate_can_decide(spec: Spec) -> Found:
    """A gate whose method lacks what it needs would refuse every run."""
    yield from _refused(lambda: check_gate(spec))


def questions_can_be_had(spec: Spec) -> Found:
    """A dataset that is named in a way in which no file can be right."""
    from gatekit.task.dataset import GSM8K, check_source
    from gatekit.task.select import needs_train

    downloads = spec.task.dataset == GSM8K and spec.task.path is None
    yield from _refused(lambda: check_source(spec.task, with_train=downloads and needs_train(spec.protocol)))


def questions_suffice(spec: Spec) -> Found:
    """Not more questions are asked than there are, where the spec says how many."""
    from gatekit.task.dataset import said_rows
    from gatekit.task.select import check_n

    rows = said_rows(spec.task, "test")
    if rows is not None:
        yield from _refused(lambda: check_n(spec.task, spec.protocol, rows))


def observed_is_of_these_questions(spec: Spec) -> Found:
    """Repeats are judged by a number of the same questions, where the spec says how many it asks."""
    from gatekit.task.select import said_questions

    questions = said_questions(spec.task, spec.protocol)
    if questions is not None:
        yield from _refused(lambda: check_repeated_observed(spec, questions))


def shots_suffice(spec: Spec) -> Found:
    """Not more worked examples are shown than there are, where the spec says how many."""
    from gatekit.task.dataset import said_rows
    from gatekit.task.select import check_shots, needs_train

    rows = said_rows(spec.task, "train" if needs_train(spec.protocol) else "test")
    if rows is not None:
        yield from _refused(lambda: check_shots(spec.protocol, rows, spec.task.dataset))


def question_hides_its_answer(spec: Spec) -> Found:
    """A question that shows the reference answer measures nothing."""
    from gatekit.task.prompts import check_template

    template = spec.protocol.question_template
    if "{question}" in template:
        yield from _refused(lambda: check_template(template))


def protocol_is_of_one_piece(spec: Spec) -> Found:
    """Keys of the other route, and what a request may not hold beside what gatekit sets."""
    from gatekit.task.protocol_fits import check_protocol

    yield from _refused(lambda: check_protocol(spec.protocol))


def server_can_be_started(spec: Spec) -> Found:
    """The command line of a launched server is known but for its port."""
    if spec.engine.kind is EngineKind.LAUNCH and spec.engine.command:
        yield from _refused(lambda: server_argv(spec, port=0, served_model="", environ={}))


def history_can_be_named(spec: Spec) -> Found:
    """A URL that is none of a database is no history."""
    url = spec.history.url
    if url:
        from gatekit.history.postgres_url import check_url

        yield from _refused(lambda: check_url(url))


def _refused(check: Callable[[], object]) -> Found:
    """What the check says, at the place in the spec."""
    try:
        check()
    except ConfigError as error:
        for problem in error.problems:
            if problem.reason in _TOLD:
                continue
            place = _PLACES.get(problem.reason) or tuple(problem.where.split("."))
            name = ".".join(map(str, place))
            yield place, problem.what.removeprefix(f"{name} "), problem.reason, problem.hint


RUN_RULES: tuple[Callable[[Spec], Found], ...] = (
    gate_can_decide,
    questions_can_be_had,
    questions_suffice,
    observed_is_of_these_questions,
    shots_suffice,
    question_hides_its_answer,
    protocol_is_of_one_piece,
    server_can_be_started,
    history_can_be_named,
)
