"""Every stable id of a mistake in configs, explained once: for docs/rules.md and for what editors and CI show.

`python -m gatekit.spec.rule_texts docs/rules.md` writes the page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from gatekit.report.problems import RuleText


def _rule(means: str, example: str, mend: str) -> RuleText:
    return RuleText(means=means, example=example, mend=mend)


_READING = {
    "unreadable-file": _rule(
        "A config file cannot be opened, or is no regular file.",
        "conf/model/a.yaml: cannot be read: Permission denied",
        "Mend its permissions, or remove the broken link.",
    ),
    "file-too-large": _rule(
        "A config file is larger than 1 MiB.", "conf/model/a.yaml: larger than 1 MiB", "Keep data out of configs."
    ),
    "file-too-complex": _rule(
        "A config file is nested deeper than 32 levels or holds over 20,000 values; it is not read any further.",
        "a: [[[[[[[[...",
        "Write it flatter, or split it.",
    ),
    "not-utf-8": _rule(
        "A config file is not UTF-8 text; the first wrong byte is named.",
        "unpinned: caf\\xe9 (latin-1)",
        "Save it as UTF-8.",
    ),
    "yaml-syntax": _rule(
        "The file is no YAML; it is not read beyond this place.", "a: [1, 2", "Close the bracket, quote or indent."
    ),
    "yaml-tag": _rule(
        "YAML tags are refused: they ask readers to build objects.",
        "a: !!python/object/apply:os.system [id]",
        "Remove the tag.",
    ),
    "yaml-alias": _rule(
        "Anchors and aliases are refused: nested ones grow without bound.",
        "a: &x 1 ... b: *x",
        "Write the value out, or refer to another key with ${model.name}.",
    ),
    "duplicate-key": _rule(
        "A key stands twice in one mapping; both lines are named.", "n: 100 ... n: 200", "Keep one of them."
    ),
    "bad-key": _rule("A key is not a plain word.", "1: a", "Quote it, or use a known key."),
    "ambiguous-value": _rule(
        "YAML 1.1 and 1.2, or files and overrides, read this scalar differently: a word, a number, true, a date.",
        "revision: 0123, name: on, window: 12:30:45, alpha: 1e-3; task.n=1_0, gate.floor=int(0.5)",
        "Quote it if it is a text; write a number plainly (0.001), a truth value as true or false.",
    ),
    "not-finite": _rule("NaN and infinity are no numbers to count with.", "floor: .nan", "Write a number, or null."),
    "missing-value": _rule("`???` marks a value that is still to be given.", "name: ???", "Write it, or drop the key."),
    "not-a-mapping": _rule("A config file is a mapping of keys to values.", "- a", "Write `key: value` lines."),
    "many-documents": _rule("A config file holds one YAML document.", "a: 1 / --- / b: 2", "Split it into files."),
    "runs-code": _rule(
        "Keys that Hydra's instantiate would act on are refused: configs run no code.",
        "_target_: os.system",
        "Remove the key.",
    ),
    "resolver": _rule(
        "Only plain references to other keys work: resolvers read the environment or run code.",
        "name: ${oc.env:HF_TOKEN}",
        "Write the value, or name an environment variable where a key asks for one (engine.api_key_env).",
    ),
    "hydra-node": _rule(
        "Hydra's own settings (launcher, sweeper, callbacks, search path, logging) are refused.",
        "hydra: {searchpath: [/tmp]}",
        "Remove it; folders of your own come from --config-dir.",
    ),
    "package-header": _rule(
        "Headers and packages that place a file elsewhere are refused.",
        "# @package _global_",
        "Remove it: model files speak about the whole spec, other files about their group.",
    ),
    "bad-defaults": _rule(
        "The defaults list is no list of options: of the file's own group, in a model also `override /GROUP`.",
        "defaults: simulated",
        "Write `- laguna_int4` for a file to build on, or `- override /engine: vllm`.",
    ),
}
_COMPOSING = {
    "unknown-option": _rule(
        "No folder has such an option of the group.", "model=qwne", "Choose one of those named, or add GROUP/NAME.yaml."
    ),
    "unknown-group": _rule(
        "An override names a group or section that there is not.", "modle=laguna_int4", "Use one of those named."
    ),
    "bad-option": _rule(
        "A group takes the name of one option.", "task=null", "Name an option; set keys with task.KEY=VALUE."
    ),
    "bad-override": _rule(
        "An override cannot be parsed.",
        "engine.args=[--a",
        "Write GROUP=OPTION or KEY.PATH=VALUE, quoted for the shell.",
    ),
    "matrix": _rule(
        "A matrix names many specs and is no part of one.",
        "gatekit plan matrix=small model=laguna_int4",
        "Ask for the matrix as the message says, or for one spec.",
    ),
    "sweep": _rule("Several values were given where one run is asked for.", "hw=b200,h200", "Add -m to run them all."),
    "sweep-too-large": _rule("A sweep asks for over 1000 specs.", "task.n=range(1,100000)", "Ask for fewer."),
    "bad-reference": _rule(
        "A reference leads to nothing, or to another reference (a cycle or a chain).",
        "a: ${model.b} with b: ${model.a}",
        "Refer to a plain value.",
    ),
    "reference-bomb": _rule(
        "References would copy more than a config can need.", "thirty references to a long list", "Write it out once."
    ),
    "defaults-bomb": _rule(
        "Defaults lists lead through over ten files of a group.",
        "m0 builds on m1 and m2, m1 on m2 and m3, ...",
        "Flatten.",
    ),
    "cannot-compose": _rule(
        "Hydra cannot compose the files, for the reason it gives.",
        "a defaults list that leads back to its own file",
        "Mend the defaults list at that place.",
    ),
}
_SHAPE = {
    "unknown-key": _rule(
        "The section has no such key; the nearest one is named.", "engine: {acuracy: 0.9}", "Use the key that is meant."
    ),
    "missing-key": _rule("A key that is needed is nowhere given.", "model: missing key 'server_env'", "Add it."),
    "wrong-type": _rule("The value has another type than the key takes.", "n: abc", "Write what is expected."),
    "out-of-range": _rule("A number is outside of its range.", "floor: 90", "Shares are between 0 and 1: 0.90."),
    "unknown-choice": _rule("The key takes one of a few words.", "api: completion", "Use one of those named."),
    "bad-form": _rule("A text does not have the form of such a value.", "revision: main", "Follow the description."),
    "bad-value": _rule("A value breaks another limit, such as a length.", 'name: ""', "Follow the description."),
}
_RULES = {
    "engine-not-chosen": _rule(
        "A model names no engine, and would be simulated by the default for ever.",
        "a model file without `override /engine`",
        "Add `- override /engine: vllm` to its defaults, or ask for engine=sim.",
    ),
    "unknown-engine": _rule(
        "A model's arguments or variables are for an engine that no folder has: they would never be passed.",
        "server_args: {vlmm: [--max-num-seqs, '256']}",
        "Write the name that an engine's file states.",
    ),
    "fp4-needs-blackwell": _rule(
        "4-bit floating-point weights need a GPU that computes with them.", "model=laguna_nvfp4 hw=h100", "hw=b200"
    ),
    "architecture-mismatch": _rule(
        "The model names GPU architectures (model.architectures), and the machine has none of them.",
        "model=laguna_int4 hw=h100",
        "Choose another machine.",
    ),
    "too-few-gpus": _rule(
        "tensor_parallel_size times data_parallel_size is more than the machine's GPUs.",
        "engine.tensor_parallel_size=4 hw=b200x2",
        "Choose a larger machine or a smaller size.",
    ),
    "gpus-not-counted": _rule(
        "A machine has a vendor of GPUs and none of them, or GPUs and no vendor.",
        "vendor: nvidia, count: 0",
        "Set hw.count to the number of GPUs, or hw.vendor to none.",
    ),
    "context-too-short": _rule(
        "The context cannot hold the prompt, at a token a word or more, and the longest answer.",
        "engine.max_model_len=1024 protocol.max_tokens=1024",
        "Raise engine.max_model_len, or lower protocol.max_tokens or protocol.shots.",
    ),
    "too-few-files": _rule(
        "Each request in flight is an open file, and this process may not open so many.",
        "client.concurrency=2000 under `ulimit -n 1024`",
        "Lower client.concurrency, or raise the limit.",
    ),
    "remote-code-not-allowed": _rule(
        "trust_remote_code runs code of the model repository and needs a permission.",
        "trust_remote_code: true",
        "Set model.allow_remote_code: true once you have read that code.",
    ),
    "remote-code-unpinned": _rule(
        "Remote code runs only from a pinned commit, or under a written waiver that every verdict repeats.",
        "trust_remote_code: true without revision",
        "Set model.revision to the 40-hex commit, or model.unpinned to the reason why not.",
    ),
    "managed-flag": _rule(
        "Address, port, key and served name belong to gatekit.", "args: [--port, '80']", "Remove the flag."
    ),
    "option-has-key": _rule(
        "An argument would set the weights, their revision, or whether code of theirs runs, in any spelling that "
        "servers read (`--trust_remote_code`, `--trust`). A key does, and rules, checks and the record go by it.",
        "args: [--trust-remote-code]",
        "Set model.name, model.revision or model.trust_remote_code.",
    ),
    "option-reads-config": _rule(
        "An argument names a file from which the server would take settings that no rule sees.",
        "args: [--config, /etc/server.yaml]",
        "Write its settings as arguments, and those that have a key as keys.",
    ),
    "option-set-twice": _rule(
        "An argument sets again what the engine's command or a key sets: one of them has no effect, and the record "
        "would name the wrong one.",
        "engine.max_model_len=4096 beside args: [--max-model-len, '8192']",
        "Keep the key, or the command.",
    ),
    "variable-taken": _rule(
        "A variable has another meaning already: gatekit marks its servers by it, every server gets it, or another key "
        "names it too.",
        "api_key_env: PATH; env: {GATEKIT_RUN: x}",
        "Name another variable, or remove one of the two.",
    ),
    "secret-handed-on": _rule(
        "The variable that holds the database's URL would be given to the server.",
        "engine.pass_env: [GK_DB] beside history.url_env: GK_DB",
        "Remove it from pass_env.",
    ),
    "secret-in-config": _rule(
        "A secret (the key of a service, the password of a URL), or what takes one, stands in a config: a value, the "
        "name of a variable or a key. It is not repeated in any message.",
        "args: [--hf-token, ...]",
        "Name an environment variable instead (engine.api_key_env, history.url_env), and change the secret.",
    ),
    "shell-command": _rule(
        "A launched server is a program with arguments, never a shell or an interpreter that is handed code.",
        "command: [bash, -c, ...]",
        "Name the server's own program.",
    ),
    "launch-and-attach": _rule(
        "engine.command starts a server, engine.base_url is that of a running one: they exclude each other.",
        "engine=vllm engine.base_url=http://127.0.0.1:8000",
        "Use engine=external, or drop base_url.",
    ),
    "base-url": _rule(
        "The address is not a plain http(s) one: another scheme, credentials, a route, a link-local or metadata host.",
        "base_url: http://user:password@host",
        "Write http://HOST:PORT, and name the key's variable in engine.api_key_env.",
    ),
    "two-thresholds": _rule("alpha and sigmas both ask for a threshold.", "alpha and sigmas", "Set one to null."),
    "inert-key": _rule(
        "A key that the method does not use would only mislead.", "gate=static_floor gate.alpha=0.01", "Drop it."
    ),
    "shots-overlap": _rule(
        "Worked examples from the test split would be asked again.",
        "shots_source: test_head with shots_overlap: refuse",
        "Set shots_overlap to skip, or knowingly to leak.",
    ),
    "template-place": _rule(
        "A template has no place for the question.", "question_template: hello", "Put {question} where it goes."
    ),
    "template-field": _rule(
        "What looks like a field of a template is none, and would be shown to the model as it stands. Doubled braces "
        "and LaTeX such as \\boxed{x} are no fields.",
        'question_template: "{question.__class__}{question}"',
        "Use {question} and, in shot_template, {answer}; write a text in braces with blanks, { so }.",
    ),
}
# What a run would refuse before its first request, as far as the spec alone tells.
_RUNS = {
    "floor-delta-needs-observed": _rule(
        "gate.delta is a drop below a healthy accuracy, and a floor is none.",
        "gate=static_floor gate.floor=0.9 gate.delta=0.02",
        "Set gate.observed from a healthy run, or gate.delta: null.",
    ),
    "drop-too-large": _rule(
        "gate.delta leaves nothing of the healthy accuracy.",
        "delta: 0.99 with observed: {correct: 1, n: 2}",
        "Choose a smaller gate.delta.",
    ),
    "early-stop-needs-delta": _rule(
        "A sequential test looks for a drop, and none is given.",
        "gate.early_stop=wor_mixture without gate.delta",
        "Set gate.delta, such as 0.05.",
    ),
    "early-stop-needs-order": _rule(
        "A sequential test needs the questions in a recorded random order.",
        "gate.early_stop=wor_mixture without task.order_seed",
        "Set task.order_seed to any number, the same one every run.",
    ),
    "early-stop-needs-reference": _rule(
        "A sequential test beside a floor needs a measured accuracy.",
        "gate=static_floor gate.early_stop=wor_mixture without gate.observed",
        "Set gate.observed from a healthy run, or gate.early_stop: none.",
    ),
    "early-stop-with-repeats": _rule(
        "A sequential test takes the order of the answers as exchangeable, and repeats of one question are alike.",
        "gate.early_stop=wor_mixture protocol.repeats=4",
        "Set gate.early_stop: none; a run that no answer can save any more stops all the same.",
    ),
    "repeats-of-other-questions": _rule(
        "Repeats make a run surer about its own questions, not about how much harder they are than those on which "
        "gate.observed was measured: its n must be that of the questions, or of questions times repeats. A static "
        "floor without gate.delta needs no measurement, and is not asked for one.",
        "gate=exact_binomial gate.observed={correct: 1168, n: 1319} task.n=25 with protocol.repeats=32",
        "Set gate=auto and gate.observed: null, so that history decides, or measure on these questions.",
    ),
    "path-without-use": _rule(
        "The bundled questions are made from a seed, and no folder is read for them.",
        "task=gsm8k_synth task.path=/data",
        "Remove task.path, or use task=gsm8k.",
    ),
    "dataset-missing": _rule(
        "Neither a folder with the questions is named, nor a download.",
        "task: {files: {}} without task.path",
        "Set task.path, or pin the files to download in task.files.",
    ),
    "dataset-url-refused": _rule(
        "A dataset is downloaded only by https, or by http from this machine, without credentials.",
        "url: ftp://host/test.jsonl",
        "Write an https URL, or set task.path.",
    ),
    "n-out-of-range": _rule(
        "More questions are asked for than the dataset has.", "task.n=900000", "Lower task.n, or null for all of them."
    ),
    "too-many-answers": _rule(
        "Questions times repeats are more answers than a run may ask for.",
        "protocol.repeats=64 of 20,000 questions",
        "Ask fewer questions, or each less often.",
    ),
    "too-many-shots": _rule(
        "More worked examples are shown than their split has.", "a train split of 3 rows, shots: 5", "Lower the shots."
    ),
    "template-shows-answer": _rule(
        "The question would show the model the reference answer.",
        'question_template: "{question} {answer}"',
        "Use {answer} only in shot_template.",
    ),
    "chat-only-key": _rule(
        "A key that only the chat route knows would have no effect, or another one, on completions.",
        "protocol=completions_5shot protocol.reasoning_effort=high",
        "Set protocol.api: chat, or leave the key out.",
    ),
    "same-think-tags": _rule(
        "Reasoning that begins and ends with the same text ends nowhere.",
        'think_tags: ["<think>", "<think>"]',
        'Write the two, such as ["<think>", "</think>"].',
    ),
    "extra-body-overrides": _rule(
        "protocol.extra_body holds what gatekit sets itself, or what would change what an answer is.",
        "extra_body: {seed: 1}",
        "Set the key that the message names, or leave it out.",
    ),
    "repeats-without-sampling": _rule(
        "A question that is asked again without sampling gets the answer that it got: nothing is learned from it.",
        "protocol.repeats=4 with protocol.temperature=0",
        "Set a temperature above 0 (and no top_k of 1), or leave repeats at 1.",
    ),
    "repeats-without-seeds": _rule(
        "Every repeat takes the next seed, and no request holds one so high.",
        "protocol.repeats=4 protocol.seed=9223372036854775807",
        "Choose a lower protocol.seed, or none.",
    ),
    "shot-not-in-turns": _rule(
        "A worked example is parted before {answer} into a user's and an assistant's turn, and this one cannot be.",
        'shots_as: turns with shot_template: "{answer}"',
        "Put {question} before {answer}.",
    ),
    "model-path": _rule(
        "A server would not read such a name as a model.", 'model.name: "--help"', "Give a hub id or a path."
    ),
    "knob-not-spelled": _rule(
        "A setting is set that would have no effect: the engine has no flag for it, or the server runs already and "
        "only its start could take it.",
        "engine=transformers engine.max_model_len=4096",
        "Leave it out, or add the engine's spelling of it to engine.flags.",
    ),
    "context-missing": _rule(
        "The server shares one context among its requests, and is not told its size.",
        "engine=llama_cpp engine.max_model_len=null",
        "Set engine.max_model_len to the tokens that one request needs.",
    ),
    "bad-history-url": _rule(
        "history.url is no URL of a PostgreSQL database.",
        "history.url=sqlite:///x",
        "Write postgresql://USER@HOST/DATABASE, or leave it out for SQLite in history.dir.",
    ),
    "nul-character": _rule(
        "No path, argument or variable can hold a NUL character.", 'dir: "a\\0b"', "Remove the character."
    ),
}
_PATHS = {
    "no-such-path": _rule("A path on the command line leads to nothing.", "validate conf/modle", "Mend the path."),
    "no-group": _rule(
        "A file or folder belongs to no config group, so that nothing reads it.",
        "conf/modle/a.yaml",
        "Config files are GROUP/NAME.yaml in a folder of groups.",
    ),
    "bad-file-name": _rule(
        "An option of this name can never be chosen.", "conf/model/a.yml", "Name it NAME.yaml: letters, digits, _, -."
    ),
    "no-config-dir": _rule("A config folder does not exist.", "--config-dir nowhere", "Make it, or mend the path."),
    "empty-config-dir": _rule(
        "A config folder holds no config group, so that nothing comes from it. `run` and `plan` only say so; for "
        "`validate` and `lint`, which look at all configs, it is a mistake.",
        "GATEKIT_CONF_PATH=. where the groups are in ./conf",
        "Name the folder that holds model/, hw/, ...",
    ),
    "shadowed": _rule(
        "A file takes the place of another one of the same name: a warning, which changes no exit code.",
        "hw=h100: conf/hw/h100.yaml shadows the shipped hw/h100.yaml",
        "Nothing, where that is meant; else choose a name of your own that builds on it.",
    ),
    "unreadable-config-dir": _rule(
        "A config folder cannot be listed.", "--config-dir /srv/gates/conf", "Mend its permissions."
    ),
}
_MATRICES = {
    "unknown-matrix": _rule("No folder has such a matrix.", "matrix=smal", "Use one of those named."),
    "empty-matrix": _rule("A matrix has no row.", "rows: []", "Add a row, such as `- {model: laguna_int4, hw: b200}`."),
    "matrix-too-large": _rule(
        "A matrix asks for over 1000 specs.", "rows that select everything", "Name fewer options."
    ),
    "row-is-empty": _rule(
        "Nothing is left of a row.", "everything of it is excluded", "Remove the row or the exclusion."
    ),
    "duplicate-spec": _rule("Two rows give the same spec.", "a row that repeats another", "Keep one of them."),
    "exclude-drops-nothing": _rule("An exclusion drops nothing.", "exclude: a machine that no row has", "Remove it."),
    "except-drops-nothing": _rule("An exception does not match anyway.", "except: [h100] of Blackwell", "Remove it."),
    "selector-matches-nothing": _rule("A selector matches no option.", "model: {tags: [huge]}", "Widen it."),
    "reference": _rule("A value that a matrix sets is no reference.", "set: {a.b: ${c.d}}", "Write the value."),
    "unwritable-value": _rule(
        "A value that a matrix sets cannot be written as an override.",
        "set: a text with a line end",
        "Put it into a file.",
    ),
}
_LOCKS = {
    "lock-broken": _rule("A lock file is no lock.", "a merge conflict in it", "Derive it anew."),
    "lock-edited": _rule(
        "The digest of a lock does not match its content.", "k_reject typed by hand", "Derive it anew."
    ),
    "lock-of-another-spec": _rule("A lock file holds the lock of another spec.", "a copied file", "Derive it anew."),
    "lock-newer": _rule("A newer gatekit made this lock.", "format: 2", "Update gatekit."),
    "lock-unwritable": _rule("A lock cannot be written as YAML.", "a name with a control character", "Mend the name."),
    "lock-not-written": _rule("A lock file could not be written.", "a read-only folder", "Name another in gate.locks."),
    "locks-unreadable": _rule("The folder of locks cannot be read.", "no permission", "Mend its permissions."),
}
_NEW_FILES = {
    "bad-name": _rule("A new option cannot have this name.", "gatekit init model ../x", "Letters, digits, _ and -."),
    "file-exists": _rule("The file to make exists already.", "gatekit init model mine, twice", "Choose another name."),
    "not-a-folder": _rule("A folder to write into is a file.", "conf is a file", "Name a folder with --config-dir."),
    "installed-package": _rule(
        "Files inside an installed package would be lost with its next version.",
        "--config-dir .../site-packages/gatekit/_data/conf",
        "Name a folder of your own.",
    ),
    "cannot-write": _rule("A new file cannot be written.", "a full disk", "Mend the cause that is named."),
}

SECTIONS: Mapping[str, Mapping[str, RuleText]] = {
    "Reading a file": _READING,
    "Composing a spec": _COMPOSING,
    "The shape of a section": _SHAPE,
    "Rules between keys and groups": _RULES,
    "What a run would refuse": _RUNS,
    "Files, names and folders": _PATHS,
    "Matrices": _MATRICES,
    "Lock files": _LOCKS,
    "New files": _NEW_FILES,
}
RULE_TEXTS: Mapping[str, RuleText] = {name: rule for rules in SECTIONS.values() for name, rule in rules.items()}

_HEAD = """\
# Rules

Every mistake in a config is one line that ends in a stable id:

    conf/model/foo.yaml:9:3: engine: unknown key 'acuracy'; did you mean 'accuracy'? [unknown-key]

This page says of each id what it means, how such a mistake looks, and how to mend it. Ids do not change their meaning.
`gatekit validate` finds all of them at once; how it is used is in [Configuration](configuration.md).
"""


def page() -> str:
    """The page docs/rules.md."""
    return _HEAD + "".join(f"\n## {title}\n{''.join(map(_entry, rules.items()))}" for title, rules in SECTIONS.items())


def _entry(named: tuple[str, RuleText]) -> str:
    name, rule = named
    return f"\n### {name}\n\n{rule.means}\n\n    {rule.example}\n\n{rule.mend}\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
