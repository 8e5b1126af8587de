"""The metadata of a lake: `lake.json`, decided when it is created, and its log.

The log has one file for each entry, created whole and by one writer only. Entries are only ever
added, so a reader resumes after the last one it has read. A snapshot of the state is stored from
time to time: to open a lake means to read it and the entries since.
"""

import logging
from enum import StrEnum
from pathlib import Path
from typing import Final, final
from uuid import uuid4

import msgspec

from roquet.pipeline.durable_files import create_once, make_directories, replace_file
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import ENTRY_VERSION, REPROCESSED_VERSION, LakeEntry
from roquet.pipeline.lake.files import (
    CONTROL_DIRECTORY,
    PARTITIONING,
    SETTINGS_FILE,
    column_partitioning,
    hidden_partitioning,
)
from roquet.pipeline.lake.state import LakeSnapshot, LakeState
from roquet.protocol.record_columns import PropertiesForm

LAKE_VERSION: Final = 1
# Files of a few to some tens of megabytes, enough of them to keep all cores busy.
FILE_ROWS_MAX_DEFAULT: Final = 100_000

LOG_DIRECTORY: Final = f"{CONTROL_DIRECTORY}/log"
SNAPSHOT_FILE: Final = f"{CONTROL_DIRECTORY}/snapshot.json"
# Entries between two snapshots: at least that many, and more in a lake of many files, so that
# snapshots cost a small part of what entries cost.
SNAPSHOT_INTERVAL: Final = 100
_FILES_PER_ENTRY: Final = 50

log = logging.getLogger(__name__)

_decode_snapshot = msgspec.json.Decoder(LakeSnapshot).decode
_decode = msgspec.json.Decoder(LakeEntry).decode


class LakeFormat(StrEnum):
    # Files that readers find by their names.
    PARQUET = "parquet"
    # Files that a table lists.
    DELTA = "delta"
    ICEBERG = "iceberg"


@final
class LakeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`file_rows_max`: no file crosses a multiple of it. The rest selects what the lake takes.

    `latest_by` is the key of a table beside a lake, of the newest row of each key.

    Each lake has an `id` of its own: a lake that was deleted and created again is another one.
    """

    version: int = LAKE_VERSION
    id: str = msgspec.field(default_factory=lambda: uuid4().hex)
    file_rows_max: int = msgspec.field(default=FILE_ROWS_MAX_DEFAULT, name="grid")
    format: LakeFormat = LakeFormat.PARQUET
    partitioning: tuple[str, ...] = PARTITIONING
    properties: PropertiesForm = PropertiesForm.MAP
    tag_expression: str | None = None
    sql_expression: str | None = None
    latest_by: str | None = None


def read_settings(lake: Path) -> LakeSettings | None:
    """None if there is no lake. Raises BadLake."""
    path = lake / SETTINGS_FILE
    try:
        settings = decode_settings(str(path), path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    if settings.format is not LakeFormat.PARQUET:
        raise BadLake(
            f"the lake {lake} is a Delta table beside a log of its own, as an earlier version of"
            " Roquet wrote it: its table can be read, but not added to; ingest into another lake"
        )
    return settings


def decode_settings(where: str, content: bytes) -> LakeSettings:
    """Raises BadLake."""
    try:
        settings = msgspec.json.decode(content, type=LakeSettings)
    except msgspec.DecodeError as error:
        raise BadLake(f"{where} is damaged: {error}") from None
    given = ",".join(settings.partitioning)
    known = (column_partitioning(given), hidden_partitioning(given))
    if settings.version != LAKE_VERSION or settings.partitioning not in known:
        raise BadLake(
            f"{where} has version {settings.version} and partitions {settings.partitioning}:"
            " a newer Roquet created this lake"
        )
    if settings.file_rows_max <= 0:
        raise BadLake(f"{where} has a `grid` (rows of a file) that is not positive")
    return settings


def make_settings(lake: Path, settings: LakeSettings) -> LakeSettings:
    """Make an empty directory a lake; of two processes one wins. Raises BadLake."""
    strange = [each.name for each in lake.iterdir() if each.name != CONTROL_DIRECTORY]
    if strange:
        raise BadLake(
            f"{lake} is neither empty nor a lake: it has {min(strange)!r}; give a directory that is"
            " empty or does not exist"
        )
    make_directories(lake / LOG_DIRECTORY)
    try:
        create_once(lake / SETTINGS_FILE, msgspec.json.format(msgspec.json.encode(settings)))
    except FileExistsError:
        made = read_settings(lake)
        assert made is not None
        return made
    return settings


@final
class PublishLog:
    """The entries of a lake, and the state after those read so far."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._directory = lake / LOG_DIRECTORY
        self.state = LakeState()
        self.last_entry: LakeEntry | None = None
        self._snapshot_number = 0

    def refresh(self) -> LakeState:
        """Read the entries added since. Raises BadLake."""
        if not self.state.entry_number:
            self._read_snapshot()
        while (entry := self._read(self.state.entry_number + 1)) is not None:
            self.state.apply(entry)
            self.last_entry = entry
        return self.state

    def append(self, entry: LakeEntry) -> None:
        """Returns when the entry is durable. Raises BadLake if another writer was faster."""
        try:
            create_once(self._path(entry.number), msgspec.json.encode(entry))
        except FileExistsError:
            raise another_writer(self._lake) from None
        self.state.apply(entry)
        self.last_entry = entry

    def store_snapshot(self) -> None:
        """If it is time for one; by a writer alone, when the last entry is committed."""
        interval = max(SNAPSHOT_INTERVAL, len(self.state.files) // _FILES_PER_ENTRY)
        if self.state.entry_number - self._snapshot_number >= interval:
            replace_file(self._lake / SNAPSHOT_FILE, msgspec.json.encode(self.state.snapshot()))
            self._snapshot_number = self.state.entry_number

    def _read_snapshot(self) -> None:
        """One that cannot be read costs time and nothing else: all entries are there."""
        path = self._lake / SNAPSHOT_FILE
        try:
            state = LakeState.of(_decode_snapshot(path.read_bytes()))
            last_entry = self._read(state.entry_number)
        except FileNotFoundError:
            return
        except (msgspec.DecodeError, BadLake) as error:
            log.warning("%s is ignored, and all entries of the log are read: %s", path, error)
            return
        if last_entry is not None:
            self.state, self.last_entry = state, last_entry
            self._snapshot_number = state.entry_number

    def _read(self, number: int) -> LakeEntry | None:
        path = self._path(number)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            entry = _decode(content)
        except msgspec.DecodeError as error:
            raise BadLake(f"{path} is damaged: {error}") from None
        if entry.version not in (ENTRY_VERSION, REPROCESSED_VERSION):
            raise BadLake(
                f"{path} has version {entry.version}, and this Roquet reads {REPROCESSED_VERSION}:"
                " a newer Roquet wrote it"
            )
        return entry

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020}.json"


def another_writer(lake: Path) -> BadLake:
    return BadLake(
        f"another process writes to the lake {lake}: one of a kind at a time; run this job again"
        " when the other has ended"
    )
