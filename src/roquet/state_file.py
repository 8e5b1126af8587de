"""Small state that must survive: written aside, synced, renamed, and the directory synced.

    topics.json       the state
    topics.json.bak   the state before it
    topics.json.tmp   a state that was being written when power was cut; never read

The names are Apache's, and so is the rule to read `.bak` when the file itself is missing,
empty or unreadable. What the bytes mean is the caller's business.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, final

from roquet.disk import Disk, make_safe_directory
from roquet.errors import RoquetError

T = TypeVar("T")


class StateFileError(RoquetError):
    """A state file cannot be read or written; `path` says which."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class BadStateFile(StateFileError):
    """There is state, but neither the file nor its backup can be read."""


class StateNotSaved(StateFileError):
    """The new state is not safe on disk; the old one still is."""


@final
class StateFile:
    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._backup_path = path.with_name(path.name + ".bak")
        self._is_loaded = False

    def load(self, parse: Callable[[bytes], T]) -> T | None:
        """The saved state, None if there never was one.

        `parse` raises a RoquetError for bytes it cannot read. Raises BadStateFile.
        """
        failure = None
        for path in (self._path, self._backup_path):
            try:
                content = self._read(path)
                state = parse(content) if content else None
            except (RoquetError, OSError) as error:
                failure = failure or BadStateFile(path, str(error))
                continue
            if state is not None:
                self._is_loaded = True
                return state
        if failure is not None:
            raise failure
        self._is_loaded = True
        return None

    def save(self, content: bytes) -> None:
        """Return when `content` survives a power cut. Raises StateNotSaved."""
        # State that was not loaded yet would be overwritten with less.
        assert self._is_loaded, f"{self._path} saved before it was loaded"
        try:
            self._save(content)
        except OSError as error:
            raise StateNotSaved(self._path, str(error)) from error

    def _save(self, content: bytes) -> None:
        disk = self._disk
        aside = self._path.with_name(self._path.name + ".tmp")
        make_safe_directory(disk, self._path.parent)
        descriptor = disk.create(aside, 0)
        try:
            disk.write(descriptor, 0, content)
            disk.sync(descriptor)
        finally:
            disk.close(descriptor)
        # Between the two renames only the backup is there, and that state is still valid.
        if disk.exists(self._path):
            disk.rename(self._path, self._backup_path)
        disk.rename(aside, self._path)
        disk.sync_directory(self._path.parent)

    def _read(self, path: Path) -> bytes:
        disk = self._disk
        if not disk.exists(path):
            return b""
        descriptor = disk.open(path, writable=False)
        try:
            pieces = []
            position = 0
            while piece := disk.read(descriptor, position, 1 << 20):
                pieces.append(piece)
                position += len(piece)
            return b"".join(pieces)
        finally:
            disk.close(descriptor)
