"""What became of one message in each group that reads its topic.

Pure decisions about what brokers report; `tracking` asks them. The first line that applies decides:

    a dead letter of the group                  dead letter
    a retry that it has not taken               waits for retry N, until it is due
    the broker of the message did not answer    broker not asked
    its members broadcast                       unknown: they keep their own offsets
    its subscription excludes it                filtered
    no committed offset                         before its start, waiting, or unknown
    the committed offset is not past it         waiting, or in the hands of a member
    another broker did not answer               broker not asked: a retry may be there
    the committed offset is past it             consumed; a reset or a late start look the same
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from roquet.client.received import ReceivedMessage
from roquet.protocol.bodies.clients import SubscriptionData
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.sql_filter import compile_filter
from roquet.protocol.subscription import ExpressionType, parse_subscription

_DELAY_LEVEL: Final = re.compile(r"(\d+)([smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class DeliveryState(Enum):
    """What became of a message in one group."""

    CONSUMED = "consumed"
    FILTERED = "filtered"
    WAITING = "waiting"
    WAITS_FOR_RETRY = "waits for retry"
    DEAD_LETTER = "dead letter"
    BEFORE_START = "before its start"
    BROKER_NOT_ASKED = "broker not asked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RetryCopy:
    """The newest copy of a message that a group failed to consume."""

    # 1 is the first delivery after the failed one.
    number: int
    # When it is delivered; None if it can be already.
    due: datetime | None
    # Whether the committed offset of the group is past it.
    is_taken: bool = False


@dataclass(frozen=True, slots=True)
class DeliveryFacts:
    """What brokers report about a message and one group."""

    # Of the message in its queue.
    offset: int
    # The committed offset; None if the group never committed in this queue.
    committed: int | None = None
    # Where the group would start without one; None if unknown.
    start: int | None = None
    # Whether the subscription of connected members excludes it.
    is_excluded: bool = False
    is_broadcast: bool = False
    retry: RetryCopy | None = None
    # The number of deliveries after which it became a dead letter.
    dead_tries: int | None = None
    # The id of the message that the dead letter was sent again as.
    resent_as: str | None = None
    # Brokers that did not answer, and whether the one that has the message is among them.
    not_asked: tuple[str, ...] = ()
    is_its_broker_asked: bool = True


@dataclass(frozen=True, slots=True)
class GroupDelivery:
    """What became of a message in one group."""

    group: str
    state: DeliveryState
    # The retry that it waits for, or the last one that was delivered.
    retry: int | None = None
    # When that retry is due; None if it can be delivered now.
    until: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Deliveries:
    """What became of a message in all groups that read its topic."""

    groups: tuple[GroupDelivery, ...]
    # Why brokers did not answer, by name: groups and retries that only they know are missing.
    not_asked: Mapping[str, str] = field(default_factory=dict)


def delivery_of(group: str, facts: DeliveryFacts) -> GroupDelivery:
    """What became of the message; the head of this module has the table."""
    retry = facts.retry
    number = None if retry is None else retry.number
    if facts.dead_tries is not None:
        tries = f"after {facts.dead_tries} tries"
        resent = f"resent as {facts.resent_as}" if facts.resent_as else "not resent"
        note = f"{tries}, {resent}; see: roquet dlq show {group}"
        return GroupDelivery(group, DeliveryState.DEAD_LETTER, number, note=note)
    if retry is not None and not retry.is_taken:
        ready = "ready to be delivered" if retry.due is None else None
        return GroupDelivery(group, DeliveryState.WAITS_FOR_RETRY, number, retry.due, ready)
    state, why = _state_by_offset(facts)
    return GroupDelivery(group, state, number, note=why)


def _state_by_offset(facts: DeliveryFacts) -> tuple[DeliveryState, str | None]:
    others = ", ".join(facts.not_asked)
    if not facts.is_its_broker_asked:
        return DeliveryState.BROKER_NOT_ASKED, f"no answer from {others}"
    if facts.is_broadcast:
        return DeliveryState.UNKNOWN, "broadcast: its members keep their own offsets"
    if facts.is_excluded:
        return DeliveryState.FILTERED, None
    if facts.committed is None:
        return _state_without_commit(facts)
    if facts.offset >= facts.committed:
        return DeliveryState.WAITING, f"{facts.offset - facts.committed:,} messages before it"
    if facts.not_asked:
        note = f"its offset is past it; a retry or dead letter may be at {others}"
        return DeliveryState.BROKER_NOT_ASKED, note
    return DeliveryState.CONSUMED, None


def _state_without_commit(facts: DeliveryFacts) -> tuple[DeliveryState, str | None]:
    if facts.start is None:
        return DeliveryState.UNKNOWN, "it never committed here, and no member is connected"
    if facts.offset < facts.start:
        return DeliveryState.BEFORE_START, f"it starts at offset {facts.start}"
    return DeliveryState.WAITING, "it has not committed yet"


def newest_retry(copies: Iterable[RetryCopy]) -> RetryCopy | None:
    """A copy that was delivered is newer than the one in the delay topic that it came from."""
    return max(copies, key=lambda each: (each.number, each.due is None), default=None)


def is_excluded(wanted: SubscriptionData | None, message: ReceivedMessage) -> bool:
    """Whether a subscription, as a member registered it, excludes a message."""
    if wanted is None:
        return False
    try:
        parsed = parse_subscription(wanted.topic, wanted.sub_string, wanted.expression_type)
        if parsed.expression_type == ExpressionType.SQL92:
            return not compile_filter(parsed.expression).matches(message.properties)
    except (BadExpression, TooLarge):
        return False  # Of another kind than those that brokers evaluate.
    return not parsed.matches_tags(message.tags)


def delay_levels(text: str) -> list[timedelta]:
    """Those of the setting `messageDelayLevel`, such as "1s 5s 10m"."""
    return [timedelta(**{_UNITS[unit]: int(count)}) for count, unit in _DELAY_LEVEL.findall(text)]
