"""How fast thresholds are, as ratios measured side by side: `python benchmarks/thresholds.py`.

10,000 series of 365 nights, a threshold after every night, in one process: one float64 read and write pass over
the table (what memory alone costs), the table at once (`stats.series`), and loops over the cells. A loop would
take up to an hour: it is timed on a random sample of cells and multiplied up, and the sampled cells must give the
same counts. Rounds of the first two alternate, and the median of each counts.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from functools import cache
from math import floor, sqrt
from os import cpu_count
from statistics import median
from time import perf_counter

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import stats

from gatekit.stats.conditional import conditional_tail
from gatekit.stats.flips import moderated_t
from gatekit.stats.paired import exact_conditional
from gatekit.stats.series import moderated_t_thresholds

SERIES, NIGHTS, N = 10_000, 365, 1319
ALPHA, PHI0, NU0 = 1.372e-4, 0.2, 4.0
ROUNDS, SAMPLED_CELLS, CALLS, HISTORY_RUNS = 15, 2_000, 200, 10
LEAST_GAIN, MOST_PASSES = 10_000, 30

SIZE = SERIES * NIGHTS
PASS = "one float64 read and write pass"
TABLE = "the table at once, `stats.series`"
FROZEN = f"loop over frozen `scipy.stats.t`, from {SAMPLED_CELLS:,} cells"
KEPT = f"loop with every quantile made once, from {SAMPLED_CELLS:,} cells"
EXACT = f"loop over `stats.flips.moderated_t`, from {SAMPLED_CELLS:,} cells"
USUAL = "fixed set, 8 % of the questions uncertain"
HARDEST = "every question uncertain"

Counts = NDArray[np.int16]


def script_cell(row: Counts, quantile: Callable[[float], float]) -> int:
    """The threshold after the last night of `row`, as a script would compute it."""
    k = len(row)
    mean = float(row.mean())
    v = mean * (1 - mean / N)
    phi = (NU0 * PHI0 + (k - 1) * float(row.var(ddof=1)) / v) / (NU0 + k - 1) if k > 1 else PHI0
    return floor(mean + quantile(NU0 + k - 1) * sqrt(phi * v * (1 + 1 / k)) + 0.5)


def frozen_quantile(df: float) -> float:
    """Student's quantile by a distribution made for the purpose."""
    return float(stats.t(df).ppf(ALPHA))


def product_cell(row: Counts) -> int:
    """The threshold by the rule of the gate, in exact fractions."""
    return moderated_t(N, row.tolist(), ALPHA, PHI0, NU0).k_pass


def seconds(work: Callable[[], object]) -> float:
    """The time of one call."""
    start = perf_counter()
    work()
    return perf_counter() - start


def one_by_one(counts: Counts, cells: NDArray[np.int64], rule: Callable[[Counts], int]) -> tuple[float, list[int]]:
    """Seconds per cell of a loop over the sampled cells, and its thresholds."""
    start = perf_counter()
    found = [rule(counts[i, : j + 1]) for i, j in cells]
    return (perf_counter() - start) / len(cells), found


def conditional_ms(chance: NDArray[np.float64], rng: np.random.Generator) -> tuple[float, float]:
    """Milliseconds of the exact and of the quick form on 1319 questions of the given chances, ten runs before."""
    right = rng.binomial(1, chance, (HISTORY_RUNS + 1, N))
    before, seen = right[:-1].sum(axis=0), right.sum(axis=0)
    strata = {t: int((seen == t).sum()) for t in range(1, HISTORY_RUNS + 1)}
    now = int(right[-1][(seen > 0) & (seen <= HISTORY_RUNS)].sum())
    questions = np.bincount(before, minlength=HISTORY_RUNS + 1).tolist()
    right_now = np.bincount(before[right[-1] == 1], minlength=HISTORY_RUNS + 1).tolist()
    exact = median(seconds(lambda: exact_conditional(HISTORY_RUNS, strata, now)) for _ in range(CALLS))
    quick = median(seconds(lambda: conditional_tail(questions, right_now)) for _ in range(CALLS))
    return 1e3 * exact, 1e3 * quick


