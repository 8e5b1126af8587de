"""Reads a store directory without owning it: nothing is changed, nothing is locked.

It does not matter whether a broker is writing to the directory, was killed in it, or is long
gone. The content is a snapshot of the moment of opening. The sizes of all files are taken from
the files, so no configuration is needed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar, final

from roquet.disk import Disk, SystemDisk
from roquet.protocol.java_hash import index_hash
from roquet.store.checkpoint import Checkpoint, load_checkpoint, load_noted_end
from roquet.store.checksum_notes import load_checksummed
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.consume_queue import ENTRY_SIZE, ConsumeQueue, QueueEntry, unpack_entries
from roquet.store.errors import (
    BadRecord,
    BadStoreDirectory,
    Damage,
    DamagedRange,
    FileGone,
    SeveralStores,
)
from roquet.store.files.layout import StoreLayout, layout_of
from roquet.store.files.mapped_file import MappedFile
from roquet.store.keys.index_file import IndexFile, shape_of
from roquet.store.keys.key_index import find_in_files
from roquet.store.keys.message_keys import KeyBatch, has_key, keys_in_log
from roquet.store.log_scan import NO_END, LogRecord, Stretch
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.offline.log_range import LogFile
from roquet.store.offline.snapshot import (
    IN_NO_QUEUE,
    QueueExtent,
    StoreSnapshot,
    catch_up,
    extent_of,
    is_light,
    needed,
    refuse_unreadable,
    segments_of,
)
from roquet.store.queues import queues_on_disk
from roquet.store.reading.queue_reading import (
    Boundary,
    MessageReader,
    QueueReadLimits,
    ReadResult,
    ReadStatus,
    offset_by_time,
    store_time_of,
)
from roquet.store.recovery.recovery import is_lost_in_between
from roquet.store.store_lock import is_ours

_Good = TypeVar("_Good", LogRecord, Stretch)

_NO_LIMIT: Final = 1 << 60
_OPEN_TRIES: Final = 3
# Messages that are read from a queue at once.
_PORTION: Final = QueueReadLimits(1024, 16 << 20)


@final
class StoreReader:
    """Created by `open`; to be closed, or used in a `with`. What it returns is picklable."""

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._disk = disk
        self._layout = layout
        self._log = CommitLog(disk, layout.commit_log, _file_size(disk, layout.commit_log))
        self._queues: dict[tuple[bytes, int], ConsumeQueue] = {}
        self._index: list[IndexFile] | None = None
        # Damage that was found while reading queues; it was not returned.
        self.damages: list[Damage] = []
        # Topics and ids of queues that end too early, because an entry cannot be right.
        self.broken_queues: list[tuple[str, int]] = []
        # Just past the last offset of each queue in the part of the log that was read to find its
        # end.
        self._late_ends: dict[tuple[bytes, int], int] = {}
        config = StoreConfig(
            root=layout.root,
            memory_size=_NO_LIMIT,
            read_count_max_in_memory=_NO_LIMIT,
            read_size_max_in_memory=_NO_LIMIT,
        )
        self._reader = MessageReader(self._log, config, self.damages.append, is_writable=False)

    @classmethod
    def open(cls, root: Path, *, commit_log: Path | None = None, disk: Disk | None = None) -> Self:
        """`root` is the root directory of a broker, or a directory with only one store below it.

        Raises BadStoreDirectory for a directory that is no store, and OSError.
        """
        disk = disk or SystemDisk()
        layout = find_store(disk, root, commit_log)
        for tries_left in reversed(range(_OPEN_TRIES)):
            reader = cls(disk, layout)
            try:
                reader._load()
            except (BadStoreDirectory, OSError) as error:
                reader.close()
                # A broker removed a file between our listing and our opening of it.
                if not isinstance(error, FileNotFoundError) or not tries_left:
                    raise
            else:
                break
        return reader

    def close(self) -> None:
        self._log.close()
        for queue in self._queues.values():
            queue.close()
        for file in self._index or ():
            file.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def root(self) -> Path:
        """Of the store that was found."""
        return self._layout.root

    def snapshot(
        self, topics: Collection[str] | None = None, *, include_all: bool = False
    ) -> StoreSnapshot:
        """The messages of some topics, or of all of them, to be read by others and in parts.

        With `include_all` every record of the log is included, even those that are in no queue
        any more, or never were. Raises BadStoreDirectory or UnreadableTopic for what cannot be
        read from files, FileGone, BadStateFile, or OSError.
        """
        if not include_all:
            refuse_unreadable(self._disk, self._layout, topics)
        deletions = DeletedQueues(self._disk, self._layout.deletions)
        deletions.load()
        try:
            extents = dict(self._extents(topics, deletions))
            segments = list(segments_of(self._log, self._queues))
        except FileNotFoundError as error:
            raise FileGone(Path(error.filename)) from error
        return StoreSnapshot(
            root=self._layout.root,
            files=tuple(self.files),
            log_start=self.log_start,
            log_end=self.log_end,
            queues={key: extent.bounds for key, extent in extents.items()},
            broken_queues=tuple(
                each for each in self.broken_queues if topics is None or each[0] in topics
            ),
            segments=tuple(segments if include_all else needed(segments, extents.values())),
            checksummed=self._log.checksummed,
        )

    # The log

    @property
    def files(self) -> list[LogFile]:
        return [LogFile(each.path, each.start, each.end) for each in self._log.files]

    def first_store_time(self, file: LogFile) -> int | None:
        """When the first good record of a file was stored; None if it has none."""
        for each in self.scan(file.start, file.end):
            if isinstance(each, LogRecord):
                return each.store_timestamp
        return None

    @property
    def log_start(self) -> int:
        return self._log.start

    @property
    def log_end(self) -> int:
        """Just past the last good record, as a recovery would find it."""
        return self._log.end

    @property
    def tail_size(self) -> int:
        """How many bytes past the end of the log are not zero, up to the last of them."""
        return self._log.written_end(self._log.end) - self._log.end

    @property
    def was_clean(self) -> bool:
        """Whether the last broker has closed it."""
        return not self._disk.exists(self._layout.abort)

    @property
    def checkpoint(self) -> Checkpoint:
        return load_checkpoint(self._disk, self._layout.checkpoint)

    def scan(
        self, start: int | None = None, end: int | None = None
    ) -> Iterator[LogRecord | DamagedRange]:
        """All good records between two physical offsets, and the damaged ranges.

        `start` is the offset of a record; if not, what comes before the next one is damage.
        """
        return self._with_damages(self._log.scan, start, end)

    def stretches(
        self, start: int | None = None, end: int | None = None
    ) -> Iterator[Stretch | DamagedRange]:
        """The same, many records at once."""
        return self._with_damages(self._log.stretches, start, end)

    def keys(self, physical_offsets: list[int], *, with_tags: bool) -> KeyBatch:
        """The keys of the good records at these offsets, which ascend."""
        return keys_in_log(self._log, physical_offsets, with_tags=with_tags)

    def record_at(self, physical_offset: int) -> bytes:
        """The record at exactly this offset, checked. Raises BadRecord."""
        record = self._log.record_at(physical_offset)
        return self.bytes_at(physical_offset, record.size)

    def bytes_at(self, physical_offset: int, size: int) -> bytes:
        """Bytes of the log as they are, of one file. Raises BadRecord if they do not exist."""
        found = self._log.bytes_at(physical_offset, size)
        if found is None:
            raise BadRecord(physical_offset, f"no {size} bytes in one file")
        return found

    # The queues

    def queues(self) -> dict[str, list[int]]:
        """The ids of the queues of each topic."""
        found: dict[str, list[int]] = {}
        for topic, queue_id in sorted(self._queues):
            found.setdefault(topic.decode(), []).append(queue_id)
        return found

    def min_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic.encode(), queue_id))
        return 0 if queue is None else queue.min_offset

    def max_offset(self, topic: str, queue_id: int) -> int:
        queue = self._queues.get((topic.encode(), queue_id))
        return 0 if queue is None else queue.max_offset

    def read(self, topic: str, queue_id: int, offset: int, limits: QueueReadLimits) -> ReadResult:
        """Like `MessageStore.read`, but every record is compared with its checksum."""
        queue = self._queues.get((topic.encode(), queue_id))
        if queue is None:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        return self._reader.read(queue, offset, queue.max_offset, limits)

    def entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[QueueEntry]:
        """Entries of a queue as they are, up to the end of their file."""
        queue = self._queues.get((topic.encode(), queue_id))
        if queue is None:
            return []
        return [QueueEntry(*entry) for entry in unpack_entries(queue.entries(offset, count))]

    def messages(
        self, topic: str, queue_id: int, start: int | None = None, end: int | None = None
    ) -> Iterator[bytes]:
        """The records of a queue, from one offset to before another; damaged ones are missing."""
        offset = max(self.min_offset(topic, queue_id), start or 0)
        max_offset = self.max_offset(topic, queue_id)
        end = max_offset if end is None else min(end, max_offset)
        while offset < end:
            limits = QueueReadLimits(min(end - offset, _PORTION.count_max), _PORTION.size_max)
            result = self.read(topic, queue_id, offset, limits)
            yield from result.records
            offset = result.next_offset

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: Boundary = Boundary.LOWER
    ) -> int:
        queue = self._queues.get((topic.encode(), queue_id))
        if queue is None:
            return 0
        return offset_by_time(
            lambda offset: store_time_of(self._log, queue, offset),
            queue.min_offset,
            queue.max_offset,
            timestamp,
            boundary,
        )

    def store_time(self, topic: str, queue_id: int, offset: int) -> int | None:
        """When a message was stored; None for one that cannot be read."""
        queue = self._queues.get((topic.encode(), queue_id))
        return None if queue is None else store_time_of(self._log, queue, offset)

    # The keys

    @property
    def index_files(self) -> Sequence[IndexFile]:
        """Those that can be read."""
        if self._index is None:
            self._index = list(self._open_index())
        return self._index

    def find_by_key(
        self, topic: str, key: str, begin: int, end: int, count_max: int
    ) -> list[bytes]:
        """The newest records with a key, stored between two times, in the order of the log."""
        found: dict[int, bytes] = {}
        for offset in self._offsets_by_key(topic, key, begin, end):
            if len(found) == count_max:
                break
            try:
                record = self._log.record_at(offset)
            except BadRecord:
                continue
            is_in_time = begin <= record.store_timestamp <= end
            if is_in_time and has_key(record, topic.encode(), key.encode()):
                found[offset] = self.bytes_at(offset, record.size)
        return [found[offset] for offset in sorted(found)]

    # How it works

    def _load(self) -> None:
        layout = self._layout
        # Before the log and the notes: they do not cover what a broker writes meanwhile.
        was_ours = is_ours(self._disk, layout)
        noted_end = NO_END if was_ours else load_noted_end(self._disk, layout.checkpoint)
        self._log.load(is_writable=False)
        self._log.expect_checksums(
            load_checksummed(self._disk, layout.checksummed, noted_end, self._log, is_ours=was_ours)
        )
        for topic, queue_id in queues_on_disk(self._disk, self._layout):
            self._load_queue(topic, queue_id)
        self._log.end = self._find_end()
        for queue in self._queues.values():
            if (queue.topic.decode(), queue.queue_id) not in self.broken_queues:
                catch_up(self._log, queue)
            queue.forget(self._log.start)
            queue.max_offset = queue.offset_before(self._log.end)

    def _load_queue(self, topic: bytes, queue_id: int) -> None:
        directory = self._layout.queue(topic.decode(), queue_id)
        file_size = _file_size(self._disk, directory)
        queue = ConsumeQueue(self._disk, directory, file_size, topic, queue_id)
        if queue.load(is_writable=False) is not None:
            self.broken_queues.append((topic.decode(), queue_id))
        if queue.max_offset:
            self._queues[topic, queue_id] = queue

    def _with_damages(
        self, scan: Callable[[int, int], Iterator[_Good]], start: int | None, end: int | None
    ) -> Iterator[_Good | DamagedRange]:
        position = self._log.start if start is None else start
        end = self._log.end if end is None else min(end, self._log.end)
        while position < end:
            try:
                yield from scan(position, end)
            except BadRecord as bad:
                after = self._log.find_record(bad.physical_offset + 1)
                position = end if after is None else min(after.physical_offset, end)
                yield DamagedRange(bad.physical_offset, position, bad.reason)
            else:
                return

    def _find_end(self) -> int:
        """The queues know nearly where it is; from there on the log is read."""
        log = self._log
        durable_timestamp = None if self.was_clean else self.checkpoint.log_timestamp
        last_entries = [queue.entry(queue.max_offset - 1) for queue in self._queues.values()]
        position = max((each.physical_offset for each in last_entries if each), default=0)
        if log.file_at(position) is None:
            position = log.start
        timestamp = 0
        while True:
            try:
                for stretch in log.stretches(position, log.files_end):
                    timestamp = stretch.last_timestamp
                    self._note_late(stretch)
            except BadRecord as bad:
                after = log.find_record(bad.physical_offset + 1)
                if after is None or not is_lost_in_between(after, timestamp, durable_timestamp):
                    return bad.physical_offset
                position = after.physical_offset
            else:
                return log.files_end

    def _note_late(self, stretch: Stretch) -> None:
        """Remember messages that may have no entry yet: Apache makes these a little later."""
        for run in stretch.runs:
            end = run.queue_offset + len(run.entries) // ENTRY_SIZE
            self._late_ends[run.topic, run.queue_id] = end
        for record in stretch.others:
            if not record.sys_flag & IN_NO_QUEUE:
                self._late_ends[record.topic, record.queue_id] = record.queue_offset + 1

    def _extents(
        self, topics: Collection[str] | None, deletions: DeletedQueues
    ) -> Iterator[tuple[tuple[str, int], QueueExtent]]:
        for key, queue in sorted(self._queues.items()):
            topic, queue_id = key[0].decode(), key[1]
            is_wanted = not is_light(topic) if topics is None else topic in topics
            if is_wanted:
                extent = extent_of(
                    self._log,
                    queue,
                    deletions,
                    self._late_ends.get(key, 0),
                    is_broken=(topic, queue_id) in self.broken_queues,
                )
                if extent is not None:
                    yield (topic, queue_id), extent

    def _offsets_by_key(self, topic: str, key: str, begin: int, end: int) -> Iterator[int]:
        """Where the messages may be, newest first. The last ones are not filed yet."""
        files = self.index_files
        filed_end = files[-1].header.end_physical_offset if files else 0
        unfiled = [
            each.physical_offset
            for each in self.scan(max(filed_end, self._log.start))
            if isinstance(each, LogRecord) and has_key(each, topic.encode(), key.encode())
        ]
        yield from reversed(unfiled)
        key_hash = index_hash(f"{topic}#{key}")
        # It counts in whole seconds.
        yield from find_in_files(files, key_hash, begin - 1000, end, _NO_LIMIT)

    def _open_index(self) -> Iterator[IndexFile]:
        for entry in self._disk.entries(self._layout.index):
            path = self._layout.index / entry.name
            if not entry.name.isdigit() or not entry.size:
                continue
            file = MappedFile(self._disk, path, 0, entry.size, is_writable=False)
            shape = shape_of(file)
            if shape is None:
                file.close()
            else:
                yield IndexFile(file, *shape)


def _file_size(disk: Disk, directory: Path) -> int:
    """Of the files in a directory, which are all of one size; any size if there are none."""
    sizes = [each.size for each in disk.entries(directory) if not each.is_directory and each.size]
    return sizes[0] if sizes else ENTRY_SIZE


def find_store(disk: Disk, root: Path, commit_log: Path | None = None) -> StoreLayout:
    """Raises BadStoreDirectory where there is no store, SeveralStores where there are several."""
    layout = layout_of(root, commit_log)
    if disk.exists(layout.commit_log):
        return layout
    # An explicit commit log means exactly that one.
    stores = [] if commit_log is not None else _stores_below(disk, root)
    if len(stores) > 1:
        raise SeveralStores(root, [each.root for each in stores])
    if not stores:
        raise BadStoreDirectory(root, f"no {layout.commit_log.name} in this directory")
    return stores[0]


def find_stores(disk: Disk, root: Path) -> list[StoreLayout]:
    """The store of a directory, or all those below it. Raises BadStoreDirectory for none."""
    try:
        return [find_store(disk, root)]
    except SeveralStores:
        return _stores_below(disk, root)


def _stores_below(disk: Disk, root: Path) -> list[StoreLayout]:
    layouts = [layout_of(root / each.name) for each in disk.entries(root) if each.is_directory]
    return [each for each in layouts if disk.exists(each.commit_log)]
