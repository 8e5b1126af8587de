"""Records that are appended together: messages of one queue, all of them or none.

    SentBatch(common, items)   came in one send: they differ in flag, body and properties
    DraftBatch(drafts)         each has a history of its own: when and where it was born

What the messages of a send share is worked out once. Of the fixed part of their records,
drawn in `record.py`, that is

      0  36       magic and queue id, among what is different: sizes, CRC, flag, offsets
     36  48 - 72  the same for all: from the system flag to the prepared transaction offset
         int32    size, body
"""

import struct
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, Protocol, final
from zlib import crc32

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.properties import PROPERTIES_SIZE_MAX, without_property_bytes
from roquet.protocol.record import (
    BODY_SIZE_MAX,
    CHECKSUM_NAME,
    CHECKSUM_SIZE,
    CRC_MASK,
    LAYOUTS,
    MAGIC_V1,
    RecordDraft,
    checksum_of,
    pack_record,
)

_SHARED_START: Final = 36
_BODY_SIZE_SIZE: Final = 4
# By layout: the same with the shared part as one value.
_OWN_LAYOUTS: Final = {
    layout: Struct(f">iiiiiqq{layout.size - _SHARED_START - _BODY_SIZE_SIZE}si")
    for layout in LAYOUTS
}
assert all(own.size == layout.size for layout, own in _OWN_LAYOUTS.items())
_INT16: Final = Struct(">h")
_pack_int16 = _INT16.pack
_SEPARATOR_BYTE: Final = 2


class RecordBatch(Protocol):
    """What an append wants to know of them."""

    topic: bytes
    queue_id: int
    body_size: int  # of all together
    sizes: list[int]
    properties: list[bytes]

    def pack(self, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes:
        """The records, one behind the other; the offsets are those of the first.

        Raises BadMessage when a number does not fit its field.
        """
        ...


@final
class SentBatch:
    """`common` is what all records have, with the properties that each gets behind its own.

    An item is flag, body and properties. Raises TooLarge when these do not fit into a record.
    """

    __slots__ = ("_common", "_own", "body_size", "properties", "queue_id", "sizes", "topic")

    def __init__(self, common: RecordDraft, items: Iterable[tuple[int, bytes, bytes]]) -> None:
        assert not common.body, "a body belongs to one message"
        assert common.magic == MAGIC_V1, "the size of the topic is one byte"
        sizes: list[int] = []
        all_properties: list[bytes] = []
        # CRC of the body, flag, size of the body, and all of the record behind that.
        owned: list[tuple[int, int, int, bytes]] = []
        # A draft has both as a record wants them, with the size of the properties in between.
        topic_end = 1 + len(common.topic)
        topic = common.tail[:topic_end]
        shared = common.tail[topic_end + _INT16.size :]
        checksum_size = CHECKSUM_SIZE if common.has_checksum else 0
        size_without_tail = common.layout.size + checksum_size
        for flag, body, own_properties in items:
            properties = own_properties
            if properties.find(CHECKSUM_NAME) >= 0:
                # It belongs to another record and would condemn this one.
                properties = without_property_bytes(properties, CHECKSUM_NAME)
            if properties and properties[-1] != _SEPARATOR_BYTE:
                properties += b"\x02"
            properties += shared
            properties_size = len(properties) + checksum_size
            body_size = len(body)
            if properties_size > PROPERTIES_SIZE_MAX:
                raise TooLarge("properties", properties_size, PROPERTIES_SIZE_MAX)
            if body_size > BODY_SIZE_MAX:
                raise TooLarge("body", body_size, BODY_SIZE_MAX)
            tail = b"".join((body, topic, _pack_int16(properties_size), properties))
            owned.append((crc32(body) & CRC_MASK, flag, body_size, tail))
            sizes.append(size_without_tail + len(tail))
            all_properties.append(properties)
        self.topic = common.topic
        self.queue_id = common.queue_id
        self.body_size = sum([body_size for _, _, body_size, _ in owned])
        self.sizes = sizes
        self.properties = all_properties
        self._common = common
        self._own = owned

    def pack(self, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes:
        common = self._common
        magic = common.magic
        queue_id = common.queue_id
        fixed = pack_record(common, 0, 0, store_timestamp)[: common.layout.size]
        shared = fixed[_SHARED_START:-_BODY_SIZE_SIZE]
        pack_own = _OWN_LAYOUTS[common.layout].pack
        has_checksum = common.has_checksum
        parts: list[bytes] = []
        try:
            for size, (body_crc, flag, body_size, tail) in zip(self.sizes, self._own, strict=True):
                record = (
                    pack_own(
                        size,
                        magic,
                        body_crc,
                        queue_id,
                        flag,
                        queue_offset,
                        physical_offset,
                        shared,
                        body_size,
                    )
                    + tail
                )
                parts.append(record)
                if has_checksum:
                    parts.append(checksum_of(record))
                queue_offset += 1
                physical_offset += size
        except struct.error as error:
            raise BadMessage(f"record: {error}") from None
        return b"".join(parts)


@final
class DraftBatch:
    """The drafts are of one queue."""

    __slots__ = ("_drafts", "body_size", "properties", "queue_id", "sizes", "topic")

    def __init__(self, drafts: Sequence[RecordDraft]) -> None:
        self.topic = drafts[0].topic
        self.queue_id = drafts[0].queue_id
        assert all((each.topic, each.queue_id) == (self.topic, self.queue_id) for each in drafts)
        self.body_size = sum([len(draft.body) for draft in drafts])
        self.sizes = [draft.size for draft in drafts]
        self.properties = [draft.properties for draft in drafts]
        self._drafts = drafts

    def pack(self, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes:
        records: list[bytes] = []
        for draft in self._drafts:
            records.append(pack_record(draft, queue_offset, physical_offset, store_timestamp))
            queue_offset += 1
            physical_offset += draft.size
        return b"".join(records)
