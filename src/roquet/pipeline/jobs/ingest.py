"""`ingest`: topics into a lake, each message exactly once, whatever is killed or changed meanwhile.

Tasks read messages and write Parquet; the driver gets rows that list the files, and publishes them
once per micro-batch. The offsets of the consumer group are committed after that.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Final, NamedTuple, final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from roquet.errors import RoquetError
from roquet.notebook_html import report_html
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.durable_files import create_once, make_directories
from roquet.pipeline.errors import (
    BadLake,
    BadOption,
    PlanOutdated,
    SchemaChanged,
    SchemaUnknown,
)
from roquet.pipeline.jobs.drift import (
    INGEST_FILES_MAX,
    INGEST_ROWS_MAX,
    DriftReport,
    LookedAt,
    drift_of,
    files_in,
)
from roquet.pipeline.jobs.infer import InferredColumns, infer
from roquet.pipeline.jobs.latest import LatestRows, check_latest
from roquet.pipeline.lake.entries import LakeEntry, LakePiece
from roquet.pipeline.lake.lake import Lake, LakeRole
from roquet.pipeline.lake.metadata import FILE_ROWS_MAX_DEFAULT, LakeSettings
from roquet.pipeline.lake.opening import (
    OpenLake,
    bodies_again,
    bodies_of,
    body_schema_of,
    check_catalog,
    check_settings,
    check_writable,
    format_of,
    open_lake,
    partitioning_of,
    properties_of,
    settings_of,
)
from roquet.pipeline.lake.places import LakePlace, options_file_of, text_of
from roquet.pipeline.lake.schemas.choosing import AS_BEFORE, BodyOptions, LakeBodies
from roquet.pipeline.lake.schemas.evolution import RULES
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import Position, ReadOptions
from roquet.pipeline.queries import QueryFailed, run_query
from roquet.pipeline.source.lake_staging import SOURCE_NAME, StagingSource
from roquet.pipeline.source.positions import named_queues
from roquet.pipeline.source.rows import pull_group
from roquet.pipeline.watching.positions import reported_lag
from roquet.protocol.record_columns import PropertiesForm
from roquet.temporary import temporary_directory

log = logging.getLogger(__name__)

_MS: Final = timedelta(milliseconds=1)
_STOP_CHECKED_S: Final = 1
_STARTING_OFFSETS: Final = "startingOffsets"
_PROPERTIES: Final = "properties"

# Spark ignores files that it does not know.
_MARK: Final = "roquet-lake"
_SPARK_OFFSETS: Final = "offsets"


@dataclass(frozen=True, kw_only=True)
class IngestPlan:
    """`source` are options of format `rocketmq` by their names; it starts at the earliest.

    With `available_now` it ends when the lake has everything that was stored when it started.
    `file_rows_max` is for a new lake, as are `catalog` and `partition_by`. `bodies` says
    how bodies are decoded into columns, `latest_by` is the key of a second table with the newest
    rows. What is left out is as the lake has it.
    """

    source: Mapping[str, str]
    lake: LakePlace
    checkpoint: Path | None = None
    available_now: bool = False
    interval: timedelta | None = None
    file_rows_max: int = FILE_ROWS_MAX_DEFAULT
    format: str | None = None
    catalog: str | None = None
    partition_by: str | None = None
    bodies: BodyOptions = AS_BEFORE
    latest_by: str | None = None


class IngestProgress(NamedTuple):
    """What was published so far. `lag` is the number of waiting messages, if it is known yet.

    `commit_s` is the time that all commits to the lake took.
    """

    batches: int = 0
    messages: int = 0
    files: int = 0
    bytes: int = 0
    quarantined: int = 0
    commit_s: float = 0.0
    lag: int | None = None


class IngestReport(NamedTuple):
    """What was published, and what the lake has. An interrupted job is not complete.

    `drift` is where some of the added bodies differ from the columns, if bodies are decoded.
    """

    batches: int
    messages: int
    files: int
    bytes: int
    quarantined: int
    commit_s: float
    lag: int | None
    lake_messages: int
    lake_files: int
    lake_quarantined: int
    is_complete: bool
    drift: DriftReport | None = None

    def _repr_html_(self) -> str:
        return report_html(self)


def ingest(
    spark: SparkSession,
    plan: IngestPlan,
    on_progress: Callable[[IngestProgress], None] = lambda _: None,
    stop: Event | None = None,
) -> IngestReport:
    """Returns at the end of what is available, or soon after `stop` is set.

    Raises BadOption, BadSchema, BadLake, and QueryFailed with what ended the query.
    """
    if plan.bodies.infer:
        plan = with_columns(plan, inferred_columns(plan))
    settings = check_plan(plan)
    source = _source_options(plan, settings.properties)
    spark.dataSource.register(StagingSource)
    with (
        open_lake(plan.lake, settings, catalog=plan.catalog) as lake,
        _checkpoint(plan, lake) as checkpoint,
    ):
        latest = None
        if isinstance(lake, TableLake) and (key := plan.latest_by or lake.latest_key):
            latest = LatestRows(spark, lake, key)
        publisher = _Publisher(lake, bodies_of(lake, plan.bodies), on_progress, latest)
        source |= _lake_options(lake)
        plan = replace(plan, checkpoint=checkpoint)
        is_complete = _run(
            lambda: _started(spark, plan, source, publisher),
            publisher,
            lambda: bodies_again(plan.lake, settings.format, plan.bodies),
            stop,
        )
        report = publisher.report(is_complete=is_complete)
        return report._replace(drift=_drift(spark, lake, publisher))


def _drift(spark: SparkSession, lake: OpenLake, publisher: "_Publisher") -> DriftReport | None:
    """Of some of what was published. None if bodies are not decoded, or if it cannot be found."""
    schema = publisher.bodies.text
    if schema is None or not publisher.recent_files:
        return None
    try:
        return drift_of(spark, lake.staging, schema, publisher.recent_files, INGEST_ROWS_MAX)
    except QueryFailed as error:
        # The messages are in the lake: the job has not failed.
        log.warning("no drift report: %s", error)
        return None


@contextmanager
def _checkpoint(plan: IngestPlan, lake: OpenLake) -> Iterator[Path]:
    """That of the plan, or one for this run alone: what is read is what the lake lacks."""
    if plan.checkpoint is not None:
        bind_checkpoint(plan.checkpoint, lake.place, lake.settings.id)
        yield plan.checkpoint
        return
    with temporary_directory() as directory:
        yield directory


def _lake_options(lake: OpenLake) -> dict[str, str]:
    """For the source. Keys of an object store are in none of them: Spark logs and stores them."""
    options = {"lake": text_of(lake.place), "fileRowsMax": str(lake.settings.file_rows_max)}
    if isinstance(lake, Lake):
        options["run"] = lake.run
    if (file := options_file_of(lake.place)) is not None:
        options["storageOptions"] = str(file.absolute())
    return options


def check_plan(plan: IngestPlan) -> LakeSettings:
    """The settings of a new lake. Needs neither Spark nor brokers.

    Raises BadOption, BadSchema, and BadLake for a lake with other settings.
    """
    if plan.checkpoint is not None and plan.checkpoint.is_file():
        raise BadOption("checkpoint", f"{plan.checkpoint} is a file, not a directory")
    # Before it is asked: what no object store can have is refused.
    lake_format = format_of(plan.lake, plan.format)
    check_catalog(plan.lake, lake_format, plan.catalog)
    found = settings_of(plan.lake)
    reading = read_options(ReadOptions, _source_options(plan, properties_of(found)))
    reading.check_stream()
    if plan.checkpoint is None and reading.starting_offsets is Position.LATEST:
        raise BadOption(
            _STARTING_OFFSETS,
            "without a checkpoint, each start would skip what was sent before: give --checkpoint",
        )
    wanted = LakeSettings(
        file_rows_max=plan.file_rows_max,
        format=lake_format,
        partitioning=partitioning_of(found, lake_format, plan.partition_by),
        properties=reading.properties,
        tag_expression=reading.tag_expression,
        sql_expression=reading.sql_expression,
    )
    check_settings(plan.lake, found, wanted)
    check_writable(plan.lake, LakeRole.WRITER)
    schema = body_schema_of(plan.lake, lake_format, plan.bodies)
    if plan.latest_by is not None:
        is_open = plan.bodies.infer or (schema is not None and schema.registry is not None)
        bodies = None if is_open else schema.arrow if schema else pa.schema([])
        check_latest(plan.lake, wanted, bodies, plan.latest_by)
    return wanted


def check_cluster(plan: IngestPlan) -> None:
    """Ask for the topics once, before Spark starts. Raises what the client raises."""
    reading = read_options(ReadOptions, _source_options(plan, PropertiesForm.NONE))
    named_queues(topic_reader(reading.cluster, pull_group(reading)), reading)


def inferred_columns(plan: IngestPlan) -> InferredColumns:
    """Those of the lake, and what the first messages have besides. Needs no Spark.

    Raises as `check_plan`, BadOption for topics without messages, BadSchema for bodies that are no
    JSON, and what the client raises.
    """
    settings = check_plan(plan)
    before = body_schema_of(plan.lake, settings.format, plan.bodies)
    columns = pa.schema([]) if before is None else before.arrow
    return infer(_source_options(plan, settings.properties), columns, RULES[settings.format])


def with_columns(plan: IngestPlan, found: InferredColumns) -> IngestPlan:
    """The plan as if the columns had been given."""
    return replace(plan, bodies=BodyOptions(json_schema=found.columns))


def _source_options(plan: IngestPlan, properties: PropertiesForm) -> dict[str, str]:
    """The given options, with defaults; `properties` is that of the lake."""
    given = {name.lower() for name in plan.source}
    options = dict(plan.source)
    if not any(name.startswith("starting") for name in given):
        options[_STARTING_OFFSETS] = "earliest"
    if _PROPERTIES not in given:
        options[_PROPERTIES] = str(properties)
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
        self,
        lake: OpenLake,
        bodies: LakeBodies,
        on_progress: Callable[[IngestProgress], None],
        latest: LatestRows | None,
    ) -> None:
        self._lake = lake
        self._latest = latest
        self.bodies = bodies
        self._on_progress = on_progress
        self._progress = IngestProgress()
        # Of messages, and of the quarantine.
        self._recent = {
            is_quarantine: deque[LookedAt](maxlen=INGEST_FILES_MAX)
            for is_quarantine in (False, True)
        }
        # Spark would wrap it in an error of its own.
        self.failure: RoquetError | None = None

    def publish(self, rows: DataFrame, batch_id: int) -> None:
        pieces = [msgspec.json.decode(row[0], type=LakePiece) for row in rows.collect()]
        started_s = time.monotonic()
        try:
            self.bodies.check_known(pieces)
            entry = self._lake.publish(pieces, self.bodies.text, self.bodies.seen)
        except RoquetError as error:
            self.failure = error
            raise
        if entry is None:
            log.info("batch %d: nothing to publish, the lake has everything", batch_id)
            return
        self.bodies.note_stored()
        for file in files_in(entry.added):
            self._recent[file.is_quarantine].append(file)
        commit_s = self._progress.commit_s + time.monotonic() - started_s
        self._progress = added_up(self._progress, entry)._replace(commit_s=round(commit_s, 6))
        self._on_progress(self._progress)
        if self._latest is not None:
            self._update_latest(self._latest.update_if_due)

    def _update_latest(self, update: Callable[[], None]) -> None:
        try:
            update()
        except RoquetError as error:
            self.failure = error
            raise

    @property
    def recent_files(self) -> list[LookedAt]:
        """What a long run added first is long known."""
        return [file for files in self._recent.values() for file in files]

    def update_lag(self, query: StreamingQuery) -> None:
        """Updates the lag, by the last progress of Spark."""
        progress = query.lastProgress
        lag = None if progress is None else reported_lag(progress)
        if lag is not None and lag != self._progress.lag:
            self._progress = self._progress._replace(lag=lag)
            self._on_progress(self._progress)

    def report(self, *, is_complete: bool) -> IngestReport:
        """Also when it was interrupted, the newest rows are those of all messages in the lake."""
        if self._latest is not None:
            self._latest.update()
        totals = self._lake.totals()
        return IngestReport(
            *self._progress,
            lake_messages=totals.messages,
            lake_files=totals.files,
            lake_quarantined=totals.quarantined,
            is_complete=is_complete,
        )


def _run(
    start: Callable[[], StreamingQuery],
    publisher: _Publisher,
    choose_again: Callable[[], LakeBodies],
    stop: Event | None,
) -> bool:
    """Whether the query ended by itself. Raises QueryFailed, or the publisher's own failure."""

    def run_once() -> bool:
        query = start()
        try:
            # Not a KeyboardInterrupt: inside a call to Spark it is shown with a traceback.
            while not query.awaitTermination(_STOP_CHECKED_S):
                publisher.update_lag(query)
                if stop is not None and stop.is_set():
                    return False
            publisher.update_lag(query)
            return True
        finally:
            query.stop()

    # Nothing is published twice, so running it again is always safe.
    while True:
        try:
            return run_query(run_once, lambda: publisher.failure)
        except PlanOutdated as error:
            log.info("planning again: %s", error)
            publisher.failure = None
            if isinstance(error, SchemaUnknown | SchemaChanged):
                # Another job may have learned schemas, too: what follows them is planned once.
                publisher.bodies.adopt(choose_again())
            if isinstance(error, SchemaUnknown):
                publisher.bodies.learn(error.keys)


