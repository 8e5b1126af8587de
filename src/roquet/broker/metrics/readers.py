"""How far groups are behind, and who is connected."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from roquet.broker.broker import Broker
from roquet.broker.metrics.traffic import reader_labels
from roquet.broker.tables.clients import Client
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind

_GROUP: Final = ("topic", "consumer_group", "is_retry", "is_system")
_CLIENT: Final = ("language", "version")

LAG: Final = Metric(
    "rocketmq_consumer_lag_messages",
    MetricKind.GAUGE,
    "Messages that a group has not consumed, in queues where it has committed an offset.",
    _GROUP,
)
LAG_TIME: Final = Metric(
    "rocketmq_consumer_lag_latency",
    MetricKind.GAUGE,
    "Age of the oldest message that a group has not consumed, in milliseconds.",
    _GROUP,
)
READY_TIME: Final = Metric(
    "rocketmq_consumer_queueing_latency",
    MetricKind.GAUGE,
    "Age of the oldest message that a group has not pulled, in milliseconds.",
    _GROUP,
)
READY: Final = Metric(
    "rocketmq_consumer_ready_messages",
    MetricKind.GAUGE,
    "Messages that a group has not pulled.",
    _GROUP,
)
INFLIGHT: Final = Metric(
    "rocketmq_consumer_inflight_messages",
    MetricKind.GAUGE,
    "Messages that a group has pulled and not consumed.",
    _GROUP,
)
CONSUMERS: Final = Metric(
    "rocketmq_consumer_connections",
    MetricKind.GAUGE,
    "Consumers that are connected.",
    ("consumer_group", *_CLIENT, "consume_mode"),
)
PRODUCERS: Final = Metric(
    "rocketmq_producer_connections",
    MetricKind.GAUGE,
    "Producers that are connected, once for each of their groups.",
    _CLIENT,
)
GROUPS: Final = Metric(
    "rocketmq_consumer_group_number", MetricKind.GAUGE, "Groups that the broker knows."
)
METRICS: Final = (LAG, LAG_TIME, READY, READY_TIME, INFLIGHT, CONSUMERS, PRODUCERS, GROUPS)

_MODES: Final = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull"}


class _Behind(NamedTuple):
    """Of one group in one topic."""

    lag: int
    ready: int
    # When they were stored; None if nothing is left.
    oldest_ms: int | None
    oldest_ready_ms: int | None


def measure_readers(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    groups = [each.group_name for each in broker.groups]
    into.add(GROUPS, own, len(groups))
    for group in groups:
        for topic in broker.offsets.topics_of(group):
            if topic in broker.topics and broker.consumers.may_read(group, topic):
                _add_lag(broker, own | reader_labels(broker, group, topic), into, group, topic)
                yield
    yield from _measure_clients(broker, own, into)


def _add_lag(broker: Broker, labels: Labels, into: Exposition, group: str, topic: str) -> None:
    behind = _behind(broker, group, topic)
    into.add(LAG, labels, behind.lag)
    into.add(READY, labels, behind.ready)
    into.add(INFLIGHT, labels, behind.lag - behind.ready)
    now_ms = broker.clock.now_ms()
    for metric, stored_ms in (
        (LAG_TIME, behind.oldest_ms),
        (READY_TIME, behind.oldest_ready_ms),
    ):
        into.add(metric, labels, 0 if stored_ms is None else max(0, now_ms - stored_ms))


def _behind(broker: Broker, group: str, topic: str) -> _Behind:
    store, offsets = broker.store, broker.offsets
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
    return _Behind(lag, ready, _oldest(stored_ms), _oldest(ready_ms))


def _oldest(times_ms: Iterable[int | None]) -> int | None:
    return min((each for each in times_ms if each is not None), default=None)


def _measure_clients(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    for name in broker.consumers.groups():
        group = broker.consumers.find(name)
        if group is not None:
            mode = _MODES.get(group.consume_type or "", "pop")
            where = own | {"consumer_group": name}
            for kind, count in Counter(map(_kind, group.members.values())).items():
                into.add(CONSUMERS, where | _labels(kind) | {"consume_mode": mode}, count)
        yield
    producers: Counter[_ClientKind] = Counter()
    for name in broker.producers.groups():
        producers.update(map(_kind, broker.producers.members(name).values()))
        yield
    for kind, count in producers.items():
        into.add(PRODUCERS, own | _labels(kind), count)


class _ClientKind(NamedTuple):
    language: str
    version: int


def _kind(client: Client) -> _ClientKind:
    return _ClientKind((client.language or "other").lower(), client.version)


def _labels(kind: _ClientKind) -> Labels:
    return {"language": kind.language, "version": str(kind.version)}
