"""Finds messages by key: all files of the key index. What a key is: see `message_keys.py`.

The offsets of appended records are noted, and indexed in batches, which cost a tenth per record.
Records that were not noted (after a crash, on a slave, after a backlog) are found by reading the
log from `next_offset` on.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from roquet.clock import Clock
from roquet.disk import Disk, make_safe_directory
from roquet.protocol.java_hash import index_hash
from roquet.store.commit_log import CommitLog
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile
from roquet.store.keys.index_file import (
    IndexFile,
    IndexHeader,
    create_index_file,
    index_file_size,
)
from roquet.store.keys.message_keys import KeyBatch, has_key, keys_in_log

# At most this many messages are indexed at once: enough to make the batch cheap, few enough not to
# delay others.
BATCH_COUNT: Final = 1024
# At most this many of a backlog, which should be gone soon: milliseconds for a waiting caller.
BACKLOG_COUNT: Final = 8 * BATCH_COUNT
# Of a backlog that a look-up waits for: few enough for their records to be in the processor's cache
# when their keys are read, and for lists not to need new memory every time.
_AWAITED_COUNT: Final = 2 * BATCH_COUNT
# A look-up waits at most this long for it, some millions of records a second.
_FILING_S_MAX: Final = 10.0

# Candidates per wanted message: some only have the same hash.
_CANDIDATES: Final = 4


class KeyIndexConfig(msgspec.Struct, frozen=True):
    slot_count: int
    entry_count: int
    with_tags: bool = False


@final
class KeyIndex:
    """Written by one owner; `sync` and `give_back_memory` may run in another thread."""

    def __init__(self, disk: Disk, directory: Path, clock: Clock, config: KeyIndexConfig) -> None:
        self._disk = disk
        self._directory = directory
        self._clock = clock
        self._config = config
        self._files: list[IndexFile] = []
        self._has_new_file = False
        # The first record that is neither indexed nor noted.
        self.next_offset = 0
        # Whether there is none before the end of the log. While that is so, the owner notes the
        # offsets of its appends in `unfiled`, and calls `file_unfiled` regularly.
        self.is_following = False
        self.unfiled: list[int] = []

    # Filing

    def put(self, batch: KeyBatch) -> None:
        """Index keys that follow the indexed ones. Raises OSError."""
        while len(batch):
            batch = batch.part(self._writable_file().put(batch))

    def file_unfiled(self, log: CommitLog) -> None:
        """Index the noted records, which are all up to the end of the log.

        If that fails, the messages are stored nevertheless: `catch_up` will retry.
        """
        try:
            self._file_keys(log, self.unfiled)
            self.next_offset = log.end
        except OSError:
            self.next_offset = self.unfiled[0]
            self.is_following = False
        self.unfiled.clear()

    def fall_behind(self, next_offset: int) -> None:
        """The log grows from there, and the offsets of its records are not noted."""
        if self.is_following:
            self.is_following = False
            self.next_offset = next_offset

    def file_backlog(self, log: CommitLog) -> None:
        """File all that the log has and the index has not, or as much as can be waited for.

        Raises OSError, for lack of space too.
        """
        until = self._clock.monotonic_s() + _FILING_S_MAX
        while not self.catch_up(log, _AWAITED_COUNT) and self._clock.monotonic_s() < until:
            pass

    def catch_up(self, log: CommitLog, count_max: int = BACKLOG_COUNT) -> bool:
        """File about `count_max` records that the log has and the index has not.

        Returns whether these were all. Raises OSError, for lack of space too.
        """
        end = log.end
        if self.is_following:
            self.file_unfiled(log)
            return self.is_following
        offsets: list[int] = []
        next_offset = end
        try:
            for places in log.places(self.next_offset, end, count_max):
                offsets += places.physical_offsets
                if len(offsets) >= count_max:
                    next_offset = places.end
                    break
        except BadRecord as bad:
            # A damaged record cannot be read, so its keys are not needed.
            after = log.find_record(bad.physical_offset + 1)
            next_offset = end if after is None else min(end, after.physical_offset)
        self._file_keys(log, offsets)
        self.next_offset = next_offset
        self.is_following = next_offset == end
        return self.is_following

    # Finding

    def find(self, topic: str, key: str, begin: int, end: int, count_max: int) -> list[int]:
        """Physical offsets, newest first; some may belong to other keys of the same hash."""
        return find_in_files(self._files, index_hash(f"{topic}#{key}"), begin, end, count_max)

    @property
    def last(self) -> IndexHeader:
        """Of the newest file: the last indexed message, and its time."""
        return self._files[-1].header if self._files else IndexHeader()

    # Loading and deleting

    def load(
        self,
        log: CommitLog,
        *,
        was_clean: bool,
        index_timestamp: int,
        distrust: Callable[[int], None],
    ) -> None:
        """Find the files; unreliable ones are removed, with all newer ones.

        After a crash that is everything that changed since the last sync. `distrust` resets the
        checkpoint of the index to the time it is given.
        """
        entries = [each for each in self._disk.entries(self._directory) if each.name.isdigit()]
        size = index_file_size(self._config.slot_count, self._config.entry_count)
        kept = 0
        for entry in entries:
            if entry.size != size:
                break
            file = self._open(entry.name)
            header = file.header
            # Strictly before it: some of the same millisecond may have been indexed after the sync.
            is_complete = was_clean or (
                header.end_timestamp < index_timestamp and entry is not entries[-1]
            )
            if not (file.is_sound and is_complete and header.end_physical_offset < log.end):
                file.file.close()
                break
            self._files.append(file)
            kept += 1
        if entries[kept:]:
            distrust(self._boundary_timestamp)
        for entry in entries[kept:]:
            self._disk.remove(self._directory / entry.name)
        if entries[kept:]:
            # Should they reappear after a clean shutdown and a power cut, they would be trusted.
            self._disk.sync_directory(self._directory)
        self.next_offset = self._resume_offset(log)
        self.is_following = self.next_offset == log.end

    def forget(self, log_start: int) -> list[MappedFile]:
        """Release the files whose messages have all expired; the caller removes them."""
        gone: list[MappedFile] = []
        while len(self._files) > 1 and self._files[0].header.end_physical_offset < log_start:
            gone.append(self._files.pop(0).file)
        return gone

    def sync(self) -> int:
        """Return when all indexed keys survive a power cut.

        Returns the store timestamp for the checkpoint. After a crash Apache removes every file
        that ends later, and indexes again from the newest log file that starts no later. So the
        time is one between two files, or messages at the start of the second were lost.
        """
        # Read first: keys indexed from now on need another round.
        timestamp = self._boundary_timestamp
        has_new_file, self._has_new_file = self._has_new_file, False
        try:
            for file in tuple(self._files):
                file.sync()
            if has_new_file:
                self._disk.sync_directory(self._directory)
        except OSError:
            # It may be retried, if only a descriptor was missing.
            self._has_new_file |= has_new_file
            raise
        return timestamp

    def give_back_memory(self) -> None:
        """Keep only the part that is written to in the memory of this process."""
        for file in tuple(self._files):
            file.give_back_memory()

    @property
    def _boundary_timestamp(self) -> int:
        """The end of the newest full file that nothing of the same millisecond follows."""
        for file, next_file in reversed(list(pairwise(self._files))):
            end = file.header.end_timestamp
            if file.is_full and next_file.header.begin_timestamp > end:
                return end
        return 0

    def close(self) -> None:
        for file in self._files:
            file.file.close()
        self._files = []

    # How it works

    def _file_keys(self, log: CommitLog, offsets: list[int]) -> None:
        # Every query calls it, and most have nothing left to do.
        if offsets:
            self.put(keys_in_log(log, offsets, with_tags=self._config.with_tags))

    def _writable_file(self) -> IndexFile:
        if not self._files or self._files[-1].is_full:
            self._add_file()
        return self._files[-1]

    def _add_file(self) -> None:
        make_safe_directory(self._disk, self._directory)
        file = create_index_file(
            self._disk,
            self._directory / self._new_name(),
            self._config.slot_count,
            self._config.entry_count,
        )
        if self._files:
            file.inherit(self._files[-1].header)
        self._has_new_file = True
        self._files.append(file)

    def _new_name(self) -> str:
        """Local time to the millisecond; later than the name of every other file."""
        now_ms = self._clock.now_ms()
        local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone()
        name = f"{local:%Y%m%d%H%M%S}{now_ms % 1000:03d}"
        if self._files:
            name = max(name, str(int(self._files[-1].file.path.name) + 1))
        return name

    def _open(self, name: str) -> IndexFile:
        config = self._config
        size = index_file_size(config.slot_count, config.entry_count)
        file = MappedFile(self._disk, self._directory / name, 0, size)
        return IndexFile(file, config.slot_count, config.entry_count)

    def _resume_offset(self, log: CommitLog) -> int:
        last = self.last.end_physical_offset
        if not self._files or last < log.start:
            return log.start
        if self._files[-1].is_full:
            # Some keys of the last message may belong into the next file.
            return last
        try:
            return last + log.record_at(last).size
        except BadRecord:
            after = log.find_record(last + 1)
            return log.end if after is None else after.physical_offset


def find_in_files(
    files: Sequence[IndexFile], key_hash: int, begin: int, end: int, count_max: int
) -> list[int]:
    """Physical offsets of messages stored between two times, newest first."""
    found: list[int] = []
    for file in reversed(files):
        if file.overlaps(begin, end):
            found += file.find(key_hash, begin, end, count_max - len(found))
        if len(found) >= count_max or file.header.begin_timestamp < begin:
            break
    return found


class KeyQuery(msgspec.Struct, frozen=True):
    """Messages of a topic, stored between two times."""

    topic: str
    key: str
    count_max: int
    begin: int
    end: int


class QueryResult(NamedTuple):
    records: list[bytes]
    # What was indexed last, for clients that show how fresh the index is.
    last_timestamp: int
    last_physical_offset: int


def messages_with_key(
    index: KeyIndex, log: CommitLog, query: KeyQuery, readable_end: int
) -> QueryResult:
    """The newest ones, in the order of the log, of those that may be read."""
    offsets = index.find(
        query.topic, query.key, query.begin, query.end, _CANDIDATES * query.count_max
    )
    topic, key = query.topic.encode(), query.key.encode()
    found: dict[int, bytes] = {}
    for physical_offset in offsets:
        if len(found) >= query.count_max:
            break
        try:
            record = log.record_at(physical_offset)
        except BadRecord:
            continue
        if physical_offset + record.size <= readable_end and has_key(record, topic, key):
            found[physical_offset] = log.bytes_at(physical_offset, record.size) or b""
    last = index.last
    return QueryResult(
        [found[each] for each in sorted(found)], last.end_timestamp, last.end_physical_offset
    )
