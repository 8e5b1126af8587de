"""Conditions of a query as limits of what is read, for Spark and for SQL.

Limits may be too wide, never too narrow: the engine evaluates all conditions again, so rows are the
same with and without limits. Not every condition becomes one. The time of birth is that of a
producer's clock, which has no relation to offsets.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, Final, NamedTuple, final

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


@final
class Test(Enum):
    """What a condition compares its column by; its value is one of these for IN."""

    EQUAL = auto()
    EQUAL_NULL_SAFE = auto()
    GREATER = auto()
    AT_LEAST = auto()
    LESS = auto()
    AT_MOST = auto()
    IN = auto()
    IS_NULL = auto()
    IS_NOT_NULL = auto()
    STARTS_WITH = auto()
    ENDS_WITH = auto()
    CONTAINS = auto()


_COMPARISONS: Final[Mapping[Test, Callable[[Any, Any], object]]] = {
    Test.EQUAL: operator.eq,
    Test.GREATER: operator.gt,
    Test.AT_LEAST: operator.ge,
    Test.LESS: operator.lt,
    Test.AT_MOST: operator.le,
    Test.STARTS_WITH: str.startswith,
    Test.ENDS_WITH: str.endswith,
    Test.CONTAINS: operator.contains,
}


@dataclass(frozen=True)
class Condition:
    """Of one column."""

    column: str
    test: Test
    value: Any = None
    is_negated: bool = False


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
    """What messages must have to match the conditions of a query; `stored_ms` is their store time.

    `tags` is None if any will do.
    """

    queues: tuple[Condition, ...] = ()
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
            _truth(each, known[each.column]) is True for each in self.queues if each.column in known
        )


NO_LIMITS: Final = ReadLimits()


def limits_of(conditions: Iterable[Condition]) -> ReadLimits:
    """All conditions must be true for a row."""
    given = list(conditions)
    offsets = stored = ANY
    tags: tuple[str, ...] | None = None
    for each in given:
        match each.column:
            case "queueOffset":
                offsets = offsets.within(_span(each, _offset))
            case "storeTimestamp":
                stored = stored.within(_span(each, _milliseconds))
            case "tags":
                tags = tags or _tags(each)
    of_queues = tuple(each for each in given if each.column in _QUEUE_COLUMNS)
    return ReadLimits(queues=of_queues, offsets=offsets, stored_ms=stored, tags=tags)


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


def _span(condition: Condition, whole_of: Callable[[object], _Whole | None]) -> Span:
    """What a column of whole numbers must have; no limits if nothing is known."""
    if condition.is_negated:
        return ANY
    if condition.test is Test.IN:
        wholes = [whole_of(each) for each in condition.value if each is not None]
        known = [each for each in wholes if each is not None]
        if not known or len(known) < len(wholes):
            return ANY
        return Span(min(each.ceiling for each in known), max(each.floor for each in known) + 1)
    whole = whole_of(condition.value)
    if whole is None:
        return ANY
    match condition.test:
        case Test.EQUAL | Test.EQUAL_NULL_SAFE:
            return Span(whole.ceiling, whole.floor + 1)
        case Test.GREATER:
            return Span(whole.floor + 1)
        case Test.AT_LEAST:
            return Span(whole.ceiling)
        case Test.LESS:
            return Span(None, whole.ceiling)
        case Test.AT_MOST:
            return Span(None, whole.floor + 1)
    return ANY


def _tags(condition: Condition) -> tuple[str, ...] | None:
    if condition.is_negated:
        return None
    match condition.test:
        case Test.EQUAL | Test.EQUAL_NULL_SAFE:
            wanted = [condition.value]
        case Test.IN:
            wanted = [each for each in condition.value if each is not None]
        case _:
            return None
    are_plain = all(isinstance(each, str) and _PLAIN_TAG.fullmatch(each) for each in wanted)
    return tuple(wanted) if are_plain and 0 < len(wanted) <= _TAGS_MAX else None


def _truth(condition: Condition, value: Any) -> bool | None:
    """As in SQL: None if it is neither true nor false."""
    truth = _bare_truth(condition, value)
    return not truth if condition.is_negated and truth is not None else truth


def _bare_truth(condition: Condition, value: Any) -> bool | None:
    other = condition.value
    match condition.test:
        case Test.IS_NULL:
            return value is None
        case Test.IS_NOT_NULL:
            return value is not None
        case Test.EQUAL_NULL_SAFE:
            return bool(value == other)
        case Test.IN:
            return _is_in(value, other)
    if value is None or other is None:
        return None
    return bool(_COMPARISONS[condition.test](value, other))


def _is_in(value: object, values: Sequence[object]) -> bool | None:
    if value is None:
        return None
    if value in values:
        return True
    return None if None in values else False
