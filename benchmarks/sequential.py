"""What sequential stopping promises and does: `python benchmarks/sequential.py [runs]`, 1000 runs by default.

0.90 against 0.85, alpha = beta = 1 %, 1319 questions. Expected questions are exact (dynamic programmes); error
rates out of order are simulated through the rule that runs use, with seeds, so that they come out the same.
"""

from __future__ import annotations

import sys
from math import exp, log
from pathlib import Path
from random import Random

import numpy as np

from gatekit.records.verdict import Outcome
from gatekit.stats.paired_sprt import PairedSprt
from gatekit.stats.sequential import sprt_characteristic
from gatekit.stats.stopping import first_crossing
from gatekit.stats.wor_mixture import WorMixture, wor_counts, wor_mixture_characteristic

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from simulation.streams import Ended, as_completed, by_prefixes, shuffled
from simulation.worlds import fixed_set

N, P0, DELTA, RATE = 1319, 0.9, 0.05, 0.01
HEALTHY, DROPPED = wor_counts(N, P0, DELTA)


def wald_bound(accuracy: float) -> float:
    """The fewest questions on average of any test of independent answers at these error rates."""
    other = P0 - DELTA if accuracy == P0 else P0
    divergence = accuracy * log(accuracy / other) + (1 - accuracy) * log((1 - accuracy) / (1 - other))
    return ((1 - RATE) * log((1 - RATE) / RATE) + RATE * log(RATE / (1 - RATE))) / divergence


def expected_questions() -> None:
    """Exact, for answers in order."""
    print(f"expected questions, {P0} against {P0 - DELTA:.2f}, 1 % and 1 %, n = {N}")
    print(f"{'accuracy':>9} {'Wald bound':>11} {'open SPRT':>10} {'wor_mixture':>12} {'P(FAIL)':>9}")
    for accuracy, right in ((0.9, HEALTHY), (0.875, 1154), (0.85, DROPPED), (0.3, 396), (0.0, 0)):
        bound = f"{wald_bound(accuracy):.0f}" if accuracy in (0.9, 0.85) else ""
        open_ = sprt_characteristic(P0, P0 - DELTA, RATE, RATE, N, accuracy).expected_n
        found = wor_mixture_characteristic(N, HEALTHY, DROPPED, RATE, RATE, right)
        print(f"{accuracy:9.3f} {bound:>11} {open_:10.1f} {found.expected_n:12.1f} {found.p_fail:9.4f}")


def runs_that_vary() -> None:
    """The guarantee is for a set with at least K0 right answers; the count of a healthy build varies around it."""
    print("\nfalse alarms of wor_mixture when the healthy count varies from run to run, nominal 1 %")
    for phi in (0.0, 0.05, 0.13, 0.2, 0.35, 1.0):
        spread = (phi * N * P0 * (1 - P0)) ** 0.5
        offsets = range(-4, 5) if phi else (0,)
        pairs = [(exp(-z * z / 2), HEALTHY + round(z * spread)) for z in offsets]
        total = sum(weight for weight, _ in pairs)
        rates = [w * wor_mixture_characteristic(N, HEALTHY, DROPPED, RATE, RATE, right).p_fail for w, right in pairs]
        print(f"  phi {phi:4.2f}: {sum(rates) / total:.4f}")


def out_of_order(runs: int) -> None:
    """Simulated: prefixes against counting as completed."""
    test = WorMixture(N, HEALTHY, DROPPED, RATE, RATE)
    print(f"\nout of order, {runs} runs each: errors, and questions sent")
    print("in flight  slow   naive miss   false alarm    miss   sent at .90   .85    .3     0")
    for in_flight, slow in ((64, 1.0), (64, 2.0), (64, 4.0), (256, 1.0), (256, 2.0), (256, 4.0)):
        rng = Random(in_flight + int(slow))
        naive = [as_completed(shuffled(N, DROPPED, rng), in_flight, slow, rng) for _ in range(runs)]
        ends = {
            right: [by_prefixes(test, shuffled(N, right, rng), in_flight, slow, rng) for _ in range(runs)]
            for right in (HEALTHY, DROPPED, 396, 0)
        }
        false_alarms, missed = share(ends[HEALTHY], Outcome.FAIL), share(ends[DROPPED], Outcome.PASS)
        sent = "  ".join(f"{sum(one.sent for one in found) / runs:6.0f}" for found in ends.values())
        print(
            f"{in_flight:9d} {slow:4.0f}x {share(naive, Outcome.PASS):12.3f} {false_alarms:13.4f} {missed:7.4f}  {sent}"
        )


def share(ended: list[Ended], outcome: Outcome) -> float:
    """How many ended so."""
    return sum(one.outcome is outcome for one in ended) / len(ended)


def paired(runs: int) -> None:
    """Simulated on the fixed set: what per-question history saves."""
    print(f"\npaired_sprt on the fixed set, in order, {runs} runs each")
    print("builds   drop      FAIL      PASS   questions")
    healthy = fixed_set(N)
    chances = np.repeat(healthy.chance, healthy.number)
    for builds in (3, 10):
        for drop in (0.0, DELTA, 0.6, 0.9):
            rng, ends = np.random.default_rng(builds), []
            for _ in range(runs):
                order = rng.permutation(chances)
                test = PairedSprt(rng.binomial(builds, order).tolist(), builds, DELTA, RATE, RATE)
                ends.append(walked(test, (rng.random(N) < order * (1 - drop / healthy.mean)).tolist()))
            mean = sum(one.answered for one in ends) / runs
            fails, passes = share(ends, Outcome.FAIL), share(ends, Outcome.PASS)
            print(f"{builds:6d} {drop:6.2f} {fails:9.4f} {passes:9.4f} {mean:11.1f}")


def walked(test: PairedSprt, answers: list[bool]) -> Ended:
    """The whole run's end, in order."""
    ledger = test.ledger()
    for t, right in enumerate(answers, 1):
        ledger.add(t - 1, right=right)
        if ledger.fails(t) or ledger.passes(t):
            return Ended(first_crossing(test, list(answers[:t])), t, t)
    return Ended(None, len(answers), len(answers))


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    expected_questions()
    runs_that_vary()
    out_of_order(number)
    paired(number)
