"""`reprocess`: reads the quarantine of a lake again, by the schema that the lake has now.

Tasks read files and write others; the driver moves the rows that can be decoded to the messages. It
can be killed at any moment and restarted: no row is lost, and none is among the messages twice.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession

from roquet.notebook_html import report_html
from roquet.pipeline.errors import BadLake, BadOption, PlanOutdated, SchemaUnknown
from roquet.pipeline.jobs.latest import LatestRows
from roquet.pipeline.lake.entries import Reprocessed
from roquet.pipeline.lake.files import topic_of
from roquet.pipeline.lake.lake import Lake, LakeRole
from roquet.pipeline.lake.opening import (
    OpenLake,
    bodies_again,
    bodies_of,
    body_schema_of,
    check_writable,
    existing_settings,
    open_existing_lake,
    state_of_lake,
)
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.reprocessing import Reread, Rereading, finish_steps, move_rows, reread
from roquet.pipeline.lake.schemas.choosing import (
    AS_BEFORE,
    BodyOptions,
    LakeBodies,
    check_known,
)
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.queries import run_tasks

_ATTEMPTS_MAX: Final = 20

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ReprocessPlan:
    """All topics of the lake, unless some are named; `bodies` as for `ingest`."""

    lake: LakePlace
    topics: tuple[str, ...] = ()
    bodies: BodyOptions = AS_BEFORE


class ReprocessReport(NamedTuple):
    """`messages` of the quarantine were read, and `added` of them are in the lake now.

    `quarantined` are those of the topics that stay there.
    """

    messages: int
    added: int
    quarantined: int
    lake_messages: int
    lake_files: int
    lake_quarantined: int

    def _repr_html_(self) -> str:
        return report_html(self)


def check_reprocess(plan: ReprocessPlan) -> None:
    """Before Spark starts. Raises BadOption, BadSchema and BadLake."""
    settings = existing_settings(plan.lake)
    check_writable(plan.lake, LakeRole.REPROCESSOR)
    if body_schema_of(plan.lake, settings.format, plan.bodies) is None:
        raise BadLake(
            f"the lake {plan.lake} does not decode bodies, so that it has no quarantine: ingest"
            " with a schema"
        )
    there = {queue.topic for queue in state_of_lake(plan.lake).queue_ends()}
    if unknown := set(plan.topics) - there:
        has = ", ".join(sorted(there)) or "none"
        raise BadOption("topic", f"the lake has no topic {min(unknown)!r}; it has: {has}")


def reprocess(spark: SparkSession, plan: ReprocessPlan) -> ReprocessReport:
    """Raises BadOption, BadSchema, BadLake and QueryFailed."""
    with open_existing_lake(plan.lake, LakeRole.REPROCESSOR) as lake:
        if isinstance(lake, TableLake):
            finish_steps(lake)
        read, added = _until_moved(spark, plan, lake)
        if isinstance(lake, TableLake) and (key := lake.latest_key) is not None:
            LatestRows(spark, lake, key).update()
        totals = lake.totals()
        return ReprocessReport(
            read, added, read - added, totals.messages, totals.files, totals.quarantined
        )


def _until_moved(spark: SparkSession, plan: ReprocessPlan, lake: OpenLake) -> tuple[int, int]:
    """The numbers of messages that were read, and of those that were added."""
    bodies = bodies_of(lake, plan.bodies)
    for _ in range(_ATTEMPTS_MAX):
        try:
            return _moved(spark, plan, lake, bodies)
        except SchemaUnknown as error:
            bodies.learn(error.keys)
        except PlanOutdated as error:
            log.info("planning again: %s", error)
            bodies.adopt(bodies_again(plan.lake, lake.settings.format, plan.bodies))
    raise BadLake(
        f"{plan.lake}: other jobs changed the quarantine or the schema {_ATTEMPTS_MAX} times, one"
        " after the other: run this job again"
    )


def _moved(
    spark: SparkSession, plan: ReprocessPlan, lake: OpenLake, bodies: LakeBodies
) -> tuple[int, int]:
    paths = [
        file.path
        for file in lake.quarantined_files()
        if not plan.topics or topic_of(file.path) in plan.topics
    ]
    assert bodies.text is not None
    step = uuid4().hex if isinstance(lake, TableLake) else None
    work = partial(reread, Rereading(lake.staging, bodies.text, step))
    found = [_there(each, plan.lake) for each in run_tasks(spark, work, paths)]
    check_known(key for each in found for key in each.unknown)
    moved = [each.moved for each in found if each.moved is not None]
    if moved:
        _commit(lake, moved, bodies)
    return sum(each.rows for each in found), sum(each.good.rows for each in moved)


def _there(found: Reread | None, lake: LakePlace) -> Reread:
    if found is None:
        raise PlanOutdated(f"{lake}: a file left the quarantine meanwhile")
    return found


def _commit(lake: OpenLake, moved: list[Reprocessed], bodies: LakeBodies) -> None:
    assert bodies.text is not None
    if isinstance(lake, TableLake):
        move_rows(lake, moved, bodies.text, bodies.seen)
    else:
        assert isinstance(lake, Lake)
        lake.reprocess(moved, bodies.text, bodies.seen)
