"""The extractors that are known here, as the history reads saved answers by them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatekit.history.rescore import Reader


def readers() -> Mapping[str, Reader]:
    """Each by its name."""
    from gatekit.history.rescore import Reader
    from gatekit.task.rescore import rescore
    from gatekit.task.score import EXTRACTORS

    def reader(name: str) -> Reader:
        extractor = EXTRACTORS[name]
        return Reader(name=name, version=extractor.version, score=lambda seen: rescore(seen, extractor))

    return {name: reader(name) for name in EXTRACTORS}
