"""A Library composes what Hydra composes: the same data, choices, places and error lines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from config_files import write
from gatekit.errors import ConfigError
from gatekit.resources import conf_dir
from gatekit.spec.compose import compose
from gatekit.spec.composition import Composition
from gatekit.spec.library import Library, _BeyondPlain

GROUPS = ("hw", "engine", "protocol", "task", "gate", "history")
SHIPPED = Library([conf_dir()])
MODELS = SHIPPED.options("model")


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def shown(composition: Composition) -> dict[str, Any]:
    """Everything about a composition that anybody sees."""
    everywhere = list(paths(composition.data))
    return {
        "data": repr(sorted_keys(composition.data)),
        "choices": composition.choices,
        "overrides": composition.overrides,
        "files": sorted(str(document.path) for _, document in composition.documents),
        "places": {path: composition.locate(path) for path in everywhere},
        "keys": {path: composition.locate(path, key=True) for path in everywhere},
        "chosen": {group: composition.chooses(group) for group in composition.choices},
    }


def sorted_keys(value: Any) -> Any:
    """The order of keys means nothing, but 1, 1.0 and True are three values."""
    if isinstance(value, dict):
        return {key: sorted_keys(value[key]) for key in sorted(value)}
    return [sorted_keys(item) for item in value] if isinstance(value, list) else value


def hydras(overrides: Sequence[str], dirs: Sequence[Path]) -> Any:
    try:
        return shown(compose(overrides, config_dirs=[folder.resolve() for folder in dirs]))
    except ConfigError as error:
        return error.lines()


def ours(overrides: Sequence[str], library: Library) -> Any:
    try:
        return shown(library.compose(overrides))
    except ConfigError as error:
        return error.lines()


def is_plain(overrides: Sequence[str], library: Library) -> bool:
    """Whether the library composed it without Hydra."""
    try:
        library._compose(overrides)
    except (_BeyondPlain, ConfigError):
        return False
    return True


@pytest.mark.parametrize(
    "override", [f"{group}={name}" for group in (*GROUPS, "model") for name in SHIPPED.options(group)]
)
def test_every_option(override: str) -> None:
    """Each option of each shipped group composes the same, and without Hydra."""
    assert ours([override], SHIPPED) == hydras([override], [conf_dir()])
    assert is_plain([override], SHIPPED)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_model_on_every_machine(model: str) -> None:
    """Each shipped model composes the same on each machine."""
    for machine in SHIPPED.options("hw"):
        overrides = [f"hw={machine}", f"model={model}"]
        assert ours(overrides, SHIPPED) == hydras(overrides, [conf_dir()])


@pytest.mark.parametrize(
    "overrides",
    [
        ["engine=external", "model=laguna_int4"],
        ["gate.floor=0.85", "model=laguna_int4", "gate.floor=0.80"],
        ["gate=locked", "gate.locks=elsewhere"],
        ["engine.env.A=b"],
        ["engine.env.A.b=c"],
        ["engine.args=[--a, b]"],
        ["gate.observed={correct: 1, n: 2}"],
        ["gate.observed.n=200"],
        ["~gate.observed"],
        ["+model.revision=x"],
        ["++client.concurrency=3"],
        ["client=x"],
        ["model=simulated", "model=laguna_int4"],
        ["task.n=010"],
        ["task.n=1_000"],
        ["task.n=1e3"],
        ["task.n="],
        ["task.n=null", "task.path=true"],
        ["task.path=nan"],
        ["task.path=Infinity"],
        ["task.path='a b'"],
        ['task.path="a b"'],
        ["task.path=a b"],
        ["task.path=a:b"],
        ["task.path=a/b.c"],
        ["task.path=${model.name}"],
        ["task.path='${model.name}'"],
        ["task.path=???"],
        ["task.path=a,b"],
        ["model.name='it\\'s'"],
        ["model=nope"],
        ["modle=simulated"],
        ["engine=null"],
        ["hydra.run.dir=x"],
        ["task.0=x"],
        ["task.files.test.rows=7"],
        ["client.concurrency.x=7"],
        ["engine.latency=null", "engine.latency.sigma=1.0"],
        ["engine.command.0=x"],
        ["gate.tolerance=-0.0"],
        ["gate.tolerance=-0"],
        ["engine.seed=12345678901234567890"],
        ["task.path=_self_"],
        ["task.path=True"],
        ["task.path=NULL"],
        ["hw=b200\n"],
        ["task.n=7\n"],
        ["task.n= 7"],
        ["task .n=7"],
        ["matrix=small"],
    ],
    ids=" ".join,
)
def test_overrides(overrides: list[str]) -> None:
    """Overrides, plain and odd ones, mean the same, or are refused in the same words."""
    assert ours(overrides, SHIPPED) == hydras(overrides, [conf_dir()])


# Files that a team may write: name and text.
TEAMS: dict[str, dict[str, str]] = {
    "a base of a base": {
        "model/a.yaml": "defaults: [b]\ngate: {floor: 0.1}\n",
        "model/b.yaml": "defaults: [c]\ngate: {floor: 0.2, alpha: 0.5}\nengine: {args: [x]}\n",
        "model/c.yaml": "defaults: [laguna_int4]\ngate: {beta: 0.3}\nengine: {args: [y, z]}\n",
    },
    "two bases": {
        "model/a.yaml": "defaults: [b, c]\n",
        "model/b.yaml": "defaults: [simulated]\ngate: {floor: 0.2}\n",
        "model/c.yaml": "gate: {floor: 0.4}\n",
    },
    "bases that choose": {
        "model/a.yaml": "defaults: [b, c]\n",
        "model/b.yaml": "defaults:\n  - override /engine: vllm\n",
        "model/c.yaml": "defaults:\n  - override /engine: sglang\n",
    },
    "a diamond": {
        "model/a.yaml": "defaults: [b, c]\n",
        "model/b.yaml": "defaults: [simulated]\n",
        "model/c.yaml": "defaults: [simulated]\ngate: {floor: 0.4}\n",
    },
    "self first": {
        "model/a.yaml": "defaults: [_self_, laguna_int4]\ngate: {floor: 0.1, alpha: 0.2}\n",
    },
    "self in the middle": {
        "model/a.yaml": "defaults: [b, _self_, c]\ngate: {floor: 0.1, alpha: 0.2}\n",
        "model/b.yaml": "defaults: [simulated]\ngate: {floor: 0.3, beta: 0.4}\n",
        "model/c.yaml": "gate: {alpha: 0.5}\n",
    },
    "self last": {
        "model/a.yaml": "defaults:\n  - laguna_int4\n  - _self_\n  - override /engine: sim\ngate: {floor: 0.1}\n",
    },
    "self only": {"model/a.yaml": "defaults: [_self_]\ngate: {floor: 0.1}\n"},
    "override before a base": {
        "model/a.yaml": "defaults:\n  - override /engine: vllm\n  - simulated\n",
    },
    "an override of a base's override": {
        "model/a.yaml": "defaults:\n  - laguna_int4\n  - override /engine: sim\n",
    },
    "override twice": {
        "model/a.yaml": "defaults:\n  - override /engine: sim\n  - override /engine: vllm\n",
    },
    "override of the model": {"model/a.yaml": "defaults:\n  - override /model: simulated\n"},
    "override to nothing known": {"model/a.yaml": "defaults:\n  - override /engine: vlm\n"},
    "override of no group": {"model/a.yaml": "defaults:\n  - override /engin: vllm\n"},
    "override without a slash": {"model/a.yaml": "defaults:\n  - override engine: vllm\n"},
    "a choice without override": {"model/a.yaml": "defaults:\n  - /engine: vllm\n"},
    "an optional base": {"model/a.yaml": "defaults:\n  - optional b: c\n"},
    "an absolute base": {"model/a.yaml": "defaults: [/model/simulated]\n"},
    "a base with a suffix": {"model/a.yaml": "defaults: [simulated.yaml]\n"},
    "a base of another group": {"model/a.yaml": "defaults: [../hw/b200]\n"},
    "no such base": {"model/a.yaml": "defaults: [nope]\n"},
    "a base that is null": {"model/a.yaml": "defaults:\n  - override /engine: null\n"},
    "itself": {"model/a.yaml": "defaults: [a]\n"},
    "a circle": {"model/a.yaml": "defaults: [b]\n", "model/b.yaml": "defaults: [a]\n"},
    "nulls": {
        "model/a.yaml": "defaults: [laguna_int4]\nprotocol: {seed: null, stop: null}\nengine: null\n"
        "gate: {observed: null}\n"
    },
    "null below": {
        "model/a.yaml": "defaults: [b]\nengine: {env: {A: b}}\ngate: {observed: {correct: 1, n: 2}}\n",
        "model/b.yaml": "defaults: [simulated]\nengine: {env: null}\ngate: null\n",
    },
    "lists": {"model/a.yaml": "defaults: [laguna_int4]\nengine: {args: [a, b], command: []}\nprotocol: {stop: [x]}\n"},
    "a list over a mapping": {"model/a.yaml": "defaults: [simulated]\nengine: {env: [a]}\n"},
    "a mapping over a list": {"model/a.yaml": "defaults: [simulated]\nengine: {args: {a: b}}\n"},
    "a mapping over a text": {"model/a.yaml": "defaults: [simulated]\nmodel: {name: {a: b}}\n"},
    "a text over a mapping": {"model/a.yaml": "defaults: [simulated]\nengine: {env: a}\n"},
    "an empty mapping": {"model/a.yaml": "defaults: [inkling_small_nvfp4]\nmodel: {server_args: {}}\n"},
    "empty": {"model/a.yaml": ""},
    "a reference": {"model/a.yaml": "defaults: [simulated]\nengine: {expected_model: '${model.name}'}\n"},
    "unknown sections": {"model/a.yaml": "defaults: [simulated]\nfoo: {bar: 1}\n"},
    "shadows": {
        "model/a.yaml": "defaults: [simulated]\n",
        "engine/sim.yaml": "defaults: [base]\nname: sim\nkind: sim\nseed: 3\n",
        "engine/base.yaml": "env: {}\nargs: []\naccuracy: 0.5\n",
        "hw/cpu.yaml": "name: cpu\nvendor: none\ncount: 0\n",
    },
    "a shadow that builds on what it shadows": {
        "model/a.yaml": "defaults: [simulated]\n",
        "engine/sim.yaml": "defaults: [sim]\nseed: 3\n",
    },
    "a group file that overrides": {
        "model/a.yaml": "defaults: [simulated]\n",
        "engine/sim.yaml": "defaults:\n  - override /hw: b200\nname: sim\nkind: sim\nenv: {}\n",
    },
    "a group file with self first": {
        "model/a.yaml": "defaults: [simulated]\n",
        "gate/exact_binomial.yaml": "defaults: [_self_, auto]\nname: mine\nalpha: 0.3\n",
    },
    "a root of its own": {
        "model/a.yaml": "defaults: [simulated]\n",
        "config.yaml": "defaults:\n  - _self_\n  - hw: b200\n  - engine: sim\n  - protocol: chat_5shot\n"
        "  - task: gsm8k\n"
        "  - gate: auto\n  - history: local\n  - model: simulated\nclient: {concurrency: 1}\n",
    },
    "a root with self last": {
        "model/a.yaml": "defaults: [simulated]\n",
        "config.yaml": "defaults:\n  - hw: b200\n  - engine: sim\n  - protocol: chat_5shot\n  - task: gsm8k\n"
        "  - gate: auto\n  - history: local\n  - model: simulated\n  - _self_\ngate: {alpha: 0.5}\n",
    },
    "broken files": {
        "model/a.yaml": "defaults: [simulated]\nengine: {accuracy: 0123}\nmodel: {nmae: on}\n",
        "engine/sim.yaml": "name: on\n",
    },
    "a name with a dash": {"model/a.yaml": "defaults: [b-c]\n", "model/b-c.yaml": "defaults: [simulated]\n"},
    "a name of digits": {"model/a.yaml": "defaults: ['7b']\n", "model/7b.yaml": "defaults: [simulated]\n"},
    "keys of odd form": {"model/a.yaml": "defaults: [simulated]\nengine: {env: {'a.b': c, 'd e': f, '': g}}\n"},
    "long numbers": {
        "model/a.yaml": "defaults: [simulated]\nengine: {seed: 9223372036854775808}\ngate: {alpha: 1.0e-300}\n"
    },
}


@pytest.mark.parametrize("team", TEAMS)
def test_a_team_folder(tmp_path: Path, team: str) -> None:
    """Files that build on each other, shadow each other or are wrong compose the same, or fail in the same words."""
    write(tmp_path, TEAMS[team])
    dirs = [tmp_path, conf_dir()]
    assert ours(["model=a"], Library(dirs)) == hydras(["model=a"], dirs)


@pytest.mark.slow
@pytest.mark.parametrize("team", TEAMS)
def test_overrides_on_a_team_folder(tmp_path: Path, team: str) -> None:
    """Overrides win over a team's files as they do with Hydra."""
    write(tmp_path, TEAMS[team])
    dirs = [tmp_path, conf_dir()]
    for overrides in (["model=a", "engine=replay", "gate.tolerance=0.5"], ["engine.env.A=b", "model=a"]):
        assert ours(overrides, Library(dirs)) == hydras(overrides, dirs)


