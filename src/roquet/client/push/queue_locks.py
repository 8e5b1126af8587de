"""Locks of queues, at brokers: while one is held, no other member of the group reads the queue.

A broker lets one member of a group lock a queue. A lock is valid for 60 seconds there, for 30 here,
and renewed after 20: a member that could not renew it stops before another one can start.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final, NamedTuple, final

from roquet.client.cluster.brokers import Brokers, by_broker
from roquet.client.errors import RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock

log = logging.getLogger(__name__)

RENEW_PERIOD_S: Final = 20.0
_LOCK_VALID_S: Final = 30.0


class Renewal(NamedTuple):
    """`taken` are queues that another member has locked, at the brokers that answered."""

    taken: list[QueueRef]
    have_all_answered: bool


@final
class QueueLocks:
    """The locks of one member. Brokers that do not answer have given none."""

    def __init__(self, brokers: Brokers, group: str, client_id: str, clock: Clock) -> None:
        self._brokers = brokers
        self._group = group
        self._client_id = client_id
        self._clock = clock
        self._ends_s: dict[QueueRef, float] = {}

    def is_held(self, queue: QueueRef) -> bool:
        return self._clock.monotonic_s() < self._ends_s.get(queue, 0.0)

    def locked_s(self, queue: QueueRef) -> float | None:
        """When it was last locked, in monotonic time."""
        end_s = self._ends_s.get(queue)
        return None if end_s is None else end_s - _LOCK_VALID_S

    async def lock(self, queues: Collection[QueueRef]) -> set[QueueRef]:
        """Those queues that this member may read now."""
        await self._ask(queues)
        return {queue for queue in queues if self.is_held(queue)}

    async def renew(self, queues: Collection[QueueRef]) -> Renewal:
        have_all_answered = await self._ask(queues)
        return Renewal([each for each in queues if each not in self._ends_s], have_all_answered)

    async def unlock(self, queues: Collection[QueueRef]) -> None:
        for queue in queues:
            self._ends_s.pop(queue, None)
        for name, part in by_broker(queues).items():
            try:
                await self._brokers.unlock(self._group, self._client_id, part)
            except (Unreachable, RequestRefused) as error:
                log.info("locks at %s are not released and will expire: %s", name, error)

    async def _ask(self, queues: Collection[QueueRef]) -> bool:
        """Stores the replies of brokers; returns whether all of them answered."""
        return all(await asyncio.gather(*map(self._ask_one, by_broker(queues).values())))

    async def _ask_one(self, queues: list[QueueRef]) -> bool:
        # The lock is as old as the request, not as the reply.
        end_s = self._clock.monotonic_s() + _LOCK_VALID_S
        try:
            locked = await self._brokers.lock(self._group, self._client_id, queues)
        except (Unreachable, RequestRefused) as error:
            log.info("%s granted no locks: %s", queues[0].broker_name, error)
            return False
        for queue in queues:
            if queue in locked:
                self._ends_s[queue] = end_s
            else:
                self._ends_s.pop(queue, None)
        return True
