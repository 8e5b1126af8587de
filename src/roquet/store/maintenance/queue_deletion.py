"""Deletes queues: those of a deleted topic, and those whose messages have all expired.

Messages of a deleted topic stay in the log until they expire. Without the list of deleted queues
(`deleted-queues.json`, which Apache ignores) a recovery would find them and restore the topic.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, final

import msgspec

from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.protocol import names
from roquet.state_file import StateFile
from roquet.store.commit_log import CommitLog
from roquet.store.files.mapped_file import MappedFile
from roquet.store.queues import ConsumeQueues

# The broker keeps its own position in the queues of these topics. One that restarted at offset 0
# would be before that position, and its messages would never be read.
_BROKER_READ: Final = (
    names.SCHEDULE_TOPIC,
    names.TIMER_TOPIC,
    names.HALF_TOPIC,
    names.OP_HALF_TOPIC,
    names.TABLES_TOPIC,
)
_BROKER_TOPICS: Final = frozenset(map(str.encode, _BROKER_READ))


class _Deletion(msgspec.Struct, rename="camel"):
    topic: str
    queue_id: int
    before: int


class _DeletionList(msgspec.Struct):
    deletions: list[_Deletion]


class _BadList(RoquetError):
    """The file is not the list it should be."""


@final
class DeletedQueues:
    """Which queues were deleted, and up to which physical offset."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(disk, path)
        self._ends: dict[tuple[bytes, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self._ends)

    def load(self) -> None:
        """Raises BadStateFile."""
        self._ends = {
            (each.topic.encode(), each.queue_id): each.before
            for each in self._file.load(_parse) or ()
        }

    def end_of(self, topic: bytes, queue_id: int) -> int:
        """Records of this queue below the returned physical offset are deleted."""
        return self._ends.get((topic, queue_id), 0)

    def add(self, queues: list[tuple[bytes, int]], log_start: int, log_end: int) -> None:
        """Save that these queues are deleted now. Raises StateNotSaved."""
        kept = {key: end for key, end in self._ends.items() if end > log_start}
        kept.update(dict.fromkeys(queues, log_end))
        self._save(kept)

    def revive(self, log_end: int) -> bool:
        """Undo the deletions after `log_end`, where the log is cut because a new master took over.

        Returns whether there were any. Raises StateNotSaved.
        """
        kept = {key: end for key, end in self._ends.items() if end < log_end}
        if len(kept) == len(self._ends):
            return False
        self._save(kept)
        return True

    def limit(self, log_end: int) -> None:
        """The log lost its tail: messages appended there from now on are not deleted.

        Raises StateNotSaved.
        """
        if any(end > log_end for end in self._ends.values()):
            self._save({key: min(end, log_end) for key, end in self._ends.items()})

    def _save(self, ends: dict[tuple[bytes, int], int]) -> None:
        self._file.save(
            msgspec.json.encode(
                _DeletionList(
                    [
                        _Deletion(topic.decode(), queue_id, end)
                        for (topic, queue_id), end in ends.items()
                    ]
                )
            )
        )
        self._ends = ends


@final
class QueueDeletion:
    """Unlinks files in the caller's thread; the flushing one closes them and so frees the space."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        deletions: DeletedQueues,
        retire: Callable[[Iterable[MappedFile]], None],
    ) -> None:
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._retire = retire

    def delete_topic(self, topic: bytes, before: int | None = None) -> None:
        """Delete the messages of a topic before that physical offset; all of them without one.

        Later messages belong to a new topic of the same name, and stay. Raises StateNotSaved; then
        nothing has changed.
        """
        end = self._log.end if before is None else before
        queues = [
            queue
            for queue in self._queues
            if queue.topic == topic
            # Not what is deleted already: a log that is read again repeats its deletions.
            and (before is None or self._deletions.end_of(topic, queue.queue_id) < before)
        ]
        if not queues:
            return
        self._deletions.add([(topic, queue.queue_id) for queue in queues], self._log.start, end)
        for queue in queues:
            if queue.last_physical_end() <= end:
                self._retire(self._queues.remove(queue))

    def delete_expired(self) -> list[tuple[str, int]]:
        """Delete queues without messages; their topics and ids."""
        expired = [
            queue
            for queue in self._queues
            if queue.topic not in _BROKER_TOPICS
            and queue.max_offset
            and queue.last_physical_end() <= self._log.start
        ]
        for queue in expired:
            self._retire(self._queues.remove(queue))
        return [(queue.topic.decode(), queue.queue_id) for queue in expired]


def _parse(content: bytes) -> list[_Deletion]:
    try:
        return msgspec.json.decode(content, type=_DeletionList).deletions
    except msgspec.MsgspecError as error:
        raise _BadList(str(error)) from None
