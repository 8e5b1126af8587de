"""Records of the common kind, many at once: magic V1, IPv4, plain body, fitting sizes.

The fixed part of a record is read as one numpy structure; body, topic and properties
are known by where they lie. Layout: see `record.py`. Every record that is different in
any way is left to the scalar reader, which also finds the words for what is wrong with it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.record import CRC_MASK, LAYOUTS, MAGIC_V1, TOPIC_SIZE_MAX_V1
from roquet.protocol.record_columns.arrays import (
    Bytes,
    Mask,
    Positions,
    Slices,
    checked_utf8,
    gather,
    refuse_rows,
    values_at,
)
from roquet.protocol.record_columns.property_pairs import PropertyPairs, find_pairs

FIXED_PART: Final = np.dtype(
    [
        ("size", ">i4"),
        ("magic", ">i4"),
        ("body_crc", ">i4"),
        ("queue_id", ">i4"),
        ("flag", ">i4"),
        ("queue_offset", ">i8"),
        ("physical_offset", ">i8"),
        ("sys_flag", ">i4"),
        ("born_timestamp", ">i8"),
        ("born_host", ">u8"),
        ("store_timestamp", ">i8"),
        ("store_host", ">u8"),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_size", ">i4"),
    ]
)
assert FIXED_PART.itemsize == LAYOUTS[0].size

IRREGULAR_FLAGS: Final = (
    SysFlag.COMPRESSED | SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6 | SysFlag.INNER_BATCH
).value


@dataclass(frozen=True)
class RegularRecords:
    """Some records of a buffer; what several columns need is worked out once, on demand."""

    buffer: Bytes
    numbers: Positions  # which records of the buffer these are
    fixed: npt.NDArray[Any]  # of type FIXED_PART
    bodies: Slices
    topics: Slices
    properties: Slices

    def only(self, chosen: Mask) -> "RegularRecords":
        return RegularRecords(
            self.buffer,
            self.numbers[chosen],
            self.fixed[chosen],
            self.bodies.only(chosen),
            self.topics.only(chosen),
            self.properties.only(chosen),
        )

    @cached_property
    def body_values(self) -> pa.Array:
        return gather(self.buffer, self.bodies, pa.binary())

    @cached_property
    def topic_texts(self) -> pa.Array:
        """Raises IrregularRows where a topic is no UTF-8."""
        return checked_utf8(gather(self.buffer, self.topics, pa.string()))

    @cached_property
    def property_texts(self) -> pa.Array:
        """Raises IrregularRows where properties are no UTF-8."""
        return checked_utf8(gather(self.buffer, self.properties, pa.string()))

    @cached_property
    def property_pairs(self) -> PropertyPairs:
        """Raises IrregularRows where properties are of an odd form."""
        return find_pairs(self.buffer, self.properties)

    def check_bodies(self) -> None:
        """Raises IrregularRows where a body breaks its CRC; the scalar reader says so."""
        crcs = np.fromiter(map(crc32, self.body_values.to_pylist()), np.int64, self.numbers.size)
        refuse_rows(np.flatnonzero(crcs & CRC_MASK != self.fixed["body_crc"]), crcs.size)


def regular_records(buffer: Bytes, starts: Positions) -> RegularRecords:
    """The regular ones among the records at `starts`, which lie inside the buffer."""
    fixed = values_at(buffer, starts, FIXED_PART)
    body_sizes = fixed["body_size"].astype(np.int64)
    body_starts = starts + FIXED_PART.itemsize
    body_ends = body_starts + body_sizes
    # A body size that lies leads anywhere, so positions are clipped before they are used. The
    # parts of such a record do not add up, which takes it out below.
    topic_sizes = buffer[np.clip(body_ends, 0, buffer.size - 1)]
    topic_starts = body_ends + 1
    topic_ends = topic_starts + topic_sizes
    property_sizes = values_at(buffer, np.clip(topic_ends, 0, buffer.size - 2), ">i2")
    property_starts = topic_ends + 2
    property_ends = property_starts + property_sizes
    is_regular = (
        (fixed["magic"] == MAGIC_V1)
        & (fixed["sys_flag"] & IRREGULAR_FLAGS == 0)
        & (body_sizes >= 0)
        & (topic_sizes <= TOPIC_SIZE_MAX_V1)
        & (property_sizes >= 0)
        & (property_ends == starts + fixed["size"])
    )
    records = RegularRecords(
        buffer,
        np.arange(starts.size),
        fixed,
        Slices(body_starts, body_ends),
        Slices(topic_starts, topic_ends),
        Slices(property_starts, property_ends),
    )
    return records if is_regular.all() else records.only(is_regular)
