"""`backfill`: ingests the files of a broker into a lake, without the broker.

Tasks read splits of the log and write files; the driver publishes them some splits at a time. It
can be killed at any moment and restarted, before or after `ingest` or in turns with it: what one of
them has added to the lake, the other does not add.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from roquet.notebook_html import report_html
from roquet.pipeline.errors import (
    BadLake,
    BadOption,
    DataLoss,
    SchemaChanged,
    SchemaUnknown,
)
from roquet.pipeline.lake.entries import LakeEntry, LakePiece
from roquet.pipeline.lake.files import MissingRange
from roquet.pipeline.lake.lake import LakeRole
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
    state_of_lake,
)
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.schemas.choosing import AS_BEFORE, BodyOptions, LakeBodies
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import Include, StoreOptions
from roquet.pipeline.queries import run_tasks
from roquet.pipeline.queue_offsets import queue_key
from roquet.pipeline.store_source.lake_staging import (
    SplitTask,
    StoredQueue,
    described,
    needed_splits,
    replaced_since,
    stage_split,
    stored_queues,
)
from roquet.pipeline.store_source.rows import StoreSplit
from roquet.pipeline.store_source.splits import splits_of

log = logging.getLogger(__name__)

_PROPERTIES: Final = "properties"
# Published together: a kill costs no more than that.
_SPLITS_PER_CORE: Final = 2


@dataclass(frozen=True, kw_only=True)
class BackfillPlan:
    """`source` are options of format `rocketmq-store` by their names, with its `path`.

    A store does not have the name of its broker, and `ingest` uses it: `broker_name` is required,
    unless the lake has messages of the topics from exactly one broker.
    """

    source: Mapping[str, str]
    lake: LakePlace
    broker_name: str | None = None
    ignore_data_loss: bool = False
    file_rows_max: int = FILE_ROWS_MAX_DEFAULT
    format: str | None = None
    catalog: str | None = None
    partition_by: str | None = None
    bodies: BodyOptions = AS_BEFORE


class BackfillReport(NamedTuple):
    """What was published, and what the lake has. An interrupted job is not complete.

    `missing` counts offsets of the store that the lake still lacks: damaged, or excluded by time.
    """

    messages: int
    files: int
    bytes: int
    quarantined: int
    missing: int
    lake_messages: int
    lake_files: int
    lake_quarantined: int
    is_complete: bool

    def _repr_html_(self) -> str:
        return report_html(self)


def check_backfill(plan: BackfillPlan) -> LakeSettings:
    """The settings of a new lake. Needs no Spark.

    Raises BadOption, BadSchema, BadLake, DamagedStore and StoreError.
    """
    options = _store_options(plan)
    if options.include is Include.ALL:
        raise BadOption("include", "a lake has what a consumer can read: leave it out")
    found = settings_of(plan.lake)
    if found and (found.tag_expression or found.sql_expression):
        raise BadLake(
            f"the lake {plan.lake} has a filter, which backfill does not support: use another lake"
        )
    lake_format = format_of(plan.lake, plan.format)
    check_catalog(plan.lake, lake_format, plan.catalog)
    wanted = LakeSettings(
        file_rows_max=plan.file_rows_max,
        format=lake_format,
        partitioning=partitioning_of(found, lake_format, plan.partition_by),
        properties=options.properties,
    )
    check_settings(plan.lake, found, wanted)
    check_writable(plan.lake, LakeRole.WRITER)
    body_schema_of(plan.lake, lake_format, plan.bodies)
    _planned(plan)
    return wanted


def backfill(
    spark: SparkSession,
    plan: BackfillPlan,
    on_published: Callable[[LakeEntry, int], None] = lambda _entry, _wanted: None,
    stop: Event | None = None,
) -> BackfillReport:
    """Returns when all is published, or soon after `stop` is set.

    `on_published` gets the total number of missing offsets. Raises as `check_backfill`, and
    DataLoss and QueryFailed.
    """
    settings = check_backfill(plan)
    splits, broker_name = _planned(plan)
    options = _store_options(plan, broker_name)
    with open_lake(plan.lake, settings, catalog=plan.catalog) as lake:
        bodies = bodies_of(lake, plan.bodies)
        queues = stored_queues(options, splits, broker_name)
        wanted = _wanted(plan, lake, queues)
        rows = sum(each.range.row_count for each in wanted)
        entries: list[LakeEntry] = []
        is_complete = True
        for round_ in _rounds(spark, needed_splits(options, splits, wanted)):
            if stop is not None and stop.is_set():
                is_complete = False
                break
            stage = partial(_staged, spark, lake, options, round_, wanted)
            entry = _publish(plan, lake, stage, bodies)
            if entry is not None:
                entries.append(entry)
                on_published(entry, rows)
        return _report(lake, entries, queues, is_complete=is_complete)


def _publish(
    plan: BackfillPlan,
    lake: OpenLake,
    stage: Callable[[LakeBodies], list[LakePiece]],
    bodies: LakeBodies,
) -> LakeEntry | None:
    while True:
        pieces = stage(bodies)
        try:
            bodies.check_known(pieces)
            entry = lake.publish(pieces, bodies.text, bodies.seen)
        except (SchemaUnknown, SchemaChanged) as error:
            log.info("planning again: %s", error)
            # Another job may have learned schemas, too: what follows them is planned once.
            bodies.adopt(bodies_again(plan.lake, lake.settings.format, plan.bodies))
            if isinstance(error, SchemaUnknown):
                bodies.learn(error.keys)
        else:
            if entry is not None:
                bodies.note_stored()
            return entry


def _staged(
    spark: SparkSession,
    lake: OpenLake,
    options: StoreOptions,
    splits: Sequence[StoreSplit],
    wanted: Sequence[MissingRange],
    bodies: LakeBodies,
) -> list[LakePiece]:
    tasks = [
        SplitTask(
            split=split,
            wanted=wanted,
            staging=lake.staging,
            file_rows_max=lake.settings.file_rows_max,
            body_schema=bodies.text,
        )
        for split in splits
    ]
    pieces = run_tasks(spark, partial(stage_split, options), tasks)
    return [each for of_task in pieces for each in of_task]


def _rounds(spark: SparkSession, splits: Sequence[StoreSplit]) -> list[Sequence[StoreSplit]]:
    size = _SPLITS_PER_CORE * spark.sparkContext.defaultParallelism
    return [splits[start : start + size] for start in range(0, len(splits), size)]


def _wanted(
    plan: BackfillPlan, lake: OpenLake, queues: Sequence[StoredQueue]
) -> list[MissingRange]:
    older = replaced_since(
        queues, {each.range.queue: lake.state.incarnation_of(each.range.queue) for each in queues}
    )
    if older:
        raise BadLake(
            f"{', '.join(older)}: deleted and created again since this store was written, and the"
            " lake has messages of the later incarnation: use another lake"
        )
    missing = lake.missing([each.range for each in queues], described(queues))
    losses = [
        f"{queue_key(queue)} was deleted and created again since the last ingest"
        for queue in missing.recreated
    ]
    if losses and not plan.ignore_data_loss:
        raise DataLoss(losses)
    for loss in losses:
        log.warning("the lake has messages of both incarnations: %s", loss)
    return list(missing.wanted)


def _planned(plan: BackfillPlan) -> tuple[list[StoreSplit], str]:
    """The splits to read, and the name of their broker. Raises as `check_backfill`."""
    splits = splits_of(_store_options(plan))
    topics = {topic for split in splits for topic in split.topics}
    return splits, plan.broker_name or _known_broker(plan.lake, topics)


def _known_broker(lake: LakePlace, topics: set[str]) -> str:
    """Raises BadOption."""
    state = state_of_lake(lake)
    found = set[str]().union(*(state.brokers_of(topic) for topic in topics))
    if len(found) != 1:
        raise BadOption(
            "brokerName",
            "a store does not have the name of its broker, and the lake needs it, so that `ingest`"
            " adds nothing twice: give --broker-name"
            + (f" ({', '.join(sorted(found))})" if found else ""),
        )
    return found.pop()


def _store_options(plan: BackfillPlan, broker_name: str | None = None) -> StoreOptions:
    """The given options, with defaults of the lake. Raises BadOption."""
    options = dict(plan.source)
    if _PROPERTIES not in {name.lower() for name in options}:
        options[_PROPERTIES] = str(properties_of(settings_of(plan.lake)))
    if broker_name is not None:
        options["brokerName"] = broker_name
    return read_options(StoreOptions, options)


def _report(
    lake: OpenLake,
    entries: Sequence[LakeEntry],
    queues: Sequence[StoredQueue],
    *,
    is_complete: bool,
) -> BackfillReport:
    pieces = [piece for entry in entries for piece in entry.added]
    left = lake.missing([each.range for each in queues], described(queues))
    totals = lake.totals()
    return BackfillReport(
        messages=sum(piece.rows for piece in pieces),
        files=sum(bool(piece.path) for piece in pieces),
        bytes=sum(piece.bytes for piece in pieces),
        quarantined=sum(piece.quarantined.rows for piece in pieces if piece.quarantined),
        missing=sum(each.range.row_count for each in left.wanted),
        lake_messages=totals.messages,
        lake_files=totals.files,
        lake_quarantined=totals.quarantined,
        is_complete=is_complete,
    )
