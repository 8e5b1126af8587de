"""What a pull may bring: which messages its subscription wants, how many, how many bytes.

A pull brings its own subscription, or relies on the one that heartbeats of its group brought.
Tags are compared by code, in the queue; SQL92 needs the properties, in the record. The same
expressions come with every pull, so what was compiled is kept.

An SQL92 expression that does not compile hides nothing when a pull brings it: both releases of
Apache deliver everything then. When a heartbeat brought it, there is no filter, and no message
either (27). A filter older than its subscription (28 of Apache) cannot exist, because here the
filter is made from the subscription.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from roquet.broker.errors import (
    BroadcastForbidden,
    FilterMissing,
    FiltersOff,
    NotSubscribed,
    SubscriptionOutdated,
    SubscriptionUnreadable,
)
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import ConsumerGroup
from roquet.protocol.bodies.clients import MessageModel, SubscriptionData
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import PullFlag
from roquet.protocol.errors import BadExpression, TooLarge
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.properties import parse_properties, property_of
from roquet.protocol.messages.record import peek_record
from roquet.protocol.messages.record_filter import RecordFilter
from roquet.protocol.names import RETRY_PREFIX
from roquet.protocol.subscription import ExpressionType, parse_subscription
from roquet.store.reading.queue_reading import QueueReadLimits

# Of each kind. The longest expressions are 64 KB.
KEPT_FILTER_COUNT_MAX: Final = 500

_SUBSCRIPTION: Final = int(PullFlag.SUBSCRIPTION)
_SHOWN_SIZE: Final = 150


class Filter(NamedTuple):
    """What the store asks before it hands out a message; None lets everything pass."""

    matches_code: Callable[[int], bool] | None = None
    matches_record: Callable[[bytes], bool] | None = None


EVERYTHING: Final = Filter()


def filter_of_pull(
    pull: PullMessageHeader,
    group: ConsumerGroup[Any] | None,
    settings: GroupConfig,
    config: BrokerConfig,
) -> Filter:
    """`group` are the consumers that are connected, `settings` those of the same group.

    Raises SubscriptionUnreadable, FiltersOff, NotSubscribed, BroadcastForbidden,
    SubscriptionOutdated and FilterMissing.
    """
    if pull.sys_flag & _SUBSCRIPTION:
        return _own_filter(pull, config)
    if group is None:
        raise NotSubscribed(pull.consumer_group, pull.topic)
    if group.message_model == MessageModel.BROADCASTING and not settings.consume_broadcast_enable:
        raise BroadcastForbidden(pull.consumer_group)
    subscription = group.subscriptions.get(pull.topic)
    if subscription is None:
        raise NotSubscribed(pull.consumer_group, pull.topic)
    if subscription.sub_version < pull.sub_version:
        raise SubscriptionOutdated(pull.consumer_group, pull.topic)
    if config.sql_filters_for_retries and pull.topic.startswith(RETRY_PREFIX):
        return _retry_filter(group.subscriptions)
    return _group_filter(pull, subscription, config)


def filter_of_pop(
    expression: str | None, expression_type: str | None, config: BrokerConfig
) -> Filter:
    """Raises SubscriptionUnreadable and FiltersOff."""
    if not expression:
        return EVERYTHING
    if _is_tags(expression_type):
        return _tag_filter(expression)
    text = _sql_text(expression, expression_type)
    _check_sql(config)
    found = _sql_filter(text)
    if found is None:
        raise SubscriptionUnreadable(f"{text[:_SHOWN_SIZE]!r} is no SQL92 expression")
    return found


def load_sql_filters() -> None:
    """At the start, where they are allowed: no request has to wait for it, or finds no descriptor
    to read modules with."""
    _sql_matcher("TRUE")


def check_subscription(subscription: SubscriptionData, config: BrokerConfig) -> None:
    """Whether consumers may start with it. Raises FiltersOff and SubscriptionUnreadable."""
    if _is_tags(subscription.expression_type):
        return
    _check_sql(config)
    try:
        parsed = parse_subscription(
            subscription.topic, subscription.sub_string, subscription.expression_type
        )
        _sql_matcher(parsed.expression)
    except (BadExpression, TooLarge) as error:
        raise SubscriptionUnreadable(str(error)) from None


def _own_filter(pull: PullMessageHeader, config: BrokerConfig) -> Filter:
    if _is_tags(pull.expression_type):
        return _tag_filter(pull.subscription)
    # Parsed before any other check, as Apache does.
    expression = _sql_text(pull.subscription, pull.expression_type)
    _check_sql(config)
    return _sql_filter(expression) or EVERYTHING


def _group_filter(
    pull: PullMessageHeader, subscription: SubscriptionData, config: BrokerConfig
) -> Filter:
    if _is_tags(subscription.expression_type):
        return _tag_filter(subscription.sub_string)
    expression = _sql_text(subscription.sub_string, subscription.expression_type)
    found = _sql_filter(expression)
    if found is None:
        raise FilterMissing(pull.consumer_group, pull.topic)
    _check_sql(config)
    return found


def _retry_filter(subscriptions: Mapping[str, SubscriptionData]) -> Filter:
    """A message that is tried again has to pass the filter of the topic that it came from."""

    def matches(record: bytes) -> bool:
        topic = property_of(_properties_text(record), Property.RETRY_TOPIC)
        subscription = subscriptions.get(topic or "")
        if subscription is None or _is_tags(subscription.expression_type):
            return True
        found = _sql_filter(subscription.sub_string or "") or EVERYTHING
        return found.matches_record is None or found.matches_record(record)

    return Filter(matches_record=matches)


@lru_cache(KEPT_FILTER_COUNT_MAX)
def _tag_filter(expression: str | None) -> Filter:
    try:
        subscription = parse_subscription("", expression)
    except (BadExpression, TooLarge) as error:
        raise SubscriptionUnreadable(str(error)) from None
    return EVERYTHING if subscription.is_all else Filter(subscription.codes.__contains__)


@lru_cache(KEPT_FILTER_COUNT_MAX)
def _sql_filter(expression: str) -> Filter | None:
    try:
        return Filter(matches_record=_sql_matcher(expression))
    except (BadExpression, TooLarge):
        return None


def _sql_matcher(expression: str) -> RecordFilter:
    """Raises BadExpression or TooLarge."""
    # A compiler is large, and few brokers are ever asked for it.
    from roquet.protocol.sql_filter import compile_filter  # noqa: PLC0415

    compiled = compile_filter(expression)
    return RecordFilter(
        compiled.program,
        lambda record: compiled.matches(parse_properties(_properties_text(record))),
    )


def _is_tags(expression_type: str | None) -> bool:
    return not expression_type or expression_type == ExpressionType.TAG


def _sql_text(expression: str | None, expression_type: str | None) -> str:
    try:
        return parse_subscription("", expression, expression_type).expression
    except (BadExpression, TooLarge) as error:
        raise SubscriptionUnreadable(str(error)) from None


def _check_sql(config: BrokerConfig) -> None:
    if not config.sql_filters:
        raise FiltersOff


def _properties_text(record: bytes) -> str:
    return record[peek_record(record).properties_start :].decode(errors="replace")


# What Java's 5.x consumers name in every pull, whatever their program wants: push consumers the
# one, pull consumers the other. Apache's brokers ignore it, so these get what they get there.
_SIZES_OF_JAVA: Final = frozenset({256 * 1024, 2**31 - 1})
# No record is smaller, so no pull needs to look at more of them than fit.
_RECORD_SIZE_MIN: Final = 91


def limits_of_pull(
    pull: PullMessageHeader,
    members: ConsumerGroup[Any] | None,
    settings: GroupConfig,
    config: BrokerConfig,
) -> QueueReadLimits:
    """`members` are the consumers that are connected. Raises what `filter_of_pull` does."""
    matches_code, matches_record = filter_of_pull(pull, members, settings, config)
    count_max = max(1, pull.max_msg_nums)
    size_max = pull.max_msg_bytes
    if not size_max or size_max in _SIZES_OF_JAVA:
        size_max = config.store.read_size_max_in_memory
        return QueueReadLimits(count_max, size_max, matches_code, matches_record)
    size_max = min(size_max, config.bulk_pull_size_max)
    count_max = min(count_max, max(1, size_max // _RECORD_SIZE_MIN))
    return QueueReadLimits(count_max, size_max, matches_code, matches_record, is_bulk=True)
