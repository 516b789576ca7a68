"""Waiting for GPU memory to come back."""

from __future__ import annotations

from functools import partial

from gatekit.engine.gpu_release import still_held

QUICK = {"timeout_s": 0.05, "poll_s": 0.001}


def test_memory_that_comes_back() -> None:
    """The wait ends as soon as every GPU is near its baseline, which others may have raised a little."""
    readings = iter([{"a": 70_000, "b": 20}, {"a": 900, "b": 20}, {"a": 250, "b": 20}])
    assert still_held({"a": 10, "b": 20}, partial(next, readings), **QUICK) is None
    assert list(readings) == []


def test_memory_that_stays() -> None:
    """What is held at the end of the time is told by GPU and MiB."""
    told = still_held({"a": 10, "b": 20}, lambda: {"a": 70_010, "b": 20}, **QUICK)
    assert told == "GPU memory did not come back within 0.05 s of the server's end: a 70000 MiB more than before it"


def test_unknown_memory_is_not_waited_for() -> None:
    """Without GPUs, or where their memory is or becomes unknown, there is nothing to say."""
    assert still_held({}, lambda: {"a": 9999}, **QUICK) is None
    assert still_held(None, lambda: {"a": 9999}, **QUICK) is None
    assert still_held({"a": 10}, lambda: None, **QUICK) is None
