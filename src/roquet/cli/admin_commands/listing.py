"""Selecting and sorting the rows of a list."""

from argparse import ArgumentParser
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from roquet.reporting import Fact, ReportTable


def define_filter(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--filter",
        metavar="TEXT",
        help="Only names that contain the text, or match it if it has * or ?.",
    )


def define_listing(parser: ArgumentParser, columns: Sequence[str]) -> None:
    define_filter(parser)
    parser.add_argument(
        "--sort",
        choices=columns,
        metavar="COLUMN",
        help="Numbers and times from the largest, texts from A. One of: " + ", ".join(columns),
    )


def selected(names: Iterable[str], pattern: str | None) -> list[str]:
    return [name for name in names if pattern is None or is_match(name, pattern)]


def is_match(name: str, pattern: str) -> bool:
    """Whatever the case of letters."""
    name, pattern = name.lower(), pattern.lower()
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(name, pattern)
    return pattern in name


def sorted_by(table: ReportTable, column: str | None) -> ReportTable:
    return table if column is None else in_order(table, list(table.columns).index(column))


def in_order(table: ReportTable, column: int, *, is_reversed: bool = False) -> ReportTable:
    """By text from the first, by number from the largest: that is what is looked for."""
    known = [row for row in table.rows if row[column] is not None]
    unknown = [row for row in table.rows if row[column] is None]
    is_down = _is_number(known, column) != is_reversed
    ordered = sorted(known, key=lambda row: _comparable(row[column]), reverse=is_down)
    return table._replace(rows=[*ordered, *unknown])


def _is_number(rows: Sequence[Sequence[Fact]], column: int) -> bool:
    return bool(rows) and not isinstance(rows[0][column], str)


def _comparable(value: Fact) -> Any:
    """The values of a column are of one kind."""
    return value.lower() if isinstance(value, str) else value
