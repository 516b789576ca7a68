"""From overrides to specs: composition, schemas, rules, sweeps."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gatekit.errors import ConfigError
from gatekit.records.spec import Api, Spec
from gatekit.resources import conf_dir, schema
from gatekit.spec.resolve import config_dirs, resolve, resolve_many


def spec_of(*overrides: str, extra: tuple[str, ...] = ()) -> Spec:
    return resolve(overrides, dirs=config_dirs(extra, {}))


def problems_of(*overrides: str, extra: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        spec_of(*overrides, extra=extra)
    return caught.value.lines()


HARDWARE = {
    "laguna_int4": "b200",
    "laguna_nvfp4": "b200",
    "laguna_nvfp4_completions": "b200",
    "inkling_small_nvfp4": "b200x4",
    "diffusiongemma_fp8": "b200x2",
    "simulated": "cpu",
    "tiny_gsm": "cpu",
}


def test_every_shipped_model_is_complete() -> None:
    """Each shipped model composes by its own name on its hardware."""
    assert set(HARDWARE) == {path.stem for path in (conf_dir() / "model").glob("*.yaml")}
    for model, hw in HARDWARE.items():
        assert spec_of(f"model={model}", f"hw={hw}").model.name


@pytest.mark.parametrize("group", ["hw", "engine", "protocol", "task", "gate", "history"])
def test_every_shipped_option_composes(group: str) -> None:
    """Each option of each group composes with what it asks for, and carries its file's name."""
    needs = {
        "external": ("engine.base_url=http://127.0.0.1:8000",),
        "replay": ("engine.answers=x.jsonl",),
        "static_floor": ("gate.floor=0.9",),
        "vllm": ("hw=b200",),
        "sglang": ("hw=b200",),
        "llamacpp": ("engine.max_model_len=4096",),
    }
    for path in (conf_dir() / group).glob("*.yaml"):
        spec = spec_of(f"{group}={path.stem}", *needs.get(path.stem, ()))
        assert getattr(spec, group).name == path.stem


def test_laguna_int4_pulls_in_what_it_needs() -> None:
    """`model=laguna_int4 hw=b200` is complete by itself: engine, protocol, task and gate come along."""
    spec = spec_of("model=laguna_int4", "hw=b200")
    assert (spec.engine.name, spec.protocol.api, spec.task.dataset) == ("vllm", Api.CHAT, "gsm8k")
    assert (spec.protocol.shots, spec.protocol.max_tokens) == (5, 1024)
    assert (spec.engine.max_model_len, spec.engine.enforce_eager) == (4096, True)
    assert (spec.gate.floor, spec.engine.startup_timeout_s) == (0.9, 1200.0)


def test_the_command_line_wins() -> None:
    """An override beats the model file, for a whole group and for one key, in any order."""
    for overrides in (("engine=sim", "model=laguna_int4"), ("model=laguna_int4", "engine=sim")):
        assert spec_of(*overrides, "hw=b200").engine.name == "sim"
    assert spec_of("protocol.max_tokens=99", "model=laguna_int4", "hw=b200").protocol.max_tokens == 99


def test_laguna_nvfp4_has_two_protocols() -> None:
    """The completions form before 2026-09-01 and the chat form since are two specs with two gates."""
    chat = spec_of("model=laguna_nvfp4", "hw=b200")
    raw = spec_of("model=laguna_nvfp4_completions", "hw=b200")
    assert (chat.protocol.api, chat.gate.floor) == (Api.CHAT, 0.9)
    assert (raw.protocol.api, raw.gate.floor) == (Api.COMPLETIONS, 0.86)
    assert replace(chat.model, tags=()) == replace(raw.model, tags=())


