"""Whether a slave has what it should, by the files of the two brokers, while both go on.

    C1  what a SYNC_MASTER has acknowledged is on the slave, at that very moment
    C2  the logs are the same, byte for byte, as far as the slave has one
    E2  when everything has come to rest, all logs of an electorate are

A slave whose line is cut cannot catch up, so whoever looks then sees what it had when the senders
were answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_BLANK, peek_record, read_record, verify_record
from tests.faults.history import History
from tests.support.eventually import eventually

_PREFIX: Final = Struct(">ii")


class LiveLog:
    """The log of a broker, read from outside as far as its records are whole."""

    def __init__(self, store_directory: Path) -> None:
        self._directory = store_directory / "commitlog"
        self.end = 0
        # The bodies of a topic by queue and offset.
        self.found: dict[tuple[str, int, int], bytes] = {}

    def look(self) -> None:
        """Continues where it was."""
        while (file := self._file_at(self.end)) is not None:
            start, path = file
            content = path.read_bytes()
            while self._take(content, self.end - start):
                pass
            # Only a blank leads past the end of a file.
            if self.end < start + len(content):
                return

    def part(self, start: int, end: int) -> bytes:
        """The bytes between two offsets; fewer, if files are missing."""
        pieces = []
        while start < end and (file := self._file_at(start)) is not None:
            file_start, path = file
            content = path.read_bytes()
            piece = content[start - file_start : end - file_start]
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def _file_at(self, offset: int) -> tuple[int, Path] | None:
        if not self._directory.exists():
            return None
        for path in self._directory.iterdir():
            if path.name.isdigit() and 0 <= offset - int(path.name) < path.stat().st_size:
                return int(path.name), path
        return None

    def _take(self, content: bytes, position: int) -> bool:
        """The record or blank at a position, if it is whole."""
        if position + _PREFIX.size > len(content):
            return False
        size, magic = _PREFIX.unpack_from(content, position)
        if magic == MAGIC_BLANK:
            self.end += len(content) - position
            return False
        try:
            verify_record(content, peek_record(content, position))
            message = read_record(content, position)
        except BadMessage:
            return False  # Half of it is there, or none: that is where the log ends by now.
        self.found[message.topic, message.queue_id, message.queue_offset] = message.body
        self.end += size
        return True


@dataclass
class ReplicaCheck:
    """`is_sync`: the master waits for the slave before it answers."""

    topic: str
    history: History
    master: LiveLog
    slave: LiveLog
    is_sync: bool
    violations: list[str] = field(default_factory=list)
    _acknowledged_count: int = 0
    _compared_end: int = 0

    def look(self) -> None:
        # Noted before the files are read: what is acknowledged meanwhile is looked at next time.
        count = len(self.history.acknowledged)
        self.slave.look()
        if self.is_sync:
            self._look_for_acknowledged(count)
        self._compare()

    def _look_for_acknowledged(self, count: int) -> None:
        for each in self.history.acknowledged[self._acknowledged_count : count]:
            found = self.slave.found.get((self.topic, each.queue[1], each.offset))
            if found != each.body:
                self.violations.append(
                    f"C1: {each.body!r} was acknowledged at {each.queue} {each.offset}, where the "
                    f"slave has {found!r}"
                )
        self._acknowledged_count = count

    def _compare(self) -> None:
        start, end = self._compared_end, self.slave.end
        if self.master.part(start, end) != self.slave.part(start, end):
            self.violations.append(f"C2: the logs differ between {start} and {end}")
        self._compared_end = end

    def compare_all(self) -> None:
        """Once more from the beginning, and both have to end together."""
        self._compared_end = 0
        self.look()
        self.master.look()
        if self.master.end != self.slave.end:
            self.violations.append(
                f"C2: the log of the master ends at {self.master.end}, that of the slave at "
                f"{self.slave.end}"
            )


async def differing(store_directories: Sequence[Path], patience_s: float) -> list[str]:
    """E2; replicas that were away have to catch up first.

    A transaction that is still open is checked now and then, and each check is a record: the logs
    that are compared are those of the same look in which they ended together.
    """
    found: list[LiveLog] = []

    def are_equal() -> bool:
        # New ones each time: a replica that returns may have to cut its log.
        found[:] = [LiveLog(each) for each in store_directories]
        for log in found:
            log.look()
        return len({log.end for log in found}) == 1 == len({log.part(0, log.end) for log in found})

    try:
        await eventually(are_equal, patience_s)
    except TimeoutError:
        return [f"E2: the logs differ: {[log.end for log in found]}"]
    return []
