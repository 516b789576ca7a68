"""Which base URLs are accepted."""

from __future__ import annotations

import pytest

from gatekit.engine.base_url import check_base_url
from gatekit.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("HTTPS://Host.Example/llm/v1", "https://host.example/llm"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("http://localhost", "http://localhost"),
        ("http://10.1.2.3:80/models/v10", "http://10.1.2.3:80/models/v10"),
        ("http://[fd00:1::1]:80", "http://[fd00:1::1]:80"),
        ("http://metadata.example/a%20b", "http://metadata.example/a%20b"),
    ],
)
def test_accepted(url: str, normal: str) -> None:
    """An http(s) URL loses its trailing slash and /v1, and nothing else."""
    assert check_base_url(url) == normal
    assert check_base_url(normal) == normal


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://h",
        "gopher://h",
        "h:8000",
        "//h",
        "",
        "http://",
        "http:///v1",
        "http://:8000",
        "http://user:hunter2@h",
        "http://hunter2@h",
        "http://h/?key=hunter2",
        "http://h/#hunter2",
        "http://h?",
        "http://h:0",
        "http://h:99999",
        "http://h:x",
        "http://[::1",
        "http://h\n.example",
        "http://h h",
        "http://h\\@evil",
        "http://h\u202e",
        "http://b\u00fccher",
        "http://169.254.169.254/",
        "http://169.254.169.254./latest",
        "http://169.254.0.1:8000",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://[fe80::1]:80",
        "http://[fe80::1%25eth0]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[::169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[fd00:ec2::254]/",
        "http://[FD00:0EC2:0::254]:80/",
        "http://[fd00:ec2::23%25eth0]/",
        "http://[fd20:ce::254]/",
        "http://100.100.100.200/",
        "http://metadata/",
        "http://metadata.google.internal/",
        "http://Metadata.Google.Internal.:80/v1",
        "http://metadata%2egoogle.internal/",
        "http://instance-data/",
        "http://h/%0d%0a",
        "http://h/a%00",
        "http://h/%7F",
        "http://h/%",
        "http://h/%zz",
    ],
)
def test_refused(url: str) -> None:
    """Another scheme, credentials, query, fragment, no host, bad escapes and servers of credentials are CONFIG."""
    with pytest.raises(ConfigError) as caught:
        check_base_url(url)
    assert caught.value.reason == "base-url"
    (line,) = caught.value.lines()
    assert "hunter2" not in line
    assert line.isprintable()
