"""A broker, as those who watch it see it."""

from collections.abc import Callable, Iterator
from typing import Final, final

from roquet import __version__
from roquet.broker.broker import Broker
from roquet.broker.metrics import copies, readers, storage, traffic, transactions
from roquet.monitoring import server_metrics
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind

PERMISSION: Final = Metric(
    "rocketmq_broker_permission",
    MetricKind.GAUGE,
    "What clients may do: 4 is read, 2 is write, 6 is both.",
)
METRICS: Final = (
    *server_metrics.SERVER_METRICS,
    PERMISSION,
    *traffic.METRICS,
    *transactions.METRICS,
    *readers.METRICS,
    *storage.METRICS,
    *server_metrics.CONNECTION_METRICS,
    *copies.METRICS,
)


@final
class ObservedBroker:
    """A `MonitoredServer`. `serving` gives the current broker, or None while it begins again."""

    def __init__(self, name: str, serving: Callable[[], Broker | None]) -> None:
        self._name = name
        self._serving = serving

    def measure(self, into: Exposition) -> Iterator[None]:
        broker = self._serving()
        if broker is None:
            return
        own = _labels(broker)
        into.add(server_metrics.INFO, own | {"version": __version__}, 1)
        into.add(server_metrics.READY, own, int(not self.obstacles()))
        into.add(PERMISSION, own, broker.config.permission)
        denied_count = 0 if broker.guard is None else broker.guard.denied_count
        server_metrics.measure_connections(broker.connection_budget, denied_count, own, into)
        yield from storage.measure_storage(broker, own, into)
        yield from copies.measure_copies(broker, own, into)
        yield from traffic.measure_traffic(broker, own, into)
        yield from transactions.measure_transactions(broker, own, into)
        yield from readers.measure_readers(broker, own, into)

    def obstacles(self) -> list[str]:
        """In the way of clients: the disk, or that nobody can find the broker."""
        broker, name = self._serving(), self._name
        if broker is None:
            return [f"{name}: begins again in another role"]
        found = []
        if (refusal := storage.refusal_text(broker)) is not None:
            found.append(f"{name}: {refusal}")
        problems = (broker.replication.obstacle, broker.registrar.conflict)
        found += [f"{name}: {problem}" for problem in problems if problem is not None]
        if not broker.registrar.is_known:
            found.append(f"{name}: no name server knows this broker, so no client finds it")
        return found


def _labels(broker: Broker) -> Labels:
    config = broker.config
    # A slave has the name of its master.
    number = f"-{config.broker_id}" if config.is_slave else ""
    return server_metrics.own_labels(config.cluster_name, "broker", f"{config.broker_name}{number}")
