"""What every rung of the ladder can notice, as a table with the words that it needs."""

from __future__ import annotations

from textwrap import wrap

from gatekit.gate.wording import accuracy, percent, points
from gatekit.report.table import aligned
from gatekit.stats.ladder import MOST_QUESTIONS, POWER, Design, Range, Rung

_HEADINGS = ("RULE", "EARLIER RUNS", "FAIL BELOW", "FALSE ALARMS")
_FEW_FLIPS = 10
_LINE_CHARACTERS = 118
_NOTES = (
    "exact_binomial is exact and beta_binomial_predictive summed over its baselines, both for fresh questions: on the "
    "same questions as before they alarm less often than stated.",
    "~ marks normal and t approximations for the same questions in every run, with dispersion phi and independent "
    "flips. Ranges span two shapes of a drop: every question a little worse, or a few lost outright.",
    "FAIL BELOW takes the earlier mean as exactly n p; known_mean is no rule but the limit of a long history.",
)


def power_text(design: Design, rungs: tuple[Rung, ...]) -> str:
    """The design, one row per rung, and what the figures rest on."""
    drop = points(float(design.delta))
    headings = (*_HEADINGS, f"FAILS {drop.upper()}", f"NOTICES ({percent(POWER)})", "QUESTIONS")
    lines = [_design(design), "", *aligned([headings, *(_row(rung) for rung in rungs)]), ""]
    lines += [line for note in _NOTES for line in wrap(note, _LINE_CHARACTERS)]
    flips = 2 * design.phi * design.n * float(design.accuracy * (1 - design.accuracy))
    if flips < _FEW_FLIPS:
        lines.append(
            f"Only {flips:.1f} flips between two runs are expected: under {_FEW_FLIPS} the ~ figures are rough."
        )
    return "\n".join(lines) + "\n"


def _design(design: Design) -> str:
    drop = f"a drop of {points(float(design.delta))} missed in at most {percent(design.beta)}"
    alarms = f"alpha = {percent(design.alpha)}"
    if design.sigmas is not None:
        alarms = f"{design.sigmas:g} standard deviations ({alarms})"
    healthy = f"n = {design.n}, healthy accuracy {accuracy(float(design.accuracy))}"
    return f"{healthy}, {alarms}, {drop}, phi = {design.phi:g}, runs = {design.runs}"


def _row(rung: Rung) -> tuple[str, ...]:
    about = "" if rung.is_exact else "~"
    drop, questions = rung.noticed_drop, rung.questions
    return (
        rung.method,
        "endless" if rung.runs is None else str(rung.runs or "none"),
        about + str(rung.k_reject),
        about + percent(rung.realised_alpha),
        about + _percents(rung.power),
        "no drop" if drop is None else about + _span(f"{100 * drop.low:.1f}", f"{100 * drop.high:.1f}") + " points",
        f"over {MOST_QUESTIONS}"
        if questions is None
        else about + _span(f"{questions.low:.0f}", f"{questions.high:.0f}"),
    )


def _percents(share: Range) -> str:
    low, high = percent(share.low), percent(share.high)
    return low if low == high else f"{low.removesuffix(' %')} to {high}"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
