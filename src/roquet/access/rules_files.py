"""Files of rules: read with a limit, watched for changes, changed one change at a time.

An invalid file changes nothing: the rules in force stay, and the error is logged once for each
state of the files.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

from roquet.access.errors import BadRules, RulesNotSaved
from roquet.disk import Disk, replace_file
from roquet.net.service import to_its_end

log = logging.getLogger(__name__)

FILE_SIZE_MAX: Final = 16 * 1024 * 1024
_WATCH_PERIOD_S: Final = 1.0

_Rules = TypeVar("_Rules")


class Stamp(NamedTuple):
    """What a directory has of a file: another stamp means that it was written."""

    path: Path
    size: int
    modified_ms: int


class RulesStore(ABC, Generic[_Rules]):
    """Rules that are put in force at the start and whenever their files were written.

    `kind` is what they are about, in the log.
    """

    kind: ClassVar[str]

    def __init__(self) -> None:
        """Raises BadRules and OSError."""
        self._changing = asyncio.Lock()
        # Before the files are read: a later write is noticed the next time.
        self._seen = self._stamps()
        self._take(self._read())

    async def watch(self) -> None:
        """Reloads changed files, for ever."""
        while True:
            await asyncio.sleep(_WATCH_PERIOD_S)
            await self.reload_if_changed()

    async def reload_if_changed(self) -> None:
        """Applies what is in the files now, if they were written since."""
        async with self._changing:
            try:
                stamps = self._stamps()
                if stamps == self._seen:
                    return
                self._seen = stamps
                rules = await to_its_end(self._read)
            except (BadRules, OSError) as error:
                log.error("keeping the previous %s: %s", self.kind, error)  # noqa: TRY400  The text is enough.
                return
            log.info("reloaded %d %s", self._take(rules), self.kind)

    async def _change(self, write: Callable[[], _Rules]) -> None:
        """Returns when what was written is in force. Raises what `write` raises."""
        async with self._changing:
            self._take(await to_its_end(write))
            self._seen = self._stamps()

    @abstractmethod
    def _stamps(self) -> list[Stamp]:
        """Of all existing files. Raises OSError."""

    @abstractmethod
    def _read(self) -> _Rules:
        """Raises BadRules."""

    @abstractmethod
    def _take(self, read: _Rules) -> int:
        """Puts rules in force; returns how many accounts or users there are."""


def file_stamp(disk: Disk, path: Path) -> Stamp | None:
    """None if there is no file. Raises OSError."""
    for entry in disk.entries(path.parent) if disk.exists(path.parent) else ():
        if entry.name == path.name and not entry.is_directory:
            return Stamp(path, entry.size, entry.modified_ms)
    return None


def read_content(disk: Disk, stamp: Stamp) -> bytes:
    """Raises BadRules and OSError."""
    if stamp.size > FILE_SIZE_MAX:
        raise BadRules(stamp.path, f"over the limit of {FILE_SIZE_MAX} bytes")
    descriptor = disk.open(stamp.path, writable=False)
    try:
        return disk.read(descriptor, 0, FILE_SIZE_MAX)
    finally:
        disk.close(descriptor)


def save_content(disk: Disk, path: Path, content: bytes) -> None:
    """Returns when it survives a power cut. Raises RulesNotSaved."""
    try:
        replace_file(disk, path, content)
    except OSError as error:
        raise RulesNotSaved(path, str(error)) from error
