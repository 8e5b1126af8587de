"""What can be said of any process, under the names that Prometheus' own libraries use."""

import os
import resource
from pathlib import Path
from typing import Final

from roquet.histogram import Histogram
from roquet.observing.exposition import Exposition, Metric, MetricKind

CPU: Final = Metric(
    "process_cpu_seconds_total", MetricKind.COUNTER, "Time that the process has computed."
)
MEMORY: Final = Metric(
    "process_resident_memory_bytes",
    MetricKind.GAUGE,
    "Memory of the process, mapped files that are in use among it.",
)
OPEN_FILES: Final = Metric(
    "process_open_fds", MetricKind.GAUGE, "Descriptors that are open: files and connections."
)
OPEN_FILES_MAX: Final = Metric("process_max_fds", MetricKind.GAUGE, "Descriptors that may be open.")
LOOP_LAG: Final = Metric(
    "roquet_event_loop_lag_seconds",
    MetricKind.HISTOGRAM,
    "How late the event loop is: everybody who is served waits at least as long.",
)
METRICS: Final = (CPU, MEMORY, OPEN_FILES, OPEN_FILES_MAX, LOOP_LAG)

_PROC: Final = Path("/proc/self")
_PAGE_SIZE: Final = os.sysconf("SC_PAGE_SIZE")


def measure_process(into: Exposition, loop_lags: Histogram) -> None:
    """Memory and open files are told where the system tells them, as Linux does."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    into.add(CPU, {}, usage.ru_utime + usage.ru_stime)
    if _PROC.exists():
        into.add(MEMORY, {}, int((_PROC / "statm").read_text().split()[1]) * _PAGE_SIZE)
        into.add(OPEN_FILES, {}, sum(1 for _ in (_PROC / "fd").iterdir()))
    into.add(OPEN_FILES_MAX, {}, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    into.add_histogram(LOOP_LAG, {}, loop_lags)
