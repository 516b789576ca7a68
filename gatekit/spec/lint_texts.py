"""Every id of a finding in a sentence, as docs/lint.md has it, for what editors and CI show."""

from __future__ import annotations

from collections.abc import Mapping

LINT_TEXTS: Mapping[str, str] = {
    "model-in-no-matrix": "No matrix runs the model. Models that are only simulated are left out.",
    "same-spec": "Two models differ in nothing but their names.",
    "same-option": "Two machines, engines or protocols differ in nothing but their names.",
    "name-format": (
        "fp8, int8, int4, fp4, nvfp4 or mxfp4 in the name of a model or of its weights, another `model.quantization`."
    ),
    "format-not-stated": "Such a word in a name, and no `model.quantization`: the rules for it do not apply.",
    "name-gpu-count": (
        "`b200x2` with another `count`. Only `x` and one or two digits behind a digit, `_` or `-` count."
    ),
    "name-gpu": "The name begins with a GPU that another one of the machines has.",
    "name-shots": "`5shot` in the name of a model or protocol, another number of shots.",
    "name-api": "A protocol named for one API has the other; a model named completions is asked by chat.",
    "name-parallel": "`tp2` or `dp4` in the name of a model, another size in its engine.",
    "name-eager": "A model named eager that captures graphs.",
    "name-backend": ("triton, flashinfer, ... in the name of a model, another one in its arguments and variables."),
    "backend-not-stated": "Such a word in a name, and nothing that chooses a backend.",
    "no-gate": "No floor, no stated accuracy, and no history: every run is INCONCLUSIVE.",
    "gate-vacuous": "The gate needs no correct answer and never fails.",
    "gate-impossible": "A PASS needs more correct answers than there are questions.",
    "protocol-mismatch": (
        "What is asked is not what `gate.measured_under` names: every verdict is INCONCLUSIVE. Also "
        "told of a row of a matrix."
    ),
    "floor-unused": "A floor beside a lock that was measured under another protocol: the lock decides alone.",
    "gate-loose": "The gate asks for less than 25 %, or lies 15 points or more below the healthy accuracy.",
    "failures-tolerated": "More than 5 % of the requests may fail (`gate.max_lost_share`).",
    "gate-never-ran": "A row of a matrix has no verdict in the history.",
    "gate-not-run": "A row of a matrix has no verdict for `--days` (7) days. INFRA is no verdict.",
    "weights-not-named": "`model.name` is still what `gatekit init model` wrote in place of the weights.",
    "silence-without-reason": "A finding is allowed without a reason of at least eight characters.",
    "unused-silence": "A finding is allowed that is not there.",
}
