"""Rules on what a config adds to a server's command line and environment."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from gatekit.engine.argv import options_of_keys
from gatekit.engine.environment import INHERITED
from gatekit.engine.run_mark import MARK_VARIABLES
from gatekit.errors import ConfigError
from gatekit.records.spec import Containment, EngineKind, Spec
from gatekit.spec.reader import KeyPath

Found = Iterator[tuple[KeyPath, str, str, str]]

MANAGED_FLAGS = frozenset({"--host", "--port", "--api-key", "--served-model-name", "--alias"})
# Whatever a server calls them: what they set has a key, with rules of its own.
_CODE = {"--trust-remote-code": "model.trust_remote_code"}
_REVISION = dict.fromkeys(("--revision", "--code-revision"), "model.revision")
_WEIGHTS = dict.fromkeys(
    (
        *("-m", "--model", "--model-path", "--model-tag", "--force-model", "-mu", "--model-url", "-hf", "-hfr"),
        *("--hf-repo", "-hff", "--hf-file", "-dr", "--docker-repo", "--models-dir", "--models-preset"),
    ),
    "model.name",
)
_CONFIG_FILES = frozenset({"--config", "--config-file"})
# Spellings of one option, of which an engine file names one.
_SYNONYMS = (
    frozenset({"--tensor-parallel-size", "-tp", "--tp", "--tp-size"}),
    frozenset({"--data-parallel-size", "-dp", "--dp", "--dp-size"}),
    frozenset({"--ep-size", "--ep", "--expert-parallel-size"}),
    frozenset({"--enable-expert-parallel", "-ep"}),
    frozenset({"--ctx-size", "-c"}),
    frozenset({"--parallel", "-np"}),
    frozenset({"--cache-type-k", "-ctk"}),
    frozenset({"--cache-type-v", "-ctv"}),
    frozenset({"--quantization", "-q"}),
    frozenset({"--seed", "-s"}),
    frozenset({"--alias", "-a"}),
)
_SECRET_FLAG = re.compile(r"^--(.*-)?(token|secret|password|api-key|credentials?)$")
_SHELLS = frozenset(
    {"sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "fish", "csh", "tcsh", "pwsh", "busybox"}
    | {"env", "sudo", "doas", "su", "eval", "exec", "xargs", "ssh", "awk", "gawk"}
)
_OPTION_END = re.compile(r"[=\s]|(?<=^-[A-Za-z])[^A-Za-z0-9-]")
_SHORTEST_PREFIX = len("--x")
_PYTHON = re.compile(r"(python|pypy)[0-9.]*")
_OTHER_INTERPRETER = re.compile(r"(perl|ruby|node|nodejs|php|lua|luajit)[0-9.]*")
_PYTHON_CODE = re.compile(r"-[A-Za-z]*c.*")
_OTHER_CODE = re.compile(r"-[A-Za-z]*[eEpr].*|--(eval|print|run|execute).*")
_MODULE_OR_SCRIPT = re.compile(r"-m.*|[^-].*")


def flags_are_not_managed(spec: Spec) -> Found:
    """Address, key and name of a launched server belong to gatekit; secrets never stand in arguments."""
    for path, arg in _arguments(spec):
        option = _option(arg)
        if _names(option, MANAGED_FLAGS) is not None:
            yield path, f"{option} is managed by gatekit", "managed-flag", "remove it"
        elif _SECRET_FLAG.search(option.lower()):
            yield path, f"{option} takes a secret", "secret-in-config", "secrets never stand in configs"


def options_have_keys(spec: Spec) -> Found:
    """Weights, revision and code are set by keys, whose rules no argument and no config file of a server gets round."""
    for path, arg in _arguments(spec):
        option = _option(arg)
        in_command = path[:2] == ("engine", "command")  # which is where the model's place is
        keys = {**_CODE, **_REVISION, **({} if in_command else _WEIGHTS)}
        named = _names(option, keys)
        if named is not None:
            what, hint = f"{option} would set what {keys[named]} is for", f"set {keys[named]} instead"
            yield path, what, "option-has-key", hint
        elif _names(option, _CONFIG_FILES) is not None:
            what = f"{option} reads a file that could set anything, past every rule and record"
            yield path, what, "option-reads-config", "write its settings as arguments and keys"


def options_are_set_once(spec: Spec) -> Found:
    """An argument that sets again what the command or a key sets would make the record say what is not so."""
    if spec.engine.kind is not EngineKind.LAUNCH or not spec.engine.command:
        return
    try:
        keys = options_of_keys(spec)
    except ConfigError:
        return  # told by the rule that makes the command line
    commanded = dict.fromkeys(
        (_option(arg) for arg in spec.engine.command[1:] if arg.startswith("-")), "engine.command"
    )
    taken = {_option(option): key for option, key in {**commanded, **keys}.items()}
    taken |= {other: key for option, key in taken.items() for same in _SYNONYMS if option in same for other in same}
    told_elsewhere = {*MANAGED_FLAGS, *_CODE, *_REVISION, *_WEIGHTS, *_CONFIG_FILES}
    for path, arg in _arguments(spec):
        is_of_another = path[:2] == ("model", "server_args") and path[2] != spec.engine.name
        in_command, option = path[:2] == ("engine", "command"), _option(arg)
        named = None if is_of_another else _names(option, keys.keys() if in_command else taken)
        if named is not None and _names(option, told_elsewhere) is None:
            what = f"{option} is set by {taken[named]} already"
            yield path, what, "option-set-twice", "remove it here, or leave the other one out"


def _option(arg: str) -> str:
    """The option that an argument begins with, as servers read it: `--a_b=c` is `--a-b`, `-m=c` is `-m`."""
    option = _OPTION_END.split(arg, maxsplit=1)[0]
    return option.replace("_", "-").lower() if option.startswith("--") else option


def _names(option: str, options: Collection[str]) -> str | None:
    """Which of the options this one is: by its whole name, its beginning (`--trust`), or negated (`--no-x`)."""
    if option in options:
        return option
    if not option.startswith("--") or len(option) < _SHORTEST_PREFIX:
        return None
    bare = "--" + option.removeprefix("--no-").removeprefix("--")
    return next((one for one in options if one == bare or one.startswith(option)), None)


def _arguments(spec: Spec) -> Iterator[tuple[KeyPath, str]]:
    """Everything a config adds to the server's command line, in its order there."""
    for index, arg in enumerate(spec.engine.command or ()):
        yield ("engine", "command", index), arg
    for name, args in spec.model.server_args.items():
        for index, arg in enumerate(args):
            yield ("model", "server_args", name, index), arg
    for index, arg in enumerate(spec.engine.args):
        yield ("engine", "args", index), arg


