"""How far a consumer is in each queue, and where that is kept: at the broker or in a file.

A group that shares its queues keeps them at the broker, so that any member can go on where
another one stopped. Who reads everything for itself keeps them in a file of its own.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef, queue_ref, wire_queue
from roquet.disk import SystemDisk
from roquet.net.threads import to_its_end
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.offset_table import ResetOffsets
from roquet.protocol.bodies.queue_table import QueueTable
from roquet.state_file import StateFile, StateNotSaved

log = logging.getLogger(__name__)

FILE_NAME: Final = "offsets.json"


class OffsetKeeper(Protocol):
    """What is noted is known here at once, and kept for good by the next `save`."""

    async def kept(self, queue: QueueRef) -> int | None:
        """None for a queue nobody was in. Raises Unreachable or RequestRefused."""

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """The same, but 0 for a topic so young that whoever comes gets everything of it."""

    def noted(self, queue: QueueRef) -> int | None: ...

    def note(self, queue: QueueRef, offset: int) -> None:
        """Forwards only."""

    def move(self, queue: QueueRef, offset: int) -> None:
        """To any offset, as an operator or `seek` wants it."""

    async def save(self, queues: Iterable[QueueRef]) -> None:
        """What could not be kept is tried again by the next call."""

    async def commit(self, offsets: Mapping[QueueRef, int]) -> None:
        """Moves to these offsets, which are kept for good when it returns.

        Raises Unreachable, RequestRefused or StateNotSaved.
        """

    def forget(self, queue: QueueRef) -> None:
        """Somebody else goes on there."""


class _Notes:
    """Offsets in memory, and which of them are not kept yet."""

    def __init__(self) -> None:
        self.offsets: dict[QueueRef, int] = {}
        self.unsaved: set[QueueRef] = set()

    def noted(self, queue: QueueRef) -> int | None:
        return self.offsets.get(queue)

    def note(self, queue: QueueRef, offset: int) -> None:
        if offset > self.offsets.get(queue, -1):
            self.move(queue, offset)

    def move(self, queue: QueueRef, offset: int) -> None:
        self.offsets[queue] = offset
        self.unsaved.add(queue)

    def forget(self, queue: QueueRef) -> None:
        self.offsets.pop(queue, None)
        self.unsaved.discard(queue)


@final
class BrokerOffsets(_Notes):
    def __init__(self, brokers: Brokers, group: str) -> None:
        super().__init__()
        self._brokers = brokers
        self._group = group

    async def kept(self, queue: QueueRef) -> int | None:
        return await self._brokers.committed(self._group, queue)

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        return await self._brokers.committed_or_young(self._group, queue)

    async def save(self, queues: Iterable[QueueRef]) -> None:
        await asyncio.gather(*(self._save(queue) for queue in self.unsaved.intersection(queues)))

    async def commit(self, offsets: Mapping[QueueRef, int]) -> None:
        for queue, offset in offsets.items():
            self.move(queue, offset)
        await asyncio.gather(*(self._commit(queue, offset) for queue, offset in offsets.items()))

    async def _save(self, queue: QueueRef) -> None:
        offset = self.offsets[queue]
        try:
            await self._commit(queue, offset)
        except (Unreachable, RequestRefused) as error:
            log.warning("offset %d of %s is not kept yet: %s", offset, queue, error)

    async def _commit(self, queue: QueueRef, offset: int) -> None:
        await self._brokers.commit(self._group, queue, offset)
        if self.offsets.get(queue) == offset:
            self.unsaved.discard(queue)


@final
class FileOffsets(_Notes):
    """`offsets.json` in a directory of one client and group, as the Java client writes it."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self._file = StateFile(SystemDisk(), directory / FILE_NAME)
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Takes up what an earlier run kept. Raises BadStateFile."""
        table = self._file.load(_read_offsets)
        if table is not None:
            self.offsets.update(table)

    async def kept(self, queue: QueueRef) -> int | None:
        return self.offsets.get(queue)

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """No broker knows of it, so none says what is young."""
        return self.offsets.get(queue)

    def forget(self, queue: QueueRef) -> None:
        """Nobody else goes on there: if the queue comes back, it goes on where it was."""

    async def save(self, queues: Iterable[QueueRef]) -> None:  # noqa: ARG002
        """Everything that is known, whatever is asked for: the file is written as a whole."""
        if not self.unsaved:
            return
        try:
            await self._write()
        except StateNotSaved as error:
            log.warning("offsets are not kept yet: %s", error)

    async def commit(self, offsets: Mapping[QueueRef, int]) -> None:
        for queue, offset in offsets.items():
            self.move(queue, offset)
        await self._write()

    async def _write(self) -> None:
        async with self._writing:
            unsaved, self.unsaved = self.unsaved, set()
            try:
                await to_its_end(self._file.save, _offsets_text(self.offsets))
            except (StateNotSaved, asyncio.CancelledError):
                self.unsaved |= unsaved
                raise


def _read_offsets(data: bytes) -> dict[QueueRef, int]:
    table = read_body(ResetOffsets, data).offset_table
    return {queue_ref(queue): offset for queue, offset in table.items()}


def _offsets_text(offsets: Mapping[QueueRef, int]) -> bytes:
    table = QueueTable({wire_queue(queue): offset for queue, offset in offsets.items()})
    return write_body(ResetOffsets(offset_table=table))
