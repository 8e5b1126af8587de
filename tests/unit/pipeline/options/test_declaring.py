"""Options are read, or refused by name."""

import pickle
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from roquet.pipeline.errors import BadOption, UnknownOption
from roquet.pipeline.options.cluster import ClusterOptions
from roquet.pipeline.options.declaring import (
    COUNT,
    DURATION,
    NAMES,
    NUMBERS,
    PATTERN,
    SIZE,
    declared_options,
    group,
    option,
    option_table,
    read_options,
)
from roquet.pipeline.options.reading import ReadOptions, StoreOptions
from roquet.pipeline.options.writing import WriteOptions
from roquet.settings.options import STRICT_BOOLEAN, TEXT, TIME_MS, ConfigError, Option, OptionKind
from tests.support.raising import raises

MANUAL = Path(__file__).parents[4] / "docs" / "spark.md"


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: str = option("name", TEXT, "what it is called")


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner = group(Inner)
    row_count: int | None = option("rowCount", COUNT, "how many", None)
    is_loud: bool = option("loud", STRICT_BOOLEAN, "whether it shouts", default=False)


def test_names_are_compared_without_regard_to_case() -> None:
    assert read_options(Outer, {"NAME": "x", "rowcount": "3"}) == Outer(
        inner=Inner(name="x"), row_count=3
    )


def test_an_unknown_option_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownOption, match=r"'rowCounts': .*did you mean 'rowCount'"):
        read_options(Outer, {"name": "x", "rowCounts": "3"})


def test_what_spark_itself_adds_is_no_unknown_option() -> None:
    read_options(Outer, {"name": "x", "checkpointLocation": "somewhere"})


def test_an_option_that_is_needed_says_what_it_is_for() -> None:
    with raises(BadOption, name="name"):
        read_options(Outer, {})


@pytest.mark.parametrize("value", ["0", "-1", "x", "", "1.5", "9" * 30, "٣"])
def test_a_value_of_another_kind_is_refused_with_what_is_expected(value: str) -> None:
    with pytest.raises(BadOption, match=r"'rowCount': .* expected a whole number above 0"):
        read_options(Outer, {"name": "x", "rowCount": value})


def test_the_options_of_groups_are_listed_where_the_group_is() -> None:
    assert [each.name for each in declared_options(Outer)] == ["name", "rowCount", "loud"]


def test_a_refusal_survives_the_way_between_processes() -> None:
    error = UnknownOption("rowCounts", "rowCount")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_secrets_are_not_printed() -> None:
    given = {"nameServer": "a:1", "accessKey": "me", "secretKey": "mine", "securityToken": "lent"}
    reported = repr(read_options(ClusterOptions, given))
    assert "'me'" in reported
    assert "mine" not in reported
    assert "lent" not in reported


@pytest.mark.parametrize("kind", [ReadOptions, StoreOptions, WriteOptions])
def test_the_manual_has_the_table_as_it_is_declared(kind: type[Any]) -> None:
    assert option_table(kind) in MANUAL.read_text()


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
        ("7d", timedelta(days=7)),
        ("1 day", timedelta(days=1)),
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
