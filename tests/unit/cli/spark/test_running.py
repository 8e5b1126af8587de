"""How jobs end: by themselves, by a failure, or by a signal that Spark may get first."""

import signal

import pytest

from roquet.cli.spark.running import stopped_by_signals
from roquet.pipeline.queries import QueryFailed
from roquet.reporting import Reporter

# The second is what a call says that finds no Java any more.
FAILURES = [QueryFailed("the session has ended"), ConnectionRefusedError("no Java")]


def fail_as_a_job(failure: Exception, *, is_stopped: bool) -> None:
    reporter = Reporter("roquet spark ingest", as_json=True)
    with stopped_by_signals(reporter, "stopping") as stop:
        if is_stopped:
            signal.raise_signal(signal.SIGTERM)
        assert stop.is_set() == is_stopped
        raise failure


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_after_a_signal_is_its_end(failure: Exception) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_as_a_job(failure, is_stopped=True)


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_without_a_signal_is_one(failure: Exception) -> None:
    with pytest.raises(type(failure)):
        fail_as_a_job(failure, is_stopped=False)
