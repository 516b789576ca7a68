"""`gatekit power`: what n questions can notice, per rule, before anything is run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gatekit.cli.arguments import Parser
from gatekit.cli.output import put
from gatekit.cli.quantities import inside, measured, whole, within
from gatekit.cli.share import share
from gatekit.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from gatekit.stats.ladder import Design

_DESCRIPTION = """\
What n questions can notice: for every rule of the ladder the count it needs, its false alarms, how often it fails a
drop, the smallest drop that it notices, and how many questions the design takes.

  python -m gatekit power --p0 0.9 --alpha 0.001 --delta 0.02
  python -m gatekit power --n 200 --observed 180/200 --nights 365 --gates 20
"""
_MOST_QUESTIONS = 100_000
_LARGE = 1000
_DELTA_LARGE, _DELTA_SMALL = 0.03, 0.05


def run(arguments: Sequence[str]) -> ExitCode:
    """Print what the design can notice. Raises ConfigError for wrong input."""
    options = _parser().parse_args(arguments)
    design = _design(options)
    from gatekit.stats.ladder import ladder

    rungs = ladder(design)
    if options.json:
        from gatekit.records.canonical import to_plain

        put(json.dumps({"design": _plain(design), "rungs": to_plain(rungs)}, indent=2))
        return ExitCode.PASS
    from gatekit.report.power import power_text

    put(power_text(design, rungs))
    return ExitCode.PASS


def _parser() -> argparse.ArgumentParser:
    parser = Parser("gatekit power", _DESCRIPTION)
    add, accuracy = parser.add_argument, share(inside(0, 1))
    add("--n", type=whole(1, _MOST_QUESTIONS), default=1319, metavar="N", help="questions (default 1319)")
    healthy = parser.add_mutually_exclusive_group(required=True)
    healthy.add_argument("--p0", type=accuracy, metavar="P", help="accuracy of a healthy model")
    healthy.add_argument("--observed", type=measured, metavar="C/N", help="or what one healthy run scored")
    alarms = parser.add_mutually_exclusive_group()
    alarms.add_argument("--alpha", type=inside(0, 0.5), metavar="A", help="false-alarm rate of one run")
    alarms.add_argument("--sigmas", type=within(0.1, 37), metavar="S", help="or that of S binomial sd below p0")
    alarms.add_argument("--nights", type=whole(2, 1_000_000), metavar="N", help="or one in N nights (default 365)")
    add("--gates", type=whole(1, 1_000_000), metavar="M", help="over M gates together (default 1)")
    add("--delta", type=accuracy, metavar="D", help="drop that matters (default 0.03, under 1000 questions 0.05)")
    add("--beta", type=inside(0, 0.5), default=0.1, metavar="B", help="how often it may be missed (default 0.1)")
    add("--phi", type=within(0.001, 1), default=0.2, metavar="PHI", help="run-to-run dispersion (default 0.2)")
    add("--nu0", type=within(1, 1000), default=4.0, metavar="V", help="prior degrees of freedom of phi (default 4)")
    add("--nu-psi", type=within(1, 1_000_000), default=8.0, metavar="V", help="those of the guard (default 8)")
    add("--runs", type=whole(1, 10_000), default=10, metavar="K", help="earlier runs (default 10)")
    add("--json", action="store_true", help="print one JSON document")
    return parser


def _design(options: argparse.Namespace) -> Design:
    from gatekit.gate.needs import observed_accuracy
    from gatekit.records.spec import Observed
    from gatekit.stats.exact import exact
    from gatekit.stats.ladder import Design

    if options.observed is None:
        accuracy = exact(options.p0)
    else:
        accuracy = observed_accuracy(Observed(correct=options.observed[0], n=options.observed[1]))
    delta = options.delta or (_DELTA_LARGE if options.n >= _LARGE else _DELTA_SMALL)
    if accuracy <= exact(delta):
        raise ConfigError.one(
            f"a drop of {delta:g} from an accuracy of {float(accuracy):.4g} leaves nothing",
            reason="drop-too-large",
            where="--delta",
            hint="choose a smaller --delta",
        )
    design = Design(
        n=options.n,
        accuracy=accuracy,
        alpha=0.5,
        sigmas=options.sigmas,
        delta=exact(delta),
        beta=options.beta,
        phi=options.phi,
        runs=options.runs,
        nu0=options.nu0,
        nu_psi=options.nu_psi,
        baseline_n=None if options.observed is None else options.observed[1],
    )
    return _with_alpha(design, options)


def _with_alpha(design: Design, options: argparse.Namespace) -> Design:
    from dataclasses import replace

    from gatekit.stats.ladder import sigma_alpha
    from gatekit.stats.threshold import alpha_from_budget

    if options.gates is not None and (options.alpha is not None or options.sigmas is not None):
        raise ConfigError.one("--gates belongs to --nights", reason="bad-arguments", hint="see gatekit power --help")
    if options.alpha is not None:
        return replace(design, alpha=options.alpha)
    if options.sigmas is None:
        return replace(design, alpha=alpha_from_budget(options.gates or 1, options.nights or 365))
    alpha = sigma_alpha(design.n, design.accuracy, options.sigmas)
    if 0 < alpha < 0.5:
        return replace(design, alpha=alpha)
    raise ConfigError.one(
        f"{options.sigmas:g} standard deviations at n = {design.n} are a false-alarm rate of {alpha:g}",
        reason="sigmas-out-of-range",
        where="--sigmas",
        hint="state --alpha, or ask more questions",
    )


def _plain(design: Design) -> dict[str, Any]:
    from gatekit.records.canonical import to_plain

    return {**to_plain(design), "accuracy": float(design.accuracy), "delta": float(design.delta)}
