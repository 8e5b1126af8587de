"""Which topics go into which lake, as events of OpenLineage; extra `lineage`.

A run of `ingest` is a run of a job: START, RUNNING at most once a minute, and COMPLETE, ABORT (it
was interrupted) or FAIL. Inputs are topics, with the offsets that the lake had of their queues
before and has after the run; the output is the lake. The environment says where events go
(OPENLINEAGE_URL, OPENLINEAGE_CONFIG, OPENLINEAGE__TRANSPORT__...). A thread sends them, and those
that cannot be sent are logged: no job fails because of them.
"""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attr
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    RunFacet,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)
from openlineage.client.uuid import generate_new_uuid

from roquet import __version__
from roquet.client.queue_ref import QueueRef
from roquet.errors import RoquetError
from roquet.pipeline.lake.opening import settings_of, state_of_lake
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions

if TYPE_CHECKING:
    from roquet.pipeline.jobs.ingest import IngestPlan, IngestProgress

log = logging.getLogger(__name__)

_PRODUCER: Final = f"urn:roquet:{__version__}"
_NAMESPACE_VARIABLE: Final = "OPENLINEAGE_NAMESPACE"
_NAMESPACE_DEFAULT: Final = "default"
_RUNNING_EVERY_S: Final = 60.0


@attr.define
class OffsetsFacet(InputDatasetFacet):
    """The offsets of each queue that the lake had before the run, and has after it."""

    queues: list[dict[str, str | int]] = attr.field(factory=list)


@contextmanager
def ingest_lineage(plan: "IngestPlan", spark_version: str) -> Iterator["IngestRun"]:
    """A run, from START to its end. An error of the block ends it with FAIL, and is raised."""
    run = IngestRun(plan, spark_version)
    run.emit(RunState.START)
    try:
        yield run
    except RoquetError as error:
        run.fail(str(error))
        raise
    except BaseException as error:
        run.fail(type(error).__name__)
        raise
    else:
        # A job without an end of its own is complete when it is stopped.
        is_over = run.is_complete or not plan.available_now
        run.emit(RunState.COMPLETE if is_over else RunState.ABORT)
    finally:
        run.close()


@final
class IngestRun:
    """One run of `ingest`."""

    def __init__(self, plan: "IngestPlan", spark_version: str) -> None:
        """Raises BadOption and BadLake."""
        self._options = read_options(ReadOptions, plan.source)
        self._lake = plan.lake.absolute()
        self._ends_before = _queue_ends(self._lake)
        self._run_id = str(generate_new_uuid())
        self._kind = "BATCH" if plan.available_now else "STREAMING"
        self._engine = processing_engine_run.ProcessingEngineRunFacet(
            version=spark_version, name="spark", openlineageAdapterVersion=__version__
        )
        self._progress: IngestProgress | None = None
        self._told_s = time.monotonic()
        self._sender = ThreadPoolExecutor(1, "lineage")
        self._client: OpenLineageClient | None = None
        self.is_complete = False

    def progressed(self, progress: "IngestProgress") -> None:
        self._progress = progress
        if time.monotonic() - self._told_s >= _RUNNING_EVERY_S:
            self.emit(RunState.RUNNING)

    def fail(self, reason: str) -> None:
        self.emit(RunState.FAIL, reason)

    def emit(self, state: RunState, error: str | None = None) -> None:
        """Soon, by a thread."""
        self._told_s = time.monotonic()
        sending = self._sender.submit(self._send, self._event(state, error))
        sending.add_done_callback(partial(self._log_failure, state))

    def close(self) -> None:
        """Returns when all events were sent or given up, which the transport limits."""
        self._sender.shutdown()
        if self._client is not None:
            self._client.close()

    def _event(self, state: RunState, error: str | None) -> RunEvent:
        ends = self._ends_before if state is RunState.START else _queue_ends(self._lake)
        facets: dict[str, RunFacet] = {"processing_engine": self._engine}
        if error is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(error, "PYTHON")
        return RunEvent(
            eventType=state,
            eventTime=datetime.now(UTC).isoformat(),
            run=Run(self._run_id, facets),
            job=self._job(),
            inputs=[
                InputDataset(
                    f"rocketmq://{self._options.cluster.name_server}",
                    topic,
                    inputFacets={"roquet_offsets": OffsetsFacet(self._offsets(topic, ends))},
                )
                for topic in sorted(self._topics(ends))
            ],
            outputs=[self._output()],
            producer=_PRODUCER,
        )

    def _job(self) -> Job:
        namespace = os.environ.get(_NAMESPACE_VARIABLE) or _NAMESPACE_DEFAULT
        facet = job_type_job.JobTypeJobFacet(self._kind, "ROQUET", jobType="JOB")
        return Job(namespace, f"roquet.ingest.{_lake_name(self._lake)}", {"jobType": facet})

    def _topics(self, ends: Mapping[QueueRef, int]) -> set[str]:
        """Those that are named; of a pattern, those that the lake has."""
        given = self._options.topics
        named = {*filter(None, (given.topic,)), *(given.topics or ())}
        return named or {queue.topic for queue in ends}

    def _offsets(self, topic: str, ends: Mapping[QueueRef, int]) -> list[dict[str, str | int]]:
        return [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "start": self._ends_before.get(queue, 0),
                "end": end,
            }
            for queue, end in sorted(ends.items())
            if queue.topic == topic
        ]

    def _output(self) -> OutputDataset:
        namespace, name = _dataset(self._lake)
        if self._progress is None:
            return OutputDataset(namespace, name)
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            self._progress.messages, self._progress.bytes, self._progress.files
        )
        return OutputDataset(namespace, name, outputFacets={"outputStatistics": statistics})

    def _send(self, event: RunEvent) -> None:
        if self._client is None:
            self._client = OpenLineageClient()
        self._client.emit(event)

    def _log_failure(self, state: RunState, sending: Future[None]) -> None:
        """Transports raise whatever their libraries raise."""
        if (error := sending.exception()) is not None:
            log.warning("no lineage: %s of %s was not sent: %s", state.value, self._lake, error)


def _queue_ends(lake: LakePlace) -> dict[QueueRef, int]:
    return {} if settings_of(lake) is None else state_of_lake(lake).queue_ends()


def _dataset(lake: LakePlace) -> tuple[str, str]:
    """By OpenLineage's naming of files and buckets."""
    return ("file", str(lake)) if isinstance(lake, Path) else (f"s3://{lake.bucket}", lake.key)


def _lake_name(lake: LakePlace) -> str:
    return lake.name if isinstance(lake, Path) else lake.key.rpartition("/")[2]
