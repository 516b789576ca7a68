"""What a run tells of its server: what was asked for and cannot be read back, where a file names what is not there,
which weights, and how it was started; also where nothing was asked.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from command_line import Ran, attached, here, record, start, wait_for_answers
from raw_server import Request, Start, http
from right_answers import right
from small_team import ENGINE, run_small, small_arguments

FLAGS: dict[str, str] = {**ENGINE["flags"], "quantization": "--quant", "served_model_name": "--served-model-name"}
NOTHING_TOLD: dict[str, Any] = {"effective": {}, "log_values": {}, "metrics": {}, "info_keys": [], "advisories": []}


def warnings(ran: Ran) -> list[str]:
    """Those of a run that came to a verdict, whatever it was."""
    found: list[str] = ran.data["warnings"]
    return found


def external(folder: Path, url: str, *more: str) -> Ran:
    return here(folder, *attached(url, *more), "--json")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("model.quantization=int4", "quantization=int4"),
        ("engine.quantization=int4", "quantization=int4"),
        ("engine.kv_cache_dtype=fp8", "kv_cache_dtype=fp8"),
        ("engine.seed=5", "seed=5"),
        ("engine.enforce_eager=true", "enforce_eager=True"),
        ("engine.tensor_parallel_size=2", "tensor_parallel_size=2"),
        (f"model.sha256={'0' * 64}", "sha256=0000"),
        (f"model.revision={'0' * 40}", "revision=0000"),
    ],
)
def test_of_a_running_server(raw_server: Start, tmp_path: Path, asked: str, told: str) -> None:
    """What is said of a server that runs already and cannot be read back is not verified, and by option no verdict."""
    url = raw_server(right).url
    hardware = ("hw=h200x8",) if "parallel" in asked else ()
    ran = external(tmp_path, url, asked, *hardware)
    assert ran.code == 0, ran.err
    assert [line.startswith(f"not verified: asked for {told}") for line in warnings(ran)] == [True]
    strict = external(tmp_path, url, asked, *hardware, "engine.require_effective=true")
    assert (strict.code, strict.data["reason_code"]) == (3, "not-effective")
    assert told in strict.data["reason"]


@pytest.mark.parametrize(
    "asked",
    [
        "engine.args=[--foo]",
        "engine.containment=pid-namespace",
        "+engine.env.X=y",
        "engine.pass_env=[X]",
        "engine.stall_timeout_s=5",
        "engine.foreign_listener=true",
    ],
)
def test_only_a_start_takes_it(tmp_path: Path, asked: str) -> None:
    """What only a start can do is a mistake of whoever names a running server."""
    ran = external(tmp_path, "http://127.0.0.1:1", asked)
    assert (ran.code, ran.err.count("[knob-not-spelled]")) == (2, 1), ran.err


def test_a_listed_context(raw_server: Start, tmp_path: Path) -> None:
    """The context that a model list tells is that of a running server."""

    def handle(request: Request) -> bytes:
        if request.path == "/v1/models":
            return http(200, {"data": [{"id": "m", "max_model_len": 2048}]})
        return right(request)

    url = raw_server(handle).url
    assert warnings(external(tmp_path, url, "engine.max_model_len=2048")) == []
    assert warnings(external(tmp_path, url, "engine.max_model_len=4096")) == [
        "asked for max_model_len=4096, in effect: 2048"
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("[--quant,int4]", "quantization=int4"),
        ("['--quant=int4']", "quantization=int4"),
        ("[--context,'1024']", "max_model_len=1024"),
        ("[--kv,fp8]", "kv_cache_dtype=fp8"),
    ],
)
def test_an_argument_in_the_engines_spelling(tmp_path: Path, arguments: str, told: str) -> None:
    """An argument that is spelled as the engine spells a setting asks for that setting, whether anything tells it."""
    changes = {**NOTHING_TOLD, "flags": FLAGS}
    ran = run_small(tmp_path, f"engine.args={arguments}", **changes)
    assert ran.code == 0, ran.err
    assert [told in line for line in warnings(ran) if line.startswith("not verified: asked for")] == [True]
    strict = run_small(tmp_path, f"engine.args={arguments}", "engine.require_effective=true", **changes)
    assert (strict.code, strict.data["reason_code"]) == (3, "not-effective")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"version_path": "/nope"}, "no version is told at /nope"),
        ({"version_key": "nope"}, "engine.version_key=nope"),
        ({"info_path": "/nope"}, "nothing could be read at /nope (engine.info_path)"),
        ({"effective": {"max_model_len": "config.contxt"}}, "config.contxt (engine.effective.max_model_len)"),
        ({"info_keys": ["flavor"]}, "flavor (engine.info_keys)"),
        ({"log_values": {"kv_cache_dtype": ", kv_dtype="}}, "log tells no kv_cache_dtype"),
        ({"log_values": {"mine": "nope="}}, "log tells no mine"),
        ({"metrics_path": "/nope"}, "nothing could be read at /nope (engine.metrics_path)"),
        ({"metrics": {"speculative_drafted": "small:draft"}}, "/metrics has no speculative_drafted (small:draft)"),
    ],
)
def test_a_path_that_leads_nowhere(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """What an engine file says where to read, and the server does not tell there, is a warning, asked for or not."""
    ran = run_small(tmp_path, **{"advisories": [], **change})
    assert ran.code == 0, ran.err
    assert [told in line and line.startswith("not verified: ") for line in warnings(ran)] == [True], warnings(ran)


def test_nothing_is_drafted(tmp_path: Path) -> None:
    """A server that says that it drafts nothing counts no drafts, and nobody is warned of that."""
    env = {"SMALL_INFO": '{"flavour": "mild", "config": {"context": 512, "spec": null}}', "SMALL_METRICS": ""}
    effective = {"max_model_len": "config.context", "speculative": "config.spec"}
    assert warnings(run_small(tmp_path, effective=effective, env=env, advisories=[])) == []


def folder_of(path: Path, weights: str) -> Path:
    """A model's folder with these weights."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_text(weights)
    return path


