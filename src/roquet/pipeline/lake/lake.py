"""A lake as a writer has it: checked, opened, added to, and recovered after a crash.

One process adds messages at a time, one compacts, and one reads the quarantine again. They stage
files as long as they like, and commit under a lock that each holds for a moment.

Committing an entry of the log is idempotent, from wherever a crash interrupted it: files get their
names, compacted files replace others. A directory whose files were compacted is built next to the
lake, of links, and exchanged with the old one in a single step. A reader that lists it sees the old
files or the new ones, never some of both; one that has listed it before and opens a file later gets
an error that it is gone.
"""

import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final
from uuid import uuid4

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.durable_files import (
    exchange_directories,
    make_directories,
    sync_directories,
    sync_directory,
)
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import (
    ENTRY_VERSION,
    REPROCESSED_VERSION,
    Compaction,
    LakeEntry,
    LakeFile,
    LakePiece,
    QueueIncarnation,
    Reprocessed,
)
from roquet.pipeline.lake.files import (
    CONTROL_DIRECTORY,
    STAGED_DIRECTORY,
    directory_of,
    quarantine_of,
)
from roquet.pipeline.lake.metadata import (
    LakeSettings,
    PublishLog,
    another_writer,
    make_settings,
    read_settings,
)
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.schemas.evolution import check_schema
from roquet.pipeline.lake.staging import PosixStaging
from roquet.pipeline.lake.state import LakeState, LakeTotals, Missing
from roquet.pipeline.planning import QueueRange

_COMMIT_LOCK: Final = "commit"
# A commit renames files and syncs directories: the other process holds the lock no longer.
_COMMIT_WAIT_S_MAX: Final = 300.0
_COMMIT_RETRY_S: Final = 0.02


class LakeRole(StrEnum):
    """What a process does with a lake; names its lock, and what it stages."""

    WRITER = "writer"
    COMPACTOR = "compactor"
    REPROCESSOR = "reprocessor"