def test_an_override_may_set_a_key_that_no_file_has() -> None:
    """Keys that a config leaves out are set without Hydra's `+`."""
    assert spec_of("model.revision=" + "0123456789" * 4).model.revision == "0123456789" * 4


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model=laguan_int4", ["laguna_int4", "[unknown-option]"]),
        ("modle=laguna_int4", ["'model'", "[unknown-group]"]),
        ("engine.acuracy=0.7", ["'accuracy'", "[unknown-key]"]),
        ("gate.thresold=0.9", ["unknown key 'thresold'", "[unknown-key]"]),
        ("task.n=abc", ["whole number", "'abc'", "[wrong-type]"]),
        ("task.n=1.5", ["whole number", "1.5", "[wrong-type]"]),
        ("task.n=true", ["whole number", "True", "[wrong-type]"]),
        ("task.n=0", ["between 1 and", "[out-of-range]"]),
        ("task.n=-5", ["between 1 and", "[out-of-range]"]),
        ("gate.floor=90", ["fractions between 0 and 1; did you mean 0.90?", "[out-of-range]"]),
        ("gate.floor=nan", ["not a finite number", "[not-finite]"]),
        ("gate.floor=inf", ["[not-finite]"]),
        ("gate.floor=-0.1", ["[out-of-range]"]),
        ("gate.floor=1.0001", ["[out-of-range]"]),
        ("client.concurrency=0", ["between 1 and 4096", "[out-of-range]"]),
        ("client.concurrency=100000", ["between 1 and 4096", "[out-of-range]"]),
        ("engine.args='--a b'", ["a list", "never passed to a shell", "[wrong-type]"]),
        ("engine.args=[--port, '1']", ["managed by gatekit", "[managed-flag]"]),
        ("engine.args=['--api-key=sk-live']", ["managed by gatekit", "[managed-flag]"]),
        ("engine.env={HF_TOKEN: x}", ["looks like a secret", "[secret-in-config]"]),
        ("model.trust_remote_code=true", ["[remote-code-not-allowed]"]),
        ("engine.base_url=http://127.0.0.1:1", ["exclude each other", "[launch-and-attach]"]),
        ("engine=external", ["needs the address", "[missing-key]"]),
        ("engine.max_model_len=256", ["[context-too-short]"]),
        ("protocol.shots_source=test_head", ["[shots-overlap]"]),
        ("protocol.question_template=hello", ["[template-place]"]),
        ("model.name='${oc.env:HOME}'", ["[resolver]"]),
        ("task.n=${nope}", ["task.n: refers to nope", "not there", "[bad-reference]"]),
        ("model.name=${model.name}", ["a cycle or a chain", "[bad-reference]"]),
        ("model.name='${oc.${engine.name}:HOME}'", ["[resolver]"]),
        ("model.name='???'", ["missing", "[missing-value]"]),
        ("model.name=???", ["missing", "[missing-value]"]),
        ("model.name=$\\{oc.env:HOME\\}", ["resolvers are not allowed", "[resolver]"]),
        ("task.n=1e3", ["expected a whole number", "got 1000.0; write 1000 [", "[wrong-type]"]),
        ("gate.observed={correct: 95.0, n: 100}", ["gate.observed.correct", "write 95", "[wrong-type]"]),
        ("client.concurrency=64.0", ["whole number", "[wrong-type]"]),
        ("engine.args=['--served_model_name=x']", ["managed by gatekit", "[managed-flag]"]),
        ("engine.args=['--serv', x]", ["managed by gatekit", "[managed-flag]"]),
        ("engine.args=['--hf-token', x]", ["takes a secret", "[secret-in-config]"]),
        ("engine.args=['--api-key sk-live']", ["managed by gatekit", "[managed-flag]"]),
        ("engine.args=['--hos=x']", ["managed by gatekit", "[managed-flag]"]),
        ("engine.args=['--ADMIN_API_KEY', x]", ["takes a secret", "[secret-in-config]"]),
        ("engine.command=[bash, '-c', x]", ["[shell-command]"]),
        ("engine.command=[/usr/bin/env, vllm]", ["[shell-command]"]),
        ("engine.command=[python3, '-Ic', x]", ["engine.command.1", "[shell-command]"]),
        ("engine.command=[perl, '-e', x]", ["engine.command.1", "[shell-command]"]),
        ("hydra.searchpath=[/tmp]", ["[hydra-node]"]),
        ("hydra/launcher=basic", ["[hydra-node]"]),
        ("+engine._target_=os.system", ["[runs-code]"]),
        ("engine.env={_target_: x}", ["[runs-code]"]),
        ("model=simulated,laguna_int4", ["add -m to sweep", "[sweep]"]),
        ("model=../../secret", ["no such model", "[unknown-option]"]),
        ("model@engine=simulated", ["[package-header]"]),
        ("task=null", ["takes the name of one option", "[bad-option]"]),
        ("nonsense", ["overrides look like", "[bad-override]"]),
    ],
)
def test_wrong_overrides(override: str, words: list[str]) -> None:
    """A wrong override is one line that names what is wrong, the nearest right thing and a stable id."""
    lines = problems_of(override)
    assert any(all(word in line for word in words) for line in lines), lines
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (
            ("model=laguna_nvfp4", "hw=h100", "engine=external", "engine.base_url=http://a:1"),
            "fp4-needs-blackwell",
        ),
        (("model=laguna_int4",), "architecture-mismatch"),
        (("model=inkling_small_nvfp4", "hw=b200x2"), "too-few-gpus"),
        (("model=laguna_int4", "hw=b200", "~model.unpinned"), "remote-code-unpinned"),
        (("engine=replay",), "missing-key"),
        (("gate.observed={correct: 11, n: 10}",), "out-of-range"),
        (("~gate.observed",), "missing-key"),
        (("gate.budget=null",), "missing-key"),
        (("gate.alpha=0.01", "gate.sigmas=2"), "two-thresholds"),
        (("gate=static_floor", "gate.floor=0.9", "gate.alpha=0.01"), "inert-key"),
        (("engine=external", "engine.base_url=http://a:1/v1/completions"), "base-url"),
    ],
)
def test_rules_between_groups(overrides: tuple[str, ...], reason: str) -> None:
    """What no single file can know is checked over the whole spec, before anything starts."""
    assert any(f"[{reason}]" in line for line in problems_of(*overrides))


