"""What the schemas cannot say: rules between keys and between groups, each with a stable id."""

from __future__ import annotations

import difflib
import re
import resource
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from typing import cast

from gatekit.engine.base_url import check_base_url
from gatekit.errors import ConfigError, Problem
from gatekit.records.spec import EngineKind, Method, Model, ShotOverlap, ShotSource, Spec
from gatekit.report.escape import escape_terminal
from gatekit.resources import conf_dir
from gatekit.spec import texts
from gatekit.spec.argument_rules import ARGUMENT_RULES, BY_VALUE
from gatekit.spec.composition import Composition
from gatekit.spec.reader import KeyPath
from gatekit.spec.run_rules import RUN_RULES
from gatekit.spec.watched import Watched

_FIELD = re.compile(r"\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<more>[.\[!:][^{}]{0,200})?\}")
_PLACEHOLDER = re.compile(r"\{(question|answer)\}")
# The shortest question of GSM8K, and the shortest question with its solution, in words.
_QUESTION_WORDS = 9
_EXAMPLE_WORDS = 21
# Standard streams, journal, log, database and the server's own pipes.
_OTHER_FILES = 32

# What an option lacks, a model file or an override may bring.
_GIVEN_LATER = frozenset(
    {"missing-key", "context-missing", "dataset-missing", "floor-delta-needs-observed"}
    | {"early-stop-needs-delta", "early-stop-needs-order", "early-stop-needs-reference"}
)

Found = Iterator[tuple[KeyPath, str, str, str]]
Rule = Callable[[Spec], Found]


def problems(spec: Spec, composition: Composition, *, unsure: Collection[KeyPath] = ()) -> list[Problem]:
    """Every rule that the spec breaks, at the place where the value was written.

    A rule that has looked at a value at one of the `unsure` places says nothing.
    """
    broken = [
        _placed(composition, path, what, reason, hint)
        for rule in RULES
        for path, what, reason, hint in (_sure(rule, spec, unsure) if unsure else rule(spec))
    ]
    found = [
        *_engine_not_chosen(spec, composition, unsure),
        *_unknown_engines(spec, composition, unsure),
        *broken,
        *texts.passwords_of_urls(composition),
    ]
    told = {problem.where for problem in found if problem.reason == texts.SECRET}
    return [*found, *(problem for problem in texts.problems(composition) if problem.where not in told)]


def of_section(spec: Spec, composition: Composition, group: str, *, unsure: Collection[KeyPath]) -> list[Problem]:
    """What breaks rules in an option of a group whatever spec takes it: by what the option itself says.

    What a model file or an override may still give, or give otherwise, is not missing. The documents of the
    composition are those of the option.
    """
    others = {(section,) for section in composition.data if section not in (group, "model")}
    # The model says nothing of arguments and variables, so that those of the option are all there are.
    model = {("model", each.name) for each in fields(Model) if each.name not in ("server_args", "server_env")}
    elsewhere = others | (model if group != "model" else set())
    return [
        Problem(where=composition.locate(path), what=f"{_dotted(path)}: {what}", reason=reason, hint=hint)
        for rule in RULES
        for path, what, reason, hint in _sure(rule, spec, {*unsure, *elsewhere})
        if path[0] == group and reason not in _GIVEN_LATER
    ]


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _placed(composition: Composition, path: KeyPath, what: str, reason: str, hint: str) -> Problem:
    """A finding where somebody can mend it: what a model leaves out is missing there, and not in the default's file."""
    group, text = str(path[0]), f"{_dotted(path)}: {what}"
    where = composition.locate(path)
    is_of_another = len(path) > 1 and not composition.is_overridden(path)
    if is_of_another and composition.is_in_a_model(path):
        base = composition.file_of(path)
        if base is not None and _is_shipped(composition, path):
            where, text = composition.locate(()), f"{text} (set by the shipped model={base.stem})"
    elif is_of_another and group in composition.choices and (reason == "missing-key" or _is_shipped(composition, path)):
        chosen = composition.chosen_at(group)
        where = chosen or composition.locate(())
        text = text if chosen else _of_a_default(composition, path, text, reason)
    return Problem(where=where, what=text, reason=reason, hint=hint)


def _of_a_default(composition: Composition, path: KeyPath, text: str, reason: str) -> str:
    model, option = composition.choices["model"], composition.choices[str(path[0])]
    default = f"model={model} chooses no {path[0]}; the default {option}"
    return f"{default} needs {_dotted(path)}" if reason == "missing-key" else f"{default} has {text}"


