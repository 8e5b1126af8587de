"""Contents of topics, the groups that read them, and their progress: reports for operators."""

from collections.abc import Iterable
from typing import Final

from roquet.access.needs import EVERYTHING, any_topic, reading, sub_group, sub_topic
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.messages.appending import Messages
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import ClientConnection, Consumers
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.topics import TopicTable
from roquet.net.router import Reply, Request, on
from roquet.protocol.bodies.body import MessageQueue, QueueTable, write_body
from roquet.protocol.bodies.brokers import DUE_BOUNDS_S, DelayedMessages, WaitingMessages
from roquet.protocol.bodies.clients import GroupSubscription
from roquet.protocol.bodies.groups import GroupList
from roquet.protocol.bodies.offsets import (
    ConsumeOffsets,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
)
from roquet.protocol.bodies.topics import TopicConfig, TopicList, TopicOffsets, TopicStats
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.groups import (
    BrokerConsumeStatsHeader,
    ConsumeStatsHeader,
    ConsumeTimeSpanHeader,
    SubscriptionByConsumerHeader,
)
from roquet.protocol.headers.topics import (
    TopicConsumersHeader,
    TopicsByConsumerHeader,
    TopicStatsHeader,
)
from roquet.protocol.host import unpack_host
from roquet.store.message_store import MessageStore

# Half messages that are read for one answer: how many there are is known without.
HALF_COUNT_MAX: Final = 1000

_NO_TIME: Final = -1  # Java's value for the time of a missing message


def is_read(consumers: Consumers[ClientConnection], group: str, topic: str) -> bool:
    """Whether a group that has an offset in a topic still reads it, as far as we know."""
    return consumers.may_read(group, topic)


def store_time(store: MessageStore, topic: str, queue_id: int, offset: int) -> int:
    found = store.store_time(topic, queue_id, offset)
    return _NO_TIME if found is None else found


def get_topic_stats(broker: Broker, request: Request[TopicStatsHeader]) -> Reply:
    topic = _topic(broker.tables.topics, request.header.topic)
    table = QueueTable(
        {
            _queue(broker.config, topic, queue_id): _topic_offsets(
                broker.store, topic.topic_name, queue_id
            )
            for queue_id in range(topic.write_queue_nums)
        }
    )
    rate = broker.statistics.put_rate(topic.topic_name)
    return Reply(body=write_body(TopicStats(offset_table=table, topic_put_tps=rate)))


def get_consume_stats(broker: Broker, request: Request[ConsumeStatsHeader]) -> Reply:
    group = request.header.consumer_group
    stats = ConsumeStats()
    for topic in _read_topics(broker, group, _asked_topics(broker.tables.offsets, request.header)):
        stats.offset_table.update(_progress(broker, group, topic, topic.read_queue_nums))
        stats.consume_tps += broker.statistics.get_rate(group, topic.topic_name)
    return Reply(body=write_body(stats))


def get_all_consume_stats(broker: Broker, request: Request[BrokerConsumeStatsHeader]) -> Reply:
    report = ConsumeStatsList(broker_addr=_address(broker.messages))
    for settings in broker.tables.groups:
        group = settings.group_name
        all_stats = []
        for topic in _read_topics(broker, group, broker.tables.offsets.topics_of(group)):
            if topic.order or not request.header.is_order:
                table = _progress(broker, group, topic, topic.write_queue_nums)
                rate = broker.statistics.get_rate(group, topic.topic_name)
                all_stats.append(ConsumeStats(offset_table=table, consume_tps=rate))
                report.total_diff += sum(
                    each.broker_offset - each.consumer_offset for each in table.values()
                )
        if all_stats:
            report.consume_stats_list.append({group: all_stats})
    return Reply(body=write_body(report))


def get_time_spans(broker: Broker, request: Request[ConsumeTimeSpanHeader]) -> Reply:
    topic = _topic(broker.tables.topics, request.header.topic)
    spans = [
        _time_span(broker, request.header.group, topic, queue_id)
        for queue_id in range(topic.write_queue_nums)
    ]
    return Reply(body=write_body(ConsumeTimeSpans(consume_time_span_set=spans)))


def get_groups_of_topic(broker: Broker, request: Request[TopicConsumersHeader]) -> Reply:
    topic = request.header.topic
    groups = {*broker.clients.consumers.groups_of(topic), *broker.tables.offsets.groups_of(topic)}
    return Reply(body=write_body(GroupList(group_list=sorted(groups))))


def get_topics_of_group(broker: Broker, request: Request[TopicsByConsumerHeader]) -> Reply:
    topics = broker.tables.offsets.topics_of(request.header.group)
    return Reply(
        body=write_body(TopicList(broker_addr=_address(broker.messages), topic_list=topics))
    )


def get_subscription(broker: Broker, request: Request[SubscriptionByConsumerHeader]) -> Reply:
    header = request.header
    group = broker.clients.consumers.find(header.group)
    subscription = None if group is None else group.subscriptions.get(header.topic)
    body = GroupSubscription(group=header.group, topic=header.topic, subscription_data=subscription)
    return Reply(body=write_body(body))


def get_waiting(broker: Broker, _request: Request[NoFields]) -> Reply:
    """Messages that cannot be consumed yet. Only a master has them: it delivers them."""
    check_is_master(broker.config)
    delays, pending = broker.waiting.delays, broker.waiting.pending_halves
    body = WaitingMessages(
        is_counted=delays.is_counted,
        due_counts=delays.due_counts(DUE_BOUNDS_S),
        half_count=pending.open_count,
        half_topics=dict(pending.open_topics(HALF_COUNT_MAX)),
    )
    for topic, count, due_ms in delays.waiting():
        found = body.delayed.setdefault(topic, DelayedMessages())
        found.count += count
        times = [each for each in (found.next_due_ms, due_ms) if each is not None]
        found.next_due_ms = min(times, default=None)
    _add_pops(broker, body)
    return Reply(body=write_body(body))


