"""Many records at once are those of the log one by one, and lead to the same queues."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

from hypothesis import given, strategies as st

from roquet.disk import SystemDisk
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_V1, MAGIC_V2
from roquet.store.dispatch import SCHEDULE_TOPIC, Dispatcher
from roquet.store.errors import BadRecord
from roquet.store.files.layout import layout_of
from roquet.store.files.mapped_file import MappedFile, create_file
from roquet.store.log_scan import LogRecord, Stretch, read_log_record, scan_file, scan_stretches
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues
from roquet.store.record_scan import scan_heads, scan_runs, scan_whole

BASE = 1 << 20
SIZE = 1 << 14
HOSTS = (pack_host("10.0.0.1", 1), pack_host("10.0.0.1", 1), pack_host("::1", 1))
TAGS = (b"", b"TAGS\x01paid\x02", "TAGS\x01größe\x02".encode(), b"DELAY\x012\x02")
# What could be taken for a checksum, or for one that is damaged.
STRANGE = (
    *TAGS,
    b"__CRC32#\x01",
    b"__CRC32#\x010123456789\x02",
    b"0123456789\x02",
    b"\0" * 30,
    b"x" * 300,
)


class Placed(NamedTuple):
    draft: RecordDraft
    queue_offset: int | None  # None: the one that comes next
    store_timestamp: int


@st.composite
def placed(draw: st.DrawFn, pieces: tuple[bytes, ...]) -> Placed:
    draft = RecordDraft(
        queue_id=draw(st.sampled_from((0, 0, 1, -1))),
        flag=0,
        sys_flag=draw(st.sampled_from((0, 0, 0, 4, 8, 12))),
        born_timestamp=0,
        born_host=draw(st.sampled_from(HOSTS)),
        store_host=HOSTS[0],
        body=draw(st.binary(max_size=5)),
        topic=draw(st.sampled_from((b"A", b"A", b"B", SCHEDULE_TOPIC, b"../x", b""))),
        properties=b"".join(draw(st.lists(st.sampled_from(pieces), max_size=3))),
        magic=draw(st.sampled_from((MAGIC_V1, MAGIC_V1, MAGIC_V1, MAGIC_V2))),
        has_checksum=draw(st.booleans()),
    )
    queue_offset = draw(st.sampled_from((*[None] * 6, 0, 1, 3, -1, 2**63 - 1, -(2**63))))
    return Placed(draft, queue_offset, draw(st.integers(0, 9)))


def write(file: MappedFile, several: list[Placed]) -> int:
    """Returns where they end."""
    position = 0
    next_offsets: dict[tuple[bytes, int], int] = {}
    for draft, queue_offset, timestamp in several:
        key = draft.topic, draft.queue_id
        offset = next_offsets.get(key, 0) if queue_offset is None else queue_offset
        draft.write(file.mapping, position, offset, file.start + position, timestamp)
        next_offsets[key] = min(offset, 1000) + 1
        position += draft.size
    return position


def one_by_one(file: MappedFile, end: int) -> Iterator[LogRecord]:
    position = 0
    while position < end:
        record = read_log_record(file.mapping, position, file.start)
        yield record
        position += record.size


Good = TypeVar("Good", LogRecord, Stretch)


def good_part(scan: Iterator[Good]) -> tuple[list[Good], int | None]:
    """What is good, and where the first bad record lies."""
    found: list[Good] = []
    try:
        found.extend(scan)
    except BadRecord as bad:
        return found, bad.physical_offset
    return found, None


@given(
    st.lists(placed(STRANGE), max_size=12), st.integers(0, SIZE), st.sampled_from((0, 0, 1, 0x80))
)
def test_a_scan_finds_the_records_that_are_found_one_by_one(
    several: list[Placed], place: int, flip: int
) -> None:
    with (
        TemporaryDirectory() as directory,
        closing(create_file(SystemDisk(), Path(directory) / "log", BASE, SIZE)) as file,
    ):
        end = write(file, several)
        if end:
            file.mapping[place % end] ^= flip
        expected, bad_offset = good_part(one_by_one(file, end))
        assert good_part(scan_file(file, 0, end)) == (expected, bad_offset)
        stretches, bad_offset_again = good_part(scan_stretches(file, 0, end))
        assert bad_offset_again == bad_offset
        assert sum(each.record_count for each in stretches) == len(expected)
        for last in stretches[-1:]:
            assert last.last_timestamp == expected[-1].store_timestamp


def queues_of(
    directory: Path, file: MappedFile, end: int, deleted_end: int, *, at_once: bool
) -> tuple[dict[tuple[bytes, int], tuple[int, bytes]], list[int]]:
    """All entries of all queues, and what fits into none."""
    deletions = DeletedQueues(SystemDisk(), directory / "deleted.json")
    deletions.load()
    if deleted_end:
        deletions.add([(b"A", 0)], 0, BASE + deleted_end)
    with closing(ConsumeQueues(SystemDisk(), layout_of(directory), 100)) as queues:
        dispatcher = Dispatcher(
            queues, deletions, (1000, 2000), log_start=BASE, dispatched_from=BASE
        )
        if at_once:
            for stretch in scan_stretches(file, 0, end):
                dispatcher.dispatch_all(stretch)
        else:
            for record in scan_file(file, 0, end):
                dispatcher.dispatch(record)
        entries = {
            (queue.topic, queue.queue_id): (
                queue.min_offset,
                b"".join(
                    queue.entries(offset, 1) for offset in range(queue.min_offset, queue.max_offset)
                ),
            )
            for queue in queues
        }
        return entries, sorted(dispatcher.misfits)


@given(st.lists(placed(TAGS), max_size=12), st.integers(0, 3000) | st.just(0))
def test_records_at_once_fill_the_same_queues(several: list[Placed], deleted_end: int) -> None:
    with (
        TemporaryDirectory() as one,
        TemporaryDirectory() as other,
        closing(create_file(SystemDisk(), Path(one) / "log", BASE, SIZE)) as file,
    ):
        end = write(file, several)
        assert queues_of(Path(one), file, end, deleted_end, at_once=True) == queues_of(
            Path(other), file, end, deleted_end, at_once=False
        )


@given(st.binary(max_size=300), st.integers(-400, 400), st.integers(-400, 400), st.integers(0, 400))
def test_any_bytes_and_any_place_are_survived(
    content: bytes, position: int, end: int, size_max: int
) -> None:
    heads, stop, _ = scan_heads(content, 0, position, end, size_max)
    assert (heads, stop) == ([], position)
    count, *_, stop, _ = scan_runs(content, 0, position, end, size_max)
    assert (count, stop) == (0, position)
    for with_checksums in (False, True):
        count, stop, _ = scan_whole(content, 0, position, end, end, size_max, with_checksums)
        assert (count, stop) == (0, position)


@given(
    st.lists(placed(STRANGE), max_size=12),
    st.integers(0, SIZE),
    st.sampled_from((0, 0, 1, 0x80)),
    st.integers(0, SIZE),
)
def test_whole_records_are_those_whose_heads_are_found(
    several: list[Placed], place: int, flip: int, stop: int
) -> None:
    with (
        TemporaryDirectory() as directory,
        closing(create_file(SystemDisk(), Path(directory) / "log", BASE, SIZE)) as file,
    ):
        end = write(file, several)
        if end:
            file.mapping[place % end] ^= flip
        heads, position, fault = scan_heads(file.mapping, BASE, 0, end, SIZE)
        assert scan_whole(file.mapping, BASE, 0, SIZE, end, SIZE, True) == (
            len(heads),
            position,
            fault,
        )
        # Those that begin before a byte are whole, even if they end behind it.
        before = [head for head in heads if head[0] - BASE < stop]
        count, part_end, _ = scan_whole(file.mapping, BASE, 0, stop, end, SIZE, True)
        assert count == len(before)
        assert part_end == sum(head[1] for head in before)