def _is_shipped(composition: Composition, path: KeyPath) -> bool:
    """Whether the value comes from a shipped file, and the model that asks for it from another folder."""
    shipped, file = conf_dir().resolve(), composition.file_of(path)
    is_own = not any(document.path.is_relative_to(shipped) for _, document in composition.documents[:1])
    return is_own and file is not None and file.is_relative_to(shipped)


def _sure(rule: Rule, spec: Spec, unsure: Collection[KeyPath]) -> Found:
    """What a rule finds without having looked at anything unsure."""
    looked_at: set[KeyPath] = set()
    for found in rule(cast("Spec", Watched(spec, (), looked_at))):
        if rule in BY_VALUE:
            if not any(_overlap(found[0], place) for place in unsure):
                yield found
        elif any(_overlap(path, place) for path in looked_at for place in unsure):
            return
        else:
            yield found


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _engine_not_chosen(spec: Spec, composition: Composition, unsure: Collection[KeyPath]) -> list[Problem]:
    """A model that names no engine would be simulated by the root default, and pass for ever."""
    is_unsure = any(_overlap(place, ("engine", "kind")) or place == ("model",) for place in unsure)
    if is_unsure or not spec.simulated or composition.chooses("engine"):
        return []
    what = f"model={composition.choices['model']} names no engine, and would only be simulated"
    hint = "add `- override /engine: vllm` to its defaults, or say engine=sim"
    return [Problem(where=composition.locate(()), what=what, reason="engine-not-chosen", hint=hint)]


def _unknown_engines(spec: Spec, composition: Composition, unsure: Collection[KeyPath]) -> Iterator[Problem]:
    """What a model says of an engine that there is not would never be passed to any."""
    if composition.engines is None:
        return
    known = sorted(composition.engines | {spec.engine.name})
    for key, said in (("server_args", spec.model.server_args), ("server_env", spec.model.server_env)):
        for name in said:
            path = ("model", key, name)
            if name in known or any(_overlap(path, place) for place in unsure):
                continue
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]!r}?" if near else f"engines are {', '.join(known)}"
            what = f"model.{key}: no engine is named {name!r}"
            where = composition.locate(path, key=True)
            yield Problem(where=where, what=what, reason="unknown-engine", hint=hint)


def fp4_needs_blackwell(spec: Spec) -> Found:
    """4-bit floating-point weights need a GPU that computes with them."""
    is_fp4 = spec.model.quantization == "nvfp4"
    if is_fp4 and not spec.simulated and spec.hw.architecture not in ("blackwell", None):
        what = f"{spec.model.quantization} needs Blackwell, hw={spec.hw.name} is {spec.hw.architecture}"
        yield ("hw",), what, "fp4-needs-blackwell", "choose hw=b200"


def architecture_fits(spec: Spec) -> Found:
    """The model names the architectures it runs on; a launched server needs one of them."""
    wanted = spec.model.architectures
    if wanted and spec.engine.kind is EngineKind.LAUNCH and spec.hw.architecture not in wanted:
        is_unstated = spec.hw.architecture is None and spec.hw.vendor != "none"
        found = "states no architecture" if is_unstated else f"is {spec.hw.architecture or 'no GPU'}"
        what = f"{spec.model.name} runs on {', '.join(wanted)}, hw={spec.hw.name} {found}"
        state = f"state hw.architecture, such as {wanted[0]}"
        hint = state if is_unstated else "choose another hw=..., engine=external or engine=sim"
        yield ("hw",), what, "architecture-mismatch", hint


def gpus_suffice(spec: Spec) -> Found:
    """Tensor-parallel times data-parallel size is the number of GPUs a launched server takes."""
    need = spec.engine.tensor_parallel_size * spec.engine.data_parallel_size
    if spec.engine.kind is EngineKind.LAUNCH and need > max(spec.hw.count, 1):
        what = f"{spec.engine.tensor_parallel_size} x {spec.engine.data_parallel_size} needs {need} GPUs, "
        what += f"hw={spec.hw.name} has {spec.hw.count}"
        yield ("engine", "tensor_parallel_size"), what, "too-few-gpus", "choose a larger hw=..."


def gpus_are_counted(spec: Spec) -> Found:
    """A machine with GPUs has a vendor and counts them, one without has neither."""
    if (spec.hw.vendor == "none") != (spec.hw.count == 0):
        what = f"vendor {spec.hw.vendor} with {spec.hw.count} GPUs"
        hint = "count the GPUs of the machine" if spec.hw.count == 0 else "name their vendor, or set count to 0"
        yield ("hw", "count"), what, "gpus-not-counted", hint


