"""The offsets of an Iceberg table, read without its library: for planners, which commit nothing.

A planner starts with each query, and the library takes longer to load than to ingest some hundred
thousand messages. With a catalog in SQLite, offsets are two reads away: the row of the table names
a file of metadata, and that has them among its properties.
"""

import gzip
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, final

import msgspec

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.iceberg_catalog import (
    CATALOG_NAME,
    SQLITE_TIMEOUT_S,
    CatalogReference,
    sqlite_file,
)
from roquet.pipeline.lake.places import LakePlace, Storage, beside
from roquet.pipeline.lake.staging import QUARANTINE_SUFFIX
from roquet.pipeline.lake.state import LakeState, Missing
from roquet.pipeline.lake.table_offsets import state_of
from roquet.pipeline.planning import QueueRange

OFFSETS_PROPERTY: Final = "roquet.offsets"
_GZIP_MAGIC: Final = b"\x1f\x8b"
# Of the tables of the library's SQL catalog.
_NEWEST: Final = (
    "SELECT metadata_location FROM iceberg_tables"
    " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)


class _Metadata(msgspec.Struct, rename="kebab"):
    """What is needed of a file of metadata."""

    last_sequence_number: int = 0
    properties: dict[str, str] = {}


def decode_offsets(url: str, properties: Mapping[str, str]) -> dict[str, int]:
    """Raises BadLake."""
    try:
        return msgspec.json.decode(properties.get(OFFSETS_PROPERTY, "{}"), type=dict[str, int])
    except msgspec.DecodeError as error:
        raise BadLake(f"property {OFFSETS_PROPERTY} of {url} is damaged: {error}") from None


@final
class IcebergOffsets:
    """Of a lake whose catalog is SQLite."""

    def __init__(self, place: LakePlace, reference: CatalogReference) -> None:
        self._place = place
        self._reference = reference

    def missing(
        self, ranges: Iterable[QueueRange], incarnations: Mapping[QueueRef, QueueIncarnation]
    ) -> Missing:
        """What the lake lacks now, as its writers find it. Raises BadLake."""
        missing = self._state("").missing(ranges, incarnations)
        held = self._state(QUARANTINE_SUFFIX)
        return missing._replace(wanted=held.cut_where_held(missing.wanted))

    def _state(self, suffix: str) -> LakeState:
        """Of the table, or of the one beside it, which need not exist."""
        storage = Storage(beside(self._place, suffix))
        file = sqlite_file(storage, self._reference)
        try:
            location = self._newest(file, suffix)
        except sqlite3.Error as error:
            raise BadLake(f"the catalog {file} reports: {error}") from None
        if location is None:
            return LakeState()
        metadata = _metadata(storage, location)
        offsets = decode_offsets(storage.url, metadata.properties)
        return state_of(offsets, metadata.last_sequence_number)

    def _newest(self, file: Path, suffix: str) -> str | None:
        names = (CATALOG_NAME, *self._reference.identifier(suffix))
        # Not read-only: what a killed writer left behind has to be rolled back.
        uri = f"{file.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, timeout=SQLITE_TIMEOUT_S, uri=True)) as connection:
            row = connection.execute(_NEWEST, names).fetchone()
        return None if row is None else str(row[0])


def _metadata(storage: Storage, location: str) -> _Metadata:
    try:
        with storage.errors_translated():
            content = storage.read(location.removeprefix(f"{storage.url}/"))
    except FileNotFoundError:
        raise BadLake(f"{storage.url} lists {location}, which is missing") from None
    if content.startswith(_GZIP_MAGIC):
        content = gzip.decompress(content)
    try:
        return msgspec.json.decode(content, type=_Metadata)
    except msgspec.DecodeError as error:
        raise BadLake(f"{location} is damaged: {error}") from None
