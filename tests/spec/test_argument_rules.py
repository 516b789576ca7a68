"""What a config may not add to a server's command line and environment, and what no template may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatekit.errors import ConfigError
from gatekit.resources import conf_dir
from gatekit.spec.library import Library

LIBRARY = Library([conf_dir()])


def reasons(*overrides: str, library: Library = LIBRARY) -> list[str]:
    try:
        library.resolve(overrides)
    except ConfigError as error:
        return [problem.reason for problem in error.problems]
    return []


def on_vllm(*more: str) -> list[str]:
    return reasons("engine=vllm", "hw=h100", *more)


def as_arguments(*options: str) -> Iterator[str]:
    """The options as arguments of the engine, of the model and, behind the model's place, of the command."""
    quoted = json.dumps(list(options))
    yield f"engine.args={quoted}"
    yield f"model.server_args={{vllm: {quoted}}}"
    yield f"engine.command={json.dumps(['vllm', 'serve', '{model}', *options])}"


@pytest.mark.parametrize(
    "option",
    [
        *("--trust-remote-code", "--trust_remote_code", "--Trust-Remote-Code", "--trust-remote-code=true", "--trust"),
        *("--tr", "--no-trust-remote-code", "--revision", "--revision=main", "--rev", "--code_revision=main"),
    ],
)
def test_code_and_its_revision_are_for_keys(option: str) -> None:
    """Whether code of a model's runs, and which, is said by no argument, in whatever spelling servers read."""
    for override in as_arguments(option, "main"):
        assert on_vllm(override) == ["option-has-key"], override


@pytest.mark.parametrize(
    "option", ["-m", "-m=/x", "-m/x", "--model", "--model-path=/x", "--model_path", "-hf", "--hf-r"]
)
def test_weights_are_for_their_key(option: str) -> None:
    """Which weights are served is model.name; only the command itself, which has their place, may spell the option."""
    in_args, in_server_args, _ = as_arguments(option, "/x")
    assert on_vllm(in_args) == on_vllm(in_server_args) == ["option-has-key"]
    assert reasons("model=tiny_gsm", in_args) == ["option-has-key"]


@pytest.mark.parametrize("option", ["--config", "--config=/x.yaml", "--conf", "--config_file"])
def test_a_config_file_of_the_server_is_refused(option: str) -> None:
    """A file from which the server takes settings could set anything."""
    for override in as_arguments(option, "/x.yaml"):
        assert on_vllm(override) == ["option-reads-config"], override


@pytest.mark.parametrize(
    ("overrides", "is_wrong"),
    [
        (["engine.max_model_len=4096", "engine.args=[--max_model_len, '9000']"], True),
        (["engine.args=[--max-model-len, '9000']"], False),
        (["engine.args=['--seed=1']"], True),  # the shipped engine's seed is 0
        (["engine.args=[--see, '1']"], True),
        (["engine.seed=null", "engine.args=['--seed=1']"], False),
        (["engine.tensor_parallel_size=2", "hw=b200x2", "engine.args=[-tp, '1']"], True),
        (["engine.enforce_eager=true", "engine.args=[--no-enforce-eager]"], True),
        (["model.server_args={vllm: [--seed, '1']}"], True),
        (["model.server_args={sglang: [--seed, '1']}"], False),
        (["engine.args=[--quantization, fp8]"], False),
        (["engine.quantization=fp8", "engine.args=[-q, awq]"], True),
        (["engine.command=[vllm, serve, '{model}', --seed, '1']"], True),
        (["engine.command=[vllm, serve, '{model}', --enable-x]", "engine.args=[--enable_x]"], True),
        (["engine=llamacpp", "engine.max_model_len=512", "engine.args=[-c, '99']"], True),
        (["engine=llamacpp", "engine.max_model_len=512", "engine.args=[--metrics]"], True),
        (["engine=llamacpp", "engine.max_model_len=512", "engine.args=[--cache-ram, '0']"], False),
        (["engine=llamacpp", "engine.args=[--parallel, '1']"], False),  # what is told is the missing context alone
    ],
)
def test_an_option_is_set_once(overrides: list[str], is_wrong: bool) -> None:
    """An argument may set what no key and not the command sets, and nothing a second time."""
    assert ("option-set-twice" in on_vllm(*overrides)) is is_wrong