def test_two_team_folders(tmp_path: Path) -> None:
    """The first of several folders wins for each file by itself."""
    write(
        tmp_path / "x", {"model/a.yaml": "defaults: [b]\ngate: {floor: 0.1}\n", "hw/cpu.yaml": "name: x\nvendor: amd\n"}
    )
    write(tmp_path / "y", {"model/b.yaml": "defaults: [simulated]\ngate: {floor: 0.2}\n", "hw/cpu.yaml": "name: y\n"})
    dirs = [tmp_path / "x", tmp_path / "y", conf_dir()]
    assert ours(["model=a"], Library(dirs)) == hydras(["model=a"], dirs)
    assert ours(["model=b"], Library(dirs)) == hydras(["model=b"], dirs)
    assert is_plain(["model=a"], Library(dirs))


WORDS = st.text(st.characters(min_codepoint=32, max_codepoint=0x24F), max_size=12)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**19), 10**19),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
    st.sampled_from(["null", "true", "1", "0x1f", "1e3", "nan", "~", "a,b", "'a'", "${model.name}", "a: b", "#", "\\"]),
)
KEYS = st.sampled_from(["name", "floor", "env", "args", "a", "b_c"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
FILES = st.dictionaries(
    st.sampled_from(["model", "engine", "gate", "client", "protocol"]),
    st.one_of(st.dictionaries(KEYS, VALUES, max_size=4), SCALARS),
    max_size=3,
)
BASES = st.lists(st.sampled_from(["_self_", "laguna_int4", "simulated", "b"]), unique=True, max_size=3)


QUICKLY = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
THOROUGHLY = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
PLAIN_TEXTS = st.from_regex(r"[-+]?[0-9_.eE]{1,8}|[A-Za-z_][A-Za-z0-9_-]{0,5}|'[ -~]{0,6}'", fullmatch=True)
TYPED = st.one_of(WORDS, SCALARS.map(str), PLAIN_TEXTS)


def composes_as_hydra(first: dict[str, Any], second: dict[str, Any], bases: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        texts = {
            "model/a.yaml": yaml.safe_dump({"defaults": bases, **first}),
            "model/b.yaml": yaml.safe_dump({"defaults": ["simulated"], **second}),
        }
        write(Path(folder), texts)
        dirs = [Path(folder), conf_dir()]
        assert ours(["model=a"], Library(dirs)) == hydras(["model=a"], dirs)


@QUICKLY
@given(first=FILES, second=FILES, bases=BASES)
def test_any_values_in_files(first: dict[str, Any], second: dict[str, Any], bases: list[str]) -> None:
    """Whatever two files of a team say, and wherever `_self_` stands, it is merged as Hydra merges it."""
    composes_as_hydra(first, second, bases)


@pytest.mark.slow
@THOROUGHLY
@given(first=FILES, second=FILES, bases=BASES)
def test_many_values_in_files(first: dict[str, Any], second: dict[str, Any], bases: list[str]) -> None:
    """The same for many more files."""
    composes_as_hydra(first, second, bases)


@QUICKLY
@given(value=TYPED)
def test_any_value_on_the_command_line(value: str) -> None:
    """A value means what it means to Hydra's grammar, or is refused in the same words."""
    assert ours([f"task.path={value}"], SHIPPED) == hydras([f"task.path={value}"], [conf_dir()])


@pytest.mark.slow
@THOROUGHLY
@given(value=TYPED)
def test_many_values_on_the_command_line(value: str) -> None:
    """The same for many more values."""
    assert ours([f"task.path={value}"], SHIPPED) == hydras([f"task.path={value}"], [conf_dir()])
