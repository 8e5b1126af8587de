"""`drift`: where the bodies of a lake, and of its quarantine, differ from its columns.

Tasks look at one file each; what they find is bounded, and joined by the driver. `ingest` reports
the same of some of what it added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from roquet.notebook_html import report_html
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.entries import LakePiece
from roquet.pipeline.lake.files import topic_of
from roquet.pipeline.lake.opening import existing_settings, files_of_lake, state_of_lake
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.schemas.body_schema import columns_in, read_body_schema
from roquet.pipeline.lake.schemas.decoding import REASON_COLUMN
from roquet.pipeline.lake.schemas.drift import (
    DRIFT_COLUMNS,
    DriftRow,
    TopicDrift,
    drift_in,
    drift_rows,
    joined_by_topic,
    parser_of,
)
from roquet.pipeline.lake.staging import Staging, staging_of
from roquet.pipeline.queries import run_tasks

# Of one run of `ingest`: files of messages, as many of the quarantine, and messages of each.
INGEST_FILES_MAX: Final = 20
INGEST_ROWS_MAX: Final = 1_000
_ROWS_AT_ONCE: Final = 4_096


@dataclass(frozen=True, kw_only=True)
class DriftPlan:
    """All topics of the lake, unless some are named."""

    lake: LakePlace
    topics: tuple[str, ...] = ()


class DriftReport(NamedTuple):
    """`messages` were looked at. `left_out` counts what was found beyond the limits."""

    messages: int
    left_out: int
    rows: list[DriftRow]

    def _repr_html_(self) -> str:
        return report_html(self)


class LookedAt(NamedTuple):
    """A file of a lake, or of its quarantine."""

    path: str
    is_quarantine: bool


def check_drift(plan: DriftPlan) -> None:
    """Needs no Spark. Raises BadLake, and BadOption for a topic that the lake does not have."""
    existing_settings(plan.lake)
    state = state_of_lake(plan.lake)
    if state.body_schema is None:
        raise BadLake(
            f"the lake {plan.lake} does not decode bodies: ingest with --infer, or with a schema"
        )
    there = {queue.topic for queue in state.queue_ends()}
    if unknown := set(plan.topics) - there:
        has = ", ".join(sorted(there)) or "none"
        raise BadOption("topic", f"the lake has no topic {min(unknown)!r}; it has: {has}")


def drift(spark: SparkSession, plan: DriftPlan) -> DriftReport:
    """Raises BadLake and QueryFailed."""
    settings = existing_settings(plan.lake)
    schema = state_of_lake(plan.lake).body_schema
    assert schema is not None
    files = [
        LookedAt(file.path, is_quarantine)
        for is_quarantine in (False, True)
        for file in files_of_lake(plan.lake, is_quarantine=is_quarantine)
        if not plan.topics or topic_of(file.path) in plan.topics
    ]
    found = drift_of(spark, staging_of(plan.lake, settings.format), schema, files)
    if found is None:
        raise BadLake(f"{plan.lake} was compacted meanwhile: run this job again")
    return found


def drift_of(
    spark: SparkSession,
    staging: Staging,
    schema: str,
    files: Sequence[LookedAt],
    rows_max: int | None = None,
) -> DriftReport | None:
    """Of the files, or of the first rows of each; None if one is gone. Raises QueryFailed."""
    found = run_tasks(spark, partial(drift_of_file, staging, schema, rows_max), files)
    there = [each for each in found if each is not None]
    if len(there) < len(files):
        return None
    columns, joined = columns_in(schema), joined_by_topic(there)
    return DriftReport(
        sum(each.messages for each in joined),
        sum(each.left_out for each in joined),
        [row for each in joined for row in drift_rows(each, columns)],
    )


def drift_of_file(
    staging: Staging, schema: str, rows_max: int | None, file: LookedAt
) -> TopicDrift | None:
    """What a task does. None if the file is gone: it was compacted meanwhile."""
    place = staging.quarantine() if file.is_quarantine else staging
    names = [*DRIFT_COLUMNS, *([REASON_COLUMN] if file.is_quarantine else [])]
    decoded_by = read_body_schema(schema)
    try:
        with place.read(file.path) as source:
            batches: Iterable[pa.RecordBatch] = source.iter_batches(
                min(_ROWS_AT_ONCE, rows_max or _ROWS_AT_ONCE), columns=names
            )
            if rows_max is not None:
                batches = islice(batches, 1)
            return drift_in(topic_of(file.path), batches, decoded_by.arrow, parser_of(decoded_by))
    except FileNotFoundError:
        return None


def files_in(pieces: Iterable[LakePiece]) -> list[LookedAt]:
    """Of messages, and of the quarantine."""
    found: list[LookedAt] = []
    for piece in pieces:
        found += [LookedAt(piece.path, is_quarantine=False)] if piece.path else []
        if piece.quarantined is not None:
            found.append(LookedAt(piece.quarantined.path, is_quarantine=True))
    return found
