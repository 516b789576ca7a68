"""Which bytes two servers loaded, as far as their records tell."""

from __future__ import annotations

import pytest

from gatekit.records.run import Served
from gatekit.records.served_details import changed_weights, tells_weights

A, B = "a" * 64, "b" * 64
FILE = "snapshot.file."


def served(details: dict[str, str]) -> Served:
    return Served(engine="e", build=None, model="m", base_url="http://h:1", simulated=False, details=details)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ({"weights_sha256": A}, {"weights_sha256": B}, ("weights_sha256",)),
        ({"weights_sha256": A}, {}, ()),
        ({"weights_sha256": A}, {f"{FILE}a.bin": B, "snapshot.files": "1"}, ()),
        ({"listed.meta.size": "1"}, {"listed.meta.size": "2"}, ("listed.meta.size",)),
        ({"listed.root": "/a"}, {"listed.root": "/b"}, ()),
        ({f"{FILE}a.bin": f"sha256:{A}"}, {f"{FILE}a.bin": f"sha256:{A} by its name, 7 bytes"}, ()),
        ({f"{FILE}a.bin": f"sha256:{A}"}, {f"{FILE}a.bin": f"sha256:{B} by its name, 7 bytes"}, ("a.bin",)),
        ({f"{FILE}a.bin": f"sha256:{A}"}, {f"{FILE}a.bin": "7 bytes"}, ()),
        ({f"{FILE}a.bin": "8 bytes"}, {f"{FILE}a.bin": "7 bytes"}, ("a.bin",)),
        ({f"{FILE}README.md": f"sha256:{A}"}, {f"{FILE}README.md": f"sha256:{B}"}, ()),
        ({f"{FILE}a.py": "x", f"{FILE}b.py": "y"}, {f"{FILE}a.py": "x"}, ("b.py",)),
    ],
)
def test_other_bytes(before: dict[str, str], after: dict[str, str], changed: tuple[str, ...]) -> None:
    """Weights changed where two known values of one thing differ; what one record does not tell says nothing."""
    for details in (before, after):
        names = [name for name in details if name.startswith(FILE)]
        details.update({"snapshot.files": str(len(names))} if names else {})
    assert changed_weights(served(before), served(after)) == changed
    assert changed_weights(served(after), served(before)) == changed
    assert changed_weights(None, served(after)) == ()


def test_more_files_than_are_named() -> None:
    """Beyond the files that a record names the digest of all of them speaks."""
    named = {f"{FILE}a.bin": "7 bytes", "snapshot.files": "201"}
    old, new = served({**named, "snapshot.digest": A}), served({**named, "snapshot.digest": B})
    assert changed_weights(old, new) == ("snapshot.digest",)
    assert changed_weights(old, old) == ()


def test_what_tells_nothing() -> None:
    """A server that names no file tells nothing of its weights."""
    assert not tells_weights(served({"listed.root": "/a", "command": "x"}))
    assert tells_weights(served({f"{FILE}a.bin": "7 bytes"}))