def test_a_team_folder_adds_and_shadows(tmp_path: Path) -> None:
    """A folder of one's own adds options and comes before the shipped ones."""
    (tmp_path / "model").mkdir()
    (tmp_path / "hw").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text(
        "defaults:\n  - laguna_int4\nmodel:\n  name: ours/model\ngate:\n  floor: 0.8\n"
    )
    (tmp_path / "hw" / "b200.yaml").write_text("name: b200\nvendor: nvidia\narchitecture: blackwell\ncount: 3\n")
    spec = spec_of("model=ours", "hw=b200", extra=(str(tmp_path),))
    assert (spec.model.name, spec.gate.floor, spec.hw.count) == ("ours/model", 0.8, 3)
    assert spec.engine.name == "vllm"


def test_mistakes_in_a_file_are_shown_where_they_stand(tmp_path: Path) -> None:
    """Several mistakes in one file are several lines, each with its line and column."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text(
        "defaults:\n  - simulated\nmodel:\n  nmae: x\nengine:\n  acuracy: 0.9\n  dispersion: 2\ngate:\n  alpha: 90\n"
    )
    lines = problems_of("model=ours", extra=(str(tmp_path),))
    found = [line.rpartition("ours.yaml:")[2].split(": ")[0] for line in lines]
    assert sorted(found) == ["4:3", "6:3", "7:15", "9:10"]


def test_a_model_that_names_no_engine_is_not_simulated(tmp_path: Path) -> None:
    """A forgotten engine is refused instead of being gated, and passing, on the bundled server for ever."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text("model: {name: ours, server_args: {}, server_env: {}}\n")
    observed = "gate.observed={correct: 9, n: 10}"
    (line,) = problems_of("model=ours", observed, extra=(str(tmp_path),))
    assert "names no engine" in line
    assert "ours.yaml" in line
    assert spec_of("model=ours", observed, "engine=sim", extra=(str(tmp_path),)).simulated


def test_a_defaults_list_that_asks_for_nothing_known(tmp_path: Path) -> None:
    """A misspelt option in a defaults list is shown at its line, with the nearest name."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text("defaults:\n  - simulated\n  - override /engine: vlm\n")
    (line,) = problems_of("model=ours", extra=(str(tmp_path),))
    assert "ours.yaml:3:" in line
    assert "vllm" in line


def test_flags_of_the_server_itself_pass() -> None:
    """Flags that only resemble managed or secret ones, and a server's own short options, are let through."""
    args = "[--max-num-batched-tokens, '1', --tokenizer, x, --max-total-tokens, '1', -cc, x, --max-model-len, '9']"
    assert len(spec_of(f"engine.args={args}").engine.args) == 10
    assert spec_of("engine.command=[python3, '-m', server, '-v']").engine.command == ("python3", "-m", "server", "-v")


def test_code_for_an_interpreter_may_not_come_from_the_arguments() -> None:
    """A bare interpreter as the command cannot be handed its code by engine.args or the model's server_args."""
    for args in ("engine.args=['-c', x]", "model.server_args={sim: ['-Ic', x]}"):
        assert any("[shell-command]" in line for line in problems_of("engine.command=[python3]", args))


