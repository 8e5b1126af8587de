"""Filters of a query as limits of what is read, for both formats.

Limits may be too wide, never too narrow: Spark gets all filters back and evaluates them again, so
rows are the same with and without limits. Not every filter becomes one. The time of birth is that
of a producer's clock, which says nothing about offsets.

Only with `filterPushdown`: Spark 4.3 keeps one plan for a DataFrame, that of the last filtered
query, and uses it for every other query of this DataFrame that it plans later.
"""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol, final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from roquet.client.queue_ref import QueueRef

# A queue of another topic's messages: its records have the queue and the offset of that one.
_LIGHT_QUEUE_PREFIX: Final = "%LMQ%"
# A tag that an expression such as `new || paid` can name.
_PLAIN_TAG: Final = re.compile(r"[^\s|*]+")
_TAGS_MAX: Final = 64
_QUEUE_COLUMNS: Final = frozenset({"topic", "brokerName", "queueId"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_US: Final = timedelta(microseconds=1)
_US_PER_MS: Final = 1000
_COMPARISONS: Final[Mapping[type[Filter], Callable[[Any, Any], object]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    StringStartsWith: str.startswith,
    StringEndsWith: str.endswith,
    StringContains: operator.contains,
}
# Filters of a later Spark are not among them.
_EVALUATED: Final[tuple[type[Filter], ...]] = (IsNull, IsNotNull, EqualNullSafe, In, *_COMPARISONS)


class Span(NamedTuple):
    """Whole numbers from `start` to before `end`; None is without a limit."""

    start: int | None = None
    end: int | None = None

    def within(self, other: "Span") -> "Span":
        """What both have."""
        starts = [each for each in (self.start, other.start) if each is not None]
        ends = [each for each in (self.end, other.end) if each is not None]
        return Span(max(starts, default=None), min(ends, default=None))


ANY: Final = Span()


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """What messages must have to match the filters of a query; `stored_ms` is their store time.

    `tags` is None if any will do.
    """

    queue_filters: tuple[Filter, ...] = ()
    offsets: Span = ANY
    stored_ms: Span = ANY
    tags: tuple[str, ...] | None = None

    def offsets_in(self, start: int, end: int) -> tuple[int, int]:
        """The part of a range of offsets; empty where nothing matches."""
        first = start if self.offsets.start is None else max(start, self.offsets.start)
        last = end if self.offsets.end is None else min(end, self.offsets.end)
        return min(first, end), max(last, min(first, end))

    def has_queue(self, known: Mapping[str, str | int | None]) -> bool:
        """Whether messages of a queue may match, by their values in these columns."""
        return all(
            _truth(each, known[name]) is True
            for each in self.queue_filters
            if (name := _column(each)) is not None and name in known
        )


NO_LIMITS: Final = ReadLimits()


def limits_of(filters: Iterable[Filter]) -> ReadLimits:
    """All filters must be true for a row."""
    given = list(filters)
    offsets = stored = ANY
    tags: tuple[str, ...] | None = None
    for each in given:
        match _column(each):
            case "queueOffset":
                offsets = offsets.within(_span(each, _offset))
            case "storeTimestamp":
                stored = stored.within(_span(each, _milliseconds))
            case "tags":
                tags = tags or _tags(each)
    of_queues = tuple(
        each
        for each in given
        if _column(each) in _QUEUE_COLUMNS and isinstance(_bare(each), _EVALUATED)
    )
    return ReadLimits(queue_filters=of_queues, offsets=offsets, stored_ms=stored, tags=tags)


def is_light_queue(topic: str) -> bool:
    """Then nothing is known about the columns of its messages."""
    return topic.startswith(_LIGHT_QUEUE_PREFIX)


def columns_of_queue(queue: QueueRef, *, has_namespace: bool) -> dict[str, str | int | None]:
    """The columns that are the same for all messages of a queue.

    In a namespace, messages have a longer name of their topic.
    """
    known: dict[str, str | int | None] = {
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
    }
    return known if has_namespace else known | {"topic": queue.topic}


class LimitedReader(Protocol):
    """A reader that can read less."""

    def limited(self, limits: ReadLimits) -> "LimitedReader": ...

    def partitions(self) -> Sequence[InputPartition]: ...

    def read(self, partition: InputPartition) -> Iterator[Any]: ...


@final
class PushdownReader(DataSourceReader):
    """Reads what the filters of the query leave. Spark pickles it after `pushFilters`."""

    def __init__(self, reader: LimitedReader) -> None:
        self._reader = reader

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        self._reader = self._reader.limited(limits_of(filters))
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self._reader.read(partition)


def _bare(condition: Filter) -> Filter:
    return _bare(condition.child) if isinstance(condition, Not) else condition


def _column(condition: Filter) -> str | None:
    """None for a field inside of a column."""
    path: tuple[str, ...] = getattr(_bare(condition), "attribute", ())
    return path[0] if len(path) == 1 else None


class _Whole(NamedTuple):
    """The whole numbers next to a value: the last one not after it, the first not before it."""

    floor: int
    ceiling: int


def _offset(value: object) -> _Whole | None:
    return _Whole(value, value) if isinstance(value, int) else None


def _milliseconds(value: object) -> _Whole | None:
    """Messages have no finer times, and none before 1970."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    microseconds = (value - _EPOCH) // _US
    floor, ceiling = microseconds // _US_PER_MS, -(-microseconds // _US_PER_MS)
    return _Whole(max(floor, -1), max(ceiling, 0))


def _span(condition: Filter, whole_of: Callable[[object], _Whole | None]) -> Span:
    """What a column of whole numbers must have; no limits if nothing is known."""
    if isinstance(condition, In):
        wholes = [whole_of(each) for each in condition.value if each is not None]
        known = [each for each in wholes if each is not None]
        if not known or len(known) < len(wholes):
            return ANY
        return Span(min(each.ceiling for each in known), max(each.floor for each in known) + 1)
    whole = whole_of(getattr(condition, "value", None))
    if whole is None:
        return ANY
    match condition:
        case EqualTo() | EqualNullSafe():
            return Span(whole.ceiling, whole.floor + 1)
        case GreaterThan():
            return Span(whole.floor + 1)
        case GreaterThanOrEqual():
            return Span(whole.ceiling)
        case LessThan():
            return Span(None, whole.ceiling)
        case LessThanOrEqual():
            return Span(None, whole.floor + 1)
    return ANY


def _tags(condition: Filter) -> tuple[str, ...] | None:
    match condition:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            wanted = [value]
        case In(value=values):
            wanted = [each for each in values if each is not None]
        case _:
            return None
    are_plain = all(isinstance(each, str) and _PLAIN_TAG.fullmatch(each) for each in wanted)
    return tuple(wanted) if are_plain and 0 < len(wanted) <= _TAGS_MAX else None


def _truth(condition: Filter, value: Any) -> bool | None:
    """As in SQL: None if it is neither true nor false."""
    match condition:
        case Not(child=child):
            truth = _truth(child, value)
            return None if truth is None else not truth
        case IsNull():
            return value is None
        case IsNotNull():
            return value is not None
        case EqualNullSafe(value=other):
            return bool(value == other)
        case In(value=values):
            return _is_in(value, values)
    other = getattr(condition, "value", None)
    if value is None or other is None:
        return None
    return bool(_COMPARISONS[type(condition)](value, other))


def _is_in(value: object, values: Sequence[object]) -> bool | None:
    if value is None:
        return None
    if value in values:
        return True
    return None if None in values else False
