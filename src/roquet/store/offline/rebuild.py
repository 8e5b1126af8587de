"""Rebuilds queues from the log alone, and finds out how the old ones were configured.

`verify` compares the two, `repair` replaces the old ones. There are no settings, so what the log
does not contain is derived from the files.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roquet.disk import Disk
from roquet.protocol.java_hash import index_hash
from roquet.protocol.messages.record import read_record
from roquet.store.config import DELAY_LEVELS_MS, StoreConfig
from roquet.store.consume_queue import ENTRY_SIZE
from roquet.store.dispatch import SCHEDULE_TOPIC, Dispatcher, delay_level_of
from roquet.store.errors import BadRecord, DamagedRange
from roquet.store.files.layout import StoreLayout
from roquet.store.keys.index_file import IndexFile, shape_of
from roquet.store.keys.key_index import BATCH_COUNT, KeyIndexConfig
from roquet.store.keys.message_keys import KeyBatch
from roquet.store.log_scan import LogRecord
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.offline.reader import StoreReader
from roquet.store.queues import ConsumeQueues, queues_on_disk

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
