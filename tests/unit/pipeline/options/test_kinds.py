"""Kinds of values: what they read, and what they refuse."""

import time
from datetime import timedelta

import pytest

from roquet.pipeline.options.kinds import duration, flag, moment_ms, names, numbers, pattern, size


@pytest.mark.parametrize(
    ("value", "bytes_"),
    [("1", 1), ("64k", 65536), ("64KiB", 65536), ("1m", 1 << 20), ("2g", 2 << 30)],
)
def test_sizes(value: str, bytes_: int) -> None:
    assert size.read(value) == bytes_


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
    assert duration.read(value) == span


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("1700000000000", 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_moments(value: str, ms: int) -> None:
    assert moment_ms.read(value) == ms


def test_a_moment_without_a_zone_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        for zone, ms in (("UTC", 1_700_000_000_000), ("Etc/GMT-1", 1_699_996_400_000)):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert moment_ms.read("2023-11-14T22:13:20") == ms
            assert moment_ms.read("2023-11-14T22:13:20Z") == 1_700_000_000_000
    finally:
        monkeypatch.undo()
        time.tzset()


def test_lists_of_names_may_have_blanks() -> None:
    assert names.read(" a, b ,,c") == ("a", "b", "c")


def test_lists_of_numbers_may_have_blanks() -> None:
    assert numbers.read("0, 12") == (0, 12)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (size, "0"),
        (size, "x"),
        (size, "1t"),
        (duration, "soon"),
        (duration, "999999999999999999h"),
        (moment_ms, "tomorrow"),
        (moment_ms, "0001-01-01"),
        (names, " , "),
        (numbers, ""),
        (numbers, "0,-1"),
        (numbers, "0;1"),
        (pattern, "("),
        (flag, "yes"),
    ],
)
def test_what_is_no_such_value_is_refused(kind: object, value: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        kind.read(value)  # type: ignore[attr-defined]
