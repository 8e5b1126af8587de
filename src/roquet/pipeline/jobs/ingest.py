"""`ingest`: topics into a lake, each message once, whatever is killed or changed meanwhile.

Tasks read and write Parquet; rows that say which files there are come to the driver, which
publishes them once a micro-batch. Offsets of the consumer group follow what is published.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple, final

import msgspec
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from roquet.errors import RoquetError
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.jobs.checkpoint import bind_checkpoint
from roquet.pipeline.jobs.lake_choice import (
    check_settings,
    format_of,
    json_columns_of,
    properties_of,
)
from roquet.pipeline.jobs.query_failures import failure_of, is_slow_start
from roquet.pipeline.jobs.query_lag import lag_told
from roquet.pipeline.jobs.staging_source import SOURCE_NAME, StagingSource
from roquet.pipeline.lake.entries import LakeEntry, Staged
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.settings import GRID_DEFAULT, LakeSettings
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.source.positions import named_queues
from roquet.pipeline.source.rows import pull_group

log = logging.getLogger(__name__)

_ATTEMPTS_MAX: Final = 5
_MS: Final = timedelta(milliseconds=1)
_STOP_CHECKED_S: Final = 1
_STARTING_OFFSETS: Final = "startingOffsets"
_PROPERTIES: Final = "properties"


@dataclass(frozen=True, kw_only=True)
class IngestPlan:
    """`source` are options of format `rocketmq` by their names; it begins at the earliest.

    With `available_now` it ends when everything is in the lake that was there when it began. `grid`
    is for a lake that is not there yet. `json_schema` has the columns that bodies are decoded into,
    or names a file that has them. What is left out is as the lake has it.
    """

    source: Mapping[str, str]
    lake: Path
    checkpoint: Path
    available_now: bool = False
    interval: timedelta | None = None
    grid: int = GRID_DEFAULT
    format: str | None = None
    json_schema: str | None = None


class IngestProgress(NamedTuple):
    """What was published so far. `lag` is how many messages wait, if that is known by now."""

    batches: int = 0
    messages: int = 0
    files: int = 0
    bytes: int = 0
    quarantined: int = 0
    lag: int | None = None


class IngestReport(NamedTuple):
    """What was published, and what the lake has. Not complete is what was interrupted."""

    batches: int
    messages: int
    files: int
    bytes: int
    quarantined: int
    lag: int | None
    lake_messages: int
    lake_files: int
    lake_quarantined: int
    is_complete: bool


def ingest(
    spark: SparkSession,
    plan: IngestPlan,
    on_progress: Callable[[IngestProgress], None] = lambda _: None,
    stop: Event | None = None,
) -> IngestReport:
    """Returns at the end of what is available, or soon after `stop` is set, by a signal maybe.

    Raises BadOption, BadSchema, BadLake, and QueryFailed with what ended the query.
    """
    source, settings = _source_options(plan), check_plan(plan)
    columns = json_columns_of(plan.lake, plan.json_schema)
    spark.dataSource.register(StagingSource)
    with Lake.open(plan.lake, settings) as lake:
        bind_checkpoint(plan.checkpoint, lake.path, lake.settings.id)
        publisher = _Publisher(lake, columns.ddl if columns else None, on_progress)
        source |= {"lake": str(lake.path), "run": lake.run, "grid": str(lake.settings.grid)}
        source |= {"jsonSchema": columns.ddl} if columns else {}
        is_complete = _run(lambda: _started(spark, plan, source, publisher), publisher, stop)
        return publisher.report(is_complete=is_complete)


def check_plan(plan: IngestPlan) -> LakeSettings:
    """What a lake is made with by this plan. Needs neither Spark nor brokers.

    Raises BadOption, BadSchema, and BadLake for a lake that was made with something else.
    """
    reading = read_options(ReadOptions, _source_options(plan))
    reading.check_stream()
    wanted = LakeSettings(
        grid=plan.grid,
        format=format_of(plan.lake, plan.format),
        properties=reading.properties,
        tag_expression=reading.tag_expression,
        sql_expression=reading.sql_expression,
    )
    check_settings(plan.lake, wanted)
    json_columns_of(plan.lake, plan.json_schema)
    return wanted


def check_cluster(plan: IngestPlan) -> None:
    """Ask for the topics once, before anybody waits for Spark. Raises what the client raises."""
    reading = read_options(ReadOptions, _source_options(plan))
    named_queues(topic_reader(reading.cluster, pull_group(reading)), reading)


def _source_options(plan: IngestPlan) -> dict[str, str]:
    """What was given, and what holds for a lake where nothing was."""
    given = {name.lower() for name in plan.source}
    options = dict(plan.source)
    if not any(name.startswith("starting") for name in given):
        options[_STARTING_OFFSETS] = "earliest"
    if _PROPERTIES not in given:
        options[_PROPERTIES] = str(properties_of(plan.lake))
    return options


def added_up(progress: IngestProgress, entry: LakeEntry) -> IngestProgress:
    return progress._replace(
        batches=progress.batches + 1,
        messages=progress.messages + sum(piece.rows for piece in entry.added),
        files=progress.files + sum(bool(piece.path) for piece in entry.added),
        bytes=progress.bytes + sum(piece.bytes for piece in entry.added),
        quarantined=progress.quarantined
        + sum(piece.quarantined.rows for piece in entry.added if piece.quarantined),
    )


@final
class _Publisher:
    """Publishes what the tasks of a micro-batch staged, and counts."""

    def __init__(
        self, lake: Lake, json_schema: str | None, on_progress: Callable[[IngestProgress], None]
    ) -> None:
        self._lake = lake
        self._json_schema = json_schema
        self._on_progress = on_progress
        self._progress = IngestProgress()
        # Spark would tell of it in its own words.
        self.failure: RoquetError | None = None

    def publish(self, rows: DataFrame, batch_id: int) -> None:
        staged = [msgspec.json.decode(row[0], type=Staged) for row in rows.collect()]
        try:
            entry = self._lake.publish(staged, self._json_schema)
        except RoquetError as error:
            self.failure = error
            raise
        if entry is None:
            log.info("batch %d: the lake has everything", batch_id)
            return
        self._progress = added_up(self._progress, entry)
        self._on_progress(self._progress)

    def see(self, query: StreamingQuery) -> None:
        """How many messages wait, by what Spark told last."""
        progress = query.lastProgress
        lag = None if progress is None else lag_told(progress)
        if lag is not None and lag != self._progress.lag:
            self._progress = self._progress._replace(lag=lag)
            self._on_progress(self._progress)

    def report(self, *, is_complete: bool) -> IngestReport:
        state = self._lake.state
        return IngestReport(
            *self._progress,
            lake_messages=state.row_count,
            lake_files=len(state.files),
            lake_quarantined=state.quarantined_count,
            is_complete=is_complete,
        )


def _run(start: Callable[[], StreamingQuery], publisher: _Publisher, stop: Event | None) -> bool:
    """Whether it ended by itself. Raises what ended it otherwise."""
    for attempt in range(1, _ATTEMPTS_MAX + 1):
        try:
            query = start()
        except PySparkException as error:
            raise failure_of(str(error)) from None
        try:
            # Not a KeyboardInterrupt: raised inside of a call to Spark it is told with a traceback.
            while not query.awaitTermination(_STOP_CHECKED_S):
                publisher.see(query)
                if stop is not None and stop.is_set():
                    return False
            publisher.see(query)
        except StreamingQueryException as error:
            if publisher.failure is not None:
                raise publisher.failure from None
            if attempt == _ATTEMPTS_MAX or not is_slow_start(str(error)):
                raise failure_of(str(error)) from None
            # Nothing is published twice, so starting again is always safe.
            log.warning("Spark's Python did not start in time; started again")
        else:
            return True
        finally:
            query.stop()
    raise AssertionError("the last attempt returns or raises")


def _started(
    spark: SparkSession, plan: IngestPlan, source: Mapping[str, str], publisher: _Publisher
) -> StreamingQuery:
    rows = spark.readStream.format(SOURCE_NAME).options(**dict(source)).load()
    writer = rows.writeStream.option("checkpointLocation", str(plan.checkpoint.absolute()))
    writer = writer.foreachBatch(publisher.publish)
    if plan.available_now:
        writer = writer.trigger(availableNow=True)
    elif plan.interval is not None:
        writer = writer.trigger(processingTime=f"{plan.interval // _MS} milliseconds")
    return writer.start()
