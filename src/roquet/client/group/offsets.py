"""How far a group is in each queue: noted in memory at once, saved to a store from time to time.

A group that shares its queues stores offsets at the broker, so that any member resumes where
another one stopped. A broadcasting member stores them in a file of its own. A program that keeps
them elsewhere, with its own results for example, hands in an `OffsetStore`.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol, final, runtime_checkable

from roquet.client.cluster.brokers import Brokers, by_broker
from roquet.client.errors import Unreachable
from roquet.client.queue_ref import QueueRef, queue_ref, wire_queue
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.net.service import to_its_end
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.bodies.offsets import ResetOffsets
from roquet.state_file import StateFile, StateNotSaved

log = logging.getLogger(__name__)

_STORE: Final = "the offset store"

FILE_NAME: Final = "offsets.json"


@runtime_checkable
class OffsetStore(Protocol):
    """Stores offsets for the program, for example in its database.

    Topics of queues are those of brokers, with the namespace in front.

    An OSError or ClientError that it raises is logged, and the call is retried later.

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
        """The offset where the group resumes; None if nothing was stored."""

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        """Stores the offsets of some queues of one broker. When it returns, they are durable."""


@final
class OffsetKeeper:
    """Offsets are noted in memory, and reach the store with the next `save`."""

    def __init__(self, store: OffsetStore) -> None:
        self.store = store
        self._offsets: dict[QueueRef, int] = {}
        self._unsaved: set[QueueRef] = set()
        # One commit at a time at each broker: of two that are on their way, Apache's may store the
        # older one last. One that does not answer must not hold up the others.
        self._commits: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # Queues that were started here at their ends, with the queues their topics had then.
        self.started_at_end: dict[QueueRef, frozenset[QueueRef]] = {}

    async def kept(self, queue: QueueRef) -> int | None:
        """None if nothing was stored. Raises RoquetError."""
        try:
            return await self.store.kept(queue)
        except Unreachable:
            raise  # A broker is, and its error has the reason.
        except OSError as error:
            raise Unreachable(_STORE, str(error)) from error

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """The same, but 0 for a new topic that is still in memory: a group reads all of it.

        Only a broker knows that, so it is asked only where it stores the offsets.
        """
        if isinstance(self.store, BrokerOffsets):
            return await self.store.kept_or_young(queue)
        return await self.kept(queue)

    def noted(self, queue: QueueRef) -> int | None:
        return self._offsets.get(queue)

    def note(self, queue: QueueRef, offset: int) -> None:
        """Forwards only."""
        if offset > self._offsets.get(queue, -1):
            self.move(queue, offset)

    def move(self, queue: QueueRef, offset: int) -> None:
        """To any offset, for an operator or `seek`."""
        self._offsets[queue] = offset
        self._unsaved.add(queue)

    async def save(self, queues: Iterable[QueueRef]) -> None:
        """What could not be stored is retried by the next call."""
        parts = by_broker(self._unsaved.intersection(queues))
        await asyncio.gather(*(self._save(*part) for part in parts.items()))

    async def save_finally(self, queues: Collection[QueueRef]) -> None:
        """The same for a member that leaves: there is no next call, so it is tried twice."""
        await self.save(queues)
        if not self._unsaved.isdisjoint(queues):
            await self.save(queues)

    async def commit(self, offsets: Mapping[QueueRef, int]) -> None:
        """Moves to these offsets, which are stored when it returns. Raises RoquetError."""
        for queue, offset in offsets.items():
            self.move(queue, offset)
        parts = by_broker(offsets)
        await asyncio.gather(
            *(
                self._keep(name, {queue: offsets[queue] for queue in part})
                for name, part in parts.items()
            )
        )

    def forget(self, queue: QueueRef) -> None:
        """Another member reads the queue now."""
        self._offsets.pop(queue, None)
        self._unsaved.discard(queue)

    async def _save(self, broker_name: str, queues: Iterable[QueueRef]) -> None:
        # In this order: what was noted while the last commit was on its way goes along.
        async with self._commits[broker_name]:
            offsets = {queue: self._offsets[queue] for queue in self._unsaved.intersection(queues)}
            if offsets:
                await self._try_to_store(offsets)

    async def _try_to_store(self, offsets: Mapping[QueueRef, int]) -> None:
        try:
            await self._store(offsets)
        except RoquetError as error:
            shown = ", ".join(f"{offset} of {queue}" for queue, offset in offsets.items())
            log.warning("offsets not committed, retrying: %s: %s", shown, error)

    async def _keep(self, broker_name: str, offsets: Mapping[QueueRef, int]) -> None:
        async with self._commits[broker_name]:
            await self._store(offsets)

    async def _store(self, offsets: Mapping[QueueRef, int]) -> None:
        try:
            await self.store.keep(offsets)
        except Unreachable:
            raise  # A broker is, and its error has the reason.
        except OSError as error:
            raise Unreachable(_STORE, str(error)) from error
        for queue, offset in offsets.items():
            if self._offsets.get(queue) == offset:
                self._unsaved.discard(queue)


@final
class BrokerOffsets:
    """Raises Unreachable or RequestRefused."""

    def __init__(self, brokers: Brokers, group: str) -> None:
        self._brokers = brokers
        self._group = group
        # Broker names and topics that have an offset of the group.
        self._begun: set[tuple[str, str]] = set()

    async def kept(self, queue: QueueRef) -> int | None:
        return await self._brokers.committed(self._group, queue)

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """The same, but 0 for a new topic that is still in memory: a group reads all of it."""
        return await self._brokers.committed_or_young(self._group, queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        # Of two first commits of a group in a topic that Apache's brokers process at the same time,
        # they may lose one, although both are confirmed. So the first one goes ahead.
        first = {_place(queue): queue for queue in offsets if _place(queue) not in self._begun}
        ahead = {queue: offsets[queue] for queue in first.values()}
        errors = await self._commit(ahead)
        if not errors:
            self._begun.update(first)
        rest = {queue: offset for queue, offset in offsets.items() if queue not in ahead}
        errors += await self._commit(rest)
        if errors:
            raise errors[0]

    async def _commit(self, offsets: Mapping[QueueRef, int]) -> list[BaseException]:
        commit = self._brokers.commit
        results = await asyncio.gather(
            *(commit(self._group, queue, offset) for queue, offset in offsets.items()),
            # One that is refused must not keep the others from being committed.
            return_exceptions=True,
        )
        return [result for result in results if result is not None]


def _place(queue: QueueRef) -> tuple[str, str]:
    return queue.broker_name, queue.topic


@final
class FileOffsets:
    """`offsets.json` in a directory of one client and group, as the Java client writes it."""

    def __init__(self, directory: Path) -> None:
        self._file = StateFile(SystemDisk(), directory / FILE_NAME)
        self._offsets: dict[QueueRef, int] = {}
        self._is_written = True
        self._writing = asyncio.Lock()

    def load(self) -> None:
        """Loads what an earlier run stored. Raises BadStateFile."""
        table = self._file.load(_read_offsets)
        if table is not None:
            self._offsets.update(table)

    async def kept(self, queue: QueueRef) -> int | None:
        return self._offsets.get(queue)

    async def keep(self, offsets: Mapping[QueueRef, int]) -> None:
        """Raises StateNotSaved; a later call stores them, too."""
        self._offsets.update(offsets)
        self._is_written = False
        async with self._writing:
            # The file is written as a whole, so another call may have written these meanwhile.
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