def context_suffices(spec: Spec) -> Found:
    """The context must hold the prompt and the longest answer. Of the prompt a least size is known: a token a word."""
    context, answer = spec.engine.max_model_len, spec.protocol.max_tokens
    if context is None:
        return
    if context <= answer:
        what = f"a context of {context} leaves no room beside protocol.max_tokens={answer}"
        yield ("engine", "max_model_len"), what, "context-too-short", "raise engine.max_model_len"
    elif context < (prompt := _prompt_words(spec)) + answer:
        what = f"a context of {context} holds no prompt of {prompt} words or more beside protocol.max_tokens={answer}"
        hint = "raise engine.max_model_len, or lower protocol.max_tokens or protocol.shots"
        yield ("engine", "max_model_len"), what, "context-too-short", hint


def _prompt_words(spec: Spec) -> int:
    """The least number of words in a prompt, each of which takes a token or more."""
    protocol = spec.protocol
    example = len(_PLACEHOLDER.sub(" ", protocol.shot_template).split()) + _EXAMPLE_WORDS
    question = len(_PLACEHOLDER.sub(" ", protocol.question_template).split()) + _QUESTION_WORDS
    return protocol.shots * example + question + len((protocol.system_prompt or "").split())


def files_suffice(spec: Spec) -> Found:
    """Every request in flight is a socket, and so an open file."""
    limit = open_files()
    if limit is not None and spec.client.concurrency + _OTHER_FILES > limit:
        requests = f"{spec.client.concurrency} request{'s' * (spec.client.concurrency > 1)} in flight"
        what = f"{requests} and {_OTHER_FILES} other files, but a process may open {limit} files here (ulimit -n)"
        most, least = limit - _OTHER_FILES, f"raise the limit to {_OTHER_FILES + spec.client.concurrency} or more"
        hint = f"at most {most} here, or {least}" if most > 0 else least
        yield ("client", "concurrency"), what, "too-few-files", hint


