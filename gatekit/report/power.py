"""What every rung of the ladder can notice, as a table with the words that it needs."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from gatekit.gate.wording import accuracy, percent, points
from gatekit.records.spec import Method
from gatekit.report.table import aligned
from gatekit.stats.ladder import KNOWN_MEAN, MOST_QUESTIONS, POWER, UNGUARDED, Design, Range, Rung

_HEADINGS = ("RULE", "EARLIER RUNS", "FAIL BELOW", "FALSE ALARMS")
_FEW_FLIPS = 10
_LINE_CHARACTERS = 118
_NOTES = (
    "exact_binomial is exact and beta_binomial_predictive summed over its baselines, both for fresh questions: on the "
    "same questions as before they alarm less often than stated.",
    "~ marks normal and t approximations for the same questions in every run, with dispersion phi and independent "
    "flips. Ranges span two shapes of a drop: every question a little worse, or a few lost outright.",
    "FAIL BELOW takes the earlier mean as exactly n p, and totals that scatter as flips do.",
)


def power_text(design: Design, rungs: tuple[Rung, ...]) -> str:
    """The design, one row per rung, and what the figures rest on."""
    drop = points(float(design.delta))
    headings = (
        *_HEADINGS,
        "FAILS " + drop.replace("point", "POINT").replace("s", "S"),
        f"NOTICES ({percent(POWER)})",
        "QUESTIONS",
    )
    lines = [_design(design), "", *aligned([headings, *(_row(rung) for rung in rungs)]), ""]
    notes = (*_NOTES, *_limits(design), *_sawtooth(rungs[0]))
    lines += [line for note in notes for line in wrap(note, _LINE_CHARACTERS, break_on_hyphens=False)]
    flips = 2 * design.phi * design.n * float(design.accuracy * (1 - design.accuracy))
    if flips < _FEW_FLIPS:
        lines.append(
            f"Only {flips:.1f} flips between two runs are expected: under {_FEW_FLIPS} the ~ figures are rough."
        )
    return "\n".join(lines) + "\n"


def _limits(design: Design) -> Iterator[str]:
    """What the rows that are no rules stand for."""
    no_history = f"{KNOWN_MEAN} is no rule but the limit of a long history"
    if design.runs < 2:
        yield f"{no_history}."
        return
    yield (
        f"{Method.EXACT_CONDITIONAL.value} is what gate=auto climbs to, its p-value widened for what may move a whole "
        f"run (nu_psi = {design.nu_psi:g}, --nu-psi). {UNGUARDED} is no rule but its limit as nu_psi is pooled from "
        f"ever more series; {no_history}."
    )


def _sawtooth(exact: Rung) -> Iterator[str]:
    """Counts are whole, so that a number of questions may meet a design that the next one misses."""
    first, safe = exact.first_questions, exact.questions
    if first is None or (safe is not None and first == safe.low):
        return
    beyond = f"over {MOST_QUESTIONS}" if safe is None else f"{safe.low:.0f}"
    yield (
        f"QUESTIONS of {exact.method} is where every larger number meets the design too ({beyond}): counts are whole, "
        f"so that {first} is the first to meet it, and some in between miss it again."
    )


def _design(design: Design) -> str:
    drop = f"a drop of {points(float(design.delta))} missed in at most {percent(design.beta)}"
    alarms = f"alpha = {percent(design.alpha)}"
    if design.sigmas is not None:
        alarms = f"{design.sigmas:g} standard deviations ({alarms})"
    healthy = f"n = {design.n}, healthy accuracy {_unrounded(float(design.accuracy))}"
    return f"{healthy}, {alarms}, {drop}, phi = {design.phi:g}, runs = {design.runs}"


def _unrounded(share: float) -> str:
    """An accuracy that lies inside (0, 1) never reads as 0 or 1."""
    text = accuracy(share)
    return f"{share:.12g}" if text in ("0", "1") else text


def _row(rung: Rung) -> tuple[str, ...]:
    about = "" if rung.is_exact else "~"
    questions = rung.questions
    return (
        rung.method,
        "endless" if rung.runs is None else str(rung.runs or "none"),
        about + str(rung.k_reject),
        about + percent(rung.realised_alpha),
        about + _percents(rung.power),
        _noticed(rung),
        f"over {MOST_QUESTIONS}"
        if questions is None
        else about + _span(f"{questions.low:.0f}", f"{questions.high:.0f}"),
    )


def _noticed(rung: Rung) -> str:
    drop = rung.noticed_drop
    if drop is None:
        return "no drop"
    return ("" if rung.is_exact else "~") + _span(f"{100 * drop.low:.1f}", f"{100 * drop.high:.1f}") + " points"


def _percents(share: Range) -> str:
    low, high = percent(share.low), percent(share.high)
    if low == high or low.startswith("over"):
        return low
    return high if high.startswith("under") else f"{low.removesuffix(' %')} to {high}"


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
