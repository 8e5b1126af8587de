"""Metrics of the endpoint of a broker, from what it has counted.

Apart from the counting, because only a broker that is watched loads what metrics need.
"""

from collections import Counter
from typing import Final

from google.protobuf.message import DecodeError

from roquet.grpc.calls import EndpointFigures, GrpcStatus, Outcome
from roquet.grpc.codes import Code
from roquet.grpc.schema import SERVICE, pb
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind

CONNECTIONS: Final = Metric(
    "roquet_grpc_connections",
    MetricKind.GAUGE,
    "Open connections of gRPC; they are among all connections, too.",
)
CALLS: Final = Metric(
    "roquet_grpc_calls_total",
    MetricKind.COUNTER,
    "Calls by their end: the status of the answer, cancelled if the client or its connection was"
    " gone before, or grpc_ and a status of gRPC.",
    ("method", "status"),
)
IN_FLIGHT: Final = Metric(
    "roquet_grpc_calls_in_flight",
    MetricKind.GAUGE,
    "Calls that have not ended: long polls are ReceiveMessage, streams of clients Telemetry.",
    ("method",),
)
RENEWED: Final = Metric(
    "roquet_grpc_receipts_renewed_total",
    MetricKind.COUNTER,
    "Renewals of messages in flight at push consumers that are alive.",
)
METRICS: Final = (CONNECTIONS, CALLS, IN_FLIGHT, RENEWED)

_UNKNOWN: Final = "unknown"


def measure_endpoint(figures: EndpointFigures, own: Labels, into: Exposition) -> None:
    into.add(CONNECTIONS, own, figures.connection_count())
    ended: Counter[str] = Counter()
    for (method, outcome), count in figures.ended.items():
        labels = {"method": method.removeprefix(SERVICE), "status": _status_name(outcome)}
        into.add(CALLS, own | labels, count)
        ended[method] += count
    if figures.unknown_count:
        labels = {"method": _UNKNOWN, "status": _status_name(GrpcStatus.UNIMPLEMENTED)}
        into.add(CALLS, own | labels, figures.unknown_count)
    for method, count in figures.begun.items():
        labels = {"method": method.removeprefix(SERVICE)}
        into.add(IN_FLIGHT, own | labels, count - ended[method])
    into.add(RENEWED, own, figures.renewed_count)


def _status_name(outcome: Outcome) -> str:
    if outcome is None:
        return "cancelled"
    if isinstance(outcome, GrpcStatus):
        return "ok" if outcome is GrpcStatus.OK else f"grpc_{outcome.name.lower()}"
    try:
        return Code(pb.Status.FromString(outcome).code).name.lower()
    except (DecodeError, ValueError):
        return _UNKNOWN
