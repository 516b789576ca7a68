"""Pinned downloads: a dataset file fetched once into the cache, checked before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from gatekit.errors import GatekitError, InfraError
from gatekit.records.spec import SplitFile
from gatekit.task.download_url import check_url, is_allowed, is_loopback, shown_url
from gatekit.task.rows import MAX_FILE_BYTES

DOWNLOAD_FAILED = "dataset-download-failed"
STALL_TIMEOUT_S = 20.0  # no byte for this long
TOTAL_TIMEOUT_S = 120.0
_CHUNK_BYTES = 2**16


def download(pin: SplitFile, target: Path, *, total_timeout_s: float = TOTAL_TIMEOUT_S) -> None:
    """The file of `pin` at `target`, its sha256 checked, renamed into place whole or not at all.

    Only https, or http on loopback, without credentials, redirects included. Raises InfraError when it cannot
    be had, ConfigError for a URL of another kind.
    """
    check_url(pin.url)
    with _whole_or_not_at_all(target) as file:
        try:
            found = _fetch(pin.url, file, total_timeout_s)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _failed(pin, _why(error)) from error
        if found != pin.sha256:
            raise _failed(pin, f"expected sha256 {pin.sha256}, found {found}")


def _fetch(url: str, file: IO[bytes], total_timeout_s: float) -> str:
    """The sha256 of what was written to `file`. Raises OSError, HTTPException or ValueError."""
    deadline = time.monotonic() + total_timeout_s
    checksum, size = hashlib.sha256(), 0
    timeout_s = min(STALL_TIMEOUT_S, total_timeout_s)
    with _opener(url).open(urllib.request.Request(url), timeout=timeout_s) as response:  # noqa: S310 - scheme checked
        while chunk := response.read1(_CHUNK_BYTES):
            size += len(chunk)
            if size > MAX_FILE_BYTES:
                raise ValueError(f"the file is larger than {MAX_FILE_BYTES // 2**20} MiB")
            if time.monotonic() > deadline:
                raise TimeoutError(f"not complete after {total_timeout_s:g} s")
            checksum.update(chunk)
            file.write(chunk)
    return checksum.hexdigest()


class _AllowedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where the first request could have gone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """The next request. Raises ValueError for a place that is not allowed."""
        if not is_allowed(newurl):
            fp.close()
            raise ValueError(f"redirected to {shown_url(newurl)}, which is neither https nor loopback")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener(url: str) -> urllib.request.OpenerDirector:
    """An opener that knows http and https and nothing else; loopback never goes through a proxy."""
    opener = urllib.request.OpenerDirector()
    proxies: dict[str, str] | None = {} if is_loopback(urlsplit(url).hostname) else None
    for handler in (
        urllib.request.ProxyHandler(proxies),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _AllowedRedirects(),
    ):
        opener.add_handler(handler)
    return opener


@contextmanager
def _whole_or_not_at_all(target: Path) -> Iterator[IO[bytes]]:
    """A temporary file beside `target`, which takes its name only if the block ends well."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _unwritable(target, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        Path(name).unlink(missing_ok=True)


def _unwritable(target: Path, error: OSError) -> GatekitError:
    return InfraError(
        f"cannot write {str(target)!r}: {error.strerror or type(error).__name__}",
        reason="cache-unwritable",
        hint="free the space, fix the permissions, or set task.path=DIR to a folder with the files",
    )


def _failed(pin: SplitFile, why: str) -> GatekitError:
    return InfraError(
        f"could not download {shown_url(pin.url)}: {why}",
        reason=DOWNLOAD_FAILED,
        hint="set task.path=DIR to a folder with test.jsonl and train.jsonl, or use the bundled set with "
        "task=gsm8k_synth",
    )


def _why(error: Exception) -> str:
    """One short reason that holds nothing the server wrote."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        return f"HTTP status {error.code}"
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return str(cause) or "timed out"
    if isinstance(cause, OSError):
        return cause.strerror or type(cause).__name__
    if isinstance(cause, ValueError):
        return str(cause)
    return cause if isinstance(cause, str) else type(cause).__name__
