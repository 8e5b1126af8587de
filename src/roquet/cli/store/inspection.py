"""What is in a store directory, at a glance: nothing is read that takes long."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from roquet.disk import Disk
from roquet.store.offline.reader import StoreReader


class _Summary(msgspec.Struct, rename="camel", kw_only=True):
    """Written as JSON with the names that Java gives such things."""


class StorePart(_Summary):
    """A directory or file, with everything in it."""

    name: str
    file_count: int
    size: int


class LogFileSummary(_Summary):
    name: str
    start: int
    end: int
    first_store_timestamp: int | None


class QueueSummary(_Summary):
    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    first_store_timestamp: int | None
    last_store_timestamp: int | None


class IndexFileSummary(_Summary):
    name: str
    key_count: int
    first_physical_offset: int
    last_physical_offset: int
    first_store_timestamp: int
    last_store_timestamp: int


class CheckpointSummary(_Summary):
    log_timestamp: int
    queue_timestamp: int
    index_timestamp: int


class Inspection(_Summary):
    directory: str
    # Otherwise a broker has it open, or was killed.
    was_closed: bool
    log_start: int
    log_end: int
    parts: list[StorePart]
    checkpoint: CheckpointSummary
    log_files: list[LogFileSummary]
    index_files: list[IndexFileSummary]
    queues: list[QueueSummary]
    # Topic and id of those that end too early.
    broken_queues: list[tuple[str, int]]


def inspect_store(root: Path, disk: Disk) -> Inspection:
    """Raises BadStoreDirectory, or OSError."""
    with StoreReader.open(root, disk=disk) as reader:
        checkpoint = reader.checkpoint
        return Inspection(
            directory=str(reader.root),
            was_closed=reader.was_clean,
            log_start=reader.log_start,
            log_end=reader.log_end,
            parts=_parts(reader.root, disk),
            checkpoint=CheckpointSummary(
                log_timestamp=checkpoint.log_timestamp,
                queue_timestamp=checkpoint.queue_timestamp,
                index_timestamp=checkpoint.index_timestamp,
            ),
            log_files=_log_files(reader),
            index_files=_index_files(reader),
            queues=_queues(reader),
            broken_queues=reader.broken_queues,
        )


def _parts(root: Path, disk: Disk) -> list[StorePart]:
    parts = []
    for entry in disk.entries(root):
        sizes = _file_sizes(root / entry.name, disk) if entry.is_directory else [entry.size]
        parts.append(StorePart(name=entry.name, file_count=len(sizes), size=sum(sizes)))
    return parts


def _file_sizes(directory: Path, disk: Disk) -> list[int]:
    sizes = []
    for entry in disk.entries(directory):
        if entry.is_directory:
            sizes += _file_sizes(directory / entry.name, disk)
        else:
            sizes.append(entry.size)
    return sizes


def _log_files(reader: StoreReader) -> list[LogFileSummary]:
    return [
        LogFileSummary(
            name=file.path.name,
            start=file.start,
            end=file.end,
            first_store_timestamp=reader.first_store_time(file),
        )
        for file in reader.files
    ]


def _queues(reader: StoreReader) -> list[QueueSummary]:
    return [
        _queue(reader, topic, queue_id)
        for topic, queue_ids in reader.queues().items()
        for queue_id in queue_ids
    ]


def _queue(reader: StoreReader, topic: str, queue_id: int) -> QueueSummary:
    min_offset, max_offset = reader.min_offset(topic, queue_id), reader.max_offset(topic, queue_id)
    return QueueSummary(
        topic=topic,
        queue_id=queue_id,
        min_offset=min_offset,
        max_offset=max_offset,
        first_store_timestamp=reader.store_time(topic, queue_id, min_offset),
        last_store_timestamp=reader.store_time(topic, queue_id, max_offset - 1),
    )


def _index_files(reader: StoreReader) -> list[IndexFileSummary]:
    return [
        IndexFileSummary(
            name=file.file.path.name,
            key_count=file.header.next_number - 1,
            first_physical_offset=file.header.begin_physical_offset,
            last_physical_offset=file.header.end_physical_offset,
            first_store_timestamp=file.header.begin_timestamp,
            last_store_timestamp=file.header.end_timestamp,
        )
        for file in reader.index_files
    ]


def inspection_view(inspection: Inspection) -> RenderableType:
    stored = "first stored", "last stored"
    tables = (
        _table(("part", "files", "bytes"), inspection.parts),
        _table(("log file", "from offset", "to offset", stored[0]), inspection.log_files),
        _table(("index file", "keys", "from offset", "to offset", *stored), inspection.index_files),
        _table(("topic", "queue", "min offset", "max offset", *stored), inspection.queues),
    )
    # An empty line before each.
    return Group(_state(inspection), *(part for table in tables for part in ("", table)))


def _state(inspection: Inspection) -> Text:
    state = "closed cleanly" if inspection.was_closed else "in use, or not closed cleanly"
    checkpoint = inspection.checkpoint
    lines = [
        f"{inspection.directory}: {state}",
        f"log from offset {inspection.log_start} to {inspection.log_end}",
        f"log on disk up to {_time(checkpoint.log_timestamp)}",
        f"queues on disk up to {_time(checkpoint.queue_timestamp)}",
        f"index on disk up to {_time(checkpoint.index_timestamp)}",
    ]
    lines += [
        f"queue {queue_id} of {topic} is damaged and truncated"
        for topic, queue_id in inspection.broken_queues
    ]
    return Text("\n".join(lines))


def _table(names: Sequence[str], rows: Sequence[msgspec.Struct]) -> Table:
    """The members of a row are its columns; what is called stored is a time."""
    table = Table(box=None, pad_edge=False)
    for index, name in enumerate(names):
        is_number = index > 0 and not name.endswith("stored")
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        values = zip(names, msgspec.structs.astuple(row), strict=True)
        # A name may look like markup, and is none.
        table.add_row(*(Text(_time(v) if n.endswith("stored") else str(v)) for n, v in values))
    return table


def _time(timestamp: int | None) -> str:
    """Local time, as `--from-time` takes it."""
    if not timestamp:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp / 1000, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return moment.isoformat(timespec="milliseconds")
