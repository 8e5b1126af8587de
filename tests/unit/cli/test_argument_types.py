"""Times as operators say them."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from roquet.cli.argument_types import moment, moment_ms, time_span
from roquet.cli.spark.arguments import moment as spark_moment
from roquet.settings.options import TIME_MS


def test_a_span_is_how_long_ago_it_was() -> None:
    then, now = moment("90m"), moment("now")
    assert abs(now - then - timedelta(minutes=90)) < timedelta(minutes=1)
    assert abs(datetime.now(UTC) - now) < timedelta(minutes=1)


def test_a_moment_is_local_unless_it_names_a_zone() -> None:
    assert moment("2026-11-15T20:16:48+02:00") == datetime(2026, 11, 15, 18, 16, 48, tzinfo=UTC)
    assert moment("2026-11-15").tzinfo is not None
    assert moment("1794773808000") == datetime.fromtimestamp(1794773808, UTC)


@pytest.mark.parametrize("text", ["soon", "", "5x", "2026-13-01", "9" * 30])
def test_other_texts_are_no_time(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="is not a time: expected 2026-"):
        moment(text)


@pytest.mark.parametrize("text", ["12", "20261115", "1794773808"])
@pytest.mark.parametrize("parse", [moment, moment_ms, spark_moment])
def test_a_date_without_hyphens_seconds_and_bare_numbers_are_no_milliseconds_anywhere(
    parse: Callable[[str], object], text: str
) -> None:
    with pytest.raises(ArgumentTypeError, match="2026-11-15T20:16:48"):
        parse(text)


@pytest.mark.parametrize("text", ["0", "1794773808000", "2026-11-15", "2026-11-15T20:16Z"])
def test_every_command_reads_a_time_alike(text: str) -> None:
    assert moment(text).timestamp() * 1000 == moment_ms(text)
    assert TIME_MS.parse(spark_moment(text)) == moment_ms(text)


def test_spans() -> None:
    assert time_span("500ms") == timedelta(milliseconds=500)
    assert time_span("1.5h") == timedelta(minutes=90)
    with pytest.raises(ArgumentTypeError, match="is not a duration"):
        time_span("5")
