"""Metrics of messages, transactions and consumer groups: traffic, lag, connected clients."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from roquet.broker.broker import Broker, Clients
from roquet.broker.tables.clients import Client
from roquet.broker.tables.topics import TopicTable
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind
from roquet.protocol import names

_BY_TYPE: Final = ("topic", "message_type", "is_system")
_BY_GROUP: Final = ("topic", "consumer_group", "is_retry", "is_system")
MESSAGES_IN: Final = Metric(
    "rocketmq_messages_in_total",
    MetricKind.COUNTER,
    "Messages that were stored.",
    _BY_TYPE,
)
BYTES_IN: Final = Metric(
    "rocketmq_throughput_in_total",
    MetricKind.COUNTER,
    "Bytes that were stored.",
    _BY_TYPE,
)
MESSAGES_OUT: Final = Metric(
    "rocketmq_messages_out_total", MetricKind.COUNTER, "Messages that were handed out.", _BY_GROUP
)
BYTES_OUT: Final = Metric(
    "rocketmq_throughput_out_total", MetricKind.COUNTER, "Bytes that were handed out.", _BY_GROUP
)
DEAD_LETTERS: Final = Metric(
    "rocketmq_send_to_dlq_messages_total",
    MetricKind.COUNTER,
    "Messages that their group has given up.",
    ("consumer_group",),
)
SENT_BACK: Final = Metric(
    "roquet_messages_sent_back_total",
    MetricKind.COUNTER,
    "Messages that consumers want again later.",
    ("topic", "consumer_group"),
)
NOT_STORED: Final = Metric(
    "roquet_sends_not_stored_total",
    MetricKind.COUNTER,
    "Sends that the store did not take: too large, or the disk is full.",
)
NOT_SAFE: Final = Metric(
    "roquet_sends_not_safe_total",
    MetricKind.COUNTER,
    "Sends that were stored and answered before disk or replicas had confirmed them, by code.",
    ("code",),
)
SENDS: Final = Metric(
    "roquet_sends_total",
    MetricKind.COUNTER,
    "Sends by path: fast or slow.",
    ("path",),
)
PULLS: Final = Metric(
    "roquet_pulls_total",
    MetricKind.COUNTER,
    "Pulls by path: fast or slow.",
    ("path",),
)
EMPTY_PULLS: Final = Metric(
    "roquet_pulls_empty_total", MetricKind.COUNTER, "Pulls that found no message."
)
_OF_MESSAGES: Final = (
    *(MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, DEAD_LETTERS, SENT_BACK, NOT_STORED),
    *(NOT_SAFE, SENDS, PULLS, EMPTY_PULLS),
)
_TYPE_ATTRIBUTE: Final = "message.type"
_USUAL_TYPE: Final = "normal"
_BY_TOPIC: Final = ("topic",)
OPEN_TRANSACTIONS: Final = Metric(
    "rocketmq_half_messages", MetricKind.GAUGE, "Transactions that have not ended."
)
COMMITS: Final = Metric(
    "rocketmq_commit_messages_total",
    MetricKind.COUNTER,
    "Transactions that were committed.",
    _BY_TOPIC,
)
ROLLBACKS: Final = Metric(
    "rocketmq_rollback_messages_total",
    MetricKind.COUNTER,
    "Transactions that were rolled back.",
    _BY_TOPIC,
)
TRANSACTION_AGES: Final = Metric(
    "rocketmq_finish_message_latency",
    MetricKind.HISTOGRAM,
    "How long transactions took from their first message to their end, in milliseconds.",
)
_OF_TRANSACTIONS: Final = (OPEN_TRANSACTIONS, COMMITS, ROLLBACKS, TRANSACTION_AGES)
_BY_CLIENT: Final = ("language", "version")
LAG: Final = Metric(
    "rocketmq_consumer_lag_messages",
    MetricKind.GAUGE,
    "Messages that a group has not consumed, in queues where it has committed an offset.",
    _BY_GROUP,
)
LAG_TIME: Final = Metric(
    "rocketmq_consumer_lag_latency",
    MetricKind.GAUGE,
    "Age of the oldest message that a group has not consumed, in milliseconds.",
    _BY_GROUP,
)
READY_TIME: Final = Metric(
    "rocketmq_consumer_queueing_latency",
    MetricKind.GAUGE,
    "Age of the oldest message that a group has not pulled, in milliseconds.",
    _BY_GROUP,
)
READY: Final = Metric(
    "rocketmq_consumer_ready_messages",
    MetricKind.GAUGE,
    "Messages that a group has not pulled.",
    _BY_GROUP,
)
INFLIGHT: Final = Metric(
    "rocketmq_consumer_inflight_messages",
    MetricKind.GAUGE,
    "Messages that a group has pulled and not consumed.",
    _BY_GROUP,
)
CONSUMERS: Final = Metric(
    "rocketmq_consumer_connections",
    MetricKind.GAUGE,
    "Consumers that are connected.",
    ("consumer_group", *_BY_CLIENT, "consume_mode"),
)
PRODUCERS: Final = Metric(
    "rocketmq_producer_connections",
    MetricKind.GAUGE,
    "Producers that are connected, once for each of their groups.",
    _BY_CLIENT,
)
GROUPS: Final = Metric(
    "rocketmq_consumer_group_number", MetricKind.GAUGE, "Groups that the broker knows."
)
_OF_READERS: Final = (LAG, LAG_TIME, READY, READY_TIME, INFLIGHT, CONSUMERS, PRODUCERS, GROUPS)
_MODES: Final = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}
METRICS: Final = (*_OF_MESSAGES, *_OF_TRANSACTIONS, *_OF_READERS)


def measure_traffic(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    yield from _measure_messages(broker, own, into)
    yield from _measure_transactions(broker, own, into)
    yield from _measure_readers(broker, own, into)


class _Backlog(NamedTuple):
    """Of one group in one topic."""

    lag: int
    ready: int
    # When they were stored; None if nothing is left.
    oldest_ms: int | None
    oldest_ready_ms: int | None


class _ClientKind(NamedTuple):
    language: str
    version: int


def _measure_messages(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    statistics = broker.statistics
    puts = dict(statistics.all_topic_puts())
    for topic, tally in puts.items():
        labels = own | _topic_labels(broker.tables.topics, topic)
        into.add(MESSAGES_IN, labels, tally.count)
        into.add(BYTES_IN, labels, tally.size)
        yield
    # All groups: the first dead letter shows only as a step up from zero.
    for group in [each.group_name for each in broker.tables.groups]:
        dead = puts.get(names.dlq_topic(group))
        into.add(DEAD_LETTERS, own | {"consumer_group": group}, 0 if dead is None else dead.count)
        yield
    for (group, topic), tally in statistics.all_group_gets():
        labels = own | _reader_labels(broker.tables.topics, group, topic)
        into.add(MESSAGES_OUT, labels, tally.count)
        into.add(BYTES_OUT, labels, tally.size)
        yield
    for (group, topic), tally in statistics.all_send_backs():
        into.add(SENT_BACK, own | {"topic": topic, "consumer_group": group}, tally.count)
        yield
    into.add(NOT_STORED, own, statistics.failed_put_count)
    for code, count in broker.messages.acks.late_counts.items():
        into.add(NOT_SAFE, own | {"code": code.name.lower()}, count)
    for metric, paths in ((SENDS, statistics.sends), (PULLS, statistics.pulls)):
        into.add(metric, own | {"path": "fast"}, paths.fast)
        into.add(metric, own | {"path": "slow"}, paths.slow)
    into.add(EMPTY_PULLS, own, statistics.missed_count)


def _reader_labels(topics: TopicTable, group: str, topic: str) -> dict[str, str]:
    """Of what a group reads."""
    return {
        "topic": topic,
        "consumer_group": group,
        "is_retry": _truth(topic.startswith(names.RETRY_PREFIX)),
        "is_system": _truth(topics.is_system(topic)),
    }


def _topic_labels(topics: TopicTable, topic: str) -> dict[str, str]:
    config = topics.find(topic)
    kind = _USUAL_TYPE if config is None else config.attributes.get(_TYPE_ATTRIBUTE, _USUAL_TYPE)
    is_system = _truth(topics.is_system(topic))
    return {"topic": topic, "message_type": kind.lower(), "is_system": is_system}


def _truth(claim: bool) -> str:
    return "true" if claim else "false"


def _measure_transactions(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    ends = broker.statistics.ended_transactions
    into.add(OPEN_TRANSACTIONS, own, broker.waiting.pending_halves.open_count)
    into.add_histogram(TRANSACTION_AGES, own, ends.ages_ms)
    for metric, counts in ((COMMITS, ends.commits), (ROLLBACKS, ends.rollbacks)):
        for topic, count in list(counts.items()):
            into.add(metric, own | {"topic": topic}, count)
            yield


def _measure_readers(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    groups = [each.group_name for each in broker.tables.groups]
    into.add(GROUPS, own, len(groups))
    for group in groups:
        for topic in broker.tables.offsets.topics_of(group):
            if topic in broker.tables.topics and broker.clients.consumers.may_read(group, topic):
                _add_lag(
                    broker,
                    own | _reader_labels(broker.tables.topics, group, topic),
                    into,
                    group,
                    topic,
                )
                yield
    yield from _measure_clients(broker.clients, own, into)


def _add_lag(broker: Broker, labels: Labels, into: Exposition, group: str, topic: str) -> None:
    backlog = _backlog_of(broker, group, topic)
    into.add(LAG, labels, backlog.lag)
    into.add(READY, labels, backlog.ready)
    into.add(INFLIGHT, labels, backlog.lag - backlog.ready)
    now_ms = broker.clock.now_ms()
    for metric, stored_ms in (
        (LAG_TIME, backlog.oldest_ms),
        (READY_TIME, backlog.oldest_ready_ms),
    ):
        into.add(metric, labels, 0 if stored_ms is None else max(0, now_ms - stored_ms))


def _backlog_of(broker: Broker, group: str, topic: str) -> _Backlog:
    store, offsets = broker.store, broker.tables.offsets
    lag = ready = 0
    stored_ms: list[int | None] = []
    ready_ms: list[int | None] = []
    for queue_id, committed in offsets.queues(group, topic).items():
        end = store.max_offset(topic, queue_id)
        # What has expired cannot be consumed any more.
        offset = max(committed, store.min_offset(topic, queue_id))
        if offset >= end:
            continue
        lag += end - offset
        stored_ms.append(store.store_time(topic, queue_id, offset))
        ready_offset = max(offset, offsets.pulled(group, topic, queue_id))
        if ready_offset < end:
            ready += end - ready_offset
            ready_ms.append(store.store_time(topic, queue_id, ready_offset))
    return _Backlog(lag, ready, _oldest(stored_ms), _oldest(ready_ms))


def _oldest(times_ms: Iterable[int | None]) -> int | None:
    return min((each for each in times_ms if each is not None), default=None)


def _measure_clients(clients: Clients, own: Labels, into: Exposition) -> Iterator[None]:
    for name in clients.consumers.groups():
        group = clients.consumers.find(name)
        if group is not None:
            mode = _MODES.get(group.consume_type or "", "pop")
            where = own | {"consumer_group": name}
            for kind, count in Counter(map(_kind, group.members.values())).items():
                into.add(CONSUMERS, where | _labels(kind) | {"consume_mode": mode}, count)
        yield
    producers: Counter[_ClientKind] = Counter()
    for name in clients.producers.groups():
        producers.update(map(_kind, clients.producers.members(name).values()))
        yield
    for kind, count in producers.items():
        into.add(PRODUCERS, own | _labels(kind), count)


def _kind(client: Client) -> _ClientKind:
    return _ClientKind((client.language or "other").lower(), client.version)


def _labels(kind: _ClientKind) -> Labels:
    return {"language": kind.language, "version": str(kind.version)}
