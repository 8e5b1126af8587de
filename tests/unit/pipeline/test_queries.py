"""What is run again, and what a failure says."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from roquet.pipeline.errors import BadLake
from roquet.pipeline.queries import QueryFailed, failure_of, is_slow_start, run_query, run_tasks

PAGES = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME] \
Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/x/stream.py", line 1, in latestOffset
    raise DataLoss(losses)
roquet.pipeline.errors.DataLoss: orders@broker-a@0 was deleted and created again. What was lost
SQLSTATE: XXKST
"""


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
    assert len(caplog.records) == 2
    assert all("did not start in time" in record.message for record in caplog.records)


def test_it_is_not_run_again_for_ever() -> None:
    calls = []

    def act() -> None:
        calls.append(1)
        raise PySparkException("Python worker failed to connect back.")

    with pytest.raises(QueryFailed, match="too busy"):
        run_query(act)
    assert len(calls) == 5


def test_another_failure_is_reported_at_once_in_one_line() -> None:
    text = "An error occurred\nroquet.pipeline.errors.BadRow: row 3 is none\n at org.apache"
    with pytest.raises(QueryFailed) as raised:
        run_query(lambda: (_ for _ in ()).throw(PySparkException(text)))
    assert str(raised.value) == "row 3 is none"


def test_an_error_of_our_own_is_raised_instead_of_what_spark_makes_of_it() -> None:
    def act() -> None:
        raise PySparkException("Python worker failed to connect back.")

    own = BadLake("another writer")
    with pytest.raises(BadLake) as raised:
        run_query(act, lambda: own)
    assert raised.value is own


def test_our_own_error_is_reported_by_its_text() -> None:
    assert str(failure_of(PAGES)) == (
        "orders@broker-a@0 was deleted and created again. What was lost"
    )


def test_another_error_is_reported_with_its_name() -> None:
    assert str(failure_of("Traceback\n  File x\nValueError: no\n")) == "ValueError: no"


def test_what_cannot_be_read_is_reported_by_its_first_line() -> None:
    assert str(failure_of("it broke\nbadly")) == "it broke"
    assert "no reason" in str(failure_of(""))


def test_an_error_of_java_is_reported_without_the_call_that_met_it() -> None:
    text = (
        "An error occurred while calling o5.count.\n: java.io.IOException: no space left\n\tat a.b"
    )
    assert str(failure_of(text)) == "java.io.IOException: no space left"


def test_executors_without_the_formats_are_pointed_to_the_archive() -> None:
    text = "Traceback\n  import pyarrow\nModuleNotFoundError: No module named 'pyarrow'\n"
    assert "'roquet spark package FILE'" in str(failure_of(text))
    assert "'pyarrow'" in str(failure_of(text))


def test_a_python_that_was_too_slow_is_a_reason_to_start_again() -> None:
    assert is_slow_start("org.apache.spark.SparkException: Python worker failed to connect back.")
    assert not is_slow_start(PAGES)


def test_no_parts_need_no_task() -> None:
    session: Any = SimpleNamespace()
    assert run_tasks(session, str, []) == []
