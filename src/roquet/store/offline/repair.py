"""Repairs a store: rebuilds queues and index from the log, and replaces the old ones.

    repair/consumequeue, repair/index   the new ones, until they are complete
    repair/old/                         the old ones, until they are removed

The log is only read. At every moment the old queues are in place, or the new ones, or none at all:
then the next owner of the directory rebuilds them from the log. `verify` rebuilds them, too, and
compares. There are no settings, so what the log does not contain is derived from the files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roquet.clock import Clock
from roquet.disk import Disk, make_safe_directory
from roquet.protocol.java_hash import index_hash
from roquet.protocol.messages.record import read_record
from roquet.store.config import DELAY_LEVELS_MS, StoreConfig
from roquet.store.consume_queue import ENTRY_SIZE
from roquet.store.dispatch import SCHEDULE_TOPIC, Dispatcher, delay_level_of
from roquet.store.errors import BadRecord, DamagedRange
from roquet.store.files.layout import StoreLayout, layout_of
from roquet.store.keys.index_file import IndexFile, shape_of
from roquet.store.keys.key_index import BATCH_COUNT, KeyIndex, KeyIndexConfig
from roquet.store.keys.message_keys import KeyBatch
from roquet.store.log_scan import LogRecord
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.offline.reader import StoreReader, find_store
from roquet.store.queues import ConsumeQueues, queues_on_disk
from roquet.store.store_lock import StoreLock

_DEFAULTS: Final = StoreConfig(root=Path())

OnRecords = Callable[[int], object]
"""Called with the number of records since the last call."""


def ignore(_count: int) -> None:
    """For callers that show no progress."""


class Fault(msgspec.Struct, frozen=True):
    """What is wrong, with which part of a store, and where in it; for the operator."""

    part: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.part}: {self.place}: {self.reason}"


class Rebuilt(NamedTuple):
    record_count: int
    damages: list[DamagedRange]
    # Physical offsets of records that contradict their queue.
    misfits: list[int]

    def faults(self) -> list[Fault]:
        """The faults of the log itself."""
        return [
            *(
                Fault("log", f"bytes {each.start} to {each.end}", each.reason)
                for each in self.damages
            ),
            *(
                Fault("log", f"record at {offset}", "contradicts the other records of its queue")
                for offset in self.misfits
            ),
        ]


def rebuild_queues(
    reader: StoreReader,
    queues: ConsumeQueues,
    deletions: DeletedQueues,
    on_records: OnRecords = ignore,
) -> Rebuilt:
    """Fill `queues`, which are empty, from the log. Raises OSError."""
    dispatcher = Dispatcher(
        queues,
        deletions,
        delay_levels_of(reader),
        log_start=reader.log_start,
        dispatched_from=reader.log_start,
    )
    count = 0
    damages = []
    for each in reader.stretches():
        if isinstance(each, DamagedRange):
            damages.append(each)
        else:
            dispatcher.dispatch_all(each)
            count += each.record_count
            on_records(each.record_count)
    return Rebuilt(count, damages, sorted(dispatcher.misfits))


def key_batches(
    reader: StoreReader, start: int, end: int, *, with_tags: bool, on_records: OnRecords = ignore
) -> Iterator[KeyBatch]:
    """All keys of the good records between two physical offsets, in the order of the log."""
    found = reader.scan(start, end)
    offsets = (each.physical_offset for each in found if isinstance(each, LogRecord))
    while part := list(islice(offsets, BATCH_COUNT)):
        on_records(len(part))
        yield reader.keys(part, with_tags=with_tags)


def loaded_deletions(disk: Disk, layout: StoreLayout) -> DeletedQueues:
    """Raises BadStateFile."""
    deletions = DeletedQueues(disk, layout.deletions)
    deletions.load()
    return deletions


def queue_file_size_of(disk: Disk, layout: StoreLayout) -> int:
    """The most common size; the default if there are no files."""
    sizes = Counter(
        file.size
        for topic, queue_id in queues_on_disk(disk, layout)
        for file in disk.entries(layout.queue(topic.decode(), queue_id))
        if file.size and file.size % ENTRY_SIZE == 0
    )
    return sizes.most_common(1)[0][0] if sizes else _DEFAULTS.queue_file_size


def delay_levels_of(reader: StoreReader) -> tuple[int, ...]:
    """How long the messages of each level wait: as most of them do, else the default."""
    topic = SCHEDULE_TOPIC.decode()
    levels = list(DELAY_LEVELS_MS)
    for queue_id in reader.queues().get(topic, ()):
        delays: Counter[int] = Counter()
        for record in reader.messages(topic, queue_id):
            message = read_record(record)
            for entry in reader.entries(topic, queue_id, message.queue_offset, 1):
                delays[entry.tags_code - message.store_timestamp] += 1
            if delay_level_of(message.raw_properties) > queue_id + 1:
                # Its level is higher than the last one, so this is the last one.
                del levels[queue_id + 1 :]
        if delays:
            levels += [levels[-1]] * (queue_id + 1 - len(levels))
            levels[queue_id] = delays.most_common(1)[0][0]
    return tuple(levels)


def index_config_of(reader: StoreReader) -> KeyIndexConfig:
    """As the index is; the default if there is none."""
    files = reader.index_files
    shape = shape_of(files[-1].file) if files else None
    if shape is None:
        return KeyIndexConfig(_DEFAULTS.index_slot_count, _DEFAULTS.index_entry_count)
    return KeyIndexConfig(*shape, with_tags=any(_has_tags(reader, file) for file in files))


def _has_tags(reader: StoreReader, file: IndexFile) -> bool:
    """Whether messages are indexed by their tags, too; decided by the first that has some."""
    for offset, hashes in file.hashes():
        try:
            message = read_record(reader.record_at(offset))
        except BadRecord:
            continue
        if message.tags:
            return index_hash(f"{message.topic}#T#{message.tags}") in hashes
    return False


def repair(root: Path, clock: Clock, disk: Disk, on_records: OnRecords = ignore) -> Rebuilt:
    """Return when the new queues and the new index survive a power cut.

    Raises StoreInUse, BadStoreDirectory, BadStateFile or OSError.
    """
    layout = find_store(disk, root)
    lock = StoreLock(disk, layout)
    try:
        return _repair(layout, clock, disk, on_records)
    finally:
        lock.release()


def _repair(layout: StoreLayout, clock: Clock, disk: Disk, on_records: OnRecords) -> Rebuilt:
    workspace = layout_of(layout.root / "repair", layout.commit_log)
    # A repair that was interrupted may have left something.
    _remove_tree(disk, workspace.root)
    try:
        rebuilt = _build(layout, workspace, clock, disk, on_records)
    except OSError:
        # Most likely the disk is full, so nothing may be left.
        _remove_tree(disk, workspace.root)
        raise
    old = layout_of(workspace.root / "old")
    make_safe_directory(disk, old.root)
    _replace(disk, layout.queues, workspace.queues, old.queues)
    _replace(disk, layout.index, workspace.index, old.index)
    _remove_tree(disk, workspace.root)
    return rebuilt


def _build(
    layout: StoreLayout, workspace: StoreLayout, clock: Clock, disk: Disk, on_records: OnRecords
) -> Rebuilt:
    with StoreReader.open(layout.root, disk=disk) as reader:
        config = index_config_of(reader)
        with (
            closing(ConsumeQueues(disk, workspace, queue_file_size_of(disk, layout))) as queues,
            closing(KeyIndex(disk, workspace.index, clock, config)) as index,
        ):
            rebuilt = rebuild_queues(reader, queues, loaded_deletions(disk, layout), on_records)
            start, end = reader.log_start, reader.log_end
            batches = key_batches(
                reader, start, end, with_tags=config.with_tags, on_records=on_records
            )
            for batch in batches:
                index.put(batch)
            queues.sync()
            index.sync()
    return rebuilt


def _replace(disk: Disk, place: Path, new: Path, old: Path) -> None:
    if disk.exists(place):
        disk.rename(place, old)
    if disk.exists(new):
        disk.rename(new, place)
    disk.sync_directory(place.parent)


def _remove_tree(disk: Disk, directory: Path) -> None:
    for entry in disk.entries(directory):
        path = directory / entry.name
        if entry.is_directory:
            _remove_tree(disk, path)
        else:
            disk.remove(path)
    if disk.exists(directory):
        disk.remove_directory(directory)
