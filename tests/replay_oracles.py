"""Replay a file of statistics oracles: `python tests/replay_oracles.py FILE.json`.

Prints one line per mismatch (id, field, expected, got), the kinds without an implementation apart, and last
`N passed, N failed`. Exit 0 when every implemented case passes, 1 on a mismatch, 2 for an unreadable file.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a checkout need not be installed

from gatekit.records.verdict import Outcome
from gatekit.stats.binomial import accept_count, lower_tail, reject_count, upper_tail
from gatekit.stats.drift import cusum_arl, cusum_limit, ewma_arl
from gatekit.stats.exact import exact
from gatekit.stats.flips import flip_variance, moderated_t, random_subset_dispersion
from gatekit.stats.interval import clopper_pearson, jeffreys, wilson
from gatekit.stats.missing import curtailment_counts, missing_bounds, missing_verdict
from gatekit.stats.multiple import bh_adjusted, bh_rejected, e_bh_rejected
from gatekit.stats.paired import exact_conditional, fisher_exact_drop, mcnemar, paired_difference
from gatekit.stats.poisson_binomial import (
    poisson_binomial_cdf,
    poisson_binomial_pmf,
    poisson_binomial_variance,
)
from gatekit.stats.power import power, sample_size, wald_bounds
from gatekit.stats.predictive import predictive_count
from gatekit.stats.sequential import (
    Stop,
    llr_steps,
    sprt_characteristic,
    stream_stops,
    wald_boundaries,
    wor_sprt_characteristic,
)
from gatekit.stats.threshold import alpha_from_budget

Fields = dict[str, Any]
Difference = tuple[str, object, object]
_SMALL = 1e-8


def _reject(i: Fields) -> Fields:
    n, p0 = i["n"], i["p0"]
    k = reject_count(n, p0, i["alpha"])
    return {"k_pass": k, "size": lower_tail(k, n, p0), "size_next": lower_tail(k + 1, n, p0)}


def _accept(i: Fields) -> Fields:
    n, p1 = i["n"], i["p1"]
    k = accept_count(n, p1, i["beta"])
    return {"k_accept": k, "tail": upper_tail(k, n, p1), "tail_next": upper_tail(k - 1, n, p1)}


def _three_way(i: Fields) -> Fields:
    k_reject = reject_count(i["n"], i["p0"], i["alpha"])
    k_accept = accept_count(i["n"], exact(i["p0"]) - exact(i["delta"]), i["beta"])
    verdict = Outcome.INCONCLUSIVE
    if i["correct"] < k_reject:
        verdict = Outcome.FAIL
    elif i["correct"] >= max(k_reject, k_accept):
        verdict = Outcome.PASS
    return {"k_reject": k_reject, "k_accept": k_accept, "powered": k_accept <= k_reject, "verdict": verdict}


def _interval(i: Fields) -> Fields:
    found = {}
    for name, interval in (("clopper_pearson", clopper_pearson), ("wilson", wilson), ("jeffreys", jeffreys)):
        ends = interval(i["correct"], i["n"], i["confidence"])
        found[name] = [ends.low, ends.high]
    return found


def _predictive(i: Fields) -> Fields:
    prior = i.get("prior_a", 0.5), i.get("prior_b", 0.5)
    return asdict(predictive_count(i["baseline_correct"], i["baseline_n"], i["n"], i["alpha"], *prior))


def _poisson_binomial(i: Fields) -> Fields:
    p, k = i["p"], i["k"]
    pmf = poisson_binomial_pmf(p)
    return {
        "cdf": poisson_binomial_cdf(p, k),
        "pmf": float(pmf[k]) if 0 <= k < len(pmf) else 0.0,
        "variance": poisson_binomial_variance(p),
    }


def _conditional(i: Fields) -> Fields:
    strata = {int(t): number for t, number in i["strata"].items()}
    return asdict(exact_conditional(i["history_runs"], strata, i["new_correct_in_strata"]))


def _sample_size(i: Fields) -> Fields:
    design = i["p0"], i["p1"], i["alpha"], i["beta"]
    found, bounds = sample_size(*design), wald_bounds(*design)
    wald = {"wald_lower_bound_H0": bounds.healthy, "wald_lower_bound_H1": bounds.dropped}
    if found is None:
        return wald
    return {"n_first": found.n, "k_pass": found.k_pass, "size": found.size, "miss": found.miss, **wald}


def _power(i: Fields) -> Fields:
    k = reject_count(i["n"], i["p0"], i["alpha"])
    return {"k_pass": k, "power": power(i["n"], i["p0"], i["alpha"], i["p_true"])}


def _sprt(i: Fields) -> Fields:
    bounds, steps = wald_boundaries(i["alpha"], i["beta"]), llr_steps(i["p0"], i["p1"])
    ends = sprt_characteristic(i["p0"], i["p1"], i["alpha"], i["beta"], i["n_max"], i["p_true"])
    edges = {"log_A": bounds.log_a, "log_B": bounds.log_b}
    return {**edges, "llr_correct": steps.correct, "llr_wrong": steps.wrong, **asdict(ends)}


def _wor_sprt(i: Fields) -> Fields:
    ends = wor_sprt_characteristic(i["N"], i["K0"], i["K1"], i["alpha"], i["beta"], i["K_true"])
    return asdict(ends)


def _ewma(i: Fields) -> Fields:
    if i.get("reflect_at", 0) != 0 or i.get("start", 0) != 0:
        raise NotImplementedError("only a chart that starts and reflects at 0")
    return {"zero_start_arl": ewma_arl(i["lam"], i["c"], i["shift_sd"])}


def _moderated(i: Fields) -> Fields:
    found = moderated_t(i["n"], i["history_correct"], i["alpha"], i["phi0"], i["nu0"], i.get("new_correct"))
    return asdict(found)


def _missing(i: Fields) -> Fields:
    bounds = missing_bounds(i["correct"], i["missing"])
    verdict = missing_verdict(i["k_pass"], i["correct"], i["missing"])
    return {"best_case": bounds.best, "worst_case": bounds.worst, "verdict": verdict}


def _stream(i: Fields) -> Fields:
    names = ("p0", "p1", "alpha", "beta", "concurrency", "outcomes", "completion_order")
    stops = stream_stops(*(i[name] for name in names))

    def told(stop: Stop, consumed: str) -> Fields:
        return {"verdict": stop.outcome, "completions": stop.completions, consumed: stop.consumed}

    return {
        "in_order": told(stops.in_order, "prefix"),
        "worst_case": told(stops.worst_case, "dispatched"),
        "combined": told(stops.combined, "consumed"),
    }


def _bh(i: Fields) -> Fields:
    return {"adjusted": list(bh_adjusted(i["p"])), "rejected": list(bh_rejected(i["p"], i["q"]))}


def _fisher(i: Fields) -> Fields:
    names = ("baseline_correct", "baseline_n", "new_correct", "new_n")
    return {"p_drop": fisher_exact_drop(*(i[name] for name in names))}


KINDS: Mapping[str, Callable[[Fields], Fields]] = {
    "binom_reject_count": _reject,
    "binom_accept_count": _accept,
    "three_way_verdict": _three_way,
    "binomial_interval": _interval,
    "beta_binomial_predictive_count": _predictive,
    "mcnemar_exact": lambda i: asdict(mcnemar(i["right_to_wrong"], i["wrong_to_right"])),
    "poisson_binomial_cdf": _poisson_binomial,
    "exact_conditional_p": _conditional,
    "sample_size_exact_binomial": _sample_size,
    "power": _power,
    "sprt_truncated_oc": _sprt,
    "wor_sprt_oc": _wor_sprt,
    "cusum_arl_one_sided_normal": lambda i: {"zero_start_arl": cusum_arl(i["k"], i["h"], i["shift_sd"])},
    "cusum_h_for_arl0": lambda i: {"h": cusum_limit(i["k"], i["arl0"])},
    "ewma_arl_one_sided_normal": _ewma,
    "moderated_t_count": _moderated,
    "flip_variance": lambda i: asdict(flip_variance(i["history_runs"], i["per_question_correct"])),
    "alpha_from_false_alarm_budget": lambda i: {"alpha": alpha_from_budget(i["models"], i["nights_per_false_alarm"])},
    "benjamini_hochberg": _bh,
    "e_bh": lambda i: {"rejected": list(e_bh_rejected(i["e"], i["q"]))},
    "missing_bounds_verdict": _missing,
    "curtailment_counts": lambda i: asdict(curtailment_counts(i["n"], i["k_pass"])),
    "fisher_exact_drop": _fisher,
    "sequential_stream": _stream,
    "random_subset_dispersion": lambda i: {"phi_effective": random_subset_dispersion(i["N"], i["n"], i["phi"])},
    "paired_difference": lambda i: asdict(paired_difference(i["n"], i["right_to_wrong"], i["wrong_to_right"])),
}


def mismatches(expected: object, got: object, tol: float, field: str = "") -> Iterator[Difference]:
    """(field, expected, got) wherever a value differs; floats within tol, everything else exactly."""
    got = got.value if isinstance(got, Enum) else got
    if isinstance(expected, dict):
        found = got if isinstance(got, dict) else {}
        for name, value in expected.items():
            inner = f"{field}.{name}" if field else name
            yield from mismatches(value, found.get(name, "nothing"), tol, inner)
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            yield from mismatches(one, other, tol, f"{field}[{index}]")
    elif not _is_same(expected, got, tol):
        yield field, expected, got


def _is_same(expected: object, got: object, tol: float) -> bool:
    if isinstance(expected, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        allowed = tol * abs(expected) if abs(expected) > _SMALL else tol
        return expected == got or abs(expected - got) <= allowed
    if isinstance(expected, bool) or isinstance(got, bool) or not isinstance(expected, int):
        return type(expected) is type(got) and expected == got
    return isinstance(got, (int, float)) and expected == got


def _check(case: Fields) -> list[str]:
    """One line per mismatch of a case with an implementation; an error is a mismatch too."""
    try:
        got = KINDS[case["kind"]](case["inputs"])
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        return [f"{case['id']} {case['kind']}: expected {case['expected']}, got {what}"]
    found = mismatches(case["expected"], got, case["tol"])
    return [f"{case['id']} {field}: expected {expected!r}, got {other!r}" for field, expected, other in found]


def _load(path: Path) -> list[Fields]:
    """The cases of a file. Raises OSError or ValueError with one sentence."""
    data = json.loads(path.read_text(encoding="utf-8"))
    cases = data.get("cases") if isinstance(data, dict) else None
    if not isinstance(cases, list):
        raise ValueError("it has no list of cases")  # noqa: TRY004 - the content is wrong, not the call
    for number, case in enumerate(cases):
        if not isinstance(case, dict) or not {"id", "kind", "inputs", "expected", "tol"} <= case.keys():
            raise ValueError(f"case {number} lacks one of id, kind, inputs, expected, tol")
    return cases


def main(arguments: Sequence[str]) -> int:
    """Replay the one file named; the exit code is the module docstring's."""
    if len(arguments) != 1:
        print("usage: python tests/replay_oracles.py FILE.json", file=sys.stderr)
        return 2
    try:
        cases = _load(Path(arguments[0]))
    except (OSError, ValueError, RecursionError) as error:
        print(f"replay_oracles: cannot read {arguments[0]}: {error}", file=sys.stderr)
        return 2
    missing = Counter(str(case["kind"]) for case in cases if str(case["kind"]) not in KINDS)
    results = [_check(case) for case in cases if str(case["kind"]) in KINDS]
    for line in (line for lines in results for line in lines):
        print(line)
    if missing:
        print(f"{missing.total()} not implemented: {', '.join(sorted(missing))}")
    failed = sum(1 for lines in results if lines)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
