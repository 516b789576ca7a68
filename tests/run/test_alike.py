"""Bodies that share their beginning are the bodies that were put in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gatekit.run.alike import Alike

_TEXTS = st.lists(st.binary(max_size=4) | st.text("ab", max_size=6).map(lambda text: b"shots" + text.encode()))


@given(_TEXTS, st.integers(1, 3))
def test_what_comes_out_is_what_went_in(texts: list[bytes], times: int) -> None:
    """Whatever the texts share, each comes back whole, in order, as often as the list is repeated."""
    alike = Alike(texts, times=times)
    assert list(alike) == texts * times
    assert len(alike) == len(texts) * times
    assert alike[1:] == tuple((texts * times)[1:])
