"""Runs one SQL statement over tables of messages, by DuckDB.

Tables are found by their names in the statement: DuckDB names the first one that it does not know,
which is registered, and runs again. Its plan then shows what has to be read and decoded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

import duckdb
import msgspec

from roquet.pipeline.errors import BadQuery
from roquet.pipeline.limits import limits_of
from roquet.pipeline.sql.plans import conditions_of_scan, projected
from roquet.pipeline.sql.tables import LakeFiles, MessageTable, Tables

_UNKNOWN_TABLE: Final = re.compile(r'Table with name "?(?P<name>.+?)"? does not exist')
# Without these, a condition is part of the scan, and its columns are not in the plan.
_HIDING_COLUMNS: Final = "filter_pushdown,statistics_propagation,empty_result_pullup"
# A statement that has not started yet takes no interrupt.
_INTERRUPT_EVERY_S: Final = 0.1
_TOPICS_SHOWN: Final = 20
# What a query holds in memory beyond that is written to temporary files.
_MEMORY: Final = "1GB"
_SETTINGS: Final[Mapping[str, str | bool]] = {
    "memory_limit": _MEMORY,
    # Nothing is fetched from the network.
    "autoinstall_known_extensions": False,
}
_ROWS_AT_ONCE: Final = 1024
# The names of directories have values; later files may have more columns.
_HIVE: Final = (
    "hive_partitioning = true, union_by_name = true,"
    " hive_types = {'topic': VARCHAR, 'dt': DATE, 'hour': INTEGER}"
)

T = TypeVar("T")


class QueryResult(NamedTuple):
    """`rows` are fetched as they are taken."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def run_sql(
    statement: str, tables: Tables, on_rows: Callable[[int], None] = lambda _: None
) -> Iterator[QueryResult]:
    """The result of a statement. Its rows are there as long as the context is open.

    `on_rows` is called with numbers of messages that were read. Raises BadQuery, and what the
    tables raise.
    """
    with (
        ThreadPoolExecutor(1) as caller,
        duckdb.connect(config=dict(_SETTINGS)) as connection,
    ):
        used: dict[str, MessageTable] = {}
        with _failures_translated(used):
            _register(connection, statement, tables, used, on_rows)
            _narrow_scans(connection, statement, used)
            _interruptible(caller, connection, lambda: connection.execute(statement))
        description = connection.description or []
        yield QueryResult([each[0] for each in description], _rows(caller, connection, used))


def _rows(
    caller: ThreadPoolExecutor,
    connection: duckdb.DuckDBPyConnection,
    used: Mapping[str, MessageTable],
) -> Iterator[tuple[Any, ...]]:
    def fetch() -> list[tuple[Any, ...]]:
        return connection.fetchmany(_ROWS_AT_ONCE)

    with _failures_translated(used):
        while rows := _interruptible(caller, connection, fetch):
            yield from rows


def _interruptible(
    caller: ThreadPoolExecutor, connection: duckdb.DuckDBPyConnection, call: Callable[[], T]
) -> T:
    """What `call` returns, which `caller` makes, so that Ctrl-C reaches this thread meanwhile.

    DuckDB looks for signals between tasks of the thread that calls it. While another one computes,
    that thread waits and has none: for as long as the statement takes.
    """
    called = caller.submit(call)
    try:
        return called.result()
    except KeyboardInterrupt:
        while not called.done():
            connection.interrupt()
            wait((called,), _INTERRUPT_EVERY_S)
        raise


def _register(
    connection: duckdb.DuckDBPyConnection,
    statement: str,
    tables: Tables,
    used: dict[str, MessageTable],
    on_rows: Callable[[int], None],
) -> None:
    """Registers the tables that the statement names."""
    if len(connection.extract_statements(statement)) != 1:
        raise BadQuery("give exactly one SQL statement")
    known: set[str] = set()
    while True:
        try:
            connection.execute(f"EXPLAIN {statement}")
        except duckdb.CatalogException as error:
            found = _UNKNOWN_TABLE.search(str(error))
            if found is None or found["name"] in known:
                raise
            name = found["name"]
            known.add(name)
            table = tables.table(_topic(name, tables), on_rows)
            if isinstance(table, MessageTable):
                used[name] = table
                connection.register(name, table)
            elif isinstance(table, LakeFiles):
                _register_files(connection, name, table)
            else:
                connection.register(name, table)
        else:
            return


def _topic(name: str, tables: Tables) -> str:
    """The topic of that name, or the only one that differs in case. Raises BadQuery."""
    names = tables.names()
    if name in names:
        return name
    similar = [each for each in names if each.lower() == name.lower()]
    if len(similar) == 1:
        return similar[0]
    shown = ", ".join(sorted(names)[:_TOPICS_SHOWN]) or "none"
    left = len(names) - _TOPICS_SHOWN
    more = f" and {left} more" if left > 0 else ""
    raise BadQuery(f"no topic {name!r}; topics: {shown}{more}")


def _register_files(connection: duckdb.DuckDBPyConnection, name: str, files: LakeFiles) -> None:
    if not files.paths:
        connection.register(name, files.schema.empty_table())
        return
    paths = ", ".join(_quoted(path, "'") for path in files.paths)
    connection.execute(
        f"CREATE VIEW {_quoted(name, chr(34))} AS FROM read_parquet([{paths}], {_HIVE})"
    )


def _quoted(text: str, mark: str) -> str:
    """As a name or a text of SQL."""
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def _narrow_scans(
    connection: duckdb.DuckDBPyConnection, statement: str, used: Mapping[str, MessageTable]
) -> None:
    """Sets what has to be read and decoded, by a plan that leaves conditions above the scans."""
    if not used:
        return
    connection.execute(f"SET disabled_optimizers = '{_HIDING_COLUMNS}'")
    row = connection.execute(f"EXPLAIN (FORMAT json) {statement}").fetchone()
    connection.execute("RESET disabled_optimizers")
    assert row is not None
    plan = msgspec.json.decode(row[1])
    columns = projected(plan)
    limits = limits_of(conditions_of_scan(plan, _syntax(connection, statement)))
    for table in used.values():
        table.columns = columns
        table.limits = limits


def _syntax(connection: duckdb.DuckDBPyConnection, statement: str) -> Any:
    """The statement as it was parsed."""
    row = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchone()
    assert row is not None
    return msgspec.json.decode(row[0])


@contextmanager
def _failures_translated(used: Mapping[str, MessageTable]) -> Iterator[None]:
    """DuckDB wraps what a scan raised; that is raised as it was."""
    try:
        yield
    except duckdb.Error as error:
        for table in used.values():
            if table.failure is not None:
                raise table.failure from None
        raise BadQuery(" ".join(str(error).split())) from None
