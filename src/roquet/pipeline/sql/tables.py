"""Tables of messages for SQL: one for each topic of a cluster, of a store directory or of a lake.

A table of messages is read while a query runs, as often as the query scans it, and only the columns
that the query uses are decoded. The files of a lake are left to the engine, which reads Parquet.

Where messages come from is in `topics`, `stores` and `lakes`, each loaded by the queries that need
it: a query is often shorter than the time all three take to load.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, final

import pyarrow as pa

from roquet.pipeline.limits import NO_LIMITS, ReadLimits
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm, record_schema

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_SCHEMA: Final = record_schema(COLUMN_NAMES, PropertiesForm.MAP)
# Decoded if a query needs rows and none of their values.
_CHEAP_COLUMN: Final = "queueOffset"

# Batches of these columns, which may leave out messages beyond the limits.
Scan = Callable[[Sequence[str], ReadLimits], Iterator[pa.RecordBatch]]


@final
class MessageTable:
    """A table that an engine scans through Arrow's stream interface.

    `columns` are decoded, the others are null; messages beyond `limits` may be left out. The engine
    reports an error of a scan as its own, so it is kept in `failure`.
    """

    def __init__(self, scan: Scan, on_rows: Callable[[int], None] = lambda _: None) -> None:
        self._scan = scan
        self._on_rows = on_rows
        self.columns: Collection[str] = COLUMN_NAMES
        self.limits = NO_LIMITS
        self.failure: BaseException | None = None

    def __arrow_c_schema__(self) -> object:
        return _SCHEMA.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(_SCHEMA, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in COLUMN_NAMES if name in self.columns] or [_CHEAP_COLUMN]
        try:
            for batch in self._scan(wanted, self.limits):
                self._on_rows(batch.num_rows)
                yield _widened(batch)
        except (Exception, KeyboardInterrupt) as error:
            self.failure = error
            raise


def _widened(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With null in all columns that were not decoded."""
    there = set(batch.schema.names)
    columns = [
        batch.column(field.name) if field.name in there else pa.nulls(batch.num_rows, field.type)
        for field in _SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


@dataclass(frozen=True, kw_only=True)
class LakeFiles:
    """The Parquet files of a topic, as the log of the lake lists them now."""

    paths: Sequence[str]
    # Of a topic without messages.
    schema: pa.Schema


class Tables(Protocol):
    def names(self) -> list[str]:
        """The topics. Raises what the source raises."""

    def table(
        self, name: str, on_rows: Callable[[int], None]
    ) -> "MessageTable | LakeFiles | ds.Dataset":
        """`on_rows` is called with numbers of rows that were read."""