def open_files() -> int | None:
    """How many files this process may have open; None for no limit."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def remote_code_is_pinned(spec: Spec) -> Found:
    """Code from a model repository runs only with permission, and pinned or waived in writing."""
    model = spec.model
    if not model.trust_remote_code:
        return
    if not model.allow_remote_code:
        hint = "set model.allow_remote_code: true"
        yield (
            ("model", "trust_remote_code"),
            "runs code of the model repository",
            "remote-code-not-allowed",
            hint,
        )
    if model.revision is None and model.unpinned is None:
        hint = "set model.revision to the 40-hex commit, or model.unpinned to the reason why not"
        yield (
            ("model", "trust_remote_code"),
            "remote code without a pinned revision",
            "remote-code-unpinned",
            hint,
        )


def kind_is_complete(spec: Spec) -> Found:
    """Each kind of engine has what it needs and nothing that contradicts it."""
    engine = spec.engine
    if engine.kind is EngineKind.ATTACH:
        yield from _attach_is_complete(spec)
    elif engine.base_url is not None:
        hint = "use engine=external for a running server, or take the address away: engine.base_url=null"
        what = f"engine={engine.name} starts its own server; engine.base_url and engine.command exclude each other"
        yield ("engine", "base_url"), what, "launch-and-attach", hint
    if engine.kind is EngineKind.LAUNCH and (not engine.command or engine.flags is None):
        hint = "engine.command starts a server, engine.base_url (engine=external) is a running one: give one of them"
        yield ("engine", "command"), "a launched engine needs command and flags", "missing-key", hint
    if engine.kind is EngineKind.SIM and (engine.accuracy is None or engine.dispersion is None):
        yield ("engine", "accuracy"), "a simulated model needs accuracy and dispersion", "missing-key", ""
    if engine.kind is EngineKind.REPLAY and engine.answers is None:
        hint = "engine.answers=FILE: a record.json or example_model_solutions.jsonl"
        yield ("engine", "answers"), "nothing to replay", "missing-key", hint


def _attach_is_complete(spec: Spec) -> Found:
    path = ("engine", "base_url")
    if spec.engine.base_url is None:
        hint = "engine.base_url=http://127.0.0.1:8000"
        yield path, f"engine={spec.engine.name} needs the address of the running server", "missing-key", hint
        return
    try:
        check_base_url(spec.engine.base_url)
    except ConfigError as error:
        for problem in error.problems:
            yield path, problem.what, problem.reason, problem.hint


def floor_is_given(spec: Spec) -> Found:
    """A hand gate needs its floor."""
    if spec.gate.method is Method.STATIC_FLOOR and spec.gate.floor is None:
        yield ("gate", "floor"), "a static_floor gate needs a floor", "missing-key", "gate.floor=0.90"


def accuracy_is_given(spec: Spec) -> Found:
    """A derived gate needs the accuracy it derives from."""
    if spec.gate.method is Method.EXACT_BINOMIAL and spec.gate.observed is None:
        hint = "gate.observed='{correct: 180, n: 200}'"
        yield ("gate", "observed"), "an exact_binomial gate needs a stated accuracy", "missing-key", hint


def false_alarm_rate_is_given_once(spec: Spec) -> Found:
    """A derived gate needs a false-alarm rate, and only one; a hand gate has none."""
    gate = spec.gate
    is_without = gate.alpha is None and gate.sigmas is None and gate.budget is None
    if is_without and gate.method not in (Method.STATIC_FLOOR, Method.LOCKED):
        hint = "set gate.alpha, gate.sigmas or gate.budget"
        yield ("gate", "alpha"), f"a gate of method {gate.method} needs a false-alarm rate", "missing-key", hint
    if gate.alpha is not None and gate.sigmas is not None:
        what = "alpha and sigmas both ask for a threshold"
        yield ("gate", "sigmas"), what, "two-thresholds", "set one of them to null"
    if gate.method is Method.STATIC_FLOOR and (gate.alpha is not None or gate.sigmas is not None):
        key = "alpha" if gate.alpha is not None else "sigmas"
        what = "a static_floor gate does not use it"
        hint = f"gate.{key}=null takes it away, wherever it stands; or use gate=exact_binomial with gate.observed"
        yield ("gate", key), what, "inert-key", hint


def observed_is_a_share(spec: Spec) -> Found:
    """Nobody scores more than there is."""
    observed = spec.gate.observed
    if observed is not None and observed.correct > observed.n:
        what = f"{observed.correct} correct of {observed.n}"
        yield ("gate", "observed", "correct"), what, "out-of-range", "correct is at most n"


def shots_are_not_asked(spec: Spec) -> Found:
    """Worked examples from the test head would be asked again, unless that is skipped or meant."""
    protocol = spec.protocol
    from_test = protocol.shots > 0 and protocol.shots_source is ShotSource.TEST_HEAD
    if from_test and protocol.shots_overlap is ShotOverlap.REFUSE:
        what = f"test rows 0 to {protocol.shots - 1} are shown as examples and asked"
        yield ("protocol", "shots_overlap"), what, "shots-overlap", "set it to skip, or knowingly to leak"


def templates_have_their_places(spec: Spec) -> Found:
    """A question that is not in the prompt measures nothing."""
    protocol = spec.protocol
    for key, text in (
        ("question_template", protocol.question_template),
        ("shot_template", protocol.shot_template),
    ):
        if "{question}" not in text:
            yield ("protocol", key), "has no {question}", "template-place", "put {question} where it goes"


def templates_name_no_other_field(spec: Spec) -> Found:
    """What looks like a field and is none would reach the model as it stands."""
    protocol = spec.protocol
    for key, text in (
        ("question_template", protocol.question_template),
        ("shot_template", protocol.shot_template),
    ):
        for field in _no_fields(text):
            what = f"{escape_terminal(field, limit=60)} is no field, and would be shown to the model as it stands"
            hint = "the fields are {question} and, in shot_template, {answer}; a text in braces is written { so }"
            yield ("protocol", key), what, "template-field", hint


def _no_fields(template: str) -> Iterator[str]:
    """Each `{name}` that is no field, `{question.x}` and the like; not `{{name}}`, nor LaTeX such as `\\boxed{x}`."""
    for found in _FIELD.finditer(template):
        before = template[: found.start()][-1:]
        is_known, is_latex = found["name"] in ("question", "answer"), before.isalnum() or before in tuple("}_^\\")
        if (is_known and found["more"]) or not (is_known or is_latex or before == "{"):
            yield found[0]


RULES: tuple[Rule, ...] = (
    fp4_needs_blackwell,
    architecture_fits,
    gpus_suffice,
    gpus_are_counted,
    context_suffices,
    files_suffice,
    remote_code_is_pinned,
    *ARGUMENT_RULES,
    kind_is_complete,
    floor_is_given,
    accuracy_is_given,
    false_alarm_rate_is_given_once,
    observed_is_a_share,
    shots_are_not_asked,
    templates_have_their_places,
    templates_name_no_other_field,
    *RUN_RULES,
)