def test_weights_changed_between_runs(tmp_path: Path) -> None:
    """Other bytes under one name are a treatment, which the verdict and a comparison of the two say."""
    model = folder_of(tmp_path / "mdl", "good")
    named = (f"model.name={model}", "gate=auto", "gate.alpha=0.01", "gate.floor=null")
    for run_id in ("one", "two"):
        assert not [line for line in warnings(run_small(tmp_path, *named, "--run-id", run_id)) if "weights" in line]
    (model / "README.md").write_text("says nothing to a server")
    assert not [line for line in warnings(run_small(tmp_path, *named, "--run-id", "three")) if "weights" in line]
    folder_of(model, "other")
    ran = run_small(tmp_path, *named, "--run-id", "four")
    assert [line for line in warnings(ran) if "weights" in line] == [
        "the weights changed since run three (model.safetensors): what differs from it is a treatment, not noise",
        "the weights changed since run one (model.safetensors): the norm rests on others",
    ]
    shown = here(tmp_path, "history", "compare", "three", "four").out
    assert "the weights differ (model.safetensors)" in shown
    assert "noise from run to run" not in shown
    assert "the weights differ" not in here(tmp_path, "history", "compare", "one", "two").out


def details_of_refused(ran: Ran, folder: Path, reason: str) -> Any:
    assert (ran.code, ran.data["reason_code"]) == (3, reason), ran.err
    served = record(ran, folder)["served"]
    assert "--served-model-name" in served["details"]["command"]
    return served


def test_a_refused_server_is_described(tmp_path: Path) -> None:
    """A server that was looked at and not asked is in the record, as far as it was known by then."""
    ran = run_small(tmp_path, "engine.max_model_len=1024", "engine.require_effective=true")
    served = details_of_refused(ran, tmp_path, "not-effective")
    assert (served["build"], served["details"]["effective.max_model_len"]) == ("small-1.2.3", "512")
    shown = here(tmp_path, "history", "show", ran.data["run_id"]).out
    assert "small-1.2.3" in shown
    assert "no server was ready" not in shown
    served = details_of_refused(run_small(tmp_path, env={"SMALL_NAME": "else"}), tmp_path, "wrong-model")
    assert (served["build"], served["details"]["effective.kv_cache_dtype"]) == ("small-1.2.3", "auto")
    model = folder_of(tmp_path / "mdl", "good")
    (model / "config.json").write_text('{"auto_map": {"AutoModel": "modeling_x.Model"}}')
    allowed = ("model.trust_remote_code=true", "model.allow_remote_code=true", "model.unpinned=a test")
    served = details_of_refused(run_small(tmp_path, f"model.name={model}", *allowed), tmp_path, "version-advisory")
    assert "snapshot.file.model.safetensors" in served["details"]


