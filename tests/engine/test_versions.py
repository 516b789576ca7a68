"""The order of versions, and what an advisory says of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from gatekit.engine.advisories import advised
from gatekit.engine.versions import names_a_release, version_key
from gatekit.errors import InfraError
from gatekit.records.spec import Advisory, Engine, EngineKind, Refuses

NUMBERS = st.integers(0, 20).map(str)
PARTS = st.tuples(
    st.sampled_from(["", "", "", "1!"]),
    st.lists(NUMBERS, min_size=1, max_size=4).map(".".join),
    st.sampled_from(["", "", "a1", "b2", "rc", ".rc1", "-alpha.3", "c1", "_preview2"]),
    st.sampled_from(["", "", ".post1", "-2", "rev3", "_r4"]),
    st.sampled_from(["", "", ".dev0", "dev7", "-dev"]),
    st.sampled_from(["", "", "+cpu", "+cu118", "+g1a2b", "+1.2", "+abc.10", "+abc.9"]),
)


@given(PARTS.map("".join), PARTS.map("".join))
def test_the_order_is_that_of_pep_440(one: str, other: str) -> None:
    """Any two versions compare as the reference implementation compares them."""
    ours = version_key(one), version_key(other)
    assert ours[0] is not None
    assert ours[1] is not None
    assert (ours[0] < ours[1], ours[0] == ours[1]) == (Version(one) < Version(other), Version(one) == Version(other))


@pytest.mark.parametrize("text", ["", "b1-7e4c0a9", "latest", "1..2", "1.0-", "1.0+", "1.0rc1rc2", "9" * 200, "1.0\n2"])
def test_what_is_no_version(text: str) -> None:
    """Other texts have no place in the order, long ones included."""
    assert version_key(text) is None
    assert not names_a_release(text)


@pytest.mark.parametrize(
    ("text", "names"), [("0.1.dev1+g1a2b3c", False), ("0.0.0", False), ("0.1", True), ("0.19.1rc1.dev104+gab", True)]
)
def test_builds_without_a_release(text: str, names: bool) -> None:
    """A build from a copy without tags calls itself 0.1.dev1, which is older than nothing."""
    assert names_a_release(text) is names


def advisory(number: int, **fields: object) -> Advisory:
    base = {"id": f"CVE-{number}", "below": "0.14.0", "what": "w", "link": "https://example.org"}
    return Advisory(**base | fields)  # type: ignore[arg-type]  # the fields of one


ENGINE = Engine(
    name="e",
    kind=EngineKind.LAUNCH,
    env={},
    advisories=(advisory(1, since="0.10.1", refuses=Refuses.REMOTE_CODE), advisory(2, below="0.12")),
)


@pytest.mark.parametrize(
    ("version", "ids"),
    [
        ("0.10.0", [2]),
        ("0.10.1", [1, 2]),
        ("0.12.0", [1]),
        ("0.13.9.post1", [1]),
        ("0.14.0rc1", [1]),
        ("0.14.0", []),
        ("0.14.0+cpu", []),
        ("1.0", []),
    ],
)
def test_which_advisories_a_version_has(version: str, ids: list[int]) -> None:
    """From the first version that has the fault, up to and without the first that is mended."""
    warnings = advised(ENGINE, version, remote_code="none", trusted=False)
    assert [int(line.split("CVE-")[1][0]) for line in warnings] == ids


def test_what_refuses() -> None:
    """An advisory on remote code refuses where the model brings some, or may bring some that nobody has seen."""
    for remote_code, trusted in (("auto_map in config.json", True), ("auto_map in config.json", False), (None, True)):
        with pytest.raises(InfraError, match="CVE-1") as caught:
            advised(ENGINE, "0.13", remote_code=remote_code, trusted=trusted)
        assert caught.value.reason == "version-advisory"
        assert "0.14.0 or later" in caught.value.hint
    for remote_code, trusted in (("none", True), ("none", False), (None, False)):
        assert len(advised(ENGINE, "0.13", remote_code=remote_code, trusted=trusted)) == 1


@pytest.mark.parametrize("version", [None, "0.1.dev1+g0", "b1-7e4c0a9"])
def test_a_version_that_says_nothing(version: str | None) -> None:
    """Without a version nothing is refused; that nothing was checked is said where code of the model may run."""
    assert advised(ENGINE, version, remote_code="none", trusted=True) == ()
    (line,) = advised(ENGINE, version, remote_code=None, trusted=True)
    assert line.startswith("not verified")
    assert "2 advisories" in line