def _add_pops(broker: Broker, body: WaitingMessages) -> None:
    journal = broker.waiting.pops
    jumped_ms = broker.clock.now_ms() - journal.steady_ms
    out = [
        (point.key.queue.group, point.open_bits.bit_count(), point.due_ms)
        for point in journal.in_flight.points()
    ] + [
        (ordered.queue.group, 1, outing.due_ms)
        for ordered in journal.ordered.queues()
        for outing in ordered.out.values()
    ]
    for group, count, due_ms in out:
        found = body.in_flight.setdefault(group, DelayedMessages())
        found.count += count
        due_ms += jumped_ms
        found.next_due_ms = due_ms if not found.next_due_ms else min(due_ms, found.next_due_ms)
    for key, count in broker.waiting.pop_polls.counts.items():
        body.waiting_pops[key.group] = body.waiting_pops.get(key.group, 0) + count


def _topic(topics: TopicTable, name: str) -> TopicConfig:
    topic = topics.find(name)
    if topic is None:
        raise UnknownTopic(name)
    return topic


def _queue(config: BrokerConfig, topic: TopicConfig, queue_id: int) -> MessageQueue:
    return MessageQueue(broker_name=config.broker_name, queue_id=queue_id, topic=topic.topic_name)


def _address(messages: Messages) -> str:
    return str(unpack_host(messages.store_host))


def _asked_topics(offsets: OffsetTable, header: ConsumeStatsHeader) -> list[str]:
    if header.topic:
        return [header.topic]
    names = [name for name in (header.topic_list or "").split(";") if name]
    return names or offsets.topics_of(header.consumer_group)


def _read_topics(broker: Broker, group: str, names: Iterable[str]) -> list[TopicConfig]:
    """Those topics that are there, and that the group reads."""
    found = [
        broker.tables.topics.find(name)
        for name in names
        if is_read(broker.clients.consumers, group, name)
    ]
    return [topic for topic in found if topic is not None]


def _topic_offsets(store: MessageStore, topic: str, queue_id: int) -> TopicOffsets:
    max_offset = store.max_offset(topic, queue_id)
    return TopicOffsets(
        min_offset=store.min_offset(topic, queue_id),
        max_offset=max_offset,
        last_update_timestamp=store.store_time(topic, queue_id, max_offset - 1) or 0,
    )


def _progress(
    broker: Broker, group: str, topic: TopicConfig, queue_count: int
) -> QueueTable[ConsumeOffsets]:
    table = QueueTable[ConsumeOffsets]()
    name = topic.topic_name
    known = broker.tables.offsets.queues(group, name)
    for queue_id in range(queue_count):
        offset = known.get(queue_id, 0)
        table[_queue(broker.config, topic, queue_id)] = ConsumeOffsets(
            broker_offset=broker.store.max_offset(name, queue_id),
            consumer_offset=offset,
            # What lies between is on its way, as 5.x tools show it.
            pull_offset=broker.tables.offsets.pulled(group, name, queue_id),
            last_timestamp=broker.store.store_time(name, queue_id, offset - 1) or 0,
        )
    return table


def _time_span(broker: Broker, group: str, topic: TopicConfig, queue_id: int) -> ConsumeTimeSpan:
    name = topic.topic_name
    min_offset = broker.store.min_offset(name, queue_id)
    max_offset = broker.store.max_offset(name, queue_id)
    # A group without an offset has everything before it.
    next_offset = broker.tables.offsets.find(group, name, queue_id) or min_offset
    span = ConsumeTimeSpan(
        message_queue=_queue(broker.config, topic, queue_id),
        min_time_stamp=store_time(broker.store, name, queue_id, min_offset),
        max_time_stamp=store_time(broker.store, name, queue_id, max_offset - 1),
        consume_time_stamp=store_time(
            broker.store, name, queue_id, max(next_offset - 1, min_offset)
        ),
    )
    next_time = broker.store.store_time(name, queue_id, next_offset)
    if next_time is not None:
        span.delay_time = broker.clock.now_ms() - next_time
    return span


_READING: Final = reading("topic", "group")
ROUTES = (
    on(
        RequestCode.GET_TOPIC_STATS_INFO,
        TopicStatsHeader,
        get_topic_stats,
        needs=any_topic("topic"),
    ),
    on(
        RequestCode.GET_CONSUME_STATS,
        ConsumeStatsHeader,
        get_consume_stats,
        needs=sub_group("consumer_group"),
    ),
    on(RequestCode.GET_BROKER_CONSUME_STATS, BrokerConsumeStatsHeader, get_all_consume_stats),
    on(RequestCode.QUERY_CONSUME_TIME_SPAN, ConsumeTimeSpanHeader, get_time_spans, needs=_READING),
    on(
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
        TopicConsumersHeader,
        get_groups_of_topic,
        needs=sub_topic("topic"),
    ),
    on(
        RequestCode.QUERY_TOPICS_BY_CONSUMER,
        TopicsByConsumerHeader,
        get_topics_of_group,
        needs=sub_group("group"),
    ),
    on(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
        SubscriptionByConsumerHeader,
        get_subscription,
        needs=_READING,
    ),
    on(RequestCode.GET_WAITING_MESSAGES, NoFields, get_waiting, needs=EVERYTHING),
)
