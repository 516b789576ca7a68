"""What `served.details` of a record are called, and which files of a model differ between two of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gatekit.records.run import Served

EFFECTIVE = "effective."
"""Begins the name of each setting that the server tells."""
COMMIT = "snapshot.commit"
WEIGHTS = "weights_sha256"
READY = "ready"
"""Says `never` of a server that was started and never ready; not there otherwise."""
NEVER = "never"
METRICS_OF = "metrics.of"
"""Says which part of a run that was resumed the server's own counts are of."""

_FILE = "snapshot.file."
_ALL_FILES = "snapshot.digest"
_LISTED = ("listed.meta.ftype", "listed.meta.n_params", "listed.meta.size")
_SHA256 = re.compile(r"sha256:([0-9a-f]{64})")
# What a server loads; readmes and logs beside them are none of it.
_LOADED = (
    *(".safetensors", ".bin", ".gguf", ".pt", ".pth", ".msgpack", ".h5", ".onnx"),
    *(".json", ".py", ".model", ".jinja", ".tiktoken", "merges.txt", "vocab.txt"),
)


def changed_weights(before: Served | None, after: Served | None) -> tuple[str, ...]:
    """What says that two servers loaded other bytes, by name: files, `weights_sha256`, or what a model list says.

    Nothing where one of them does not tell. Beyond the 200 files that a record names the digest of all speaks.
    """
    if before is None or after is None:
        return ()
    old, new = before.details, after.details
    single = tuple(name for name in (WEIGHTS, *_LISTED) if name in old and name in new and old[name] != new[name])
    files = _files(old), _files(new)
    if not files[0] or not files[1]:
        return single
    names = sorted(files[0].keys() | files[1].keys())
    return (*single, *(name for name in names if _differ(files[0].get(name), files[1].get(name))))


def tells_weights(served: Served) -> bool:
    """Whether there is something to compare by `changed_weights`."""
    return any(name.startswith(_FILE) or name in (WEIGHTS, *_LISTED) for name in served.details)


def _files(details: Mapping[str, str]) -> dict[str, str]:
    """What is said of each file that a server loads, by its name; of those that are not named, of all together."""
    files = {name.removeprefix(_FILE): said for name, said in details.items() if name.startswith(_FILE)}
    loaded = {name: said for name, said in files.items() if name.endswith(_LOADED)}
    is_cut = details.get("snapshot.files", "0") != str(len(files))
    return {**loaded, _ALL_FILES: details[_ALL_FILES]} if is_cut and _ALL_FILES in details else loaded


def _differ(old: str | None, new: str | None) -> bool:
    """A digest and a size say nothing of each other; one digest may be said in two ways."""
    if old is None or new is None:
        return True
    sums = [_SHA256.match(old), _SHA256.match(new)]
    if sums[0] is not None and sums[1] is not None:
        return sums[0][1] != sums[1][1]
    return old != new and sums == [None, None]
