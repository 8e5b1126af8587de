"""What the ranges of a snapshot give, as values that can be compared."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import peek_record, read_record
from roquet.store.errors import DamagedRange
from roquet.store.offline.log_range import Run, StoreRange
from roquet.store.offline.reader import StoreReader
from roquet.store.offline.snapshot import StoreSnapshot

Cuts = Iterable[tuple[int, int]]


class Row(NamedTuple):
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes


def found_by(
    snapshot: StoreSnapshot, cuts: Cuts, *, check: bool = True
) -> list[bytes | DamagedRange]:
    """Records and damages of all ranges, one behind the other."""
    return [
        each for begin, end in cuts for each in records_of(snapshot.range(begin, end), check=check)
    ]


def records_of(part: StoreRange, *, check: bool = True) -> Iterator[bytes | DamagedRange]:
    for each in part.read(check=check):
        if isinstance(each, DamagedRange):
            yield each
        else:
            yield from split_run(each)


def split_run(run: Run) -> Iterator[bytes]:
    """The records of a run; they are as many as it says, and lie where it says."""
    position = 0
    count = 0
    while position < len(run.records):
        head = peek_record(run.records, position)
        assert head.physical_offset == run.physical_offset + position
        yield bytes(run.records[position : position + head.size])
        position += head.size
        count += 1
    assert (position, count) == (len(run.records), run.count)


def rows_of(snapshot: StoreSnapshot, cuts: Cuts) -> list[Row]:
    """The messages among the records, as the bounds of the queues say."""
    records = [each for each in found_by(snapshot, cuts) if isinstance(each, bytes)]
    return sorted(_row(each) for each in map(read_record, records) if _is_held(snapshot, each))


def rows_of_queues(reader: StoreReader, *topics: str) -> list[Row]:
    """The same from the queues, one message after the other."""
    return sorted(
        _row(read_record(record))
        for topic, queue_ids in reader.queues().items()
        if topic in topics or not topics
        for queue_id in queue_ids
        for record in reader.messages(topic, queue_id)
    )


def cut_at(snapshot: StoreSnapshot, places: Iterable[int]) -> list[tuple[int, int]]:
    return list(pairwise((snapshot.log_start, *sorted(places), snapshot.log_end)))


def _is_held(snapshot: StoreSnapshot, message: StoredMessage) -> bool:
    bounds = snapshot.bounds(message.topic, message.queue_id)
    return bounds is not None and bounds.holds(
        message.queue_offset, message.physical_offset, message.sys_flag
    )


def _row(message: StoredMessage) -> Row:
    return Row(
        message.topic,
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        bytes(message.body),
    )
