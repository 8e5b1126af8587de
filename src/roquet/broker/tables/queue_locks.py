"""Which consumer of a group owns which queue, so that order survives a rebalance.

Locks are kept in memory only and expire after a minute; their owners renew them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, final

import msgspec

from roquet.clock import Clock
from roquet.net.errors import TableFull

LOCK_TIME_S: Final = 60.0
LOCK_COUNT_MAX: Final = 100_000


class QueueKey(NamedTuple):
    group: str
    topic: str
    queue_id: int


class _Lock(msgspec.Struct, frozen=True):
    client_id: str
    end_s: float


@final
class LockTable:
    def __init__(self, clock: Clock, count_max: int = LOCK_COUNT_MAX) -> None:
        self._clock = clock
        self._count_max = count_max
        self._locks: dict[QueueKey, _Lock] = {}

    def __len__(self) -> int:
        return len(self._locks)

    def lock(self, client_id: str, queues: Iterable[QueueKey]) -> list[QueueKey]:
        """Takes or renews what it can; returns the queues that `client_id` owns now.

        Raises TableFull if new locks would be too many; then nothing has changed.
        """
        now_s = self._clock.monotonic_s()
        known = self._locks.get
        owned = [
            queue
            for queue in queues
            if (lock := known(queue)) is None or lock.client_id == client_id or lock.end_s < now_s
        ]
        if len(self._locks) + len(owned) > self._count_max and not self._has_room_for(owned):
            self.forget_ended()
            if not self._has_room_for(owned):
                raise TableFull("locks of queues", self._count_max, "maxQueueLocks")
        self._locks.update(dict.fromkeys(owned, _Lock(client_id, now_s + LOCK_TIME_S)))
        return owned

    def unlock(self, client_id: str, queues: Iterable[QueueKey]) -> None:
        """Gives back what `client_id` owns of `queues`."""
        for queue in queues:
            lock = self._locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del self._locks[queue]

    def forget_ended(self) -> None:
        """Drops expired locks, so that groups that are gone cost nothing."""
        now_s = self._clock.monotonic_s()
        self._locks = {queue: lock for queue, lock in self._locks.items() if lock.end_s >= now_s}

    def _has_room_for(self, queues: list[QueueKey]) -> bool:
        new = sum(queue not in self._locks for queue in queues)
        return not new or len(self._locks) + new <= self._count_max
