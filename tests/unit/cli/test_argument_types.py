"""Times as operators say them."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

import pytest

from roquet.cli.argument_types import moment, time_span


def test_a_span_is_how_long_ago_it_was() -> None:
    then, now = moment("90m"), moment("now")
    assert abs(now - then - timedelta(minutes=90)) < timedelta(minutes=1)
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)


def test_a_moment_is_local_unless_it_names_a_zone() -> None:
    assert moment("2026-11-15T20:16:48+02:00") == datetime(2026, 11, 15, 18, 16, 48, tzinfo=UTC)
    assert moment("2026-11-15").tzinfo is not None
    assert moment("1794773808000") == datetime.fromtimestamp(1794773808, UTC)


@pytest.mark.parametrize("text", ["soon", "", "12", "5x", "2026-13-01"])
def test_what_is_no_time_is_told(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a time: expected 2026-"):
        moment(text)


def test_spans() -> None:
    assert time_span("500ms") == timedelta(milliseconds=500)
    assert time_span("1.5h") == timedelta(minutes=90)
    with pytest.raises(ArgumentTypeError, match="is not a duration"):
        time_span("5")