@final
class Lake:
    """Open from `open` to `close`, by one process of each role at a time.

    `run` names the directory in which tasks of this writer stage their files.
    """

    def __init__(self, path: Path, settings: LakeSettings, role: LakeRole, lock: int) -> None:
        self.path = path
        self.settings = settings
        self.run = f"{role}-{uuid4().hex}"
        self._role = role
        self._lock = lock
        self._log = PublishLog(path)
        self._committed_number = 0

    @classmethod
    def open_existing(cls, path: Path, role: LakeRole = LakeRole.WRITER) -> Self:
        """As `open`, but the lake must exist. Raises BadLake."""
        settings = read_settings(path)
        if settings is None:
            raise no_lake(path)
        return cls.open(path, settings, role)

    @classmethod
    def open(cls, path: Path, settings: LakeSettings, role: LakeRole = LakeRole.WRITER) -> Self:
        """The lake, created if it does not exist, and recovered from a crash.

        `settings` are for a new lake; an existing one keeps its own. Raises BadLake.
        """
        path = path.absolute()
        try:
            make_directories(path)
            found = read_settings(path) or make_settings(path, settings)
            lock = _locked(path, role)
        except (FileExistsError, NotADirectoryError) as error:
            raise BadLake(f"{path} is not a directory: {error.strerror}") from None
        lake = cls(path, found, role, lock)
        try:
            lake._recover()
        except BaseException:
            os.close(lock)
            raise
        return lake

    def close(self) -> None:
        self._remove_staged()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def place(self) -> Path:
        return self.path

    @property
    def state(self) -> LakeState:
        return self._log.state

    @property
    def staging(self) -> PosixStaging:
        return PosixStaging(self.path, self.run)

    def missing(
        self, ranges: Iterable[QueueRange], incarnations: Mapping[QueueRef, QueueIncarnation]
    ) -> Missing:
        """What the lake lacks now. Raises BadLake."""
        return self._log.refresh().missing(ranges, incarnations)

    def files(self) -> list[LakeFile]:
        return list(self.state.files.values())

    def quarantined_files(self) -> list[LakeFile]:
        return list(self._log.refresh().quarantined_files.values())

    def totals(self) -> LakeTotals:
        state = self.state
        return LakeTotals(state.row_count, len(state.files), state.quarantined_count)

    def publish(
        self,
        pieces: Sequence[LakePiece],
        body_schema: str | None = None,
        seen: str | None = None,
    ) -> LakeEntry | None:
        """Make staged pieces visible, all of them; after a crash, when the lake is opened again.

        The entry decides: once it is durable, its files get their names. None if there is nothing
        to publish. Raises BadLake if the lake got some of them since they were planned, and
        SchemaChanged if its bodies are decoded by another schema than when they were (`seen`).
        """
        if not pieces:
            self._remove_staged()
            return None
        with self._commit_lock():
            self.state.check_new(pieces)
            check_schema(self.state.body_schema, body_schema, seen)
            self._check_staged(self.path, [piece.file for piece in pieces])
            self._check_staged(quarantine_of(self.path), [piece.quarantined for piece in pieces])
            return self._write(
                LakeEntry(*self._next(), added=list(pieces), body_schema=body_schema)
            )

    def compact(self, compactions: Sequence[Compaction]) -> LakeEntry:
        """Let compacted files replace others, as `publish` does. Raises BadLake."""
        with self._commit_lock():
            self.state.check_listed(compactions)
            self._check_staged(self.path, [compaction.file for compaction in compactions])
            return self._write(LakeEntry(*self._next(), compacted=list(compactions)))

    def reprocess(
        self, moved: Sequence[Reprocessed], body_schema: str, seen: str | None
    ) -> LakeEntry:
        """Let rows of the quarantine be messages. Raises SchemaChanged and BadLake."""
        with self._commit_lock():
            check_schema(self.state.body_schema, body_schema, seen)
            self.state.check_quarantined(moved)
            self._check_staged(self.path, [each.good for each in moved])
            self._check_staged(quarantine_of(self.path), [each.bad for each in moved])
            entry = LakeEntry(
                *self._next(REPROCESSED_VERSION), body_schema=body_schema, reprocessed=list(moved)
            )
            return self._write(entry)

    def _next(self, version: int = ENTRY_VERSION) -> tuple[int, int, int]:
        """The first fields of the next entry."""
        return version, self.state.entry_number + 1, time.time_ns() // 1_000_000

    def _write(self, entry: LakeEntry) -> LakeEntry:
        self._log.append(entry)
        self._commit(entry)
        self._log.store_snapshot()
        # The rest is from attempts that failed, or from speculative ones that lost.
        self._remove_staged()
        return entry

    @contextmanager
    def _commit_lock(self) -> Iterator[None]:
        """The state is the latest one within, and its last entry is committed.

        Raises BadLake if another process keeps the lock.
        """
        lock = _locked(self.path, _COMMIT_LOCK, wait_s=_COMMIT_WAIT_S_MAX)
        try:
            self._log.refresh()
            last = self._log.last_entry
            if last is not None and last.number != self._committed_number:
                # Of another process, which may have been killed before it was done.
                self._commit(last)
            yield
        finally:
            os.close(lock)

    def _recover(self) -> None:
        with self._commit_lock():
            remove_replaced(self.path)
            remove_replaced(quarantine_of(self.path))
        # This process is the only one of its role, so what they staged was of killed ones.
        for root in (self.path, quarantine_of(self.path)):
            for run in (root / STAGED_DIRECTORY).glob("*"):
                if _role_of(run.name) is self._role:
                    shutil.rmtree(run, ignore_errors=True)

    def _check_staged(self, root: Path, files: Iterable[LakeFile | None]) -> None:
        """An entry is permanent: the files it lists must exist."""
        for file in files:
            if file is None:
                continue
            staged = root / file.staged
            if not staged.exists() or staged.stat().st_size != file.bytes:
                raise BadLake(
                    f"{staged} is missing or incomplete: either executors do not see the directory"
                    " of the driver, which all of them have to share, or another program changes"
                    " files there"
                )

    def _commit(self, entry: LakeEntry) -> None:
        """Make the entry visible to readers; some of it may be visible already."""
        move_pieces(self.path, entry)
        exchange_compacted(self.path, entry)
        move_reprocessed(self.path, entry)
        self._committed_number = entry.number

    def _remove_staged(self) -> None:
        for root in (self.path, quarantine_of(self.path)):
            shutil.rmtree(root / STAGED_DIRECTORY / self.run, ignore_errors=True)


def no_lake(path: LakePlace) -> BadLake:
    return BadLake(f"no lake in {path}: `roquet spark ingest` creates one")


def check_free(path: Path, role: LakeRole) -> None:
    """Raises BadLake while another process has that role. A lake need not exist."""
    if read_settings(path) is not None:
        os.close(_locked(path, role))


