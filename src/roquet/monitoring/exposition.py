"""Measurements as the text that Prometheus reads.

    # HELP rocketmq_broker_permission What clients may do: 4 is read, 2 is write, 6 is both.
    # TYPE rocketmq_broker_permission gauge
    rocketmq_broker_permission{cluster="DefaultCluster",node_type="broker",node_id="broker-a"} 6

Format 0.0.4. All values of a metric stand together, whichever server they are from.
"""

from enum import Enum
from math import inf
from typing import Final, final

import msgspec

from roquet.histogram import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Labels = dict[str, str]

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class MetricKind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """`labels` are those of a value, in addition to the labels of its server."""

    name: str
    kind: MetricKind
    meaning: str  # one sentence, in one line
    labels: tuple[str, ...] = ()


@final
class Exposition:
    """Measurements of all servers of one process, taken at one moment."""

    def __init__(self) -> None:
        self._lines: dict[Metric, list[str]] = {}

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """A value of a counter or a gauge; `labels` include those of its server."""
        assert metric.kind is not MetricKind.HISTOGRAM
        self._of(metric).append(f"{metric.name}{_braced(labels)} {_number(value)}\n")

    def add_histogram(self, metric: Metric, labels: Labels, histogram: Histogram) -> None:
        assert metric.kind is MetricKind.HISTOGRAM
        lines = self._of(metric)
        count = 0
        for bound, count in histogram.cumulated():
            within = {**labels, "le": _number(bound)}
            lines.append(f"{metric.name}_bucket{_braced(within)} {count}\n")
        lines.append(f"{metric.name}_sum{_braced(labels)} {_number(histogram.total)}\n")
        lines.append(f"{metric.name}_count{_braced(labels)} {count}\n")

    def text(self) -> bytes:
        parts = []
        for metric, lines in self._lines.items():
            parts.append(f"# HELP {metric.name} {metric.meaning}\n")
            parts.append(f"# TYPE {metric.name} {metric.kind.value}\n")
            parts += lines
        # Names chosen by peers may not be valid text.
        return "".join(parts).encode(errors="replace")

    def _of(self, metric: Metric) -> list[str]:
        return self._lines.setdefault(metric, [])


def _braced(labels: Labels) -> str:
    inside = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    if value == inf:
        return "+Inf"
    return str(int(value)) if value == int(value) else repr(value)
