"""The metrics of all servers, from their declarations; `docs/operating.md` has the table.

Those of queries are in `docs/spark.md`.
"""

from collections.abc import Iterable

from roquet.broker.metrics.monitored_broker import METRICS as OF_BROKERS
from roquet.grpc.metrics import METRICS as OF_ENDPOINTS
from roquet.monitoring.exposition import Metric
from roquet.monitoring.server_metrics import PROCESS_METRICS as OF_PROCESSES
from roquet.namesrv.metrics import METRICS as OF_NAME_SERVERS
from roquet.pipeline.watching.metrics import METRICS as OF_PIPELINES


def table() -> str:
    return _table(dict.fromkeys((*OF_PROCESSES, *OF_NAME_SERVERS, *OF_BROKERS, *OF_ENDPOINTS)))


def pipeline_table() -> str:
    return _table(OF_PIPELINES)


def _table(metrics: Iterable[Metric]) -> str:
    lines = [
        f"| `{each.name}` | {each.kind.value} | {', '.join(each.labels)} | {each.meaning} |"
        for each in metrics
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *lines])
