"""Jobs one after another: one result each, one exit code, whatever happens to one of them."""

from __future__ import annotations

from typing import Any

import pytest

from gatekit.errors import ConfigError, ExitCode, GatekitError, InfraError, Interrupted
from gatekit.fanout.sequential import Ended, Series, one_after_another


def run_all(jobs: list[ExitCode | BaseException], told: list[Any]) -> Series:
    """Jobs that end with their code, or raise."""

    def run(job: ExitCode | BaseException) -> Ended:
        if isinstance(job, BaseException):
            raise job
        return Ended(exit_code=job, summary={})

    def on_bug(error: Exception) -> str:
        told.append(error)
        return "a bug"

    return one_after_another(jobs, run, on_error=told.append, on_bug=on_bug)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InfraError("no GPU", reason="hardware-missing"), ExitCode.INFRA),
        (ConfigError.one("bad", reason="bad-value"), ExitCode.CONFIG),
        (ZeroDivisionError("ours"), ExitCode.INTERNAL),
    ],
)
def test_an_error_keeps_no_other_from_running(error: Exception, code: ExitCode) -> None:
    """The job after an error runs, a bug of ours included; each error is told once, and has a summary."""
    told: list[Any] = []
    series = run_all([ExitCode.PASS, error, ExitCode.PASS], told)
    assert [one.exit_code for one in series.ended] == [ExitCode.PASS, code, ExitCode.PASS]
    assert series.exit_code is code
    assert told == [error]
    assert series.ended[1].summary["exit_code"] == code
    assert series.interrupted is None


@pytest.mark.parametrize(
    ("stop", "code"),
    [
        (Interrupted("SIGTERM", exit_code=ExitCode.TERMINATED), ExitCode.TERMINATED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_a_signal_ends_the_series(stop: BaseException, code: ExitCode) -> None:
    """What was done is kept, the rest is not started, and the signal's code is the series'."""
    series = run_all([ExitCode.FAIL, stop, ExitCode.PASS], [])
    assert [one.exit_code for one in series.ended] == [ExitCode.FAIL]
    assert series.exit_code is code
    assert isinstance(series.interrupted, GatekitError)


def test_precedence() -> None:
    """A measured regression outranks a broken machine, and that an undecided run."""
    assert run_all([ExitCode.INCONCLUSIVE, ExitCode.INFRA, ExitCode.FAIL, ExitCode.PASS], []).exit_code is ExitCode.FAIL
    assert run_all([], []).exit_code is ExitCode.CONFIG
