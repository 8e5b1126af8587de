"""What is run again, and what a failure says."""

import pytest
from pyspark.errors import PySparkException

from roquet.pipeline.jobs.batch_queries import run_query
from roquet.pipeline.jobs.query_failures import QueryFailed


def failing(*texts: str) -> "list[PySparkException]":
    return [PySparkException(text) for text in texts]


def test_a_query_whose_python_started_too_late_is_run_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = failing("Python worker failed to connect back.") * 2

    def act() -> int:
        if errors:
            raise errors.pop()
        return 7

    assert run_query(act) == 7
    assert [record.message for record in caplog.records] == [
        "Spark's Python did not start in time; started again"
    ] * 2


def test_it_is_not_run_again_for_ever() -> None:
    calls = []

    def act() -> None:
        calls.append(1)
        raise PySparkException("Python worker failed to connect back.")

    with pytest.raises(QueryFailed, match="too busy"):
        run_query(act)
    assert len(calls) == 5


def test_another_failure_is_told_at_once_in_one_line() -> None:
    text = "An error occurred\nroquet.pipeline.errors.BadRow: row 3 is none\n at org.apache"
    with pytest.raises(QueryFailed) as raised:
        run_query(lambda: (_ for _ in ()).throw(PySparkException(text)))
    assert str(raised.value) == "row 3 is none"