@pytest.mark.parametrize(
    ("overrides", "wrong"),
    [
        (["engine.pass_env=[GK_DB]", "history.url_env=GK_DB"], ["secret-handed-on"]),
        (["engine.pass_env=[HF_TOKEN]", "history.url_env=GK_DB"], []),
        (["engine.api_key_env=PATH"], ["variable-taken"]),
        (["engine.api_key_env=GATEKIT_OWNER"], ["variable-taken"]),
        (["engine.api_key_env=GATEKIT_RUN"], ["variable-taken"]),
        (["engine.api_key_env=SPT_NOENV"], ["variable-taken"]),
        (["engine.api_key_env=GK_DB", "history.url_env=GK_DB"], ["variable-taken"]),
        (["engine.api_key_env=MINE", "engine.pass_env=[MINE]"], ["variable-taken"]),
        (["engine.api_key_env=MINE", "engine.env={MINE: x}"], ["variable-taken"]),
        (["engine.api_key_env=MINE", "model.server_env={vllm: {MINE: x}}"], ["variable-taken"]),
        (["engine.api_key_env=MINE", "model.server_env={sglang: {MINE: x}}"], []),
        (["engine.env={GATEKIT_RUN: x}"], ["variable-taken"]),
        (["engine.pass_env=[GATEKIT_OWNER]"], ["variable-taken"]),
        (["engine=external", "engine.base_url=http://a:1", "engine.api_key_env=PATH"], ["variable-taken"]),
        (["engine=external", "engine.base_url=http://a:1", "engine.api_key_env=MINE"], []),
    ],
)
def test_a_variable_serves_one_end(overrides: list[str], wrong: list[str]) -> None:
    """The database's URL is given to no server, and the key of a run takes no other variable's place."""
    assert on_vllm(*overrides) == wrong


@pytest.mark.parametrize("key", ["health_path", "version_path", "info_path", "metrics_path"])
def test_a_path_is_one_word(tmp_path: Path, key: str) -> None:
    """The path of a route holds no blank, control or foreign character: it stands in the head of a request."""
    (tmp_path / "engine").mkdir()
    for path, wrong in (
        ("/ x", ["bad-form"]),
        ("/x\r\nX-A: b", ["bad-form"]),
        ("/\x1b[31m", ["bad-form"]),
        ("/é", ["bad-form"]),
        ("x", ["bad-form"]),
        ("/v1/a-b_c?d=e%20f", []),
    ):
        lines = f"name: own\nkind: launch\ncommand: [x]\nflags: {{}}\nenv: {{}}\n{key}: {json.dumps(path)}\n"
        (tmp_path / "engine" / "own.yaml").write_text(lines)
        assert reasons("engine=own", library=Library([tmp_path, conf_dir()])) == wrong, path


@pytest.mark.parametrize(
    ("template", "is_right"),
    [
        ("{question}", True),
        ("{question.__class__}{question}", False),
        ("{question}{question[0]}", False),
        ("{question!r} {question}", False),
        ("{question:>9} {question}", False),
        ("x{question.text} {question}", False),
        ("{quesiton} {question}", False),
        ("{question} {name}", False),
        ("{{name}} {question}", True),
        ("{question} \\boxed{x} x^{n} \\frac{a}{b}", True),
        ('{question} as {"answer": 1}, { so }, {}', True),
    ],
)
@pytest.mark.parametrize("key", ["question_template", "shot_template"])
def test_a_template_names_no_other_field(tmp_path: Path, key: str, template: str, is_right: bool) -> None:
    """What looks like a field and is none is a mistake; LaTeX, JSON and doubled braces are texts."""
    (tmp_path / "protocol").mkdir()
    text = (conf_dir() / "protocol" / "completions_0shot.yaml").read_text()
    lines = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    (tmp_path / "protocol" / "own.yaml").write_text("\n".join([*lines, f"{key}: {json.dumps(template)}"]) + "\n")
    found = reasons("protocol=own", library=Library([tmp_path, conf_dir()]))
    assert set(found) == (set() if is_right else {"template-field"})
