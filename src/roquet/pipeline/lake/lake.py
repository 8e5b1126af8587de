"""A lake as its one writer has it: opened, added to, and put in order after a crash."""

import fcntl
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final
from uuid import uuid4

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.durable import make_directories, sync_directories
from roquet.pipeline.lake.entries import ENTRY_VERSION, Entry, Piece, Staged
from roquet.pipeline.lake.file_names import CONTROL_DIRECTORY, STAGED_DIRECTORY
from roquet.pipeline.lake.publish_log import PublishLog, another_writer
from roquet.pipeline.lake.settings import LakeSettings, make_settings, read_settings
from roquet.pipeline.lake.state import LakeState

_LOCK_FILE: Final = f"{CONTROL_DIRECTORY}/writer.lock"


@final
class Lake:
    """Open from `open` to `close`, for one process at a time.

    `run` names the directory in which tasks of this writer stage their files.
    """

    def __init__(self, path: Path, settings: LakeSettings, lock: int) -> None:
        self.path = path
        self.settings = settings
        self.run = uuid4().hex
        self._lock = lock
        self._log = PublishLog(path)

    @classmethod
    def open(cls, path: Path, settings: LakeSettings) -> Self:
        """The lake, made if there is none, and what a crash left undone is done.

        `settings` are those of a new lake; one that is there keeps its own. Raises BadLake.
        """
        path = path.absolute()
        try:
            make_directories(path)
            found = read_settings(path) or make_settings(path, settings)
            lock = _taken_lock(path)
        except (FileExistsError, NotADirectoryError) as error:
            raise BadLake(f"{path} is no directory: {error.strerror}") from None
        lake = cls(path, found, lock)
        try:
            lake._put_in_order()
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
    def state(self) -> LakeState:
        return self._log.state

    def publish(self, staged: Sequence[Staged]) -> Entry | None:
        """Make staged pieces visible, all of them or, after a crash, all when it is opened again.

        The entry is the promise: once it is safe, its files get their names. None if there is
        nothing to publish. Raises BadLake if the lake is not what they were planned by.
        """
        if not staged:
            self._remove_staged()
            return None
        number = self._log.refresh().entry_number
        if any(each.base != number for each in staged):
            raise another_writer(self.path)
        pieces = [each.piece for each in staged]
        self._check_staged(pieces)
        entry = Entry(ENTRY_VERSION, number + 1, time.time_ns() // 1_000_000, pieces)
        self._log.append(entry)
        self._finish(entry)
        # What is left was made by attempts that failed, or whose twin was faster.
        self._remove_staged()
        return entry

    def _put_in_order(self) -> None:
        self._log.refresh()
        if self._log.last_entry is not None:
            self._finish(self._log.last_entry)
        # Nobody else writes, so this was left by writers that are no more.
        shutil.rmtree(self.path / STAGED_DIRECTORY, ignore_errors=True)

    def _check_staged(self, pieces: Sequence[Piece]) -> None:
        """An entry is for ever: what it lists has to be there, and new."""
        self.state.check_new(pieces)
        for piece in pieces:
            if not piece.path:
                continue
            staged = self.path / piece.staged
            if not staged.exists() or staged.stat().st_size != piece.bytes:
                raise BadLake(f"{staged} is gone or not whole: something else removes files there")

    def _finish(self, entry: Entry) -> None:
        """Give the files of an entry their names; some may have them already."""
        moved: set[Path] = set()
        for piece in entry.added:
            if not piece.path:
                continue
            target = self.path / piece.path
            make_directories(target.parent)
            try:
                (self.path / piece.staged).replace(target)
            except FileNotFoundError:
                if not target.exists():
                    raise BadLake(
                        f"{piece.path} is listed by entry {entry.number} of the lake {self.path},"
                        " and gone"
                    ) from None
            moved.add(target.parent)
        sync_directories(moved)

    def _remove_staged(self) -> None:
        shutil.rmtree(self.path / STAGED_DIRECTORY / self.run, ignore_errors=True)


def _taken_lock(path: Path) -> int:
    """Let go of when the process ends, however it ends. Raises BadLake."""
    lock = os.open(path / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise another_writer(path) from None
    return lock
