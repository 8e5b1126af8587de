"""Small state that must survive: written to a temporary file, synced, renamed, directory synced.

    topics.json           the state
    topics.json.bak       the state before it, or the same when there was none
    topics.json.tmp       a state that was being written when power was cut; never read
    topics.json.damaged   what could not be read, kept for the operator

The first two names are Apache's, and so is the rule to read `.bak` when the file itself is
missing, empty or unreadable. A state is a JSON object, which the caller interprets. A checksum is
its last member, which Apache ignores:

    {"dataVersion":{...},"topicConfigTable":{...},"crc32":"1c291ca3"}
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar, final
from zlib import crc32

from roquet.disk import Disk, replace_file, write_file
from roquet.errors import RoquetError

log = logging.getLogger(__name__)

T = TypeVar("T")

_SEAL: Final = re.compile(rb',?"crc32":"([0-9a-f]{8})"\}\Z')


class DamagedState(RoquetError):
    """The checksum of a state is not the one that was written with it."""


class StateFileError(RoquetError):
    """The state file `path` cannot be read or written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class BadStateFile(StateFileError):
    """There is state, but neither the file nor its backup can be read."""


class StateNotSaved(StateFileError):
    """The new state is not on disk; the old one still is."""


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
                state = parse(unsealed(content)) if content else None
            except (RoquetError, OSError) as error:
                failure = failure or BadStateFile(path, str(error))
                continue
            if state is not None:
                if path is self._backup_path:
                    reason = "missing or empty" if failure is None else failure.reason
                    log.warning("%s: %s; using %s", self._path, reason, path.name)
                self._is_loaded = True
                return state
        if failure is not None:
            raise failure
        self._is_loaded = True
        return None

    def set_aside(self) -> None:
        """Continue without a state that cannot be read, which is kept for the operator.

        Raises StateNotSaved.
        """
        try:
            for path in (self._backup_path, self._path):
                if self._disk.exists(path):
                    self._disk.rename(path, self._path.with_name(self._path.name + ".damaged"))
        except OSError as error:
            raise StateNotSaved(self._path, str(error)) from error
        self._is_loaded = True

    def save(self, content: bytes) -> None:
        """Return when `content` survives a power cut. Raises StateNotSaved."""
        # State that was not loaded yet would be overwritten with less.
        assert self._is_loaded, f"{self._path} saved before it was loaded"
        try:
            self._save(sealed(content))
        except OSError as error:
            raise StateNotSaved(self._path, str(error)) from error

    def _save(self, content: bytes) -> None:
        disk = self._disk
        replace_file(disk, self._path, content, backup=self._backup_path)
        if not disk.exists(self._backup_path):
            # The first state has none before it, and needs a second copy as much as any other.
            write_file(disk, self._backup_path, content)
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


def sealed(content: bytes) -> bytes:
    """A JSON object with the checksum of its text as one more member."""
    assert content.endswith(b"}"), "a state is a JSON object"
    separator = b"" if content == b"{}" else b","
    return b'%b%b"crc32":"%08x"}' % (content[:-1], separator, crc32(content))


def unsealed(content: bytes) -> bytes:
    """The object without its checksum, if it has one. Raises DamagedState."""
    seal = _SEAL.search(content)
    if seal is None:
        return content  # Apache wrote it.
    text = content[: seal.start()] + b"}"
    if b"%08x" % crc32(text) != seal[1]:
        raise DamagedState("its checksum is wrong")
    return text
