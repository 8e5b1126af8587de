"""Tables of the broker that live in small files, and when they are written.

A table counts its changes, and calls its `on_change`, which is `save_soon`: code that changes a
table has nothing to remember. Changes that come together are written together, in a
thread, so the event loop never waits for the disk. What must not be acknowledged before it is
safe waits for `until_saved`. Offsets change with every pull, and are saved by the clock instead.
"""

import asyncio
import logging
from typing import Final, Protocol, final

from roquet.net.service import to_its_end
from roquet.state_file import StateFile, StateNotSaved

log = logging.getLogger(__name__)

RETRY_PAUSE_S: Final = 5.0


def do_nothing() -> None:
    """The `on_change` of a table that is not saved."""


class SavedTable(Protocol):
    change_count: int

    def to_bytes(self) -> bytes: ...


@final
class Saver:
    """Keeps one file in step with one table."""

    def __init__(self, name: str, file: StateFile, table: SavedTable) -> None:
        self._name = name
        self._file = file
        self._table = table
        self._saved_count = table.change_count
        self._is_wanted = asyncio.Event()
        self._saving = asyncio.Lock()

    def save_soon(self) -> None:
        self._is_wanted.set()

    async def keep_saved(self) -> None:
        """Saves when requested, and again after a pause if it failed; never returns."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                await self.until_saved()
            except StateNotSaved as error:
                log.error("%s not saved, retrying: %s", self._name, error)  # noqa: TRY400
                await asyncio.sleep(RETRY_PAUSE_S)
                self._is_wanted.set()

    async def until_saved(self) -> None:
        """Returns when every change made so far survives a power cut. Raises StateNotSaved."""
        wanted_count = self._table.change_count
        async with self._saving:
            # The previous owner of the lock may have saved our change, too.
            if self._saved_count >= wanted_count:
                return
            count = self._table.change_count
            await to_its_end(self._file.save, self._table.to_bytes())
            self._saved_count = count
