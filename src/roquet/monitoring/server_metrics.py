"""Metrics of every server: version and readiness, connections, process, event loop.

Names of process metrics are those of Prometheus' own client libraries.
"""

import asyncio
import os
import resource
from pathlib import Path
from typing import Final, final

from roquet.histogram import Histogram
from roquet.monitoring.exposition import Exposition, Labels, Metric, MetricKind
from roquet.net.limits import ConnectionBudget
from roquet.protocol.codes import ResponseCode

INFO: Final = Metric(
    "roquet_info", MetricKind.GAUGE, "1, labelled with the version of Roquet.", ("version",)
)
READY: Final = Metric(
    "roquet_ready",
    MetricKind.GAUGE,
    "1 if clients are served, 0 if not; /ready lists the reasons.",
)
CONNECTIONS: Final = Metric("roquet_connections", MetricKind.GAUGE, "Open connections.")
HELD: Final = Metric(
    "roquet_connections_held_bytes",
    MetricKind.GAUGE,
    "Bytes of incomplete requests, and bytes that peers have not read.",
)
CONNECTIONS_REFUSED: Final = Metric(
    "roquet_connections_refused_total",
    MetricKind.COUNTER,
    "Connections refused because too many were open.",
)
CUT_OFF: Final = Metric(
    "roquet_connections_cut_off_total",
    MetricKind.COUNTER,
    "Connections closed because they held too many bytes.",
)
REFUSED: Final = Metric(
    "roquet_requests_refused_total",
    MetricKind.COUNTER,
    "Refused requests, by the code of the reply.",
    ("code",),
)
DENIED: Final = Metric(
    "roquet_requests_denied_total",
    MetricKind.COUNTER,
    "Requests denied by access control.",
)
CERTIFICATE_EXPIRY: Final = Metric(
    "roquet_certificate_expiry_timestamp_seconds",
    MetricKind.GAUGE,
    "When the certificate of the server expires, in seconds since 1970; absent without a file.",
)
CPU: Final = Metric(
    "process_cpu_seconds_total", MetricKind.COUNTER, "CPU time of the process, user and system."
)
MEMORY: Final = Metric(
    "process_resident_memory_bytes",
    MetricKind.GAUGE,
    "Resident memory of the process, including mapped files in use.",
)
OPEN_FILES: Final = Metric(
    "process_open_fds", MetricKind.GAUGE, "Open descriptors: files and connections."
)
OPEN_FILES_MAX: Final = Metric(
    "process_max_fds", MetricKind.GAUGE, "Maximum number of open descriptors."
)
LOOP_LAG: Final = Metric(
    "roquet_event_loop_lag_seconds",
    MetricKind.HISTOGRAM,
    "How late the event loop is; every request waits at least as long.",
)
SERVER_METRICS: Final = (INFO, READY)
CONNECTION_METRICS: Final = (
    *(CONNECTIONS, HELD, CONNECTIONS_REFUSED, CUT_OFF, REFUSED, DENIED),
    CERTIFICATE_EXPIRY,
)
PROCESS_METRICS: Final = (CPU, MEMORY, OPEN_FILES, OPEN_FILES_MAX, LOOP_LAG)

_PROC: Final = Path("/proc/self")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")
_LAG_PERIOD_S: Final = 0.1


def own_labels(cluster: str, node_type: str, node_id: str) -> Labels:
    """The labels of everything that one server measures, as Apache's brokers have them."""
    return {"cluster": cluster, "node_type": node_type, "node_id": node_id}


def measure_connections(
    budget: ConnectionBudget, denied_count: int, own: Labels, into: Exposition
) -> None:
    into.add(CONNECTIONS, own, budget.count)
    into.add(HELD, own, budget.held_size)
    into.add(CONNECTIONS_REFUSED, own, budget.refused_count)
    into.add(CUT_OFF, own, budget.cut_off_count)
    for code, count in budget.refusals.items():
        into.add(REFUSED, own | {"code": _code_name(code)}, count)
    into.add(DENIED, own, denied_count)


def measure_certificate(expires_ms: int | None, own: Labels, into: Exposition) -> None:
    if expires_ms is not None:
        into.add(CERTIFICATE_EXPIRY, own, expires_ms / 1000)


def measure_process(into: Exposition, loop_lags: Histogram) -> None:
    """Memory and open files are measured where /proc exists, as on Linux."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    into.add(CPU, {}, usage.ru_utime + usage.ru_stime)
    if _PROC.exists():
        into.add(MEMORY, {}, int((_PROC / "statm").read_text().split()[1]) * _PAGE_SIZE)
        into.add(OPEN_FILES, {}, sum(1 for _ in (_PROC / "fd").iterdir()))
    into.add(OPEN_FILES_MAX, {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    into.add_histogram(LOOP_LAG, {}, loop_lags)


@final
class LoopLag:
    """Sleeps a tenth of a second at a time, and records how late it was woken."""

    def __init__(self) -> None:
        self.lags = Histogram()

    async def keep_measuring(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + _LAG_PERIOD_S
            await asyncio.sleep(_LAG_PERIOD_S)
            # The clock of a loop is rounded, and waking early is not a lag.
            self.lags.add(max(0.0, loop.time() - due_s))


def _code_name(code: int) -> str:
    try:
        return ResponseCode(code).name.lower()
    except ValueError:
        return str(code)