def series_times(rng: np.random.Generator) -> dict[str, float]:
    """Seconds for all cells, by way; raises SystemExit when the ways disagree on a sampled cell."""
    counts = rng.binomial(N, 0.9, (SERIES, NIGHTS)).astype(np.int16)
    floats, written = counts.astype(np.float64), np.empty((SERIES, NIGHTS))
    cells = np.column_stack((rng.integers(0, SERIES, SAMPLED_CELLS), rng.integers(0, NIGHTS, SAMPLED_CELLS)))
    passes, tables = [], []
    for _ in range(ROUNDS):
        passes.append(seconds(lambda: np.multiply(floats, 1.5, out=written)))
        tables.append(seconds(lambda: moderated_t_thresholds(counts, N, ALPHA, PHI0, NU0)))
    expected = moderated_t_thresholds(counts, N, ALPHA, PHI0, NU0)[cells[:, 0], cells[:, 1]].tolist()
    kept_quantile = cache(frozen_quantile)
    loops: dict[str, Callable[[Counts], int]] = {
        FROZEN: lambda row: script_cell(row, frozen_quantile),
        KEPT: lambda row: script_cell(row, kept_quantile),
        EXACT: product_cell,
    }
    for df in range(NIGHTS):
        kept_quantile(NU0 + df)
    times = {PASS: median(passes), TABLE: median(tables)}
    for way, rule in loops.items():
        per_cell_s, found = one_by_one(counts, cells, rule)
        times[way] = per_cell_s * SIZE
        if found != expected:
            sys.exit(f"{way} disagrees with the table on a sampled cell")
    return times


def print_tables(times: dict[str, float], conditional: dict[str, tuple[float, float]]) -> None:
    """Two Markdown tables under a line that names the machine."""
    print(f"{platform.machine()}, {cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"numpy {np.__version__}, scipy {scipy.__version__}; one thread, {SERIES:,} series x {NIGHTS} nights\n")
    print("| moderated_t after every night | time | per cell | against the table at once |")
    print("|---|---:|---:|---:|")
    for way, time in times.items():
        print(f"| {way} | {told(time)} | {time / SIZE * 1e9:,.1f} ns | {time / times[TABLE]:,.2f} x |")
    print("\n| exact_conditional, n = 1319, k = 10 | `stats.paired` | `stats.conditional`, asked again |")
    print("|---|---:|---:|")
    for world, (exact, quick) in conditional.items():
        print(f"| {world} | {exact:.3f} ms | {quick:.3f} ms |")
    print()


def told(time: float) -> str:
    """A time in a unit that suits it."""
    return f"{time:,.0f} s" if time > 10 else f"{time * 1e3:,.1f} ms"


def main() -> int:
    """Measure, print the tables and the targets, and return 1 when one was missed."""
    rng = np.random.default_rng(20261130)
    times = series_times(rng)
    share = np.arange(N) / N
    fixed_set = np.where(share < 0.86, 0.997, np.where(share < 0.92, 0.05, (share - 0.92) / 0.08))
    conditional = {USUAL: conditional_ms(fixed_set, rng), HARDEST: conditional_ms(np.full(N, 0.5), rng)}
    print_tables(times, conditional)
    gain, passes = times[FROZEN] / times[TABLE], times[TABLE] / times[PASS]
    targets = {
        f"at least {LEAST_GAIN:,} times faster than the frozen loop: {gain:,.0f}": gain >= LEAST_GAIN,
        f"at most {MOST_PASSES} times one pass over the table: {passes:.1f}": passes <= MOST_PASSES,
        f"exact_conditional under 1 ms: {max(map(max, conditional.values())):.3f}": max(map(max, conditional.values()))
        < 1,
    }
    for target, is_met in targets.items():
        print(f"{'met' if is_met else 'MISSED'}: {target}")
    return 0 if all(targets.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
