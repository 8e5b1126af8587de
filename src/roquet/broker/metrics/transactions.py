"""Transactions: those that are open, and how the others ended."""

from collections.abc import Iterator
from typing import Final

from roquet.broker.broker import Broker
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind

_TOPIC: Final = ("topic",)

OPEN: Final = Metric(
    "rocketmq_half_messages", MetricKind.GAUGE, "Transactions that have not ended."
)
COMMITS: Final = Metric(
    "rocketmq_commit_messages_total",
    MetricKind.COUNTER,
    "Transactions that were committed.",
    _TOPIC,
)
ROLLBACKS: Final = Metric(
    "rocketmq_rollback_messages_total",
    MetricKind.COUNTER,
    "Transactions that were rolled back.",
    _TOPIC,
)
AGES: Final = Metric(
    "rocketmq_finish_message_latency",
    MetricKind.HISTOGRAM,
    "How long transactions took from their first message to their end, in milliseconds.",
)
METRICS: Final = (OPEN, COMMITS, ROLLBACKS, AGES)


def measure_transactions(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    ends = broker.ended_transactions
    into.add(OPEN, own, broker.pending_halves.open_count)
    into.add_histogram(AGES, own, ends.ages_ms)
    for metric, counts in ((COMMITS, ends.commits), (ROLLBACKS, ends.rollbacks)):
        for topic, count in list(counts.items()):
            into.add(metric, own | {"topic": topic}, count)
            yield