def test_an_override_is_blamed_for_its_own_mistake() -> None:
    """A mapping given on the command line is where its mistakes are shown."""
    (line,) = problems_of("gate.observed={correct: 1400, n: 1319}")
    assert line.startswith("override gate.observed=")


@pytest.mark.parametrize(
    "override",
    [
        "engine.args=['--api-key', sk-live-SECRET]",
        "engine.args=['--api-key=sk-live-SECRET']",
        "engine.args=sk-live-SECRET",
        "engine.env={HF_TOKEN: sk-live-SECRET}",
        "engine.base_url=http://user:sk-live-SECRET@h",
        "engine.api_key_env=sk-live-SECRET",
        "engine.args=[sk-live-SECRET",
        "engine.args=['--api-key sk-live-SECRET']",
        "engine.args=[[sk-live-SECRET]]",
        "engine.env=[sk-live-SECRET]",
        "~engine.env=sk-live-SECRET",
        "engine.env.HF_TOKEN: sk-live-SECRET",
        "engine={args: [sk-live-SECRET]}",
        "engine/args=sk-live-SECRET",
        "engine.api_key=sk-live-SECRET",
        "model.server_env={vllm: {HF_TOKEN: sk-live-SECRET}}",
        "HF_TOKEN=sk-live-SECRET",
    ],
)
def test_a_misplaced_secret_is_not_repeated(override: str) -> None:
    """What somebody put where secrets go astray stands in no error line."""
    assert "SECRET" not in "".join(problems_of("engine=external", override))


def test_a_misplaced_secret_in_a_file_is_not_repeated(tmp_path: Path) -> None:
    """A secret in a model file is refused at its place, and stands in no line."""
    (tmp_path / "model").mkdir()
    for text in (
        "{args: [--api-key, SECRET]}",
        "{args: [--hf-token=SECRET]}",
        "{args: SECRET}",
        "{env: {A_TOKEN: SECRET}}",
        "{env: {A: [SECRET]}}",
        "{base_url: 'http://u:SECRET@h'}",
        "SECRET",
    ):
        (tmp_path / "model" / "ours.yaml").write_text(f"defaults:\n  - simulated\nengine: {text}\n")
        lines = problems_of("model=ours", extra=(str(tmp_path),))
        assert "ours.yaml" in lines[0]
        assert "SECRET" not in "".join(lines)


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_an_empty_model_file_is_told_every_missing_key(tmp_path: Path, text: str) -> None:
    """A model file that says nothing is answered with the section and all its required keys, at that file."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text(text)
    lines = problems_of("model=ours", extra=(str(tmp_path),))
    wanted = ["spec: missing key 'model'", *(f"model: missing key {key!r}" for key in schema("model")["required"])]
    assert [line.split("ours.yaml: ")[1][: len(what)] for line, what in zip(lines, wanted, strict=True)] == wanted


def test_a_defaults_list_that_leads_back_to_itself(tmp_path: Path) -> None:
    """A model file that includes itself is refused in words, not in recursion."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text("defaults:\n  - ours\n")
    (line,) = problems_of("model=ours", extra=(str(tmp_path),))
    assert "leads back to its own file" in line


def test_defaults_lists_do_not_multiply(tmp_path: Path) -> None:
    """Files that include the next two each are refused before Hydra walks every path through them."""
    (tmp_path / "model").mkdir()
    for index in range(24):
        text = f"defaults:\n  - m{index + 1}\n  - m{index + 2}\n"
        (tmp_path / "model" / f"m{index}.yaml").write_text(text)
    began = time.monotonic()
    assert "[defaults-bomb]" in problems_of("model=m0", extra=(str(tmp_path),))[0]
    assert time.monotonic() - began < 5


def test_references_lead_to_values_and_items() -> None:
    """A plain reference takes the value of a key or of one item of a list."""
    spec = spec_of("model.architectures=[hopper, blackwell]", "model.name='${model.architectures[1]}'")
    assert spec.model.name == "blackwell"


