"""Replication: which role, how many slaves, how far behind."""

from collections.abc import Iterator
from typing import Final

from roquet.broker.broker import Broker
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind

ROLE: Final = Metric(
    "roquet_replication_role",
    MetricKind.GAUGE,
    "1 for the role that the broker has: async_master, sync_master or slave.",
    ("role",),
)
SLAVES: Final = Metric(
    "roquet_replication_slaves", MetricKind.GAUGE, "Slaves that copy from this master."
)
IN_SYNC: Final = Metric(
    "roquet_replication_in_sync_slaves",
    MetricKind.GAUGE,
    "Slaves that are near enough to be waited for (haSlaveFallbehindMax).",
)
LAG: Final = Metric(
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
METRICS: Final = (ROLE, SLAVES, IN_SYNC, LAG, FOLLOWING, EPOCH, LEASE, PROBLEM)


def measure_copies(broker: Broker, own: Labels, into: Exposition) -> Iterator[None]:
    replication, config = broker.replication, broker.config
    into.add(ROLE, own | {"role": config.role.value.lower()}, 1)
    into.add(EPOCH, own, replication.epoch)
    into.add(PROBLEM, own, int(replication.obstacle is not None))
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
        into.add(LAG, own | {"slave": address}, lag)
    yield
