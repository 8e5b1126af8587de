"""One line out of the pages that Spark prints."""

from roquet.pipeline.jobs.query_failures import failure_of, is_slow_start

PAGES = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME] \
Failed when Python streaming data source perform latestOffset: Traceback (most recent call last):
  File "/x/stream.py", line 1, in latestOffset
    raise DataLoss(losses)
roquet.pipeline.errors.DataLoss: orders@broker-a@0 was deleted and made again. What was lost
SQLSTATE: XXKST
"""


def test_our_own_error_is_told_in_its_own_words() -> None:
    assert str(failure_of(PAGES)) == ("orders@broker-a@0 was deleted and made again. What was lost")


def test_another_error_is_told_with_its_name() -> None:
    assert str(failure_of("Traceback\n  File x\nValueError: no\n")) == "ValueError: no"


def test_what_cannot_be_read_is_told_by_its_first_line() -> None:
    assert str(failure_of("it broke\nbadly")) == "it broke"
    assert "does not say" in str(failure_of(""))


def test_a_python_that_was_too_slow_is_a_reason_to_start_again() -> None:
    assert is_slow_start("org.apache.spark.SparkException: Python worker failed to connect back.")
    assert not is_slow_start(PAGES)
