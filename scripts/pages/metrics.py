"""The metrics of all servers, from their declarations; `docs/operating.md` has the table."""

from roquet.broker.metrics.monitored_broker import METRICS as OF_BROKERS
from roquet.monitoring.server_metrics import PROCESS_METRICS as OF_PROCESSES
from roquet.namesrv.metrics import METRICS as OF_NAME_SERVERS


def table() -> str:
    lines = [
        f"| `{each.name}` | {each.kind.value} | {', '.join(each.labels)} | {each.meaning} |"
        for each in dict.fromkeys((*OF_PROCESSES, *OF_NAME_SERVERS, *OF_BROKERS))
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *lines])
