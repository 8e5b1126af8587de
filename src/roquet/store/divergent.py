"""What a broker cut off its log because no other replica had it: files in `divergent/`.

    00000000001073742000                records, from this physical offset on
    00000000001073742000.2              the same, of a second cut at this offset
    00000000001073742000.resent.json    which of them an operator has sent again

    {"resent": {"1073742000": "AC11000100...", "1073742213": ""}}

By physical offset, the id of the new message. It is blank from before the send until its outcome is
known: an offset that is named here was sent, or may have been.
"""

from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.record import MAGIC_BLANK, peek_record, read_record
from roquet.protocol.names import SCHEDULE_TOPIC, TIMER_TOPIC, is_closed_topic
from roquet.state_file import StateFile, StateFileError
from roquet.store.files.layout import FILE_NAME_SIZE, StoreLayout, start_of

_RESENT_SUFFIX: Final = ".resent.json"


class DivergentFile(NamedTuple):
    path: Path
    size: int


class DivergentCount(NamedTuple):
    """Messages of programs, and how many of them were not sent again yet."""

    file_count: int = 0
    message_count: int = 0
    unsent_count: int = 0


def divergent_files(disk: Disk, layout: StoreLayout) -> list[DivergentFile]:
    """In the order of their names. Raises OSError."""
    if not disk.exists(layout.divergent):
        return []
    return sorted(
        DivergentFile(layout.divergent / each.name, each.size)
        for each in disk.entries(layout.divergent)
        if start_of(each.name[:FILE_NAME_SIZE]) is not None
        and not each.name[FILE_NAME_SIZE:].strip(".0123456789")
    )


def messages_of(disk: Disk, file: DivergentFile) -> Iterator[StoredMessage]:
    """In the order of the log. Raises OSError, and BadMessage at bytes that are no record."""
    if not file.size:
        return
    descriptor = disk.open(file.path, writable=False)
    try:
        with closing(disk.map(descriptor, file.size, writable=False)) as content:
            position = 0
            while position < file.size:
                head = peek_record(content, position)
                if head.magic != MAGIC_BLANK:
                    yield read_record(content, position)
                position += head.size
    finally:
        disk.close(descriptor)


def topic_to_resend(message: StoredMessage) -> str | None:
    """The topic a message was sent to; None for what brokers write for themselves.

    A delayed message waits in a topic of the system. A half message stays: as a new one it would
    be checked with its producer, and delivered twice if its commit was cut off with it.
    """
    if message.topic in (SCHEDULE_TOPIC, TIMER_TOPIC):
        return message.properties.get(Property.REAL_TOPIC)
    return None if is_closed_topic(message.topic) else message.topic


class _BadResent(RoquetError):
    """The file is not in the expected form."""


class _Resent(msgspec.Struct):
    resent: dict[int, str] = {}


def _parsed(content: bytes) -> _Resent:
    try:
        return msgspec.json.decode(content, type=_Resent)
    except msgspec.MsgspecError as error:
        raise _BadResent(str(error)) from None


@final
class ResentNotes:
    """Which messages of a divergent file were sent again; only the command line writes them."""

    def __init__(self, disk: Disk, file: DivergentFile) -> None:
        """Raises BadStateFile."""
        self._file = StateFile(disk, file.path.with_name(file.path.name + _RESENT_SUFFIX))
        self._by_offset = (self._file.load(_parsed) or _Resent()).resent

    def __contains__(self, physical_offset: int) -> bool:
        return physical_offset in self._by_offset

    def message_id(self, physical_offset: int) -> str | None:
        """Of the new message; blank if it is not known whether it was sent."""
        return self._by_offset.get(physical_offset)

    def begin(self, physical_offsets: Collection[int]) -> None:
        """They are about to be sent. Raises StateNotSaved."""
        self._by_offset |= dict.fromkeys(physical_offsets, "")
        self._save()

    def end(self, message_ids: dict[int, str], unsent: Collection[int]) -> None:
        """These were sent, those were surely not. Raises StateNotSaved."""
        self._by_offset |= message_ids
        for each in unsent:
            self._by_offset.pop(each, None)
        self._save()

    def _save(self) -> None:
        self._file.save(msgspec.json.encode(_Resent(self._by_offset)))


@final
class DivergentCounter:
    """Counts again only when a file has come or gone, or was marked as sent."""

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._disk = disk
        self._layout = layout
        self._seen: list[tuple[str, int]] = []
        self._count = DivergentCount()

    def count(self) -> DivergentCount:
        """What cannot be read is not counted."""
        try:
            seen = self._listed()
            if seen != self._seen:
                self._count = self._counted()
                self._seen = seen
        except (OSError, StateFileError):
            pass  # Removed meanwhile; the next call sees it.
        return self._count

    def _listed(self) -> list[tuple[str, int]]:
        directory = self._layout.divergent
        if not self._disk.exists(directory):
            return []
        return sorted((each.name, each.size) for each in self._disk.entries(directory))

    def _counted(self) -> DivergentCount:
        files = divergent_files(self._disk, self._layout)
        message_count = unsent_count = 0
        for file in files:
            notes = ResentNotes(self._disk, file)
            for offset in _offsets(self._disk, file):
                message_count += 1
                unsent_count += offset not in notes
        return DivergentCount(len(files), message_count, unsent_count)


def _offsets(disk: Disk, file: DivergentFile) -> Iterator[int]:
    try:
        for message in messages_of(disk, file):
            if topic_to_resend(message) is not None:
                yield message.physical_offset
    except BadMessage:
        return  # The rest is no message.
