"""A complete spec to vary."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gatekit.records.spec import Spec
from spec_builders import spec_of


@pytest.fixture(scope="session")
def make_spec() -> Callable[..., Spec]:
    """The base spec with the given parts changed, as `spec_of`."""
    return spec_of
