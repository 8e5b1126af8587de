"""What can be decided once for many requests of the fast path. The rules are those of the handlers.

A decision depends on nothing but what is handed in here, and that is never changed in place. So it
holds for every request that finds the very same settings.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import Postponed, note_waiting
from roquet.broker.messages.appending import DLQ_QUEUE_ID, batch_properties
from roquet.broker.messages.subscriptions import Filter, filter_of_pop, limits_of_pull
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.offsets import HALF_QUEUE_ID
from roquet.net.errors import Refused
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.topics import TopicConfig, TopicFilterType
from roquet.protocol.codes import Permission
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.properties import parse_properties, properties_text
from roquet.protocol.messages.record_filter import RecordFilter
from roquet.protocol.names import (
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    is_closed_topic,
    is_name,
    pop_retry_topic,
)
from roquet.store.reading.queue_reading import QueueReadLimits

_READ: Final = int(Permission.READ)
_WRITE: Final = int(Permission.WRITE)
_MULTI_TAGS: Final = SysFlag.MULTI_TAGS.value
_DELAY_MARK: Final = "DELAY\x01"
_NO_WAIT_MARK: Final = "WAIT\x01false"
# Of what a batch brings for all its messages. With less, the properties of none become too large.
_SHARED_SIZE_MAX: Final = 8_192


def fast_queue_count(topic: TopicConfig, config: BrokerConfig) -> int:
    """How many queues fast sends to the topic may name; 0 if all its sends take the slow path."""
    if (
        config.accept_sends_from_ms
        or is_closed_topic(topic.topic_name)
        or topic.topic_name.startswith(RETRY_PREFIX)
        or (topic.order and not config.permission & _WRITE)
    ):
        return 0
    return max(topic.read_queue_nums, topic.write_queue_nums)


def added_flags(topic: TopicConfig) -> int:
    """Bits of the system flag that messages of the topic get from the broker."""
    return _MULTI_TAGS if topic.topic_filter_type == TopicFilterType.MULTI_TAG else 0


def draft_of_sends(broker: Broker, topic: TopicConfig) -> RecordDraft:
    """What the records of all fast sends to the topic have in common."""
    return _draft(broker, topic.topic_name, broker.messages.cluster_property)


def draft_of_batches(broker: Broker, topic: TopicConfig, sent: str) -> RecordDraft | None:
    """The same for batches with these properties; None if they take the slow path."""
    if _DELAY_MARK in sent or _NO_WAIT_MARK in sent or len(sent) > _SHARED_SIZE_MAX:
        return None
    return _draft(broker, topic.topic_name, batch_properties(sent, broker.config.cluster_name))


class Diversion(msgspec.Struct, frozen=True):
    """Where messages wait, and what follows when one is stored there."""

    topic: str
    queue_id: int
    draft: RecordDraft
    # None for half messages.
    delay_ms: int | None
    # By its offset, its store timestamp and where it ends in the log.
    follow_up: Callable[[int, int, int], None]


def fast_retry_queue_count(group: GroupConfig, topic: TopicConfig, config: BrokerConfig) -> int:
    """How many queues fast send-backs may go to; 0 if all of the group take the slow path."""
    if config.is_slave or not config.permission & topic.perm & _WRITE:
        return 0
    return max(0, group.retry_queue_nums)


def diversion_of(
    broker: Broker, topic: str, queue_id: int, level: int, added: bytes
) -> Diversion | None:
    """For messages of the queue with this delay level, or half messages with level 0.

    They get the properties `added`, and where they belong. None if they take the slow path.
    """
    levels_ms = broker.config.store.delay_levels_ms
    if level > len(levels_ms) or (not level and broker.config.refuse_transactions):
        return None
    target = SCHEDULE_TOPIC if level else HALF_TOPIC
    real_queue = {Property.REAL_TOPIC: topic, Property.REAL_QUEUE_ID: str(queue_id)}
    properties = properties_text(parse_properties(added.decode()) | real_queue)

    def follow_level(offset: int, stored_ms: int, end: int) -> None:
        note_waiting(broker, Postponed(level - 1, offset, topic, stored_ms), end)

    def follow_half(offset: int, _stored_ms: int, _end: int) -> None:
        broker.waiting.pending_halves.half_appended(offset)

    return Diversion(
        topic=target,
        queue_id=level - 1 if level else HALF_QUEUE_ID,
        draft=_draft(broker, target, properties.encode()),
        delay_ms=levels_ms[level - 1] if level else None,
        follow_up=follow_level if level else follow_half,
    )


def dead_letters_of(broker: Broker, topic: str) -> Diversion | None:
    """For those that go to this topic of dead letters; None if they take the slow path."""
    if not broker.config.store.write_checksums:
        return None  # Their properties would end in a separator.
    return Diversion(
        topic=topic,
        queue_id=DLQ_QUEUE_ID,
        draft=_draft(broker, topic, b""),
        delay_ms=None,
        follow_up=_nothing_follows,
    )


def _nothing_follows(_offset: int, _stored_ms: int, _end: int) -> None:
    """Dead letters wait for nothing."""


def fast_limits(
    broker: Broker, pull: PullMessageHeader, group: GroupConfig, topic: TopicConfig
) -> QueueReadLimits | None:
    """What pulls in the very words of this one may bring; None if they take the slow path."""
    config = broker.config
    if config.slaves_are_read:
        return None  # Where to pull from next is decided for each one.
    if not config.permission & topic.perm & _READ or not group.consume_enable:
        return None
    try:
        limits = limits_of_pull(
            pull, broker.clients.consumers.find(group.group_name), group, config
        )
    except Refused:
        return None
    return limits if _is_known(limits.matches_record) else None


def fast_pop_filter(
    broker: Broker, words: tuple[str, str | None], group: GroupConfig, topic: TopicConfig
) -> Filter | None:
    """What pops with this expression, of this type, want; None if they take the slow path."""
    config = broker.config
    retries = pop_retry_topic(group.group_name, topic.topic_name)
    if (
        config.is_slave
        or config.limit_in_flight  # How many are out is asked for each one.
        or not config.permission & topic.perm & _READ
        or not group.consume_enable
        or not is_name(retries)
        # Of these, messages are rewritten; and the journal grows by each pop.
        or topic.topic_name.startswith(RETRY_PREFIX)
        or topic.topic_name == broker.waiting.pops.topic
    ):
        return None
    try:
        wanted = filter_of_pop(*words, config)
    except Refused:
        return None
    return wanted if _is_known(wanted.matches_record) else None


def _is_known(matches_record: Callable[[bytes], bool] | None) -> bool:
    """Others look at more than the record and its subscription."""
    return matches_record is None or isinstance(matches_record, RecordFilter)


def _draft(broker: Broker, topic: str, properties: bytes) -> RecordDraft:
    return RecordDraft(
        queue_id=0,
        flag=0,
        sys_flag=0,
        born_timestamp=0,
        born_host=broker.messages.store_host,  # Replaced by the sender's address in each message.
        store_host=broker.messages.store_host,
        body=b"",
        topic=topic.encode(),
        properties=properties,
        has_checksum=broker.config.store.write_checksums,
    )
