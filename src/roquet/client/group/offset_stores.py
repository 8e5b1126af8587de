"""Where offsets are kept for good: at the broker, in a file, or where a program wants them.

A group that shares its queues keeps them at the broker, so that any member can go on where
another one stopped. A member that reads everything keeps them in a file of its own. A program that
keeps them elsewhere, with its own results for example, hands in an `OffsetStore`.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, final, runtime_checkable

from roquet.client.cluster.brokers import Brokers
from roquet.client.queue_ref import QueueRef, queue_ref, wire_queue
from roquet.disk import SystemDisk
from roquet.net.threads import to_its_end
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.bodies.offsets import ResetOffsets
from roquet.state_file import StateFile, StateNotSaved

FILE_NAME: Final = "offsets.json"


@runtime_checkable
class OffsetStore(Protocol):
    """Keeps offsets in a place of the program, such as its database.

    Topics of queues are as brokers know them, with the namespace in front.

    An OSError or ClientError of it is logged, and it is asked again later.

    For example:

        class InMemory:
            def __init__(self):
                self.offsets = {}

            async def kept(self, queue):
                return self.offsets.get(queue)

            async def keep(self, offsets):
                self.offsets.update(offsets)

        PushConsumer("127.0.0.1:9876", "billing", print, offset_store=InMemory())
    """

    async def kept(self, queue: QueueRef) -> int | None:
        """Where the group goes on; None for a queue nobody was in."""

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        """Those of some queues of one broker. When it returns, they outlive the program."""


@final
class BrokerOffsets:
    """Raises Unreachable or RequestRefused."""

    def __init__(self, brokers: Brokers, group: str) -> None:
        self._brokers = brokers
        self._group = group

    async def kept(self, queue: QueueRef) -> int | None:
        return await self._brokers.committed(self._group, queue)

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """The same, but 0 for a topic so young that whoever comes gets everything of it."""
        return await self._brokers.committed_or_young(self._group, queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        commit = self._brokers.commit
        results = await asyncio.gather(
            *(commit(self._group, queue, offset) for queue, offset in offsets.items()),
            # One that is refused must not keep the others from being told.
            return_exceptions=True,
        )
        for result in results:
            if result is not None:
                raise result


@final
class FileOffsets:
    """`offsets.json` in a directory of one client and group, as the Java client writes it."""

    def __init__(self, directory: Path) -> None:
        self._file = StateFile(SystemDisk(), directory / FILE_NAME)
        self._offsets: dict[QueueRef, int] = {}
        self._is_written = True
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Takes up what an earlier run kept. Raises BadStateFile."""
        table = self._file.load(_read_offsets)
        if table is not None:
            self._offsets.update(table)

    async def kept(self, queue: QueueRef) -> int | None:
        return self._offsets.get(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        """Raises StateNotSaved; a later call keeps them, too."""
        self._offsets.update(offsets)
        self._is_written = False
        async with self._writing:
            # The file is written as a whole, so somebody may have written these meanwhile.
            if not self._is_written:
                self._is_written = True
                try:
                    await to_its_end(self._file.save, _offsets_text(self._offsets))
                except (StateNotSaved, asyncio.CancelledError):
                    self._is_written = False
                    raise


def _read_offsets(data: bytes) -> dict[QueueRef, int]:
    table = read_body(ResetOffsets, data).offset_table
    return {queue_ref(queue): offset for queue, offset in table.items()}


def _offsets_text(offsets: Mapping[QueueRef, int]) -> bytes:
    table = QueueTable({wire_queue(queue): offset for queue, offset in offsets.items()})
    return write_body(ResetOffsets(offset_table=table))
