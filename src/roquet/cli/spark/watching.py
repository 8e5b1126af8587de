"""What `ingest` shows of itself to others: metrics where asked for, lineage where configured."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, final

from roquet.protocol.host import Address
from roquet.reporting import Reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from roquet.pipeline.jobs.ingest import IngestPlan, IngestProgress
    from roquet.pipeline.watching.lineage import IngestRun
    from roquet.pipeline.watching.metrics import QueryMetrics

# OpenLineage's client reads from any of these where events go.
_LINEAGE_VARIABLES: Final = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE__")


@final
class Watch:
    """Takes the progress of a job, for all who watch it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metrics: QueryMetrics | None = None
        self.run: IngestRun | None = None
        # An interrupted job stays incomplete.
        self.is_complete = False

    def progressed(self, progress: "IngestProgress") -> None:
        if self.metrics is not None:
            self.metrics.published(self.name, progress)
        if self.run is not None:
            self.run.progressed(progress)


@contextmanager
def watched(
    reporter: Reporter, spark: "SparkSession", plan: "IngestPlan", metrics: Address | None
) -> Iterator[Watch]:
    """While the job runs. Raises OSError, such as AddressTaken."""
    watch = Watch(f"ingest {plan.lake}")
    with ExitStack() as stack:
        if metrics is not None:
            from roquet.pipeline.watching.serving import query_metrics  # noqa: PLC0415

            served = stack.enter_context(query_metrics(spark, metrics, watch.name))
            watch.metrics = served.metrics
            reporter.say(f"serving http://{served.place}/metrics")
        if _has_lineage(reporter):
            from roquet.pipeline.watching.lineage import ingest_lineage  # noqa: PLC0415

            watch.run = stack.enter_context(ingest_lineage(plan, spark.version))
        yield watch
        if watch.run is not None:
            watch.run.is_complete = watch.is_complete


def _has_lineage(reporter: Reporter) -> bool:
    if not any(name.startswith(_LINEAGE_VARIABLES) for name in os.environ):
        return False
    if find_spec("openlineage") is None:
        reporter.say("no lineage: pip install roquet[lineage]")
        return False
    return True
