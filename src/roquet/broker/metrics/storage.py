"""The log and its disk."""

from collections.abc import Iterator
from typing import Final

from roquet.broker.broker import Broker
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind
from roquet.protocol.messages.record import peek_record
from roquet.store.errors import BadRecord, NotMaster

_PLACE: Final = ("storage_type", "storage_medium")

DISK_USED: Final = Metric(
    "rocketmq_storage_size",
    MetricKind.GAUGE,
    "Bytes that are in use on the disk of the log, by whomever.",
    _PLACE,
)
FLUSH_BEHIND: Final = Metric(
    "rocketmq_storage_flush_behind_bytes",
    MetricKind.GAUGE,
    "Bytes of the log that a power cut would cost.",
    _PLACE,
)
KEPT_TIME: Final = Metric(
    "rocketmq_storage_message_reserve_time",
    MetricKind.GAUGE,
    "Age of the oldest message, in milliseconds.",
    _PLACE,
)
DISK_FREE: Final = Metric(
    "roquet_disk_free_bytes", MetricKind.GAUGE, "Bytes that are left on the disk of the log."
)
DISK_RATIO: Final = Metric(
    "roquet_disk_used_ratio", MetricKind.GAUGE, "Part of the disk of the log that is in use."
)
DISK_LIMIT: Final = Metric(
    "roquet_disk_full_ratio",
    MetricKind.GAUGE,
    "Part of the disk from which on no message is taken (diskSpaceWarningLevelRatio).",
)
TAKES_MESSAGES: Final = Metric(
    "roquet_store_writable", MetricKind.GAUGE, "1 if the store takes what it is given, 0 if not."
)
LOG_SIZE: Final = Metric(
    "roquet_log_bytes", MetricKind.GAUGE, "Bytes of the log, from its first message to its last."
)
SYNC_TIMES: Final = Metric(
    "roquet_sync_duration_seconds", MetricKind.HISTOGRAM, "How long the disk took for the log."
)
TOPICS: Final = Metric(
    "rocketmq_topic_number", MetricKind.GAUGE, "Topics that the broker has, its own among them."
)
TIMERS: Final = Metric(
    "rocketmq_timing_messages", MetricKind.GAUGE, "Messages that wait for a time of their own."
)
METRICS: Final = (
    *(DISK_USED, FLUSH_BEHIND, KEPT_TIME, DISK_FREE, DISK_RATIO, DISK_LIMIT, TAKES_MESSAGES),
    *(LOG_SIZE, SYNC_TIMES, TOPICS, TIMERS),
)


def measure_storage(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    store, config = broker.store, broker.config.store
    place = own | {"storage_type": "local", "storage_medium": "disk"}
    space = broker.disk.space(config.layout.commit_log)
    into.add(DISK_USED, place, space.used)
    into.add(FLUSH_BEHIND, place, store.log_end - store.synced_end)
    into.add(KEPT_TIME, place, _kept_ms(broker))
    into.add(DISK_FREE, own, space.usable)
    into.add(DISK_RATIO, own, space.used / max(1, space.used + space.usable))
    into.add(DISK_LIMIT, own, config.disk_full_percent / 100)
    into.add(TAKES_MESSAGES, own, int(refusal_text(broker) is None))
    into.add(LOG_SIZE, own, store.log_end - store.log_start)
    into.add_histogram(SYNC_TIMES, own, store.sync_times)
    into.add(TOPICS, own, len(broker.topics.snapshot().topic_config_table))
    into.add(TIMERS, own, broker.delays.timers.pending_count)
    yield


def refusal_text(broker: Broker) -> str | None:
    """Why the store takes nothing; None if it does. A slave takes what its master has."""
    refusal = broker.store.refusal
    return None if refusal is None or isinstance(refusal, NotMaster) else str(refusal)


def _kept_ms(broker: Broker) -> int:
    store = broker.store
    try:
        oldest_ms = peek_record(store.record_at(store.log_start)).store_timestamp
    except BadRecord:
        return 0  # There is no message.
    return max(0, broker.clock.now_ms() - oldest_ms)
