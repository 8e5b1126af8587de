"""Verifies a store: every record is good, queues and index match the log, state can be read.

Nothing in the directory is changed. The queues are rebuilt from the log elsewhere, and compared
entry by entry. What the next owner of the directory repairs by itself is no fault: a torn tail
after a crash, queues that lack its last entries, keys that are not indexed yet.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roquet.disk import DirectoryEntry, Disk
from roquet.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from roquet.store.errors import BadRecord, BadStoreDirectory, DamagedRange
from roquet.store.files.layout import StoreLayout, layout_of
from roquet.store.files.mapped_file import MappedFile, MappedRun
from roquet.store.keys.index_file import IndexFile, index_file_size
from roquet.store.keys.message_keys import join_batches
from roquet.store.offline.audit import (
    ENTRY_TYPE,
    Entries,
    LogExtent,
    LogPart,
    entry_faults,
    file_fault,
    key_faults,
    state_faults,
    state_file_names,
)
from roquet.store.offline.reader import StoreReader, find_store
from roquet.store.offline.repair import (
    Fault,
    OnRecords,
    ignore,
    index_config_of,
    key_batches,
    loaded_deletions,
    queue_file_size_of,
    rebuild_queues,
)
from roquet.store.queues import ConsumeQueues, queues_on_disk


class Verification(NamedTuple):
    record_count: int
    queue_count: int
    key_count: int
    state_file_count: int
    faults: list[Fault]


def verify(root: Path, scratch: Path, disk: Disk, on_records: OnRecords = ignore) -> Verification:
    """`scratch` is an empty directory with space for as much as the queues take.

    Raises BadStoreDirectory, BadStateFile or OSError.
    """
    layout = find_store(disk, root)
    queue_file_size = queue_file_size_of(disk, layout)
    with (
        StoreReader.open(layout.root, disk=disk) as reader,
        closing(ConsumeQueues(disk, layout_of(scratch), queue_file_size)) as queues,
    ):
        rebuilt = rebuild_queues(reader, queues, loaded_deletions(disk, layout), on_records)
        extent = LogExtent(
            reader.log_start, reader.log_end, rebuilt.damages, is_closed=reader.was_clean
        )
        faults = [*_log_faults(reader), *rebuilt.faults()]
        keys = {*queues_on_disk(disk, layout), *queues.by_key}
        for topic, queue_id in sorted(keys):
            part = f"queue {topic.decode()}/{queue_id}"
            run = MappedRun(disk, layout.queue(topic.decode(), queue_id), queue_file_size)
            found = _queue_faults(run, queues.find(topic, queue_id), extent)
            faults += [Fault(part, place, reason) for place, reason in found]
        faults += _index_faults(disk, layout, reader, rebuilt.damages, on_records)
        key_count = sum(file.filed_count for file in reader.index_files)
        state_files = state_file_names(disk, layout)
        faults += state_faults(disk, layout, state_files)
        return Verification(rebuilt.record_count, len(keys), key_count, len(state_files), faults)


def _log_faults(reader: StoreReader) -> Iterator[Fault]:
    for before, after in pairwise(reader.files):
        if before.end != after.start:
            yield Fault("log", f"bytes {before.end} to {after.start}", "a file is missing")
    if reader.was_clean and reader.tail_size:
        end = reader.log_end
        yield Fault("log", f"bytes {end} to {end + reader.tail_size}", "neither records nor zeros")


# Queues


def _queue_faults(
    run: MappedRun, rebuilt: ConsumeQueue | None, extent: LogExtent
) -> Iterator[tuple[str, str]]:
    """Place and reason of all that is wrong with the files of one queue."""
    try:
        run.load(is_writable=False)
    except BadStoreDirectory as bad:
        yield f"file {bad.path.name}", bad.reason
        return
    starts = {file.start for file in run.files}
    if rebuilt is not None:
        first = rebuilt.min_offset * ENTRY_SIZE // run.file_size * run.file_size
        starts.update(range(first, rebuilt.max_offset * ENTRY_SIZE, run.file_size))
    for start in sorted(starts):
        file = run.file_at(start)
        offsets = _offsets_to_compare(file, rebuilt, start, run.file_size)
        found = _found_entries(file, offsets)
        for fault in entry_faults(found, _rebuilt_entries(rebuilt, offsets), offsets.start, extent):
            yield f"offsets {fault.first} to {fault.last}", fault.reason
        if file is not None:
            file.close()


def _offsets_to_compare(
    file: MappedFile | None, rebuilt: ConsumeQueue | None, start: int, file_size: int
) -> range:
    """The offsets in a file that starts at `start` for which it has data, or should have.

    Most queues are short, and their files mostly holes.
    """
    ends = [] if file is None else [(start + a, start + b) for a, b in file.data_ranges()]
    if rebuilt is not None:
        ends.append((rebuilt.min_offset * ENTRY_SIZE, rebuilt.max_offset * ENTRY_SIZE))
    first = max(start, min((begin for begin, _ in ends), default=start))
    last = min(start + file_size, max((end for _, end in ends), default=start))
    return range(first // ENTRY_SIZE, max(first, last + ENTRY_SIZE - 1) // ENTRY_SIZE)


def _found_entries(file: MappedFile | None, offsets: range) -> Entries:
    """Zeros without a file."""
    if file is None:
        return np.zeros(len(offsets), ENTRY_TYPE)
    begin, end = (offset * ENTRY_SIZE - file.start for offset in (offsets.start, offsets.stop))
    return np.frombuffer(file.mapping[begin:end], ENTRY_TYPE)


def _rebuilt_entries(queue: ConsumeQueue | None, offsets: range) -> Entries:
    content = b""
    if queue is not None:
        # What comes before its first entry is zeros, as in a file.
        first = max(offsets.start, queue.min_offset)
        content = queue.entries(first, max(0, offsets.stop - first))
        content = content.rjust(len(content) + (first - offsets.start) * ENTRY_SIZE, b"\0")
    return np.frombuffer(content.ljust(len(offsets) * ENTRY_SIZE, b"\0"), ENTRY_TYPE)


# Index


def _index_faults(
    disk: Disk,
    layout: StoreLayout,
    reader: StoreReader,
    damages: Sequence[DamagedRange],
    on_records: OnRecords,
) -> Iterator[Fault]:
    by_name = {file.file.path.name: file for file in reader.index_files}
    entries = [each for each in disk.entries(layout.index) if each.name.isdigit() and each.size]
    if not reader.was_clean:
        # Its owner is writing to the newest one; the next owner rebuilds it.
        del entries[-1:]
    has_faults = False
    for entry in entries:
        file = by_name.get(entry.name)
        reason = _shape_fault(disk, layout, entry) if file is None else file_fault(file)
        if reason is not None:
            has_faults = True
            yield Fault(f"index {entry.name}", "file", reason)
    files = [by_name[each.name] for each in entries if each.name in by_name]
    # A broken file lacks any number of keys; listing them would not help.
    if files and not has_faults:
        yield from _key_faults(reader, files, damages, on_records)


def _shape_fault(disk: Disk, layout: StoreLayout, entry: DirectoryEntry) -> str | None:
    """The fault of a file of unknown shape: none, if it was never used."""
    path = layout.index / entry.name
    with closing(MappedFile(disk, path, 0, entry.size, is_writable=False)) as file:
        is_unused = file.is_zero_from(index_file_size(0, 0))
    return None if is_unused else "its header does not match its entries"


def _key_faults(
    reader: StoreReader,
    files: Sequence[IndexFile],
    damages: Sequence[DamagedRange],
    on_records: OnRecords,
) -> Iterator[Fault]:
    with_tags = index_config_of(reader).with_tags
    end = _filed_end(reader, files[-1])
    for log_file in reader.files:
        if log_file.start < end:
            part = LogPart(log_file.start, min(log_file.end, end), damages)
            batches = key_batches(
                reader, part.start, part.end, with_tags=with_tags, on_records=on_records
            )
            for fault in key_faults(files, join_batches(batches), part):
                yield Fault("index", f"records at {fault.first} to {fault.last}", fault.reason)


def _filed_end(reader: StoreReader, newest: IndexFile) -> int:
    """Just past the last record whose keys must all be there."""
    last = newest.header.end_physical_offset
    if newest.is_full:
        # Some of its keys may be meant for the next file.
        return last
    try:
        return last + len(reader.record_at(last))
    except BadRecord:
        return last
