"""How far a consumer is in each queue: noted here at once, and kept for good from time to time."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, final

from roquet.client.cluster.brokers import by_broker
from roquet.client.errors import Unreachable
from roquet.client.group.offset_stores import BrokerOffsets, OffsetStore
from roquet.client.queue_ref import QueueRef
from roquet.errors import RoquetError

log = logging.getLogger(__name__)

_STORE: Final = "the offset store"


@final
class OffsetKeeper:
    """What is noted is known here at once, and in the store with the next `save`."""

    def __init__(self, store: OffsetStore) -> None:
        self.store = store
        self._offsets: dict[QueueRef, int] = {}
        self._unsaved: set[QueueRef] = set()
        # Queues that were begun here at their ends, each with those that its topic had then.
        self.begun: dict[QueueRef, frozenset[QueueRef]] = {}

    async def kept(self, queue: QueueRef) -> int | None:
        """None for a queue nobody was in. Raises RoquetError."""
        try:
            return await self.store.kept(queue)
        except OSError as error:
            raise Unreachable(_STORE, str(error)) from error

    async def kept_or_young(self, queue: QueueRef) -> int | None:
        """The same, but 0 for a topic so young that whoever comes gets everything of it.

        Only a broker knows what is young, so only where it keeps the offsets it says so.
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
        """To any offset, as an operator or `seek` wants it."""
        self._offsets[queue] = offset
        self._unsaved.add(queue)

    async def save(self, queues: Iterable[QueueRef]) -> None:
        """What could not be kept is tried again by the next call."""
        offsets = {queue: self._offsets[queue] for queue in self._unsaved.intersection(queues)}
        await asyncio.gather(*map(self._save, _parts(offsets)))

    async def commit(self, offsets: Mapping[QueueRef, int]) -> None:
        """Moves to these offsets, which are kept for good when it returns. Raises RoquetError."""
        for queue, offset in offsets.items():
            self.move(queue, offset)
        await asyncio.gather(*map(self._keep, _parts(offsets)))

    def forget(self, queue: QueueRef) -> None:
        """Somebody else goes on there."""
        self._offsets.pop(queue, None)
        self._unsaved.discard(queue)

    async def _save(self, offsets: Mapping[QueueRef, int]) -> None:
        try:
            await self._keep(offsets)
        except RoquetError as error:
            shown = ", ".join(f"{offset} of {queue}" for queue, offset in offsets.items())
            log.warning("offsets are not kept yet, %s: %s", shown, error)

    async def _keep(self, offsets: Mapping[QueueRef, int]) -> None:
        try:
            await self.store.keep(offsets)
        except OSError as error:
            raise Unreachable(_STORE, str(error)) from error
        for queue, offset in offsets.items():
            if self._offsets.get(queue) == offset:
                self._unsaved.discard(queue)


def _parts(offsets: Mapping[QueueRef, int]) -> Iterator[dict[QueueRef, int]]:
    """Those of each broker: one that fails must not hold up the others."""
    for queues in by_broker(offsets).values():
        yield {queue: offsets[queue] for queue in queues}
