"""Classes of the Iceberg library that do a little more than it does.

A module of its own because it needs the library when it is imported, which others do not.
"""

from itertools import pairwise
from typing import Final, Self, final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import TableUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ExpireSnapshots
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

# All of them are read and written with each commit.
SNAPSHOTS_MAX: Final = 300
SNAPSHOTS_KEPT: Final = 150
_EXISTS: Final = "already exists"


@final
class SqliteCatalog(SqlCatalog):
    """Leaves no connection open that it cannot use, and other creators do not disturb it."""

    def _init_catalog(self) -> None:
        try:
            super()._init_catalog()
        except SQLAlchemyError:
            self.close()
            raise

    def create_tables(self) -> None:
        while True:
            try:
                return super().create_tables()
            except OperationalError as error:
                # Another process created one since it was looked up; the next look finds it.
                if _EXISTS not in str(error):
                    raise

    def create_namespace(
        self, namespace: str | Identifier, properties: Properties = EMPTY_DICT
    ) -> None:
        try:
            super().create_namespace(namespace, properties)
        except IntegrityError:
            # Another process created it since it was looked up.
            raise NamespaceAlreadyExistsError(f"{namespace} already exists") from None


@final
class TableTransaction(Transaction):
    """The library copies all metadata, with all snapshots, some 15 times for each commit."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self._seen: tuple[tuple[TableUpdate, ...], TableMetadata] | None = None

    def __enter__(self) -> Self:
        return self

    @property
    def table_metadata(self) -> TableMetadata:
        if self._seen is None or self._seen[0] is not self._updates:
            found = update_table_metadata(self._table.metadata, self._updates)
            self._seen = self._updates, found
        return self._seen[1]

    def forget_old_snapshots(self) -> None:
        """In the same commit. No file of messages is listed by them alone."""
        metadata = self._table.metadata
        kept = {ref.snapshot_id for ref in metadata.refs.values()}
        if forgotten := [each for each in superfluous(metadata.snapshots) if each not in kept]:
            self.forget(forgotten)

    def forget(self, snapshot_ids: list[int]) -> None:
        with ExpireSnapshots(self) as expiry:
            expiry.by_ids(snapshot_ids)

    def commit_transaction(self) -> Table:
        try:
            return super().commit_transaction()
        except ValueError as error:
            # Another process forgot them first, between our look at the table and the commit.
            raise CommitFailedException(str(error)) from error


def superfluous(snapshots: list[Snapshot]) -> list[int]:
    """If there are too many: the ids of old ones whose files the next one has, too.

    Those before a compaction list files that nothing else lists: they, and the compaction by which
    they are known, are left to `expire`.
    """
    if len(snapshots) <= SNAPSHOTS_MAX:
        return []
    ordered = sorted(snapshots, key=lambda each: each.sequence_number or 0)
    return [
        each.snapshot_id
        for each, following in pairwise(ordered[: 1 - SNAPSHOTS_KEPT])
        if _is_append(each) and _is_append(following)
    ]


def _is_append(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation is Operation.APPEND
