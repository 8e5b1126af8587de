"""The queues that a member of a group reads now, and how they come and go."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol, final

from roquet.client.group.membership import Membership
from roquet.client.push.queue_reader import QueueReader
from roquet.client.push.statistics import ConsumerCounters
from roquet.client.queue_ref import QueueRef

log = logging.getLogger(__name__)


class Locks(Protocol):
    """Brokers' promises that nobody else of the group reads a queue."""

    async def lock(self, queues: Collection[QueueRef]) -> set[QueueRef]: ...

    async def unlock(self, queues: Collection[QueueRef]) -> None: ...

    def is_held(self, queue: QueueRef) -> bool: ...


@final
class Assignment:
    """`new_reader` gets a queue and all queues of its topic."""

    def __init__(
        self,
        membership: Membership,
        new_reader: Callable[[QueueRef, Sequence[QueueRef]], QueueReader],
        locks: Locks | None,
        counters: ConsumerCounters,
        stuck_pull_s: float,
    ) -> None:
        self._counters = counters
        self._stuck_pull_s = stuck_pull_s
        self._membership = membership
        self._keeper = membership.keeper
        self._new_reader = new_reader
        self._locks = locks
        self.readers: dict[QueueRef, QueueReader] = {}
        # Lost, but not yet left.
        self.leaving: dict[QueueRef, QueueReader] = {}

    async def share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool:
        """Reads these queues of a topic from now on; False if some cannot be had yet."""
        lost = [queue for queue in self.readers if queue.topic == topic and queue not in share]
        for queue in lost:
            self.drop(queue)
        self._drop_stuck(topic)
        wanted = [queue for queue in share if queue not in self.readers]
        free = [queue for queue in wanted if queue not in self.leaving]
        if self._locks is not None and free:
            locked = await self._locks.lock(free)
            free = [queue for queue in free if queue in locked]
        if lost or free:
            # Before any new queue is read.
            await self._membership.registration.renew(topic)
        for queue in free:
            reader = self.readers[queue] = self._new_reader(queue, queues)
            reader.loop.start()
        if lost or free:
            log.info("reading %s of %s", [queue[1:] for queue in self.of_topic(topic)], topic)
        return len(free) == len(wanted)

    def _drop_stuck(self, topic: str) -> None:
        """They are begun anew as soon as they are left."""
        for queue in self.of_topic(topic):
            if self.readers[queue].loop.is_stuck(self._stuck_pull_s):
                log.warning("the pull of %s got stuck; the queue is begun anew", queue)
                self._counters.topics[topic].stuck_count += 1
                self.drop(queue)

    def of_topic(self, topic: str) -> list[QueueRef]:
        return sorted(queue for queue in self.readers if queue.topic == topic)

    def drop(self, queue: QueueRef) -> None:
        """Somebody else reads the queue from now on."""
        reader = self.readers.pop(queue)
        self.leaving[queue] = reader
        reader.stop()
        services = self._membership.instance.services
        services.once(f"leave {queue}", lambda: self._leave(reader))

    async def save(self) -> None:
        """What is finished is kept for good."""
        for reader in self.readers.values():
            if self._is_ours(reader.queue):
                reader.note()
        await self._keeper.save(tuple(self.readers))

    async def leave_all(self, busy: Collection[QueueRef]) -> None:
        """When nothing more is begun; `busy` are queues with a listener that would not end."""
        await self.save()
        if self._locks is not None:
            # Nobody else may begin there before the lock expires.
            ours = [queue for queue in (*self.readers, *self.leaving) if queue not in busy]
            await self._locks.unlock(ours)

    async def _leave(self, reader: QueueReader) -> None:
        queue = reader.queue
        try:
            if reader.feed is not None:
                await reader.feed.until_quiet()
            if self._is_ours(queue):
                reader.note()
                await self._keeper.save([queue])
            self._membership.forget(queue)
            if self._locks is not None:
                await self._locks.unlock([queue])
        finally:
            del self.leaving[queue]
            # It can be had again.
            self._membership.rebalance.wake()

    def _is_ours(self, queue: QueueRef) -> bool:
        """A member that lost a lock does not know how far the new owner is."""
        return self._locks is None or self._locks.is_held(queue)
