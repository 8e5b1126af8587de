"""A lake as a Delta table: one transaction lists files, and the offsets that they have."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
import pyarrow as pa
from pyarrow import fs

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.delta_log import DeltaTransactions
from roquet.pipeline.lake.entries import Compaction, FileBounds, LakeFile, LakePiece
from roquet.pipeline.lake.files import directory_of, partition_values
from roquet.pipeline.lake.metadata import LakeSettings, decode_settings
from roquet.pipeline.lake.places import LakePlace, Storage, store_error
from roquet.pipeline.lake.schemas.body_schema import columns_in, new_columns
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.lake.table import CommitRefused, Rewrite, check_written
from roquet.pipeline.lake.table_offsets import changed_offsets, state_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

_PARTITION_TYPES: Final = {"topic": pa.string(), "dt": pa.date32(), "hour": pa.int32()}
_SETTINGS: Final = "roquet.settings"
_BODY_SCHEMA: Final = "roquet.jsonSchema"
# By the library, if others commit something that does not contradict.
_RETRIES_MAX: Final = 15
_US: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_delta() -> None:
    """Raises BadLake if the library is missing."""
    if find_spec("deltalake") is None:
        raise BadLake("Delta tables need a library: pip install roquet[delta]")


def read_delta_settings(place: LakePlace) -> LakeSettings | None:
    """None if there is no Delta table. Raises BadLake, also for a table of another program."""
    storage = Storage(place)
    if find_spec("deltalake") is None and not _has_log(storage):
        return None
    check_delta()
    from deltalake import DeltaTable  # noqa: PLC0415

    with delta_errors(storage):
        if not DeltaTable.is_deltatable(storage.url, storage.options):
            return None
        table = DeltaTable(storage.url, storage_options=storage.options)
        text = table.metadata().configuration.get(_SETTINGS)
    if text is None:
        raise BadLake(
            f"the Delta table {storage.url} was not created by 'roquet spark': give another place"
        )
    return decode_settings(storage.url, text.encode())


def _has_log(storage: Storage) -> bool:
    """As far as it shows without the library."""
    with storage.errors_translated():
        [found] = storage.filesystem.get_file_info([storage.path("_delta_log")])
    return bool(found.type is fs.FileType.Directory)


@contextmanager
def delta_errors(storage: Storage) -> Iterator[None]:
    """Raises CommitRefused and BadLake."""
    from deltalake.exceptions import CommitFailedError, DeltaError  # noqa: PLC0415

    try:
        with storage.errors_translated():
            yield
    except CommitFailedError as error:
        raise CommitRefused(f"{storage.url}: {error}") from None
    except DeltaError as error:
        raise store_error(storage.place, str(error)) from None


@final
class DeltaLakeTable:
    """The table, created when it is first needed; `columns` are those without partitions."""

    def __init__(self, place: LakePlace, settings: LakeSettings, columns: pa.Schema) -> None:
        check_delta()
        self.settings = settings
        self._columns = columns
        self._storage = Storage(place)
        self._found: DeltaTable | None = None
        self._transactions = DeltaTransactions(self._storage)

    def create(self) -> None:
        """Of two processes one wins; the other finds a table. Raises BadLake."""
        from deltalake import CommitProperties, DeltaTable  # noqa: PLC0415
        from deltalake.exceptions import DeltaError  # noqa: PLC0415

        partitions = [pa.field(name, _PARTITION_TYPES[name]) for name in self._partitions]
        schema = pa.schema([*self._columns, *partitions])
        with delta_errors(self._storage):
            try:
                DeltaTable.create(
                    self._storage.url,
                    schema,
                    partition_by=self._partitions,
                    configuration={_SETTINGS: msgspec.json.encode(self.settings).decode()},
                    storage_options=self._storage.options,
                    raise_if_key_not_exists=False,
                    # Repeated, it would replace the settings of the table that won.
                    commit_properties=CommitProperties(max_commit_retries=0),
                )
            except DeltaError:
                if not self._exists():
                    raise

    def refresh(self) -> LakeState:
        with delta_errors(self._storage):
            if self._found is not None:
                self._found.update_incremental()
            elif not self._open():
                return LakeState()
            table = self._table
            try:
                self._transactions.read_to(table.version())
            except FileNotFoundError:
                # The log was cleaned up meanwhile: from its checkpoint on it is complete.
                self._transactions = DeltaTransactions(self._storage)
                self._transactions.read_to(table.version())
        return state_of(self._transactions.versions, table.version(), self.body_schema())

    def commit(self, pieces: Sequence[LakePiece], body_schema: str | None) -> int:
        if self._found is None:
            self.create()
            self.refresh()
        with delta_errors(self._storage):
            if self._add_columns(body_schema):
                raise CommitRefused(f"{self._storage.url}: the table has new columns")
            changed = changed_offsets(self._transactions.versions, pieces)
            files = [file for piece in pieces if (file := piece.file) is not None]
            check_written(self._storage, files)
            self._write([self._added(each, is_new=True) for each in files], changed)
        return int(self._table.version()) + 1

    def replace(self, compactions: Sequence[Compaction]) -> int:
        from deltalake.transaction import RemoveAction  # noqa: PLC0415

        actions: list[Any] = []
        for each in compactions:
            actions.append(self._added(each.file, is_new=False))
            values = self._values(each.file.path)
            actions += [RemoveAction(path, False, _now_ms(), None, values) for path in each.removed]
        with delta_errors(self._storage):
            # Repeated by the library, it would not notice that another process compacted the same
            # files meanwhile, and the table would have their messages twice.
            self._write(actions, {}, retries_max=0)
        return int(self._table.version()) + 1

    def rewrite(self, rewrite: Rewrite) -> int:
        from deltalake.transaction import RemoveAction  # noqa: PLC0415

        if self._found is None:
            self.create()
            self.refresh()
        with delta_errors(self._storage):
            if self._add_columns(rewrite.body_schema):
                raise CommitRefused(f"{self._storage.url}: the table has new columns")
            check_written(self._storage, rewrite.added)
            actions: list[Any] = [self._added(each, is_new=True) for each in rewrite.added]
            actions += [
                RemoveAction(path, True, _now_ms(), None, self._values(path))
                for path in rewrite.removed
            ]
            changed = changed_offsets(self._transactions.versions, rewrite.covered)
            self._write(actions, {**changed, **rewrite.marks}, retries_max=0)
        return int(self._table.version()) + 1

    def files(self) -> list[LakeFile]:
        if self._found is None:
            return []
        with delta_errors(self._storage):
            found = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return [
            LakeFile(
                each["path"], each["path"], each["num_records"], each["size_bytes"], _bounds(each)
            )
            for each in found
        ]

    def offsets(self) -> Mapping[str, int]:
        return self._transactions.versions

    def body_schema(self) -> str | None:
        return self._configuration().get(_BODY_SCHEMA)

    def expire(self, age: timedelta) -> int:
        return self._vacuum(age, is_full=False)

    def remove_orphans(self, age: timedelta) -> int:
        return self._vacuum(age, is_full=True)

    def _vacuum(self, age: timedelta, *, is_full: bool) -> int:
        if self._found is None:
            return 0
        with delta_errors(self._storage):
            self._table.update_incremental()
            vacuum = partial(
                self._table.vacuum,
                age // timedelta(hours=1),
                enforce_retention_duration=False,
                full=is_full,
            )
            # Those that were removed before are among them for as long as the log has them.
            count: int = sum(
                info.is_file
                for info in self._storage.filesystem.get_file_info(
                    [self._storage.path(path) for path in vacuum(dry_run=True)]
                )
            )
            vacuum(dry_run=False)
        return count

    @property
    def _partitions(self) -> list[str]:
        return list(self.settings.partitioning)

    @property
    def _table(self) -> "DeltaTable":
        assert self._found is not None
        return self._found

    def _exists(self) -> bool:
        from deltalake import DeltaTable  # noqa: PLC0415

        return DeltaTable.is_deltatable(self._storage.url, self._storage.options)

    def _open(self) -> bool:
        from deltalake import DeltaTable  # noqa: PLC0415

        if self._exists():
            self._found = DeltaTable(self._storage.url, storage_options=self._storage.options)
        return self._found is not None

    def _configuration(self) -> Mapping[str, str]:
        return {} if self._found is None else self._found.metadata().configuration

    def _add_columns(self, body_schema: str | None) -> bool:
        """Whether the table got columns of decoded bodies that it lacked."""
        if body_schema is None or self.body_schema() == body_schema:
            return False
        from deltalake import Field  # noqa: PLC0415

        added = new_columns(columns_in(self.body_schema()), columns_in(body_schema))
        if added:
            self._table.alter.add_columns([Field.from_arrow(field) for field in added])
            self._table.update_incremental()
        self._table.alter.set_table_properties(
            {_BODY_SCHEMA: body_schema}, raise_if_not_exists=False
        )
        return True

    def _write(
        self,
        actions: list[Any],
        changed: Mapping[str, int],
        retries_max: int = _RETRIES_MAX,
    ) -> None:
        from deltalake import CommitProperties, Transaction  # noqa: PLC0415

        now_ms = _now_ms()
        transactions = [Transaction(app_id, number, now_ms) for app_id, number in changed.items()]
        self._table.create_write_transaction(
            actions,
            "append",
            self._table.schema(),
            self._partitions,
            commit_properties=CommitProperties(
                app_transactions=transactions, max_commit_retries=retries_max
            ),
        )

    def _added(self, file: LakeFile, *, is_new: bool) -> Any:
        from deltalake.transaction import AddAction  # noqa: PLC0415

        return AddAction(
            path=file.path,
            size=file.bytes,
            partition_values=self._values(file.path),
            modification_time=_now_ms(),
            # Streaming readers of the table skip messages that are only moved.
            data_change=is_new,
            stats=msgspec.json.encode(statistics_of(file)).decode(),
        )

    def _values(self, path: str) -> dict[str, str | None]:
        values = partition_values(directory_of(path))
        if "hour" in values:
            values["hour"] = str(int(values["hour"]))
        return {name: values[name] for name in self._partitions}


def statistics_of(file: LakeFile) -> dict[str, Any]:
    """As the log of Delta has them, for readers that skip files."""
    found: dict[str, Any] = {"numRecords": file.rows}
    if file.bounds is None:
        return found
    columns = {
        "queueId": file.bounds.queue_id,
        "queueOffset": file.bounds.offset,
        "storeTimestamp": tuple(map(_iso, file.bounds.stored_us)),
    }
    return found | {
        "minValues": {name: each[0] for name, each in columns.items()},
        "maxValues": {name: each[1] for name, each in columns.items()},
        "nullCount": dict.fromkeys(columns, 0),
    }


def _bounds(found: Mapping[str, Any]) -> FileBounds | None:
    """Of a file as the library lists it; None if its statistics lack some of them."""
    columns = ("queueId", "queueOffset", "storeTimestamp")
    values: list[Any] = [found.get(f"{end}.{name}") for name in columns for end in ("min", "max")]
    if None in values:
        return None
    *numbers, first, last = values
    return FileBounds(
        (numbers[0], numbers[1]),
        (numbers[2], numbers[3]),
        ((first - _EPOCH) // _US, (last - _EPOCH) // _US),
    )


def _iso(time_us: int) -> str:
    return (_EPOCH + time_us * _US).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _now_ms() -> int:
    return time_ns() // 1_000_000
