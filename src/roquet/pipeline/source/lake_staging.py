"""The stream of `ingest`: its tasks stage files, and its rows list them.

Offsets, limits and groups are those of format `rocketmq`. Only what the lake lacks is read, so a
batch that is repeated, with whatever plan, stages only what was not published.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import DataLoss
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.files import MissingRange, balanced, split_into_files
from roquet.pipeline.lake.iceberg_catalog import CatalogKind, catalog_of
from roquet.pipeline.lake.iceberg_offsets import IcebergOffsets
from roquet.pipeline.lake.metadata import LakeFormat, PublishLog
from roquet.pipeline.lake.opening import existing_settings, open_table
from roquet.pipeline.lake.places import LakePlace, read_place
from roquet.pipeline.lake.schemas.body_schema import read_body_schema
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from roquet.pipeline.lake.staging import (
    PosixStaging,
    StagedWriter,
    Staging,
    TableStaging,
    lake_columns,
)
from roquet.pipeline.lake.state import Missing
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import StagingOptions
from roquet.pipeline.planning import QueueRange, core_count, task_count
from roquet.pipeline.queue_offsets import StreamOffset, queue_key, ranges_between
from roquet.pipeline.source.rows import read_ranges
from roquet.pipeline.source.stream import StreamReader

log = logging.getLogger(__name__)

MissingFinder = Callable[[Iterable[QueueRange], Mapping[QueueRef, QueueIncarnation]], Missing]
SOURCE_NAME: Final = "roquet-lake-staging"
# A row is a staged piece as JSON, for the publisher alone.
_COLUMN: Final = "staged"


@final
class StagingSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> StructType:
        return StructType([StructField(_COLUMN, StringType())])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        return StagingReader(read_options(StagingOptions, dict(self.options)))


@final
class StagingPartition(InputPartition):
    """What one task stages."""

    def __init__(self, file_ranges: Sequence[MissingRange]) -> None:
        super().__init__(None)
        self.file_ranges = tuple(file_ranges)


@final
class StagingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: StagingOptions) -> None:
        self._options = options
        self._source = StreamReader(options.reading, lake_columns(options.reading.properties))
        file = options.storage_options
        self._lake: LakePlace = read_place(options.lake, Path(file) if file else None)
        # Not sent to tasks, which only `read`: a table is open.
        self._missing: MissingFinder | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_missing": None}

    # As for any stream of format `rocketmq`.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names.
        return self._source.initialOffset()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._source.prepareForTriggerAvailableNow()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return self._source.getDefaultReadLimit()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._source.latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._source.reportLatestOffset()

    def commit(self, end: dict[str, Any]) -> None:
        self._source.commit(end)

    # For the lake.

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        finish = StreamOffset.from_json(end)
        ranges = ranges_between(StreamOffset.from_json(start), finish)
        if self._missing is None:
            self._missing = missing_finder(self._lake)
        missing = self._missing(ranges, incarnations_in(finish))
        self._check_recreated(missing.recreated)
        file_ranges = list(split_into_files(missing.wanted, self._options.file_rows_max))
        tasks = task_count(
            sum(file_range.range.row_count for file_range in file_ranges),
            least=self._options.reading.min_partitions,
            most=self._options.reading.max_records_per_partition,
            cores=core_count(),
        )
        return [StagingPartition(share) for share in balanced(file_ranges, tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, StagingPartition)
        reading = self._options.reading
        schema = self._options.body_schema
        decoder = decoder_of(read_body_schema(schema)) if schema else None
        writer = StagedWriter(self._staging(), decoder)
        columns = lake_columns(reading.properties)
        for file_range in partition.file_ranges:
            batches = read_ranges(reading, columns, [file_range.range])
            for piece in writer.write(file_range, batches):
                row = msgspec.json.encode(piece).decode()
                yield pa.RecordBatch.from_pydict({_COLUMN: pa.array([row], pa.string())})

    def _staging(self) -> Staging:
        if isinstance(self._lake, Path) and self._options.run:
            return PosixStaging(self._lake, self._options.run)
        return TableStaging(self._lake)

    def _check_recreated(self, queues: Sequence[QueueRef]) -> None:
        losses = [
            f"{queue_key(queue)} was deleted and created again since the last ingest"
            for queue in queues
        ]
        if losses and self._options.reading.fail_on_data_loss:
            raise DataLoss(losses)
        for loss in losses:
            log.warning("the lake has messages of both incarnations: %s", loss)


def missing_finder(lake: LakePlace) -> MissingFinder:
    """What a lake lacks whenever it is asked, as long as it exists. Raises BadLake."""
    catalog = catalog_of(lake)
    if catalog is not None and catalog.kind is CatalogKind.SQLITE:
        return IcebergOffsets(lake, catalog.absolute(lake)).missing
    settings = existing_settings(lake)
    if settings.format is not LakeFormat.PARQUET:
        return open_table(lake, settings).missing
    assert isinstance(lake, Path)
    log = PublishLog(lake)
    return lambda ranges, incarnations: log.refresh().missing(ranges, incarnations)


def incarnations_in(offset: StreamOffset) -> Mapping[QueueRef, QueueIncarnation]:
    return {
        queue: QueueIncarnation(offset.first_offsets.get(queue), offset.born_ms.get(queue))
        for queue in offset.positions
    }
