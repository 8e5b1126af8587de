"""Records of the common kind, many at once: magic V1, IPv4, uncompressed body, fitting sizes.

One compiled pass separates them from the others and finds their parts. What columns are
made of is gathered from there when the first column asks for it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import LAYOUTS
from roquet.protocol.record_columns.arrays import (
    Bytes,
    Pairs,
    Positions,
    RowBounds,
    Spans,
    gathered,
    numbers_array,
)
from roquet.protocol.record_columns.property_pairs import find_pairs
from roquet.protocol.record_columns.surveying import (
    CHECK_BODY_CRC,
    CHECK_PROPERTY_TEXT,
    CHECK_TOPIC_TEXT,
    COMMON,
    UNCOMMON,
    survey_records,
)

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
        ("born_host", ">i8"),
        ("store_timestamp", ">i8"),
        ("store_host", ">i8"),
        ("reconsume_times", ">i4"),
        ("prepared_transaction_offset", ">i8"),
        ("body_size", ">i4"),
    ]
)
assert FIXED_PART.itemsize == LAYOUTS[0].size

# Parts of a record that a column may need besides its numbers.
BODY: Final = "body"
TOPIC: Final = "topic"
PROPERTIES: Final = "properties"
PROPERTY_MAPS: Final = "maps of properties"
_CHECKS: Final = {
    BODY: 0,
    TOPIC: CHECK_TOPIC_TEXT,
    PROPERTIES: CHECK_PROPERTY_TEXT,
    PROPERTY_MAPS: CHECK_PROPERTY_TEXT,
}
# Properties that have columns of their own.
NAMED_PROPERTIES: Final = (Property.TAGS, Property.KEYS, Property.UNIQUE_KEY)


@dataclass(frozen=True)
class PropertyPairs:
    """The properties of all rows in their order, where they are wanted as maps.

    Of equal names in a row there is only the last.
    """

    pairs: Pairs
    bounds: RowBounds
    values: Mapping[str, Spans]  # of properties that have a column of their own


@dataclass(frozen=True)
class CommonRecords:
    """Some records of a buffer; what several columns need is worked out once, on demand."""

    data: Bytes
    numbers: Positions  # which records of the buffer these are
    fixed: Mapping[str, npt.NDArray[Any]]
    bodies: Spans
    topics: Spans
    properties: Spans
    has_maps: bool

    @cached_property
    def body_values(self) -> pa.Array:
        return gathered(self.data, self.bodies, pa.binary())

    @cached_property
    def topic_texts(self) -> pa.Array:
        return gathered(self.data, self.topics, pa.string())

    @cached_property
    def property_texts(self) -> pa.Array:
        return gathered(self.data, self.properties, pa.string())

    @cached_property
    def property_pairs(self) -> PropertyPairs:
        names = tuple(name.encode() for name in NAMED_PROPERTIES)
        pairs, bounds, values = find_pairs(self.data, self.properties, names, self.has_maps)
        spans = [np.frombuffer(each, np.int32).reshape(-1, 2) for each in values]
        return PropertyPairs(
            np.frombuffer(pairs, np.int32).reshape(-1, 4),
            np.frombuffer(bounds, np.int32),
            dict(zip(NAMED_PROPERTIES, spans, strict=True)),
        )

    def property_values(self, name: str) -> pa.Array:
        """Of each record the last value of this name, one of NAMED_PROPERTIES, or null."""
        return gathered(self.data, self.property_pairs.values[name], pa.string())

    @cached_property
    def property_maps(self) -> pa.Array:
        assert self.has_maps
        found = self.property_pairs
        names = gathered(self.data, found.pairs[:, :2], pa.string())
        values = gathered(self.data, found.pairs[:, 2:], pa.string())
        return pa.MapArray.from_arrays(numbers_array(found.bounds), names, values)


@dataclass(frozen=True)
class SortedRecords:
    """The records of the wanted topics."""

    common: CommonRecords
    uncommon_numbers: Positions


def sort_records(
    data: Bytes,
    starts: Positions,
    needs: Collection[str],
    *,
    topics: Collection[str] | None,
    check_bodies: bool,
) -> SortedRecords:
    """What lies at `starts`; of common records with the numbers and texts that are in `needs`."""
    checks = CHECK_BODY_CRC if check_bodies else 0
    fixed: dict[str, npt.NDArray[Any]] = {}
    for need in needs:
        if need in _CHECKS:
            checks |= _CHECKS[need]
        else:
            fixed[need] = np.empty(starts.size, FIXED_PART[need].newbyteorder("="))
    spans = np.empty((3, starts.size, 2), np.int32)
    kinds = np.frombuffer(
        survey_records(
            data,
            starts,
            None if topics is None else _topic_names(topics),
            checks,
            [(_position_of(field), values) for field, values in fixed.items()],
            spans,
        ),
        np.uint8,
    )
    numbers = np.flatnonzero(kinds == COMMON)
    count = numbers.size
    bodies, topic_names, properties = spans[:, :count]
    common = CommonRecords(
        data,
        numbers,
        {field: values[:count] for field, values in fixed.items()},
        bodies,
        topic_names,
        properties,
        has_maps=PROPERTY_MAPS in needs,
    )
    return SortedRecords(common, np.flatnonzero(kinds == UNCOMMON))


def _topic_names(topics: Collection[str]) -> frozenset[bytes]:
    assert not isinstance(topics, str), "several topics, not the letters of one"
    # What cannot be in a valid text finds nothing but an invalid one.
    return frozenset(topic.encode("utf-8", "surrogatepass") for topic in topics)


def _position_of(field: str) -> int:
    assert FIXED_PART.fields is not None
    return int(FIXED_PART.fields[field][1])
