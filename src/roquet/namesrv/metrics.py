"""Metrics of a name server; loaded only where an HTTP port is configured."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, final

from roquet import __version__
from roquet.monitoring import server_metrics
from roquet.monitoring.exposition import Exposition, Metric, MetricKind
from roquet.namesrv.state import NameServer
from roquet.protocol.host import Address

BROKERS: Final = Metric(
    "roquet_registered_brokers",
    MetricKind.GAUGE,
    "Registered brokers, masters and slaves.",
    ("broker_cluster",),
)
LOST_BROKERS: Final = Metric(
    "roquet_lost_brokers",
    MetricKind.GAUGE,
    "Brokers that left within a day without unregistering, and have not come back.",
    ("broker_cluster",),
)
TOPICS: Final = Metric("roquet_routed_topics", MetricKind.GAUGE, "Topics that have a route.")
METRICS: Final = (
    *server_metrics.SERVER_METRICS,
    BROKERS,
    LOST_BROKERS,
    TOPICS,
    *server_metrics.CONNECTION_METRICS,
)


@final
class MonitoredNameServer:
    """A `MonitoredServer`."""

    def __init__(self, server: NameServer) -> None:
        self._server = server
        place = Address(server.config.host, server.config.port)
        # A name server belongs to no cluster: it may serve several.
        self._labels = server_metrics.own_labels("", "nameserver", str(place))

    def measure(self, into: Exposition) -> Iterator[None]:
        server, own = self._server, self._labels
        into.add(server_metrics.INFO, own | {"version": __version__}, 1)
        into.add(server_metrics.READY, own, int(not self.unready_reasons()))
        registered = self._broker_counts()
        lost = Counter(each.cluster_name for each in server.lost.known())
        for cluster in registered | lost:
            labels = own | {"broker_cluster": cluster}
            into.add(BROKERS, labels, registered[cluster])
            into.add(LOST_BROKERS, labels, lost[cluster])
        into.add(TOPICS, own, len(server.routes.topics()))
        denied_count = 0 if server.guard is None else server.guard.denied_count
        server_metrics.measure_connections(server.connection_budget, denied_count, own, into)
        server_metrics.measure_certificate(server.tls.expires_ms, own, into)
        yield

    def unready_reasons(self) -> list[str]:
        """None: its state is what brokers have registered."""
        return []

    def _broker_counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for group in self._server.routes.cluster_info().broker_addr_table.values():
            counts[group.cluster or ""] += len(group.broker_addrs)
        return counts
