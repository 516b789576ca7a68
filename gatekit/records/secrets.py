"""What is never written down: passwords in URLs."""

from __future__ import annotations

import re
from dataclasses import replace

from gatekit.records.spec import Spec

# The password ends at the last @ of the authority: one that contains @, / or ? unescaped is masked whole too.
_PASSWORD = re.compile(r"(?P<head>^[a-z0-9+.-]+://[^:@/]*:)(?P<secret>.*)(?=@)", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"(?P<head>[?&](?:password|sslpassword|passfile)=)[^&#]*", re.IGNORECASE)


def masked_url(url: str) -> str:
    """The URL with `***` in place of every password.

    >>> masked_url("postgresql://ci:p@ss@db/gates?sslmode=require&password=x")
    'postgresql://ci:***@db/gates?sslmode=require&password=***'
    """
    return _PARAMETER.sub(r"\g<head>***", _PASSWORD.sub(r"\g<head>***", url))


def without_secrets(spec: Spec) -> Spec:
    """The spec as it may be stored and shown."""
    if spec.history.url is None:
        return spec
    return replace(spec, history=replace(spec.history, url=masked_url(spec.history.url)))
