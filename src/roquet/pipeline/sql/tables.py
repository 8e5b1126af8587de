"""Tables of messages for SQL: one for each topic of a cluster, of a store directory or of a lake.

A table of messages is read while a query runs, as often as the query scans it, and only the columns
that the query uses are decoded. The files of a lake are left to the engine, which reads Parquet.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final, Protocol, final

import pyarrow as pa
import pyarrow.dataset as ds

from roquet.pipeline.connections import retried, topic_reader
from roquet.pipeline.lake.files import directory_of, partition_values, topic_of
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import existing_settings, files_of_table, state_of_lake
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.schemas.body_schema import columns_in
from roquet.pipeline.lake.staging import lake_columns
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
_PARTITIONS: Final = (
    pa.field("topic", pa.string()),
    pa.field("dt", pa.date32()),
    pa.field("hour", pa.int32()),
)

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

    def table(
        self, name: str, on_rows: Callable[[int], None]
    ) -> MessageTable | LakeFiles | ds.Dataset:
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
    def __init__(self, lake: LakePlace) -> None:
        """Raises BadLake."""
        self._settings = existing_settings(lake)
        self._lake = lake.absolute()
        properties = self._settings.properties
        self._schema = record_schema(lake_columns(properties), properties)

    def names(self) -> list[str]:
        return sorted({queue.topic for queue in state_of_lake(self._lake).queue_ends()})

    def table(
        self,
        name: str,
        on_rows: Callable[[int], None],  # noqa: ARG002
    ) -> LakeFiles | ds.Dataset:
        if self._settings.format is not LakeFormat.PARQUET:
            return self._dataset(name)
        assert isinstance(self._lake, Path)
        paths = [path for path in state_of_lake(self._lake).files if topic_of(path) == name]
        return LakeFiles(paths=[str(self._lake / path) for path in paths], schema=self._schema)

    def _dataset(self, topic: str) -> ds.Dataset:
        """The engine reads it through Arrow, which reaches object stores by itself."""
        storage = Storage(self._lake)
        paths = [each.path for each in files_of_table(self._lake) if topic_of(each.path) == topic]
        body_schema = state_of_lake(self._lake).body_schema
        return ds.FileSystemDataset.from_paths(
            [storage.path(path) for path in paths],
            schema=pa.schema([*self._schema, *columns_in(body_schema), *_PARTITIONS]),
            format=ds.ParquetFileFormat(),
            filesystem=storage.filesystem,
            partitions=[_partition(path) for path in paths],
        )


def _partition(path: str) -> ds.Expression:
    """What the directory of a file tells about its rows."""
    values = partition_values(directory_of(path))
    is_day = ds.field("dt") == pa.scalar(date.fromisoformat(values["dt"]))
    is_hour = ds.field("hour") == pa.scalar(int(values["hour"]), pa.int32())
    return (ds.field("topic") == values["topic"]) & is_day & is_hour