def test_a_server_that_does_not_stream(raw_server: Start, tmp_path: Path) -> None:
    """A server that refuses the first question has told its name and version before."""

    def handle(request: Request) -> bytes:
        return http(400, {"error": {"message": "no"}}) if request.method == "POST" else right(request)

    ran = external(tmp_path, raw_server(handle).url, "protocol.stream=true")
    assert (ran.code, ran.data["reason_code"]) == (3, "rejected")
    assert record(ran, tmp_path)["served"]["build"] == "external-1.2"


def test_a_server_that_dies(tmp_path: Path) -> None:
    """A server that was never ready is in the record by how it was started, and is not said to have served."""
    ran = run_small(tmp_path, command=["false", "{model}"])
    served = details_of_refused(ran, tmp_path, "server-died")
    assert (served["build"], served["details"]["ready"]) == (None, "never")
    shown = here(tmp_path, "history", "show", ran.data["run_id"]).out
    assert "never ready" in shown
    assert "started as" in shown


def test_where_to_look(tmp_path: Path) -> None:
    """How a server was started, what is on, its files and what holds it are on the screen and in each `--json`."""
    model = folder_of(tmp_path / "mdl", "good")
    ran = run_small(tmp_path, f"model.name={model}", f"engine.args=[--long,{'x' * 700},--last]")
    details = ran.data["served"]["details"]
    assert details["effective.max_model_len"] == "512"
    assert not any(name.startswith("snapshot.file.") for name in details)
    run_id = ran.data["run_id"]
    explained = here(tmp_path, "explain", run_id, "--json").data
    assert explained["served"] == ran.data["served"]
    for command in (("explain", run_id), ("history", "show", run_id)):
        out = here(tmp_path, *command).out
        for told in (
            "small-1.2.3",
            "max_model_len 512",
            "--served-model-name",
            "--last",
            details["containment"],
            "2 files",
        ):
            assert told in out, out


def test_an_unseen_model_and_an_advisory(tmp_path: Path) -> None:
    """An advisory says of a model that nobody could look into what was set, and not that it brings code."""
    allowed = ("model.trust_remote_code=true", "model.allow_remote_code=true", "model.unpinned=a test")
    ran = run_small(tmp_path, *allowed)
    assert (ran.code, ran.data["reason_code"]) == (3, "version-advisory")
    assert "brings code" not in ran.data["reason"]
    assert "model.trust_remote_code lets the model run code" in ran.data["reason"]


@pytest.mark.parametrize("name", ["/tmp/nowhere/at/all", "./nowhere", "~/nowhere"])
def test_a_model_that_is_nowhere(tmp_path: Path, name: str) -> None:
    """A path at which there is nothing is told before anything starts; where the server may see others it is a
    warning.
    """
    ran = run_small(tmp_path, f"model.name='{name}'")
    assert (ran.code, ran.err.count("[model-missing]")) == (3, 1), ran.err
    assert not (tmp_path / "dump.json").exists()
    ran = run_small(tmp_path, f"model.name='{name}'", foreign_listener=True)
    assert ran.code == 0, ran.err
    assert any("may see other files" in line for line in warnings(ran))


def test_the_name_in_the_engines_spelling(tmp_path: Path) -> None:
    """The served name is gatekit's to give, however the engine spells it."""
    flags = {**FLAGS, "served_model_name": "--name"}
    ran = run_small(tmp_path, "engine.args=[--name,foo]", flags=flags)
    assert ran.code == 2
    assert "--name" in ran.err


def test_what_was_counted_of_a_resumed_run(tmp_path: Path) -> None:
    """What a server counted is of the last part of a resumed run alone, which is said."""
    go_on = tmp_path / "go_on"
    env = {"SMALL_HOLD": str(go_on)}
    arguments = small_arguments(tmp_path, "client.concurrency=1", "--run-id", "cut", env=env)
    process = start(tmp_path, "run", *arguments)
    wait_for_answers(tmp_path, "cut", 15)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert any("SIGINT: 3 s for answers in flight" in line for line in process.stderr)
    go_on.touch()
    process.communicate(timeout=60)
    ran = here(tmp_path, "run", "--resume", "cut", "--json")
    assert ran.code == 0, ran.err
    details = ran.data["served"]["details"]
    assert details["effective.speculative_drafted"] == "50"
    assert "the last part of this run" in details["metrics.of"]
    assert "the last part of this run" in here(tmp_path, "history", "show", "cut").out
    assert "metrics.of" not in run_small(tmp_path).data["served"]["details"]
