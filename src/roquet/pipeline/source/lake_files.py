"""The messages of a lake that is a table, as rows for Spark: no jars of Delta or S3 are needed.

Files are those that the table lists when a query is planned. Each task reads some of them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from roquet.pipeline.data_sources import message_schema
from roquet.pipeline.lake.files import in_hours, topic_of
from roquet.pipeline.lake.opening import existing_settings, files_of_table
from roquet.pipeline.lake.places import LakePlace, options_file_of, read_place, text_of
from roquet.pipeline.lake.staging import TableStaging
from roquet.pipeline.planning import core_count
from roquet.protocol.record_columns import COLUMN_NAMES, PropertiesForm, record_schema

SOURCE_NAME: Final = "roquet-lake-files"
_ROWS_AT_ONCE: Final = 16_384
_TASKS_PER_CORE: Final = 2


@final
class LakeFilesRequest(msgspec.Struct, frozen=True):
    """What is read: of the lake itself or of its quarantine, as far as the names of files show."""

    lake: str
    options_file: str | None
    topics: list[str]
    is_quarantine: bool = False
    start_ms: int | None = None
    end_ms: int | None = None

    @property
    def place(self) -> LakePlace:
        return read_place(self.lake, Path(self.options_file) if self.options_file else None)

    def as_options(self) -> dict[str, str]:
        return {"request": msgspec.json.encode(self).decode()}


def request_of(place: LakePlace, topics: Sequence[str], **limits: Any) -> LakeFilesRequest:
    file = options_file_of(place)
    return LakeFilesRequest(
        text_of(place), str(file.absolute()) if file else None, list(topics), **limits
    )


@final
class LakeFilesSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> StructType:
        return message_schema(existing_settings(self._request.place).properties)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return LakeFilesReader(self._request, existing_settings(self._request.place).properties)

    @property
    def _request(self) -> LakeFilesRequest:
        return msgspec.json.decode(self.options["request"], type=LakeFilesRequest)


@final
class FilesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(None)
        self.paths = tuple(paths)


@final
class LakeFilesReader(DataSourceReader):
    def __init__(self, request: LakeFilesRequest, properties: PropertiesForm) -> None:
        self._request = request
        self._properties = properties

    def partitions(self) -> Sequence[InputPartition]:
        request = self._request
        listed = files_of_table(request.place, is_quarantine=request.is_quarantine)
        paths = sorted(file.path for file in listed if topic_of(file.path) in request.topics)
        wanted = in_hours(paths, request.start_ms, request.end_ms)
        count = min(len(wanted), _TASKS_PER_CORE * core_count()) or 1
        return [FilesPartition(wanted[start::count]) for start in range(count)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, FilesPartition)
        staging = TableStaging(self._request.place)
        files = staging.quarantine() if self._request.is_quarantine else staging
        names = [
            name
            for name in COLUMN_NAMES
            if name != "properties" or self._properties is not PropertiesForm.NONE
        ]
        schema = record_schema(names, self._properties)
        for path in partition.paths:
            with files.read(path) as source:
                for batch in source.iter_batches(_ROWS_AT_ONCE):
                    yield with_topic(batch, topic_of(path), schema)


def with_topic(batch: pa.RecordBatch, topic: str, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of the schema; files of a table do not have the topic, their directories do."""
    columns = [
        pa.array([topic] * batch.num_rows, field.type)
        if field.name == "topic"
        else batch.column(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
