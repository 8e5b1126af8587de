"""Files of what no other replica had: read, counted, and marked when it was sent again."""

import struct
from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_BLANK
from roquet.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC
from roquet.store.divergent import (
    DivergentCount,
    DivergentCounter,
    DivergentFile,
    ResentNotes,
    divergent_files,
    messages_of,
    topic_to_resend,
)
from roquet.store.files.layout import StoreLayout, layout_of
from tests.support.records import PLAIN_DRAFT, changed, record_of

DISK = SystemDisk()
BLANK = struct.pack(">ii", 20, MAGIC_BLANK) + bytes(12)
FIRST = record_of(PLAIN_DRAFT, physical_offset=4096)
# A log file ends with a blank.
SECOND = record_of(PLAIN_DRAFT, physical_offset=4096 + len(FIRST) + len(BLANK))


@pytest.fixture
def layout(tmp_path: Path) -> StoreLayout:
    (tmp_path / "divergent").mkdir()
    return layout_of(tmp_path)


def written(layout: StoreLayout, content: bytes, name: str = f"{4096:020d}") -> DivergentFile:
    (layout.divergent / name).write_bytes(content)
    return DivergentFile(layout.divergent / name, len(content))


def test_a_store_without_divergence_has_no_files(tmp_path: Path) -> None:
    assert divergent_files(DISK, layout_of(tmp_path)) == []
    assert DivergentCounter(DISK, layout_of(tmp_path)).count() == DivergentCount()


def test_messages_on_both_sides_of_the_end_of_a_log_file_are_read(layout: StoreLayout) -> None:
    file = written(layout, FIRST + BLANK + SECOND)
    offsets = [each.physical_offset for each in messages_of(DISK, file)]
    assert offsets == [4096, 4096 + len(FIRST) + len(BLANK)]


def test_second_cuts_at_an_offset_are_files_and_notes_are_not(layout: StoreLayout) -> None:
    files = [written(layout, FIRST), written(layout, FIRST, f"{4096:020d}.2")]
    ResentNotes(DISK, files[0]).begin([4096])
    written(layout, b"x", "README")
    assert divergent_files(DISK, layout) == files


def test_what_is_no_record_ends_the_messages(layout: StoreLayout) -> None:
    file = written(layout, FIRST + b"garbage that is no record")
    messages = messages_of(DISK, file)
    assert next(messages).physical_offset == 4096
    with pytest.raises(BadMessage):
        next(messages)
    assert DivergentCounter(DISK, layout).count() == DivergentCount(1, 1, 1)


def test_only_messages_of_programs_are_counted(layout: StoreLayout) -> None:
    real = changed(PLAIN_DRAFT, topic=SCHEDULE_TOPIC.encode(), properties=b"REAL_TOPIC\x01T1\x02")
    half = changed(PLAIN_DRAFT, topic=HALF_TOPIC.encode())
    file = written(layout, record_of(real) + record_of(half) + record_of(PLAIN_DRAFT))
    topics = [topic_to_resend(each) for each in messages_of(DISK, file)]
    assert topics == ["T1", None, "T1"]
    assert DivergentCounter(DISK, layout).count().message_count == 2


def test_what_was_sent_or_may_have_been_is_noted(layout: StoreLayout) -> None:
    file = written(layout, FIRST + BLANK + SECOND)
    counter = DivergentCounter(DISK, layout)
    assert counter.count() == DivergentCount(1, 2, 2)
    ResentNotes(DISK, file).begin([1, 2, 4096])
    assert counter.count() == DivergentCount(1, 2, 1)
    notes = ResentNotes(DISK, file)
    assert notes.message_id(4096) == ""
    notes.end({4096: "NEW"}, [2])
    again = ResentNotes(DISK, file)
    assert [again.message_id(each) for each in (1, 2, 4096)] == ["", None, "NEW"]
    assert 2 not in again


def test_removed_files_are_not_counted(layout: StoreLayout) -> None:
    file = written(layout, FIRST)
    counter = DivergentCounter(DISK, layout)
    assert counter.count().file_count == 1
    file.path.unlink()
    assert counter.count() == DivergentCount()
