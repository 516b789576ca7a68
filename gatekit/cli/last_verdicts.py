"""When each gate last gave a verdict, read from the index of a history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gatekit.errors import ConfigError, GatekitError
from gatekit.history.place import Place
from gatekit.records.spec import EngineKind, Spec
from gatekit.records.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_RUNS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LastVerdicts:
    """The newest verdict of each series on each machine, and of each spec's name. INFRA is no verdict."""

    by_key: Mapping[tuple[str, str], datetime]
    by_name: Mapping[str, datetime]
    cache_dir: Path

    @classmethod
    def read(cls, place: Place, *, cache_dir: Path) -> LastVerdicts:
        """Those of the newest 200,000 runs. Raises ConfigError without such a folder, InfraError without its index."""
        if place.url is None and not place.dir.is_dir():
            hint = "name the folder that history.dir names in your runs"
            raise ConfigError.one(f"no history in {place.dir}", where="--history", reason="no-history", hint=hint)
        from gatekit.history import index

        by_key: dict[tuple[str, str], datetime] = {}
        by_name: dict[str, datetime] = {}
        for row in index.list_runs(place, limit=_MOST_RUNS):
            moment = None if row.outcome is Outcome.INFRA else _moment(row.finished_at)
            if moment is not None:
                key = (row.comparability_key, row.hw)
                by_key[key] = max(moment, by_key.get(key, moment))
                by_name[row.spec_name] = max(moment, by_name.get(row.spec_name, moment))
        return cls(by_key=by_key, by_name=by_name, cache_dir=cache_dir)

    def of(self, spec: Spec) -> datetime | None:
        """When a run that compares with this spec's, on its machine, last gave a verdict; None for never.

        Where the comparability key is known only by trying to download, the spec's name stands for it.
        """
        from gatekit.run.asked import comparability_of

        task = spec.task
        is_rehearsal = spec.engine.kind is EngineKind.SIM and task.dataset == "gsm8k" and task.path is None
        if is_rehearsal:
            return self.by_name.get(spec.name)
        try:
            key = comparability_of(spec, cache_dir=self.cache_dir).key
        except GatekitError:
            return self.by_name.get(spec.name)
        return self.by_key.get((key, spec.hw.name))


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
