"""What every server says of itself."""

from typing import Final

from roquet.observing.exposition import Labels, Metric, MetricKind

INFO: Final = Metric(
    "roquet_info", MetricKind.GAUGE, "1, with the release of Roquet.", ("version",)
)
READY: Final = Metric(
    "roquet_ready",
    MetricKind.GAUGE,
    "1 if clients are served, 0 if /ready says what is in the way.",
)
METRICS: Final = (INFO, READY)


def own_labels(cluster: str, node_type: str, node_id: str) -> Labels:
    """Of all that one server measures, as Apache's have them."""
    return {"cluster": cluster, "node_type": node_type, "node_id": node_id}
