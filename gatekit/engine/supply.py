"""What a launched server is given to load: checked before it starts, told after it has loaded, unchanged to the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gatekit.engine.argv import model_path
from gatekit.engine.environment import offline
from gatekit.engine.remote_code import refuse_remote_code, remote_code
from gatekit.engine.snapshot import file_digests, find_snapshot, is_complete, loadable_files
from gatekit.engine.unchanged import refuse_changed, stamps
from gatekit.records.spec import Spec

REMOTE_CODE = "snapshot.remote_code"


def checked_environment(spec: Spec, env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The server's environment: offline where the pinned revision is whole in the cache.

    Raises InfraError where the model's files name code that the spec does not allow.
    """
    snapshot = find_snapshot(spec, env, environ)
    if snapshot is None:
        return dict(env)
    refuse_remote_code(spec.model, remote_code(snapshot))
    is_pinned = snapshot.commit is not None and snapshot.commit == spec.model.revision
    return offline(env) if is_pinned and is_complete(snapshot) else dict(env)


def loaded_files(spec: Spec, env: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What a record says of the files that the server has loaded; nothing for a single file.

    Raises InfraError where they name code that the spec does not allow: a server may have fetched them itself.
    """
    snapshot = find_snapshot(spec, env, environ)
    if snapshot is None:
        return {}
    found = remote_code(snapshot)
    refuse_remote_code(spec.model, found)
    return {REMOTE_CODE: found, **file_digests(snapshot)}


class Supply:
    """The files that one server loads, looked at before they are checked, once they are loaded, and at the end.

    What the server fetches itself is there from the second look on.
    """

    def __init__(self, spec: Spec, env: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self._spec = spec
        self._env = env
        self._environ = environ
        self._seen = stamps(self._files())

    def loaded(self) -> dict[str, str]:
        """`loaded_files` now that they are. Raises InfraError also where one has changed since the first look."""
        refuse_changed(self._seen, when="while they were loaded")
        self._seen = stamps(self._files())
        return loaded_files(self._spec, self._env, self._environ)

    def refuse_changed(self) -> None:
        """Raise InfraError where a file has changed since it was loaded."""
        refuse_changed(self._seen, when="while they were served")

    def _files(self) -> Iterator[Path]:
        snapshot = find_snapshot(self._spec, self._env, self._environ)
        if snapshot is None:
            yield Path(model_path(self._spec, self._environ))
        else:
            yield from loadable_files(snapshot)
