"""Kinds of values: what they read, and what they refuse."""

import time
from datetime import timedelta

import pytest

from roquet.pipeline.options.kinds import DURATION, NAMES, NUMBERS, PATTERN, SIZE
from roquet.settings.options import STRICT_BOOLEAN, TIME_MS, ConfigError, Option, OptionKind


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [("1", 1), ("64k", 65536), ("64KiB", 65536), ("1m", 1 << 20), ("2g", 2 << 30)],
)
def test_sizes(value: str, bytes_: int) -> None:
    assert SIZE.parse(value) == bytes_


@pytest.mark.parametrize(
    ("value", "span"),
    [
        ("500", timedelta(milliseconds=500)),
        ("500ms", timedelta(milliseconds=500)),
        ("30s", timedelta(seconds=30)),
        ("15m", timedelta(minutes=15)),
        ("2 h", timedelta(hours=2)),
        ("10 seconds", timedelta(seconds=10)),
        ("1 minute", timedelta(minutes=1)),
    ],
)
def test_durations(value: str, span: timedelta) -> None:
    assert DURATION.parse(value) == span


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("0", 0),
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_moments(value: str, ms: int) -> None:
    assert TIME_MS.parse(value) == ms


def test_a_moment_without_a_zone_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        for zone, ms in (("UTC", 1_700_000_000_000), ("Etc/GMT-1", 1_699_996_400_000)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert TIME_MS.parse("2023-11-14T22:13:20") == ms
            assert TIME_MS.parse("2023-11-14T22:13:20Z") == 1_700_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lists_of_names_may_have_blanks() -> None:
    assert NAMES.parse(" a, b ,,c") == ("a", "b", "c")


def test_lists_of_numbers_may_have_blanks() -> None:
    assert NUMBERS.parse("0, 12") == (0, 12)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (SIZE, "0"),
        (SIZE, "x"),
        (SIZE, "1t"),
        (DURATION, "soon"),
        (DURATION, "999999999999999999h"),
        (TIME_MS, "tomorrow"),
        (TIME_MS, "0001-01-01"),
        (TIME_MS, "20261115"),
        (TIME_MS, "1794773808"),
        (TIME_MS, "9" * 30),
        (NAMES, " , "),
        (NUMBERS, ""),
        (NUMBERS, "0,-1"),
        (NUMBERS, "0;1"),
        (PATTERN, "("),
        (STRICT_BOOLEAN, "yes"),
    ],
)
def test_what_is_no_such_value_is_refused(kind: OptionKind, value: str) -> None:
    assert kind.expected
    with pytest.raises(ConfigError):
        Option("x", kind).parse(value)
