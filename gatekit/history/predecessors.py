"""Whether each run's predecessor is there: the chain of records in every series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gatekit.history.findings import Findings
from gatekit.history.rebuild_hint import history_command

_SHOWN_KEY = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A run in its series: its own digest and that of the run before it."""

    run_id: str
    key: str
    digest: str
    previous: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """How many series there are, runs that begin one, and runs that share their predecessor with another."""

    series: int
    starts: int
    forks: int


def has_predecessors(links: Iterable[Link], elsewhere: Mapping[str, str]) -> bool:
    """Whether the predecessor of every run is among the runs, or known elsewhere."""
    links = list(links)
    known = elsewhere.keys() | {link.digest for link in links}
    return all(link.previous is None or link.previous in known for link in links)


def check_predecessors(findings: Findings, links: Iterable[Link], elsewhere: Mapping[str, str]) -> Chains:
    """Add a finding for each predecessor that is missing; a second start and a fork are notes.

    `elsewhere` is the key of each digest that is known without a record file.
    """
    links = list(links)
    command = history_command(findings.place, "import", "FILE")
    hint = f"bring its record back from a copy, or from an export of another machine by `{command}`"
    keys = {**elsewhere, **{link.digest: link.key for link in links}}
    starts: Counter[str] = Counter()
    heirs: Counter[tuple[str, str]] = Counter()
    for link in links:
        if link.previous is None:
            starts[link.key] += 1
            continue
        heirs[link.key, link.previous] += 1
        if keys.get(link.previous) != link.key:
            where = "in another series" if link.previous in keys else "missing"
            findings.add(
                f"run {link.run_id}",
                f"the run before it in its series, {link.previous}, is {where}",
                reason="predecessor-missing",
                hint=hint,
            )
    findings.notes += [
        f"series {key[:_SHOWN_KEY]} has {number} starts: runs without a chain, or kept while the database was away"
        for key, number in sorted(starts.items())
        if number > 1
    ]
    forks = {place: number for place, number in heirs.items() if number > 1}
    findings.notes += [
        f"series {key[:_SHOWN_KEY]} forks: {number} runs come after {previous}"
        for (key, previous), number in sorted(forks.items())
    ]
    return Chains(series=len({link.key for link in links}), starts=starts.total(), forks=len(forks))
