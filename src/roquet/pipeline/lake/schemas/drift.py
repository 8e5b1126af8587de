"""Where bodies and the columns of a lake differ. Pure.

no column      a field that bodies have and the lake does not
never came     a column, or a field of a struct, that no body has
did not fit    messages in the quarantine, by the field and the reason
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple, final

import msgspec
import pyarrow as pa

from roquet.pipeline.lake.ddl import type_name
from roquet.pipeline.lake.schemas.body_schema import (
    BodySchema,
    Framing,
    UnusableSchema,
    unframed,
)
from roquet.pipeline.lake.schemas.decoding import REASON_COLUMN
from roquet.pipeline.lake.schemas.written_bodies import BodyReader, reader_of

# What a look at bodies needs of messages.
DRIFT_COLUMNS: Final = ("brokerName", "queueId", "queueOffset", "storeTimestamp", "body")
# Of each topic, and of its reasons; others are only counted.
DRIFT_FIELDS_MAX: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
_place = re.compile(r"^(?P<reason>.*) - at `\$\.?(?P<field>.*)`$", re.DOTALL).match
_field = re.compile(r"^field '(?P<field>[^']+)' ").match
# Where a text is malformed is another place in each body.
_BYTE: Final = re.compile(r" \(byte \d+\)")


class Problem(StrEnum):
    NO_COLUMN = "no column"
    NEVER_CAME = "never came"
    DID_NOT_FIT = "did not fit"


class Difference(NamedTuple):
    """`field` is a path, empty if a reason names none; `detail` is a type, or a reason."""

    problem: Problem
    field: str
    detail: str


class Sighting(NamedTuple):
    """The number of messages, and the first of them: when it was stored, and where."""

    first_us: int
    example: str
    messages: int

    def joined(self, other: "Sighting") -> "Sighting":
        return min(self, other)._replace(messages=self.messages + other.messages)


class TopicDrift(NamedTuple):
    """`messages` were looked at; `came` are the columns that some of them have.

    `left_out` is the number of sightings of more differences than `DRIFT_FIELDS_MAX`.
    """

    topic: str
    messages: int
    came: frozenset[str]
    found: Mapping[Difference, Sighting]
    left_out: int = 0


class DriftRow(NamedTuple):
    """A line of a report. `example` is broker, queue and offset of the first message."""

    topic: str
    problem: str
    field: str
    detail: str
    messages: int
    first_stored: datetime | None
    example: str | None


BodyParser = Callable[[bytes], Any]


def parser_of(schema: BodySchema) -> BodyParser:
    """Values by the names of fields; the parser raises ValueError. Raises BadSchema."""
    return msgspec.json.decode if schema.framing is Framing.JSON else _WrittenFields(schema).read


def drift_in(
    topic: str, batches: Iterable[pa.RecordBatch], columns: pa.Schema, parse: BodyParser
) -> TopicDrift:
    """Of batches with `DRIFT_COLUMNS`, and with the reason if they are from the quarantine."""
    seen = _Differences()
    came: set[str] = set()
    count = 0
    for batch in batches:
        for row in batch.to_pylist():
            count += 1
            place = _sighting(row)
            if (reason := row.get(REASON_COLUMN)) is not None:
                seen.add(misfit_of(reason), place)
            try:
                value = parse(row["body"] or b"")
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                for difference in _unknown(value, list(columns), "", came):
                    seen.add(difference, place)
    return TopicDrift(topic, count, frozenset(came), seen.found, seen.left_out)


def joined_by_topic(drifts: Iterable[TopicDrift]) -> list[TopicDrift]:
    """One of each topic, in the order of their names."""
    by_topic: dict[str, list[TopicDrift]] = {}
    for each in drifts:
        by_topic.setdefault(each.topic, []).append(each)
    return [_joined(topic, found) for topic, found in sorted(by_topic.items())]


def _joined(topic: str, drifts: list[TopicDrift]) -> TopicDrift:
    seen = _Differences()
    for each in drifts:
        for difference, sighting in each.found.items():
            seen.add(difference, sighting)
    return TopicDrift(
        topic,
        sum(each.messages for each in drifts),
        frozenset().union(*(each.came for each in drifts)),
        seen.found,
        seen.left_out + sum(each.left_out for each in drifts),
    )


def drift_rows(drift: TopicDrift, columns: pa.Schema) -> list[DriftRow]:
    """The differences of a topic, the most frequent of each kind first."""
    absent = [
        DriftRow(drift.topic, Problem.NEVER_CAME, path, kind, 0, None, None)
        for path, kind in field_paths(list(columns))
        if drift.messages and path not in drift.came
    ]
    found = sorted(drift.found.items(), key=lambda each: (-each[1].messages, each[0]))
    rows = [
        DriftRow(
            drift.topic,
            *difference,
            sighting.messages,
            _EPOCH + sighting.first_us * _US,
            sighting.example,
        )
        for difference, sighting in found
    ]
    order = (Problem.DID_NOT_FIT, Problem.NO_COLUMN, Problem.NEVER_CAME)
    return sorted([*rows, *absent], key=lambda row: order.index(Problem(row.problem)))


def misfit_of(reason: str) -> Difference:
    """Of a reason in the quarantine, without what differs from body to body."""
    if found := _place(reason):
        return Difference(Problem.DID_NOT_FIT, found["field"], found["reason"])
    named = _field(reason)
    return Difference(Problem.DID_NOT_FIT, named["field"] if named else "", _BYTE.sub("", reason))


@final
class _Differences:
    def __init__(self) -> None:
        self.found: dict[Difference, Sighting] = {}
        self.left_out = 0

    def add(self, difference: Difference, sighting: Sighting) -> None:
        before = self.found.get(difference)
        if before is not None:
            self.found[difference] = before.joined(sighting)
        elif len(self.found) < DRIFT_FIELDS_MAX:
            self.found[difference] = sighting
        else:
            self.left_out += sighting.messages


@final
class _WrittenFields:
    """Reads bodies by the schemas that wrote them, whether they fit the lake or not."""

    def __init__(self, schema: BodySchema) -> None:
        self._schema = schema
        self._readers: dict[str, BodyReader] = {}

    def read(self, body: bytes) -> dict[str, Any] | None:
        """None if the schema is not known. Raises ValueError."""
        key, value = unframed(self._schema.framing, body, self._schema.writers)
        if key not in self._readers:
            writer = self._schema.writers.get(key)
            if writer is None or isinstance(writer, UnusableSchema):
                return None
            self._readers[key] = reader_of(writer)
        return self._readers[key].read(value)


def _sighting(row: Mapping[str, Any]) -> Sighting:
    stored: datetime = row["storeTimestamp"]
    example = f"{row['brokerName']}@{row['queueId']}@{row['queueOffset']}"
    return Sighting((stored - _EPOCH) // _US, example, 1)


def _unknown(
    value: Mapping[str, Any], fields: list[pa.Field], above: str, came: set[str]
) -> Iterator[Difference]:
    """Fields that have no column; those that have one are added to `came`."""
    there = {field.name: field.type for field in fields}
    for name, inner in value.items():
        path = f"{above}{name}"
        kind = there.get(name)
        if kind is None:
            if inner is not None:
                yield Difference(Problem.NO_COLUMN, path, _word(inner))
            continue
        came.add(path)
        yield from _unknown_inside(inner, kind, path, came)


def _unknown_inside(
    value: Any, kind: pa.DataType, path: str, came: set[str]
) -> Iterator[Difference]:
    if pa.types.is_struct(kind) and isinstance(value, dict):
        yield from _unknown(value, list(kind), f"{path}.", came)
    elif pa.types.is_list(kind) and isinstance(value, list):
        found = {
            each: None
            for inner in value
            for each in _unknown_inside(inner, kind.value_type, f"{path}[]", came)
        }
        # Once for each message, however many elements have it.
        yield from found


def field_paths(fields: list[pa.Field], above: str = "") -> Iterator[tuple[str, str]]:
    """Columns, and fields of structs in them, with their types."""
    for field in fields:
        path = f"{above}{field.name}"
        yield path, type_name(field.type)
        kind = field.type
        while pa.types.is_list(kind):
            path, kind = f"{path}[]", kind.value_type
        if pa.types.is_struct(kind):
            yield from field_paths(list(kind), f"{path}.")


def _word(value: Any) -> str:
    """What a value of an unknown field is."""
    words = {bool: "boolean", str: "text", dict: "object", list: "array"}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return words.get(type(value), type(value).__name__)