def test_a_cycle_is_shown_where_it_stands(tmp_path: Path) -> None:
    """Two values that refer to each other, and a reference to nothing, are named with line and column."""
    (tmp_path / "model").mkdir()
    text = "defaults:\n  - simulated\nmodel:\n  a: ${model.b}\n  b: ${model.a}\n  c: ${nope}\n"
    (tmp_path / "model" / "ours.yaml").write_text(text)
    lines = problems_of("model=ours", extra=(str(tmp_path),))
    assert all("[bad-reference]" in line for line in lines)
    assert sorted(line.split("ours.yaml:")[1].split(": ")[0] for line in lines) == ["4:6", "5:6", "6:6"]


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"  z{i}: '" + f"${{gate.z{i + 1}}}" * 10 + "'\n" for i in range(9)) + "  z9: xxxxxxxxxx\n",
        "".join(f"  z{i}: {{" + ", ".join(f"k{j}: '${{gate.z{i + 1}}}'" for j in range(9)) + "}\n" for i in range(7)),
        "  z: " + "x" * 400_000 + "\n  a: '" + "${gate.z}" * 600 + "'\n",
        "  z: " + "x" * 400_000 + "\n  a: '" + "${gate.z}" * 30 + "'\n",
        "  z: [" + "1," * 9_000 + "1]\n" + "".join(f"  a{i}: ${{gate.z}}\n" for i in range(30)),
    ],
    ids=["texts", "mappings", "one-text", "one-long-text", "one-list"],
)
def test_a_reference_bomb_is_refused(tmp_path: Path, text: str) -> None:
    """References, chained or repeated, cannot make gigabytes of a short file."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "ours.yaml").write_text("defaults:\n  - simulated\ngate:\n" + text)
    began = time.process_time()
    (line,) = problems_of("model=ours", extra=(str(tmp_path),))
    assert "[reference-bomb]" in line
    assert time.process_time() - began < 5


def test_a_sweep_is_bounded() -> None:
    """A sweep of a hundred million specs is refused before it is made."""
    for sweep in (
        ["task.n=range(1,100000000)"],
        ["task.n=shuffle(range(100000000,1,-1))"],
        ["task.n=range(1,100)", "engine.seed=range(0,100)"],
        ["model=glob(*)", "hw=glob(*)", "engine=glob(*)", "gate=glob(*)"],
    ):
        with pytest.raises(ConfigError) as caught:
            resolve_many(sweep, dirs=config_dirs([], {}))
        assert caught.value.reason == "sweep-too-large"


def test_a_pattern_that_matches_nothing_is_refused() -> None:
    """A sweep over a pattern without a match is a mistake, not a sweep of nothing."""
    with pytest.raises(ConfigError) as caught:
        resolve_many(["model=glob(zzz*)"], dirs=config_dirs([], {}))
    assert caught.value.reason == "unknown-option"


@pytest.mark.parametrize("values", ["range(1,inf)", "range(nan,5)", "range(1,5,0)", "range(1,5,1e-320)"])
def test_an_endless_range_is_refused(values: str) -> None:
    """A range without a finite number of values is the user's mistake, not a crash."""
    with pytest.raises(ConfigError) as caught:
        resolve_many([f"task.n={values}"], dirs=config_dirs([], {}))
    assert caught.value.reason == "bad-override"


def test_a_missing_config_folder_is_named() -> None:
    """A config folder that does not exist is refused instead of ignored."""
    with pytest.raises(ConfigError) as caught:
        config_dirs(["no/such/folder"], {})
    assert "no/such/folder" in caught.value.lines()[0]


def test_config_path_variable(tmp_path: Path) -> None:
    """GATEKIT_CONF_PATH names folders between those of the command line and the shipped one."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    dirs = config_dirs([str(tmp_path / "a")], {"GATEKIT_CONF_PATH": str(tmp_path / "b")})
    assert dirs == (tmp_path / "a", tmp_path / "b", conf_dir())


def test_sweep() -> None:
    """Hydra's sweep grammar gives every combination, in its order."""
    sweep = ["engine.accuracy=0.9,0.8", "task.n=range(10,12)", "gate.alpha=0.01"]
    swept = resolve_many(sweep, dirs=config_dirs([], {}))
    assert [(one.spec.engine.accuracy, one.spec.task.n) for one in swept] == [
        (0.9, 10),
        (0.9, 11),
        (0.8, 10),
        (0.8, 11),
    ]
    assert [one.label for one in swept][:2] == ["engine.accuracy=0.9 task.n=10", "engine.accuracy=0.9 task.n=11"]


def test_sweep_reports_all_its_problems() -> None:
    """The mistakes of every combination are reported together, each once."""
    with pytest.raises(ConfigError) as caught:
        resolve_many(["engine.accuracy=2,3", "task.n=0"], dirs=config_dirs([], {}))
    assert len(caught.value.problems) == 3