def _locked(path: Path, name: str, wait_s: float = 0.0) -> int:
    """The lock is released when the process ends, however it ends. Raises BadLake."""
    file = path / CONTROL_DIRECTORY / f"{name}.lock"
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                os.close(lock)
                raise another_writer(path) from None
            time.sleep(_COMMIT_RETRY_S)
        else:
            return lock


def _role_of(run: str) -> LakeRole:
    """Whose staged files are in a directory of that name."""
    others = (LakeRole.COMPACTOR, LakeRole.REPROCESSOR)
    return next((role for role in others if run.startswith(role)), LakeRole.WRITER)


_REPLACING: Final = "replacing"


def move_pieces(lake: Path, entry: LakeEntry) -> None:
    """Rename staged files of pieces; some may have their names already. Raises BadLake."""
    files = [file for piece in entry.added if (file := piece.file) is not None]
    _move(lake, files, entry)
    quarantined = [piece.quarantined for piece in entry.added if piece.quarantined is not None]
    _move(quarantine_of(lake), quarantined, entry)


def exchange_compacted(lake: Path, entry: LakeEntry) -> None:
    """Replace the directories in which files were compacted. Raises BadLake."""
    for directory, compactions in _by_directory(entry.compacted):
        removed = {Path(path).name for compaction in compactions for path in compaction.removed}
        _replace(lake, directory, removed, [compaction.file for compaction in compactions], entry)


def move_reprocessed(lake: Path, entry: LakeEntry) -> None:
    """Rows are found as messages first, then no longer in the quarantine. Raises BadLake."""
    _move(lake, [each.good for each in entry.reprocessed], entry)
    quarantine = quarantine_of(lake)
    ordered = sorted(entry.reprocessed, key=lambda each: each.path)
    for directory, group in groupby(ordered, key=lambda each: directory_of(each.path)):
        moved = list(group)
        removed = {Path(each.path).name for each in moved}
        left = [each.bad for each in moved if each.bad is not None]
        _replace(quarantine, directory, removed, left, entry)


def remove_replaced(lake: Path) -> None:
    for each in (_beside(lake), _inside(lake)):
        shutil.rmtree(each, ignore_errors=True)


def _move(root: Path, files: Iterable[LakeFile], entry: LakeEntry) -> None:
    moved: set[Path] = set()
    for file in files:
        target = root / file.path
        make_directories(target.parent)
        try:
            (root / file.staged).replace(target)
        except FileNotFoundError:
            if not target.exists():
                raise _gone(root, file, entry) from None
        moved.add(target.parent)
    sync_directories(moved)


def _replace(
    lake: Path, directory: str, removed: set[str], files: Sequence[LakeFile], entry: LakeEntry
) -> None:
    target = lake / directory
    names = {each.name for each in target.iterdir()}
    if removed & names or not {Path(file.path).name for file in files} <= names:
        replacement = _replacing_directory(lake) / f"{entry.number}" / directory
        _make_replacement(lake, replacement, target, names - removed)
        for file in files:
            try:
                (replacement / Path(file.path).name).hardlink_to(lake / file.staged)
            except FileNotFoundError:
                raise _gone(lake, file, entry) from None
        sync_directory(replacement)
        exchange_directories(replacement, target)
        sync_directories((replacement.parent, target.parent))
    remove_replaced(lake)


def _make_replacement(
    lake: Path, replacement: Path, target: Path, kept_names: Collection[str]
) -> None:
    remove_replaced(lake)
    replacement.mkdir(parents=True)
    shutil.copystat(target, replacement)
    for name in kept_names:
        (replacement / name).hardlink_to(target / name)


def _replacing_directory(lake: Path) -> Path:
    """Not in the lake, if possible: some readers look for Parquet in every directory."""
    parent = lake.parent
    is_same_device = parent.stat().st_dev == lake.stat().st_dev and os.access(
        parent, os.W_OK | os.X_OK
    )
    return _beside(lake) if is_same_device else _inside(lake)


def _beside(lake: Path) -> Path:
    return lake.with_name(f".{lake.name}.{_REPLACING}")


def _inside(lake: Path) -> Path:
    return lake / CONTROL_DIRECTORY / _REPLACING


def _by_directory(compactions: Iterable[Compaction]) -> list[tuple[str, list[Compaction]]]:
    def directory(compaction: Compaction) -> str:
        return directory_of(compaction.file.path)

    return [
        (key, list(group)) for key, group in groupby(sorted(compactions, key=directory), directory)
    ]


def _gone(root: Path, file: LakeFile, entry: LakeEntry) -> BadLake:
    return BadLake(f"{file.path} is missing: entry {entry.number} of the lake {root} lists it")
