"""`compact`: compacts small files of hours that are over into larger ones; no message changes.

Tasks stage the compacted files; the driver lets them replace the others, some directories at a
time. It can be killed at any moment and restarted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from roquet.notebook_html import report_html
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.lake.compaction import (
    PlannedCompaction,
    in_rounds,
    planned_compactions,
    write_compaction,
)
from roquet.pipeline.lake.entries import Compaction, LakeEntry
from roquet.pipeline.lake.lake import LakeRole
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import (
    OpenLake,
    check_writable,
    existing_settings,
    open_existing_lake,
)
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.lake.staging import Staging
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.queries import run_tasks

TARGET_SIZE_DEFAULT: Final = 256 << 20
# Clocks of brokers and ours differ, and messages of an hour take some time to arrive.
GRACE_DEFAULT: Final = timedelta(minutes=10)
_AGE_MIN: Final = timedelta(hours=1)
# Published together: a kill costs no more than that.
_ROUND_SIZE: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class CompactPlan:
    """An hour is over when it ended `grace` before `now`; files grow up to `target_size` bytes.

    Of a table, `expire` and `orphans` are the ages from which on files are removed that it does not
    list any more, and that it never listed.
    """

    lake: LakePlace
    target_size: int = TARGET_SIZE_DEFAULT
    grace: timedelta = GRACE_DEFAULT
    now: datetime | None = None
    expire: timedelta | None = None
    orphans: timedelta | None = None


class CompactReport(NamedTuple):
    """What was compacted, and what the lake has. An interrupted job is not complete."""

    hours: int
    messages: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    lake_messages: int
    lake_files: int
    is_complete: bool
    files_removed: int = 0

    def _repr_html_(self) -> str:
        return report_html(self)


def check_compact(plan: CompactPlan) -> None:
    """Checked before Spark starts. Raises BadOption and BadLake."""
    settings = existing_settings(plan.lake)
    for name, age in (("expire", plan.expire), ("orphans", plan.orphans)):
        if age is not None and settings.format is LakeFormat.PARQUET:
            raise BadOption(name, "plain Parquet has neither versions nor orphans: leave it out")
        if age is not None and age < _AGE_MIN:
            raise BadOption(name, "readers and running jobs need younger files: give 1h or more")
    check_writable(plan.lake, LakeRole.COMPACTOR)


def compact(
    spark: SparkSession,
    plan: CompactPlan,
    on_published: Callable[[LakeEntry, int], None] = lambda _entry, _wanted: None,
    stop: Event | None = None,
) -> CompactReport:
    """Returns when all is compacted, or soon after `stop` is set. Raises BadLake and QueryFailed.

    `on_published` gets the total number of files to compact.
    """
    with open_existing_lake(plan.lake, LakeRole.COMPACTOR) as lake:
        done: list[PlannedCompaction] = []
        bytes_after = 0
        waiting = _rounds(lake, plan)
        while waiting and not (stop is not None and stop.is_set()):
            compactions = waiting.pop(0)
            made = _written(spark, lake, compactions)
            _check_unlisted(lake, [each for each in made if isinstance(each, str)])
            entry = lake.compact([each for each in made if isinstance(each, Compaction)])
            listed = {each.file.path for each in entry.compacted}
            done += [
                wanted
                for wanted, each in zip(compactions, made, strict=True)
                if isinstance(each, Compaction) and each.file.path in listed
            ]
            bytes_after += sum(compaction.file.bytes for compaction in entry.compacted)
            if len(listed) < len(made):
                waiting = _rounds(lake, plan)
            wanted_now = [*done, *(each for round_ in waiting for each in round_)]
            on_published(entry, sum(len(each.files) for each in wanted_now))
        removed = _removed(lake, plan)
        totals = lake.totals()
        return CompactReport(
            hours=len({compaction.directory for compaction in done}),
            messages=sum(compaction.row_count for compaction in done),
            files_before=sum(len(compaction.files) for compaction in done),
            files_after=len(done),
            bytes_before=sum(compaction.size for compaction in done),
            bytes_after=bytes_after,
            lake_messages=totals.messages,
            lake_files=totals.files,
            is_complete=not waiting,
            files_removed=removed,
        )


def _removed(lake: OpenLake, plan: CompactPlan) -> int:
    """The number of files that are gone now."""
    count = 0
    if isinstance(lake, TableLake):
        count += 0 if plan.expire is None else lake.expire(plan.expire)
        count += 0 if plan.orphans is None else lake.remove_orphans(plan.orphans)
    return count


def _rounds(lake: OpenLake, plan: CompactPlan) -> list[list[PlannedCompaction]]:
    """By what the lake has now."""
    closed_before = (plan.now or datetime.now(UTC)) - plan.grace
    wanted = planned_compactions(lake.files(), closed_before, plan.target_size)
    return list(in_rounds(wanted, _ROUND_SIZE))


def _written(
    spark: SparkSession, lake: OpenLake, compactions: list[PlannedCompaction]
) -> list[Compaction | str]:
    """Each, or the first of its files that is gone."""
    # Names files; messages that are added meanwhile may take the number of the entry itself.
    number = lake.state.entry_number + 1
    work = partial(_write, lake.staging, number)
    return run_tasks(spark, work, list(enumerate(compactions)))


def _write(staging: Staging, number: int, part: tuple[int, PlannedCompaction]) -> Compaction | str:
    index, wanted = part
    try:
        return write_compaction(staging, wanted, (number, index))
    except FileNotFoundError:
        return _first_gone(staging, wanted)


def _first_gone(staging: Staging, wanted: PlannedCompaction) -> str:
    for each in wanted.files:
        try:
            with staging.read(each.path):
                pass
        except FileNotFoundError:
            return each.path
    raise BadLake(f"files of {wanted.directory} come and go: run this job again")


def _check_unlisted(lake: OpenLake, gone: Sequence[str]) -> None:
    """Raises BadLake for a file that is gone, and that the lake still lists."""
    listed = {each.path for each in lake.files()} if gone else set()
    if missing := [path for path in gone if path in listed]:
        raise BadLake(f"{lake.place}: {missing[0]} is missing: the lake lists it")
