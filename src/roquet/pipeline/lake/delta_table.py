"""A lake as a Delta table: each entry of its log is one transaction, by its number.

The log of the lake is authoritative: an entry that a crash kept out of the table is added when the
lake is opened next. The table records which entry it has, so none is added twice. Files that were
compacted stay for readers of older versions, until the table is vacuumed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.ddl import read_ddl
from roquet.pipeline.lake.entries import LakeEntry, LakeFile
from roquet.pipeline.lake.files import PARTITIONING, directory_of, partition_values
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.staging import lake_columns
from roquet.protocol.record_columns import record_schema

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PARTITION_TYPES: Final = (pa.string(), pa.date32(), pa.int32())


def check_delta() -> None:
    """Raises BadLake if the library is missing."""
    if find_spec("deltalake") is None:
        raise BadLake("Delta tables need a library: pip install roquet[delta]")


@final
class DeltaMirror:
    """The table in the directory of a lake. Raises BadLake where the library is missing."""

    def __init__(self, lake: Path, settings: LakeSettings) -> None:
        check_delta()
        self._lake = lake
        self._settings = settings

    def make(self) -> None:
        """Create it if it does not exist. Raises BadLake."""
        with self._errors_translated():
            self._table()

    def has(self, entry: LakeEntry) -> bool:
        """Raises BadLake."""
        with self._errors_translated():
            version = self._table().transaction_version(self._settings.id)
        return version is not None and version >= entry.number

    def commit(self, entry: LakeEntry) -> None:
        """Returns when readers of the table see the entry. Raises BadLake."""
        if not self.has(entry):
            with self._errors_translated():
                self._commit(entry)

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        try:
            yield
        except DeltaError as error:
            raise BadLake(f"Delta table in {self._lake}: {error}") from None

    def _commit(self, entry: LakeEntry) -> None:
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415

        table = self._table_with(entry.json_schema)
        actions = list(_actions(entry))
        if actions:
            transaction = Transaction(self._settings.id, entry.number, entry.published_ms)
            table.create_write_transaction(
                actions,
                "append",
                table.schema(),
                list(PARTITIONING),
                commit_properties=CommitProperties(app_transactions=[transaction]),
            )

    def _table(self) -> "DeltaTable":
        from deltalake import DeltaTable  # noqa: PLC0415

        if not DeltaTable.is_deltatable(str(self._lake)):
            columns = record_schema(
                lake_columns(self._settings.properties), self._settings.properties
            )
            partitions = zip(PARTITIONING, _PARTITION_TYPES, strict=True)
            schema = pa.schema([*columns, *(pa.field(*each) for each in partitions)])
            return DeltaTable.create(str(self._lake), schema, partition_by=list(PARTITIONING))
        return DeltaTable(str(self._lake))

    def _table_with(self, json_schema: str | None) -> "DeltaTable":
        """The table, with all columns of decoded bodies."""
        from deltalake import Field  # noqa: PLC0415

        table = self._table()
        there = {field.name for field in table.schema().fields}
        missing = [
            Field.from_arrow(field)
            for field in (read_ddl(json_schema) if json_schema else ())
            if field.name not in there
        ]
        if missing:
            table.alter.add_columns(missing)
            return self._table()
        return table


def _actions(entry: LakeEntry) -> Iterator[Any]:
    from deltalake.transaction import RemoveAction  # noqa: PLC0415

    for piece in entry.added:
        if piece.file is not None:
            yield _added(piece.file, entry, is_new=True)
    for compaction in entry.compacted:
        yield _added(compaction.file, entry, is_new=False)
        values = _values(compaction.file.path)
        for path in compaction.removed:
            yield RemoveAction(path, False, entry.published_ms, None, values)


def _added(file: LakeFile, entry: LakeEntry, *, is_new: bool) -> Any:
    from deltalake.transaction import AddAction  # noqa: PLC0415

    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values=_values(file.path),
        modification_time=entry.published_ms,
        # Streaming readers of the table skip messages that are only moved.
        data_change=is_new,
        stats=msgspec.json.encode({"numRecords": file.rows}).decode(),
    )


def _values(path: str) -> dict[str, str | None]:
    values = partition_values(directory_of(path))
    return {**values, "hour": str(int(values["hour"]))}
