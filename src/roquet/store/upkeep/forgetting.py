"""Queues that are forgotten: those of a deleted topic, and those whose messages are all gone."""

from typing import Final, final

from roquet.protocol import names
from roquet.store.commit_log import CommitLog
from roquet.store.flushing import Flusher
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.deletions import Deletions

# The broker itself follows the queues of these. One that began again would be behind where the
# broker is, and never be looked at.
_FOLLOWED: Final = (
    names.SCHEDULE_TOPIC,
    names.TIMER_TOPIC,
    names.HALF_TOPIC,
    names.OP_HALF_TOPIC,
    names.TABLES_TOPIC,
)
_FOLLOWED_TOPICS: Final = frozenset(map(str.encode, _FOLLOWED))


@final
class Forgetting:
    """Names are taken away by the caller's thread, space is given back by the flushing one."""

    def __init__(
        self, log: CommitLog, queues: ConsumeQueues, deletions: Deletions, flusher: Flusher
    ) -> None:
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._flusher = flusher

    def topic(self, topic: bytes, before: int | None = None) -> None:
        """All of its messages that lie before that physical offset; without one, all there are.

        What came later has begun its queues again, and stays. Raises StateNotSaved; then nothing
        has changed.
        """
        end = self._log.end if before is None else before
        queues = [
            queue
            for queue in self._queues
            if queue.topic == topic
            # Not what is known already: a log that is read again says the same again.
            and (before is None or self._deletions.end_of(topic, queue.queue_id) < before)
        ]
        if not queues:
            return
        self._deletions.add([(topic, queue.queue_id) for queue in queues], self._log.start, end)
        for queue in queues:
            if queue.last_physical_end() <= end:
                self._flusher.retire(self._queues.remove(queue))

    def expired(self) -> list[tuple[str, int]]:
        """The topics and ids of the queues that are gone."""
        expired = [
            queue
            for queue in self._queues
            if queue.topic not in _FOLLOWED_TOPICS
            and queue.max_offset
            and queue.last_physical_end() <= self._log.start
        ]
        for queue in expired:
            self._flusher.retire(self._queues.remove(queue))
        return [(queue.topic.decode(), queue.queue_id) for queue in expired]
