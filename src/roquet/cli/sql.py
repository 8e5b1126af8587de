"""`roquet sql`: one SQL statement over topics, a store directory or a lake, without Java."""

import csv
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from decimal import Decimal
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from roquet.cli.spark.arguments import (
    broker_options,
    define_brokers,
    define_storage,
    moment,
    options_of,
    place_of,
    place_text,
)
from roquet.cli.spark.running import failures_reported
from roquet.reporting import FINISHED, MISUSED, Reporter

if TYPE_CHECKING:
    from roquet.pipeline.sql.query import QueryResult
    from roquet.pipeline.sql.tables import Tables

# A table is laid out when its last row is known.
_TABLE_ROWS_MAX: Final = 1000
_encode = msgspec.json.Encoder(enc_hook=str).encode


def define(parser: ArgumentParser) -> None:
    parser.add_argument(
        "statement",
        metavar="SQL",
        help="A statement of DuckDB, whose tables are topics:"
        ' "select tags, count(*) from orders group by all".',
    )
    define_brokers(parser)
    places = parser.add_mutually_exclusive_group()
    places.add_argument(
        "--store", type=Path, metavar="DIR", help="Read this store directory instead of brokers."
    )
    places.add_argument(
        "--lake",
        type=place_text,
        metavar="DIR|URI",
        help="Read this lake instead of brokers: a directory or s3://bucket/prefix.",
    )
    define_storage(parser)
    parser.add_argument(
        "--start",
        type=moment,
        metavar="TIME",
        help="Only messages stored from 2026-11-15T20:16 (local time unless it has a zone) on.",
    )
    parser.add_argument("--end", type=moment, metavar="TIME", help="Only messages stored before.")
    parser.add_argument(
        "--format",
        choices=tuple(_PRINTERS),
        default="table",
        help=f"table (default; up to {_TABLE_ROWS_MAX} rows), csv, or json: an object per line.",
    )
    parser.set_defaults(run=_run)


def _run(given: Namespace) -> int:
    reporter = Reporter("roquet sql", as_json=False)
    if not all(map(find_spec, ("duckdb", "numpy", "pyarrow"))):
        reporter.fail("DuckDB is not installed: pip install roquet[sql]")
    if given.lake is not None and (given.start or given.end):
        reporter.fail("--start and --end are not for a lake: use WHERE storeTimestamp", MISUSED)
    from roquet.pipeline.connections import close_readers  # noqa: PLC0415
    from roquet.pipeline.sql.query import run_sql  # noqa: PLC0415

    try:
        with (
            failures_reported(reporter, given),
            reporter.late_progress("messages") as progress,
            run_sql(given.statement, _tables(given), progress.advance) as result,
        ):
            _PRINTERS[given.format](reporter, result)
    finally:
        close_readers()
    return FINISHED


def _tables(given: Namespace) -> "Tables":
    # Only what the query needs is loaded, which can take longer than the query.
    lake = place_of(given)
    if lake is not None:
        from roquet.pipeline.sql.lakes import LakeTables  # noqa: PLC0415

        return LakeTables(lake)
    times = options_of(startingTimestamp=given.start, endingTimestamp=given.end)
    if given.store is not None:
        from roquet.pipeline.sql.stores import StoreTables  # noqa: PLC0415

        return StoreTables(options_of(path=given.store) | times)
    from roquet.pipeline.sql.topics import TopicTables  # noqa: PLC0415

    return TopicTables(broker_options(given) | times)


def _print_table(reporter: Reporter, result: "QueryResult") -> None:
    rows = list(islice(result.rows, _TABLE_ROWS_MAX))
    more = next(result.rows, None)
    shown = [["NULL" if each is None else _text(each) for each in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(result.columns, *shown, strict=True)]
    numeric = [all(_is_number(row[at]) for row in rows) for at in range(len(widths))]
    for line in (result.columns, ["-" * width for width in widths], *shown):
        cells = (
            each.rjust(width) if is_number else each.ljust(width)
            for each, width, is_number in zip(line, widths, numeric, strict=True)
        )
        print("  ".join(cells).rstrip())
    if more is not None:
        reporter.say(f"the first {len(rows)} rows; --format csv or json prints all")


def _print_csv(_reporter: Reporter, result: "QueryResult") -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow("" if each is None else _text(each) for each in row)


def _print_json(_reporter: Reporter, result: "QueryResult") -> None:
    for row in result.rows:
        values = dict(zip(result.columns, map(_readable, row), strict=True))
        sys.stdout.write(_encode(values).decode() + "\n")


_PRINTERS: Final[dict[str, Callable[[Reporter, "QueryResult"], None]]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
}


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, int | float | Decimal)


def _text(value: Any) -> str:
    value = _readable(value)
    if isinstance(value, dict | list):
        return _encode(value).decode()
    return str(value)


def _readable(value: Any) -> Any:
    """Bodies as text, as far as they are; values of maps and lists, too."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        return {str(key): _readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(each) for each in value]
    return value
