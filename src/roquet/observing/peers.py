"""Those who are connected to a server, and what they were refused: the same for every server."""

from typing import Final

from roquet.net.crowd import Crowd
from roquet.observing.exposition import Exposition, Labels, Metric, MetricKind
from roquet.protocol.codes import ResponseCode

CONNECTIONS: Final = Metric("roquet_connections", MetricKind.GAUGE, "Peers that are connected.")
HELD: Final = Metric(
    "roquet_connections_held_bytes",
    MetricKind.GAUGE,
    "Bytes that are no whole requests yet, or that peers have not read.",
)
CONNECTIONS_REFUSED: Final = Metric(
    "roquet_connections_refused_total",
    MetricKind.COUNTER,
    "Peers that were not let in, because there are too many.",
)
CUT_OFF: Final = Metric(
    "roquet_connections_cut_off_total",
    MetricKind.COUNTER,
    "Peers that were cut off, because they held too much.",
)
REFUSED: Final = Metric(
    "roquet_requests_refused_total",
    MetricKind.COUNTER,
    "Requests that were refused, by the code of the reply.",
    ("code",),
)
DENIED: Final = Metric(
    "roquet_requests_denied_total",
    MetricKind.COUNTER,
    "Requests of peers who may not do that, where there is access control.",
)
METRICS: Final = (CONNECTIONS, HELD, CONNECTIONS_REFUSED, CUT_OFF, REFUSED, DENIED)


def measure_peers(crowd: Crowd, denied_count: int, own: Labels, into: Exposition) -> None:
    into.add(CONNECTIONS, own, crowd.count)
    into.add(HELD, own, crowd.held_size)
    into.add(CONNECTIONS_REFUSED, own, crowd.refused_count)
    into.add(CUT_OFF, own, crowd.cut_off_count)
    for code, count in crowd.refusals.items():
        into.add(REFUSED, own | {"code": _code_name(code)}, count)
    into.add(DENIED, own, denied_count)


def _code_name(code: int) -> str:
    try:
        return ResponseCode(code).name.lower()
    except ValueError:
        return str(code)
