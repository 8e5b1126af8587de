"""Tables of messages for SQL: one for each topic of a cluster, of a store directory or of a lake.

A table of messages is read while a query runs, as often as the query scans it, and only the columns
that the query uses are decoded. The files of a lake are left to the engine, which reads Parquet.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, final

import pyarrow as pa

from roquet.pipeline.connections import retried, topic_reader
from roquet.pipeline.lake.files import topic_of
from roquet.pipeline.lake.lake import no_lake
from roquet.pipeline.lake.metadata import PublishLog, read_settings
from roquet.pipeline.lake.staging import lake_columns
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions, StoreOptions
from roquet.pipeline.source.positions import batch_ranges
from roquet.pipeline.source.rows import pull_group, read_ranges
from roquet.pipeline.store_source.rows import read_split
from roquet.pipeline.store_source.splits import splits_of, store_directory, user_topics
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm, record_schema
from roquet.store.offline.reader import StoreReader

_SCHEMA: Final = record_schema(COLUMN_NAMES, PropertiesForm.MAP)
# Decoded if a query needs rows and none of their values.
_CHEAP_COLUMN: Final = "queueOffset"

Scan = Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


@final
class MessageTable:
    """A table that an engine scans through Arrow's stream interface.

    `columns` are decoded, the others are null. The engine reports an error of a scan as its own, so
    it is kept in `failure`.
    """

    def __init__(self, scan: Scan, on_rows: Callable[[int], None] = lambda _: None) -> None:
        self._scan = scan
        self._on_rows = on_rows
        self.columns: Collection[str] = COLUMN_NAMES
        self.failure: BaseException | None = None

    def __arrow_c_schema__(self) -> object:
        return _SCHEMA.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        reader = pa.RecordBatchReader.from_batches(_SCHEMA, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        wanted = [name for name in COLUMN_NAMES if name in self.columns] or [_CHEAP_COLUMN]
        try:
            for batch in self._scan(wanted):
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

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable | LakeFiles:
        """`on_rows` is called with numbers of rows that were read."""


@final
class TopicTables:
    """`options` are those of format `rocketmq`, without a topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def names(self) -> list[str]:
        reading = read_options(ReadOptions, {**self._options, "topicPattern": ".*"})
        reader = topic_reader(reading.cluster, pull_group(reading))
        return retried(reader.topics, reading.cluster.retry_timeout)

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        reading = read_options(ReadOptions, {**self._options, "topic": name})
        reader = topic_reader(reading.cluster, pull_group(reading))
        # The end is that of the first scan, so that all scans of a query have the same rows.
        ranges = batch_ranges(reader, reading)
        return MessageTable(lambda columns: read_ranges(reading, columns, ranges), on_rows)


@final
class StoreTables:
    """`options` are those of format `rocketmq-store`, without a topic."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def names(self) -> list[str]:
        everything = read_options(StoreOptions, {**self._options, "topicPattern": ".*"})
        with StoreReader.open(store_directory(everything)) as reader:
            return user_topics(reader)

    def table(self, name: str, on_rows: Callable[[int], None]) -> MessageTable:
        options = read_options(StoreOptions, {**self._options, "topic": name})
        splits = splits_of(options)
        return MessageTable(
            lambda columns: (
                batch for split in splits for batch in read_split(options, columns, split)
            ),
            on_rows,
        )


@final
class LakeTables:
    def __init__(self, lake: Path) -> None:
        """Raises BadLake."""
        settings = read_settings(lake)
        if settings is None:
            raise no_lake(lake)
        self._lake = lake.absolute()
        self._schema = record_schema(lake_columns(settings.properties), settings.properties)

    def names(self) -> list[str]:
        return sorted({queue.topic for queue in self._state().queue_ends()})

    def table(self, name: str, on_rows: Callable[[int], None]) -> LakeFiles:  # noqa: ARG002
        paths = [path for path in self._state().files if topic_of(path) == name]
        return LakeFiles(paths=[str(self._lake / path) for path in paths], schema=self._schema)

    def _state(self) -> LakeState:
        return PublishLog(self._lake).refresh()
