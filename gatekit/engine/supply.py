"""What a launched server is given to load: checked before it starts, told after it has loaded."""

from __future__ import annotations

from collections.abc import Mapping

from gatekit.engine.environment import offline
from gatekit.engine.remote_code import refuse_remote_code, remote_code
from gatekit.engine.snapshot import file_digests, find_snapshot, is_complete
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