def _started(
    spark: SparkSession, plan: IngestPlan, source: Mapping[str, str], publisher: _Publisher
) -> StreamingQuery:
    options = dict(source)
    if (text := publisher.bodies.text) is not None:
        options["bodySchema"] = text
    rows = spark.readStream.format(SOURCE_NAME).options(**options).load()
    assert plan.checkpoint is not None
    writer = rows.writeStream.option("checkpointLocation", str(plan.checkpoint.absolute()))
    writer = writer.foreachBatch(publisher.publish)
    if plan.available_now:
        writer = writer.trigger(availableNow=True)
    elif plan.interval is not None:
        writer = writer.trigger(processingTime=f"{plan.interval // _MS} milliseconds")
    return writer.start()


def bind_checkpoint(checkpoint: Path, lake: LakePlace, lake_id: str) -> None:
    """Mark a new checkpoint with its lake, and check the mark of an existing one.

    With another lake, or with a new one in the place of a deleted lake, a checkpoint would skip
    everything before its offsets. Raises BadLake.
    """
    try:
        marked = (checkpoint / _MARK).read_text()
    except FileNotFoundError:
        if (checkpoint / _SPARK_OFFSETS).exists():
            raise _another(checkpoint, lake) from None
        make_directories(checkpoint)
        create_once(checkpoint / _MARK, lake_id.encode())
    else:
        if marked != lake_id:
            raise _another(checkpoint, lake)


def _another(checkpoint: Path, lake: LakePlace) -> BadLake:
    return BadLake(
        f"the checkpoint {checkpoint} does not belong to the lake {lake}: give another directory,"
        " or remove the checkpoint (nothing is added to a lake twice)"
    )
