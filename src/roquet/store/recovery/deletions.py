"""Which queues were deleted, and up to where in the log.

Messages of a deleted topic stay in the log until they expire. Without this list a recovery
would find them there and bring the topic back. Apache has no such list and ignores it.
"""

from pathlib import Path
from typing import final

import msgspec

from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.state_file import StateFile


class _Deletion(msgspec.Struct, rename="camel"):
    topic: str
    queue_id: int
    before: int


class _DeletionList(msgspec.Struct):
    deletions: list[_Deletion]


class _BadList(RoquetError):
    """The file is not the list it should be."""


@final
class Deletions:
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
        """Remember queues that are deleted now. Raises StateNotSaved."""
        kept = {key: end for key, end in self._ends.items() if end > log_start}
        kept.update(dict.fromkeys(queues, log_end))
        self._save(kept)

    def revive(self, log_end: int) -> bool:
        """The log is cut there, because another one goes on: what was deleted since was not.

        Whether there is such a thing. Raises StateNotSaved.
        """
        kept = {key: end for key, end in self._ends.items() if end < log_end}
        if len(kept) == len(self._ends):
            return False
        self._save(kept)
        return True

    def limit(self, log_end: int) -> None:
        """The log lost its tail: what is appended there from now on was never deleted.

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


def _parse(content: bytes) -> list[_Deletion]:
    try:
        return msgspec.json.decode(content, type=_DeletionList).deletions
    except msgspec.MsgspecError as error:
        raise _BadList(str(error)) from None
