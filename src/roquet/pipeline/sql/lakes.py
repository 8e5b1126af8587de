"""The topics of a lake as tables: their files, as its log lists them now."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final, final

import pyarrow as pa
import pyarrow.dataset as ds

from roquet.pipeline.lake.files import directory_of, partition_values, topic_of
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import existing_settings, files_of_table, state_of_lake
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.schemas.body_schema import columns_in
from roquet.pipeline.lake.staging import lake_columns
from roquet.pipeline.sql.tables import LakeFiles
from roquet.protocol.record_columns import record_schema

_PARTITIONS: Final = (
    pa.field("topic", pa.string()),
    pa.field("dt", pa.date32()),
    pa.field("hour", pa.int32()),
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
    """What the directory of a file has in common with its rows."""
    values = partition_values(directory_of(path))
    is_day = ds.field("dt") == pa.scalar(date.fromisoformat(values["dt"]))
    is_hour = ds.field("hour") == pa.scalar(int(values["hour"]), pa.int32())
    return (ds.field("topic") == values["topic"]) & is_day & is_hour
