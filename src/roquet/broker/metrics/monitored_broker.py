"""All metrics of a broker, and whether it is ready; here those of its log, disk and replicas."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

from roquet import __version__
from roquet.broker.broker import Broker
from roquet.broker.metrics import traffic
from roquet.monitoring import server_metrics
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind
from roquet.protocol.messages.record import peek_record
from roquet.store.errors import BadRecord, NotMaster
from roquet.store.message_store import MessageStore

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
IN_FLIGHT: Final = Metric(
    "roquet_pop_in_flight",
    MetricKind.GAUGE,
    "Popped messages that are neither acknowledged nor redelivered.",
)
_OF_STORAGE: Final = (
    *(DISK_USED, FLUSH_BEHIND, KEPT_TIME, DISK_FREE, DISK_RATIO, DISK_LIMIT, TAKES_MESSAGES),
    *(LOG_SIZE, SYNC_TIMES, TOPICS, TIMERS, IN_FLIGHT),
)
ROLE: Final = Metric(
    "roquet_replication_role",
    MetricKind.GAUGE,
    "1 for the role that the broker has: async_master, sync_master or slave.",
    ("role",),
)
SLAVES: Final = Metric(
    "roquet_replication_slaves", MetricKind.GAUGE, "Slaves that replicate this master."
)
IN_SYNC: Final = Metric(
    "roquet_replication_in_sync_slaves",
    MetricKind.GAUGE,
    "Slaves that are near enough to be waited for (haSlaveFallbehindMax).",
)
REPLICATION_LAG: Final = Metric(
    "roquet_replication_lag_bytes",
    MetricKind.GAUGE,
    "Bytes of the log that a slave has not confirmed.",
    ("slave",),
)
FOLLOWING: Final = Metric(
    "roquet_replication_following",
    MetricKind.GAUGE,
    "Of a slave: 1 while it is linked to its master, 0 while it is not.",
)
EPOCH: Final = Metric(
    "roquet_replication_epoch",
    MetricKind.GAUGE,
    "The epoch of the master that wrote last to this log; 0 without epochs.",
)
LEASE: Final = Metric(
    "roquet_replication_lease",
    MetricKind.GAUGE,
    "With etcd: 1 while the broker holds a lease there and can be elected, 0 while it does not.",
)
PROBLEM: Final = Metric(
    "roquet_replication_problem",
    MetricKind.GAUGE,
    "1 while a person has to decide: two masters of one epoch, or a log that cannot follow.",
)
_OF_REPLICATION: Final = (ROLE, SLAVES, IN_SYNC, REPLICATION_LAG, FOLLOWING, EPOCH, LEASE, PROBLEM)
PERMISSION: Final = Metric(
    "rocketmq_broker_permission",
    MetricKind.GAUGE,
    "What clients may do: 4 is read, 2 is write, 6 is both.",
)
METRICS: Final = (
    *server_metrics.SERVER_METRICS,
    PERMISSION,
    *traffic.METRICS,
    *_OF_STORAGE,
    *server_metrics.CONNECTION_METRICS,
    *_OF_REPLICATION,
)


# What serves beside a broker adds its own metrics, with the labels of the broker.
Measure = Callable[[Labels, Exposition], None]


@final
class MonitoredBroker:
    """A `MonitoredServer`. `serving` gives the current broker, or None while it restarts.

    `beside` is what serves beside it.
    """

    def __init__(
        self, name: str, serving: Callable[[], Broker | None], beside: Sequence[Measure] = ()
    ) -> None:
        self._name = name
        self._serving = serving
        self._beside = beside

    def measure(self, into: Exposition) -> Iterator[None]:
        broker = self._serving()
        if broker is None:
            return
        own = _labels(broker)
        into.add(server_metrics.INFO, own | {"version": __version__}, 1)
        into.add(server_metrics.READY, own, int(not self.unready_reasons()))
        into.add(PERMISSION, own, broker.config.permission)
        denied_count = 0 if broker.access.guard is None else broker.access.guard.denied_count
        server_metrics.measure_connections(broker.access.connection_budget, denied_count, own, into)
        server_metrics.measure_certificate(broker.access.tls.expires_ms, own, into)
        yield from measure_storage(broker, own, into)
        yield from measure_replication(broker, own, into)
        yield from traffic.measure_traffic(broker, own, into)
        for measure in self._beside:
            measure(own, into)

    def unready_reasons(self) -> list[str]:
        """Why clients cannot use the broker: its disk, or no name server has it registered."""
        broker, name = self._serving(), self._name
        if broker is None:
            return [f"{name}: is restarting in another role"]
        found = []
        if (refusal := refusal_text(broker.store)) is not None:
            found.append(f"{name}: {refusal}")
        replication = broker.replication
        problems = (replication.refusal_reason, replication.shortage, broker.registrar.conflict)
        found += [f"{name}: {problem}" for problem in problems if problem is not None]
        if not broker.registrar.is_known:
            found.append(f"{name}: no name server knows this broker, so no client finds it")
        return found


def measure_storage(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    store, config = broker.store, broker.config.store
    place = own | {"storage_type": "local", "storage_medium": "disk"}
    space = store.disk_space()
    into.add(DISK_USED, place, space.used)
    into.add(FLUSH_BEHIND, place, store.log_end - store.synced_end)
    into.add(KEPT_TIME, place, _kept_ms(broker))
    into.add(DISK_FREE, own, space.usable)
    into.add(DISK_RATIO, own, space.used / max(1, space.used + space.usable))
    into.add(DISK_LIMIT, own, config.disk_full_percent / 100)
    into.add(TAKES_MESSAGES, own, int(refusal_text(store) is None))
    into.add(LOG_SIZE, own, store.log_end - store.log_start)
    into.add_histogram(SYNC_TIMES, own, store.sync_times)
    into.add(TOPICS, own, len(broker.tables.topics.snapshot().topic_config_table))
    into.add(TIMERS, own, broker.waiting.delays.timers.pending_count)
    pops = broker.waiting.pops
    into.add(IN_FLIGHT, own, pops.in_flight.count + pops.ordered.out_count)
    yield


def refusal_text(store: MessageStore) -> str | None:
    """Why the store takes nothing; None if it does. A slave takes what its master has."""
    refusal = store.refusal
    return None if refusal is None or isinstance(refusal, NotMaster) else str(refusal)


def _kept_ms(broker: Broker) -> int:
    store = broker.store
    try:
        oldest_ms = peek_record(store.record_at(store.log_start)).store_timestamp
    except BadRecord:
        return 0  # There is no message.
    return max(0, broker.clock.now_ms() - oldest_ms)


def measure_replication(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    replication, config = broker.replication, broker.config
    into.add(ROLE, own | {"role": config.role.value.lower()}, 1)
    into.add(EPOCH, own, replication.epoch)
    into.add(PROBLEM, own, int(replication.refusal_reason is not None))
    if replication.lease is not None:
        into.add(LEASE, own, int(replication.lease.is_trusted))
    if replication.master_link is not None:
        into.add(FOLLOWING, own, int(replication.master_link.master is not None))
        return
    lags = {
        slave.address: max(0, broker.store.log_end - slave.confirmed_end)
        for slave in replication.replicas.slaves
    }
    into.add(SLAVES, own, len(lags))
    into.add(IN_SYNC, own, len(replication.in_sync() - {config.replica_id}))
    for address, lag in lags.items():
        into.add(REPLICATION_LAG, own | {"slave": address}, lag)
    yield


def _labels(broker: Broker) -> Labels:
    config = broker.config
    # A slave has the name of its master.
    number = f"-{config.broker_id}" if config.is_slave else ""
    return server_metrics.own_labels(config.cluster_name, "broker", f"{config.broker_name}{number}")
