"""What comes in and goes out, by topic and group."""

from collections.abc import Iterator
from typing import Final

from roquet.broker.broker import Broker
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind
from roquet.protocol import names

_IN: Final = ("topic", "message_type", "is_system")
_OUT: Final = ("topic", "consumer_group", "is_retry", "is_system")

MESSAGES_IN: Final = Metric(
    "rocketmq_messages_in_total", MetricKind.COUNTER, "Messages that were stored.", _IN
)
BYTES_IN: Final = Metric(
    "rocketmq_throughput_in_total", MetricKind.COUNTER, "Bytes that were stored.", _IN
)
MESSAGES_OUT: Final = Metric(
    "rocketmq_messages_out_total", MetricKind.COUNTER, "Messages that were handed out.", _OUT
)
BYTES_OUT: Final = Metric(
    "rocketmq_throughput_out_total", MetricKind.COUNTER, "Bytes that were handed out.", _OUT
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
SENDS: Final = Metric(
    "roquet_sends_total",
    MetricKind.COUNTER,
    "Sends by the way they took: the lane, or a handler.",
    ("way",),
)
PULLS: Final = Metric(
    "roquet_pulls_total",
    MetricKind.COUNTER,
    "Pulls by the way they took: the lane, or a handler.",
    ("way",),
)
EMPTY_PULLS: Final = Metric(
    "roquet_pulls_empty_total", MetricKind.COUNTER, "Pulls that found no message."
)
METRICS: Final = (
    *(MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT, DEAD_LETTERS, SENT_BACK, NOT_STORED),
    *(SENDS, PULLS, EMPTY_PULLS),
)

_TYPE_ATTRIBUTE: Final = "message.type"
_USUAL_TYPE: Final = "normal"


def measure_traffic(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    statistics = broker.statistics
    puts = dict(statistics.all_topic_puts())
    for topic, tally in puts.items():
        labels = own | _topic_labels(broker, topic)
        into.add(MESSAGES_IN, labels, tally.count)
        into.add(BYTES_IN, labels, tally.size)
        yield
    # All groups: the first dead letter shows only as a step up from zero.
    for group in [each.group_name for each in broker.groups]:
        dead = puts.get(names.dlq_topic(group))
        into.add(DEAD_LETTERS, own | {"consumer_group": group}, 0 if dead is None else dead.count)
        yield
    for (group, topic), tally in statistics.all_group_gets():
        labels = own | reader_labels(broker, group, topic)
        into.add(MESSAGES_OUT, labels, tally.count)
        into.add(BYTES_OUT, labels, tally.size)
        yield
    for (group, topic), tally in statistics.all_send_backs():
        into.add(SENT_BACK, own | {"topic": topic, "consumer_group": group}, tally.count)
        yield
    into.add(NOT_STORED, own, statistics.failed_put_count)
    for metric, ways in ((SENDS, statistics.sends), (PULLS, statistics.pulls)):
        into.add(metric, own | {"way": "lane"}, ways.plain)
        into.add(metric, own | {"way": "handler"}, ways.ordinary)
    into.add(EMPTY_PULLS, own, statistics.missed_count)


def reader_labels(broker: Broker, group: str, topic: str) -> dict[str, str]:
    """Of what a group reads."""
    return {
        "topic": topic,
        "consumer_group": group,
        "is_retry": _truth(topic.startswith(names.RETRY_PREFIX)),
        "is_system": _truth(broker.topics.is_system(topic)),
    }


def _topic_labels(broker: Broker, topic: str) -> dict[str, str]:
    config = broker.topics.find(topic)
    kind = _USUAL_TYPE if config is None else config.attributes.get(_TYPE_ATTRIBUTE, _USUAL_TYPE)
    is_system = _truth(broker.topics.is_system(topic))
    return {"topic": topic, "message_type": kind.lower(), "is_system": is_system}


def _truth(claim: bool) -> str:
    return "true" if claim else "false"
