"""A lake as an Iceberg table: one transaction has a snapshot, and the offsets of its files.

The offsets are a property of the table, because snapshots expire. Each commit has a snapshot, even
one without files: the catalog accepts it only if no other snapshot came in between, and so the
property cannot be based on an older one. The library would repeat a refused append by itself, and
add files twice whose offsets another writer has committed: `commit.retry.num-retries` is 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final, final

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import Compaction, LakeFile, LakePiece
from roquet.pipeline.lake.files import time_partition
from roquet.pipeline.lake.iceberg_catalog import (
    CatalogReference,
    check_iceberg,
    iceberg_errors,
    open_catalog,
)
from roquet.pipeline.lake.iceberg_files import (
    current_files,
    data_file,
    files_below,
    listed_bounds,
    listed_files,
    remove,
    remove_unused,
    replaced_before,
    time_transforms,
)
from roquet.pipeline.lake.iceberg_offsets import OFFSETS_PROPERTY, decode_offsets
from roquet.pipeline.lake.metadata import LakeSettings, decode_settings
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.schemas.body_schema import columns_in, new_columns
from roquet.pipeline.lake.state import LakeState
from roquet.pipeline.lake.table import CommitRefused, Rewrite, check_written
from roquet.pipeline.lake.table_offsets import changed_offsets, state_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from roquet.pipeline.lake.iceberg_library import TableTransaction

_TOPIC: Final = pa.field("topic", pa.string())
_STORED: Final = "storeTimestamp"
_SETTINGS: Final = "roquet.settings"
_BODY_SCHEMA: Final = "roquet.jsonSchema"
_NAME_MAPPING: Final = "schema.name-mapping.default"
_PROPERTIES: Final = {
    "commit.retry.num-retries": "0",
    # A manifest for each commit: they are joined from time to time.
    "commit.manifest-merge.enabled": "true",
    # Each version of the metadata lists all snapshots.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def read_iceberg_settings(
    place: LakePlace, reference: CatalogReference, suffix: str = ""
) -> LakeSettings:
    """Of the table, or of the one beside it. Raises BadLake, also for one of another program."""
    check_iceberg()
    storage = Storage(place)
    with iceberg_errors(storage), open_catalog(storage, reference) as catalog:
        table = catalog.load_table(reference.identifier(suffix))
    return _settings_of(storage, table)


def has_iceberg_table(place: LakePlace, reference: CatalogReference, suffix: str) -> bool:
    """Beside the one that the catalog has. Raises BadLake."""
    check_iceberg()
    storage = Storage(place)
    with iceberg_errors(storage), open_catalog(storage, reference) as catalog:
        return catalog.table_exists(reference.identifier(suffix))


def _settings_of(storage: Storage, table: "Table") -> LakeSettings:
    text = table.properties.get(_SETTINGS)
    if text is None:
        raise BadLake(
            f"the Iceberg table {storage.url} was not created by 'roquet spark': give another place"
        )
    return decode_settings(storage.url, text.encode())


@final
class IcebergLakeTable:
    """The table, created when it is first needed; `columns` are those of files."""

    def __init__(
        self,
        place: LakePlace,
        settings: LakeSettings,
        columns: pa.Schema,
        reference: CatalogReference,
        suffix: str = "",
    ) -> None:
        check_iceberg()
        self.settings = settings
        self._columns = columns
        self._storage = Storage(place)
        self._reference = reference
        self._identifier = reference.identifier(suffix)
        self._found: Table | None = None

    def create(self) -> None:
        """Of two processes one wins; the other finds a table. Raises BadLake."""
        from pyiceberg.exceptions import (  # noqa: PLC0415
            CommitFailedException,
            TableAlreadyExistsError,
        )

        with self._catalog() as catalog:
            catalog.create_namespace_if_not_exists(self._identifier[0])
            try:
                self._create(catalog)
            except (CommitFailedException, TableAlreadyExistsError):
                found = catalog.load_table(self._identifier)
                if found.location() != self._storage.url:
                    raise BadLake(
                        f"the catalog {self._reference} has a table {'.'.join(self._identifier)}"
                        f" already, in {found.location()}: give the lake another name"
                    ) from None
                _settings_of(self._storage, found)

    def refresh(self) -> LakeState:
        with self._catalog() as catalog:
            self._found = self._load(catalog)
        if self._found is None:
            return LakeState()
        number = self._found.last_sequence_number
        return state_of(self.offsets(), number, self.body_schema())

    def commit(self, pieces: Sequence[LakePiece], body_schema: str | None) -> int:
        if self._found is None:
            self.create()
            self.refresh()
        with self._catalog():
            if self._add_columns(body_schema):
                raise CommitRefused(f"{self._storage.url}: the table has new columns")
            files = [file for piece in pieces if (file := piece.file) is not None]
            check_written(self._storage, files)
            offsets = self.offsets()
            offsets = {**offsets, **changed_offsets(offsets, pieces)}
            with self._transaction() as transaction:
                transaction.set_properties(
                    {OFFSETS_PROPERTY: msgspec.json.encode(offsets).decode()}
                )
                transaction.forget_old_snapshots()
                with transaction.update_snapshot().merge_append() as append:
                    for each in files:
                        append.append_data_file(data_file(self._table, self._storage.url, each))
        return self._table.last_sequence_number

    def replace(self, compactions: Sequence[Compaction]) -> int:
        removed = [path for each in compactions for path in each.removed]
        return self.rewrite(Rewrite(removed, [each.file for each in compactions]))

    def rewrite(self, rewrite: Rewrite) -> int:
        if self._found is None:
            self.create()
            self.refresh()
        url = self._storage.url
        with self._catalog():
            if self._add_columns(rewrite.body_schema):
                raise CommitRefused(f"{self._storage.url}: the table has new columns")
            there = current_files(self._table)
            removed = [f"{url}/{path}" for path in rewrite.removed]
            if gone := [path for path in removed if path not in there]:
                raise CommitRefused(f"{gone[0]} was replaced by another process meanwhile")
            check_written(self._storage, rewrite.added)
            offsets = self.offsets()
            changed = {**changed_offsets(offsets, rewrite.covered), **rewrite.marks}
            with self._transaction() as transaction:
                if changed:
                    offsets = {**offsets, **changed}
                    transaction.set_properties(
                        {OFFSETS_PROPERTY: msgspec.json.encode(offsets).decode()}
                    )
                with transaction.update_snapshot().overwrite() as overwrite:
                    for path in removed:
                        overwrite.delete_data_file(there[path])
                    for each in rewrite.added:
                        overwrite.append_data_file(data_file(self._table, url, each))
        return self._table.last_sequence_number

    def files(self) -> list[LakeFile]:
        if self._found is None:
            return []
        with self._catalog():
            found = current_files(self._table)
        return [
            LakeFile(
                name,
                name,
                each.record_count,
                each.file_size_in_bytes,
                listed_bounds(self._table, each),
            )
            for path, each in found.items()
            for name in (path.removeprefix(f"{self._storage.url}/"),)
        ]

    def body_schema(self) -> str | None:
        return None if self._found is None else self._found.properties.get(_BODY_SCHEMA)

    def expire(self, age: timedelta) -> int:
        self.refresh()
        if self._found is None:
            return 0
        with self._catalog():
            expired = replaced_before(self._table, datetime.now(UTC) - age)
            gone = [self._table.snapshot_by_id(each) for each in expired]
            before = listed_files(self._table, [each for each in gone if each is not None])
            if expired:
                with self._transaction() as transaction:
                    transaction.forget(expired)
            after = listed_files(self._table, self._table.snapshots())
            unlisted = [
                path.removeprefix(f"{self._storage.url}/") for path in before.keys() - after
            ]
            return remove(self._storage, unlisted)

    def remove_orphans(self, age: timedelta) -> int:
        with self._catalog():
            # Listed first: what is committed after that is not among them.
            there = files_below(self._storage)
            self.refresh()
            if self._found is None:
                return 0
            return remove_unused(self._storage, self._table, there, age)

    @property
    def _table(self) -> "Table":
        assert self._found is not None
        return self._found

    @cached_property
    def _opened(self) -> "Catalog":
        return open_catalog(self._storage, self._reference, may_create=True)

    @contextmanager
    def _catalog(self) -> Iterator["Catalog"]:
        """No connection is kept between uses: a table is never closed."""
        with iceberg_errors(self._storage), self._opened as catalog:
            yield catalog

    def _transaction(self) -> "TableTransaction":
        from roquet.pipeline.lake.iceberg_library import TableTransaction  # noqa: PLC0415

        return TableTransaction(self._table)

    def _load(self, catalog: "Catalog") -> "Table | None":
        from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415

        try:
            return catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None

    def _create(self, catalog: "Catalog") -> None:
        from pyiceberg.table.name_mapping import create_mapping_from_schema  # noqa: PLC0415

        properties = {**_PROPERTIES, _SETTINGS: msgspec.json.encode(self.settings).decode()}
        with catalog.create_table_transaction(
            self._identifier,
            pa.schema([_TOPIC, *self._columns]),
            location=self._storage.url,
            properties=properties,
        ) as transaction:
            with transaction.update_spec() as spec:
                spec.add_identity(_TOPIC.name)
                if (unit := time_partition(self.settings.partitioning)) is not None:
                    name = f"{_STORED}_{unit.removesuffix('s')}"
                    spec.add_field(_STORED, time_transforms()[unit], name)
            # Tasks do not know the ids of columns: readers find them by their names.
            mapping = create_mapping_from_schema(transaction.table_metadata.schema())
            transaction.set_properties({_NAME_MAPPING: mapping.model_dump_json()})

    def offsets(self) -> Mapping[str, int]:
        if self._found is None:
            return {}
        return decode_offsets(self._storage.url, self._found.properties)

    def _add_columns(self, body_schema: str | None) -> bool:
        """Whether the table got columns of decoded bodies that it lacked."""
        if body_schema is None or self.body_schema() == body_schema:
            return False
        added = new_columns(columns_in(self.body_schema()), columns_in(body_schema))
        with self._table.transaction() as transaction:
            if added:
                with transaction.update_schema() as update:
                    update.union_by_name(pa.schema(added))
            transaction.set_properties({_BODY_SCHEMA: body_schema})
        return True
