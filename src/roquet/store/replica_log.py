"""The log of a slave, written byte by byte from that of its master.

Bytes arrive as they lie in the master's log, cut anywhere. They are written at once, after the end
of this log; bytes after the end are never read, and lost in a crash. When a record is complete and
good, it is entered into its queue and the end moves past it:

    | records, in queues        | bytes of an incomplete record           |
    log start            log end                              received end

So whatever relies on the end of the log, the sync of the disk included, sees whole records only.
"""

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, final

import msgspec

from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.store.commit_log import CommitLog
from roquet.store.dispatch import Dispatcher
from roquet.store.errors import BadRecord, DamagedRange, ReplicaMismatch, refusal_of
from roquet.store.files.mapped_file import MappedFile
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import KeyIndex
from roquet.store.log_scan import RECORD_SIZE_MIN, LogRecord, is_blank

_unpack_head = Struct(">ii").unpack_from
_HEAD_SIZE: Final = 8
_FILE_SIZE: Final = "mappedFileSizeCommitLog"
_MAGICS: Final = (MAGIC_V1, MAGIC_V2)


class Grown(msgspec.Struct, frozen=True):
    """The queues that got records, and the damage that was passed over."""

    queues: set[tuple[bytes, int]]
    damages: list[DamagedRange]


@final
class ReplicaLog:
    """Created by `MessageStore.follow`, and used by the owner of the store."""

    def __init__(
        self,
        log: CommitLog,
        dispatcher: Dispatcher,
        index: KeyIndex | None,
        flusher: Flusher,
        *,
        is_sync: bool,
    ) -> None:
        self._log = log
        self._dispatcher = dispatcher
        self._index = index
        self._flusher = flusher
        self._is_sync = is_sync
        self.received_end = log.end

    def begin(self) -> int:
        """Drop an incomplete record; returns the offset from which the master has to send."""
        self.received_end = self._log.end
        return self.received_end

    def write(self, pieces: Iterable[tuple[int, memoryview]]) -> None:
        """Bytes of the master's log, each piece with its physical offset.

        Pieces of one file are written together. Raises ReplicaMismatch for bytes that do not
        continue the log, and StoreUnavailable.
        """
        file_size = self._log.file_size
        together: list[memoryview] = []
        end = self.received_end
        for physical_offset, data in pieces:
            if physical_offset != end or physical_offset % file_size == 0:
                self._append(together)
                together.clear()
                if physical_offset != self.received_end:
                    self._start_at(physical_offset)
            if len(data) > file_size - physical_offset % file_size:
                raise ReplicaMismatch(
                    f"{len(data)} bytes at {physical_offset} do not fit into one file",
                    _FILE_SIZE,
                )
            together.append(data)
            end = physical_offset + len(data)
        self._append(together)

    def grow(self) -> Grown:
        """Move the end past complete records. Raises ReplicaMismatch, or StoreUnavailable."""
        grown = Grown(set(), [])
        if self._index is not None:
            self._index.fall_behind(self._log.end)
        try:
            while (bad := self._grow_to_bad(grown)) is not None:
                damage = self._damage(bad)
                if damage is None:
                    break
                grown.damages.append(damage)
                self._log.end = damage.end
        except OSError as error:
            raise refusal_of(error) from error
        if self._is_sync and grown.queues:
            self._flusher.want()
        return grown

    def _append(self, parts: Sequence[memoryview]) -> None:
        """All of one file."""
        if parts:
            self._log.write_received(self.received_end, parts)
            self.received_end += sum(map(len, parts))

    def _start_at(self, physical_offset: int) -> None:
        """An empty log starts where that of the master does."""
        log = self._log
        if log.end != log.start or self.received_end != log.end:
            raise ReplicaMismatch(
                f"the log of the slave continues at {self.received_end}, not at {physical_offset}"
            )
        if physical_offset % log.file_size:
            raise ReplicaMismatch(
                f"no file of {log.file_size} bytes starts at {physical_offset}",
                _FILE_SIZE,
            )
        self._flusher.retire(log.start_at(physical_offset))
        self.received_end = physical_offset
        if self._index is not None:
            self._index.next_offset = physical_offset

    def _grow_to_bad(self, grown: Grown) -> BadRecord | None:
        """Move the end up to a record that is bad or incomplete; None if all are good."""
        log = self._log
        start = log.end
        try:
            for stretch in log.stretches(start, self.received_end):
                self._dispatcher.dispatch_all(stretch)
                grown.queues.update((run.topic, run.queue_id) for run in stretch.runs)
                grown.queues.update((each.topic, each.queue_id) for each in stretch.others)
                log.last_store_timestamp = stretch.last_timestamp
                log.end = stretch.end
        except BadRecord as bad:
            # There may be a blank before it, which `stretches` does not yield.
            log.end = max(log.end, bad.physical_offset)
            return bad
        self._pass_blank()
        return None

    def _pass_blank(self) -> None:
        file = self._log.file_at(self._log.end)
        if file is not None and file.end <= self.received_end and self._log.end > file.start:
            assert is_blank(file, self._log.end - file.start)
            self._log.end = file.end

    def _damage(self, bad: BadRecord) -> DamagedRange | None:
        """The bytes to pass over; None if the rest of a record may still arrive."""
        file = self._log.file_at(bad.physical_offset)
        assert file is not None, "a bad record was read from a file"
        if self._is_unfinished(file, bad.physical_offset):
            return None
        after = self._next_good(bad.physical_offset)
        if after is None:
            return None
        self._check_within(file, bad.physical_offset, after.physical_offset)
        file.is_verified = False
        return DamagedRange(bad.physical_offset, after.physical_offset, bad.reason)

    def _check_within(self, file: MappedFile, start: int, next_start: int) -> None:
        """Raises ReplicaMismatch for a record of the master that crosses the end of our file."""
        size, magic = _unpack_head(file.mapping, start - file.start)
        # Damaged bytes would hardly name exactly the offset where the next record starts.
        if magic in _MAGICS and start + size == next_start > file.end:
            raise ReplicaMismatch(
                f"a record from {start} to {next_start} crosses the end of a file at {file.end}",
                _FILE_SIZE,
            )

    def _is_unfinished(self, file: MappedFile, physical_offset: int) -> bool:
        """Whether a record may start here. Raises ReplicaMismatch for a misplaced blank."""
        received = self.received_end - physical_offset
        if received < _HEAD_SIZE:
            return True
        if file.end - physical_offset < _HEAD_SIZE:
            # A blank would not fit either.
            raise ReplicaMismatch(
                f"a record starts at {physical_offset}, where a file ends at {file.end}",
                _FILE_SIZE,
            )
        size, magic = _unpack_head(file.mapping, physical_offset - file.start)
        if magic == MAGIC_BLANK:
            raise ReplicaMismatch(
                f"a file of the master ends at {physical_offset + size}, but none of the slave",
                _FILE_SIZE,
            )
        is_possible = RECORD_SIZE_MIN <= size <= file.end - physical_offset
        return magic in _MAGICS and is_possible and size > received

    def _next_good(self, physical_offset: int) -> LogRecord | None:
        found = self._log.find_record(physical_offset + 1)
        if found is None or found.physical_offset + found.size > self.received_end:
            return None
        return found