def command_is_no_shell(spec: Spec) -> Found:
    """A launched server is a program with arguments, never a shell or an interpreter that is handed code."""
    code_option: re.Pattern[str] | None = None
    for path, arg in _arguments(spec):
        name = re.split(r"[/\\]", arg)[-1].lower()
        in_command = path[:2] == ("engine", "command")
        is_shell = in_command and (name in _SHELLS or arg == "-c")
        if is_shell or (code_option and code_option.fullmatch(arg)):
            yield path, "would run a command line or code", "shell-command", "name the server's own program"
        if in_command and _PYTHON.fullmatch(name):
            code_option = _PYTHON_CODE
        elif in_command and _OTHER_INTERPRETER.fullmatch(name):
            code_option = _OTHER_CODE
        elif _MODULE_OR_SCRIPT.fullmatch(arg):
            # What follows are that program's own options.
            code_option = None


def environment_holds_no_secret(spec: Spec) -> Found:
    """Secrets are given by the name of an environment variable, never by value."""
    places: list[tuple[KeyPath, Mapping[str, str]]] = [(("engine", "env"), spec.engine.env)]
    places += [(("model", "server_env", name), env) for name, env in spec.model.server_env.items()]
    for path, env in places:
        for name in env:
            is_named_so = any(word in name.upper() for word in ("TOKEN", "SECRET", "PASSWORD", "API_KEY", "CREDENTIAL"))
            if is_named_so:
                yield (
                    (*path, name),
                    f"{name} looks like a secret",
                    "secret-in-config",
                    "secrets never stand in configs",
                )


def variables_are_apart(spec: Spec) -> Found:
    """No variable of gatekit's own is a server's, and none serves two ends: one value would take the other's place."""
    engine, key = spec.engine, spec.engine.api_key_env
    for index, name in enumerate(engine.pass_env):
        if name == spec.history.url_env:
            what = f"{name} holds the URL of the history's database (history.url_env), which is no server's business"
            yield ("engine", "pass_env", index), what, "secret-handed-on", "remove it here"
    own = spec.model.server_env.get(engine.name, {})
    given: dict[str, KeyPath] = {name: ("engine", "pass_env", index) for index, name in enumerate(engine.pass_env)}
    given |= {name: ("engine", "env", name) for name in engine.env}
    given |= {name: ("model", "server_env", engine.name, name) for name in own}
    for name, path in given.items():
        if name in MARK_VARIABLES:
            yield path, f"{name} is set by gatekit itself", "variable-taken", "remove it here"
    if key is None:
        return
    if key in MARK_VARIABLES | INHERITED or key == spec.history.url_env:
        what = f"{key} has another meaning already, and would hold the server's key"
        yield ("engine", "api_key_env"), what, "variable-taken", "name the variable from which the server reads its key"
    elif engine.kind is EngineKind.LAUNCH and key in given:
        what = f"{key} would hold the key that is made for the run, and is set by {'.'.join(map(str, given[key]))} too"
        yield ("engine", "api_key_env"), what, "variable-taken", "remove one of them"


def start_is_ours(spec: Spec) -> Found:
    """What only the start of a server takes does nothing to one that runs already."""
    engine = spec.engine
    if engine.kind is not EngineKind.ATTACH:
        return
    given: dict[str, bool] = {
        "args": bool(engine.args),
        "env": bool(engine.env),
        "pass_env": bool(engine.pass_env),
        "containment": engine.containment is not Containment.AUTO,
        "foreign_listener": engine.foreign_listener,
        "stall_timeout_s": engine.stall_timeout_s is not None,
    }
    for key in (key for key, is_given in given.items() if is_given):
        what = f"is set, and engine {engine.name!r} is a server that runs already: it would have no effect"
        yield ("engine", key), what, "knob-not-spelled", "leave it out, and start the server so"


ARGUMENT_RULES: tuple[Callable[[Spec], Found], ...] = (
    flags_are_not_managed,
    options_have_keys,
    options_are_set_once,
    start_is_ours,
    command_is_no_shell,
    environment_holds_no_secret,
    variables_are_apart,
)
# Each of their findings is about one value, whatever stands beside it.
BY_VALUE = frozenset({flags_are_not_managed, options_have_keys, environment_holds_no_secret})
