"""`forget`: all rows of a person leave a lake, and the files that had them; with proof.

Each table is rewritten in one commit, in the order in which rows get into them; then what only
older versions list is removed, and every file that is left is read again. Offsets stay: `ingest`
does not add the rows again. It can be killed at any moment and restarted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from roquet.notebook_html import report_html
from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.forgetting import (
    KEYS_COLUMN,
    Forgotten,
    RewrittenFile,
    count_rows,
    rewrite_without,
)
from roquet.pipeline.lake.latest import check_key
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import (
    columns_of,
    existing_settings,
    open_existing_lake,
)
from roquet.pipeline.lake.places import LakePlace, Storage, beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX, QUARANTINE_SUFFIX
from roquet.pipeline.lake.table import (
    CommitRefused,
    LakeTable,
    Rewrite,
    TableLake,
    until_accepted,
)
from roquet.pipeline.queries import run_tasks

# Younger files that no table lists may be those of running jobs.
ORPHANS_DEFAULT: Final = timedelta(days=1)
_AGE_MIN: Final = timedelta(hours=1)
_DATA_SUFFIX: Final = ".parquet"
_TABLE_NAMES: Final = {"": "messages", QUARANTINE_SUFFIX: "quarantine", LATEST_SUFFIX: "latest"}


@dataclass(frozen=True, kw_only=True)
class ForgetPlan:
    """Files that no table lists are removed if they are older than `orphans`."""

    lake: LakePlace
    key: str
    column: str = KEYS_COLUMN
    orphans: timedelta = ORPHANS_DEFAULT

    @property
    def forgotten(self) -> Forgotten:
        return Forgotten(self.key, self.column)


class ForgottenRows(NamedTuple):
    """Of one table. `rows_left` are what the last scan found in files that it lists, which is none.

    `unlisted_files` have rows of the key, or cannot be read: older versions that something refers
    to list them, or none does, and they are too young to be removed. `unsearched_files` lack the
    column in which the key was to be found.
    """

    table: str
    rows_removed: int
    files_rewritten: int
    files_scanned: int
    rows_left: int
    unlisted_files: int
    unsearched_files: int


class ForgetReport(NamedTuple):
    """`files_removed` had only been listed by older versions, or by none."""

    tables: Sequence[ForgottenRows]
    files_removed: int

    def _repr_html_(self) -> str:
        return report_html(self)

    @property
    def is_complete(self) -> bool:
        """No file that was searched has a row of the key, listed or not."""
        return not any(each.rows_left or each.unlisted_files for each in self.tables)


def check_forget(plan: ForgetPlan) -> None:
    """Before Spark starts. Raises BadOption, BadSchema and BadLake."""
    if existing_settings(plan.lake).format is LakeFormat.PARQUET:
        raise BadOption(
            "lake", "plain Parquet cannot replace rows: forget needs a lake of delta or iceberg"
        )
    if not plan.key.strip():
        raise BadOption("key", "it is empty")
    if plan.orphans < _AGE_MIN:
        raise BadOption("orphans", "running jobs need younger files: give 1h or more")
    check_key(columns_of(plan.lake), plan.column, "column")


def forget(spark: SparkSession, plan: ForgetPlan) -> ForgetReport:
    """Raises BadLake and QueryFailed."""
    lake = open_existing_lake(plan.lake)
    assert isinstance(lake, TableLake)
    rewritten = {
        suffix: until_accepted(lake.place, partial(_rewrite, spark, plan, suffix, table, {}))
        for suffix, table in lake.tables.items()
    }
    removed = lake.expire(timedelta(0)) + lake.remove_orphans(plan.orphans)
    return ForgetReport(
        [_scanned(spark, plan, suffix, lake, rewritten[suffix]) for suffix in lake.tables],
        removed,
    )


def _rewrite(
    spark: SparkSession,
    plan: ForgetPlan,
    suffix: str,
    table: LakeTable,
    searched: dict[str, RewrittenFile],
) -> list[RewrittenFile]:
    """`searched` are files of attempts before, which do not change: only others are read.

    Raises CommitRefused if another process was faster, BadLake and QueryFailed.
    """
    table.refresh()
    place = beside(plan.lake.absolute(), suffix)
    paths = [each.path for each in table.files()]
    work = partial(rewrite_without, place, plan.forgotten)
    found = run_tasks(spark, work, [path for path in paths if path not in searched])
    searched |= {each.path: each for each in found if each is not None}
    if None in found:
        raise CommitRefused(f"{place}: another process removed files meanwhile")
    changed = [searched[path] for path in paths if searched[path].removed]
    # Even if there is nothing to remove: a job that made newest rows from the earlier files is
    # refused, and makes them again.
    if changed or suffix == LATEST_SUFFIX:
        added = [each.file for each in changed if each.file is not None]
        table.rewrite(Rewrite([each.path for each in changed], added))
    return changed


def _scanned(
    spark: SparkSession,
    plan: ForgetPlan,
    suffix: str,
    lake: TableLake,
    rewritten: Sequence[RewrittenFile],
) -> ForgottenRows:
    """All files that are there now, whether the table lists them or not."""
    table = lake.tables[suffix]
    place = beside(lake.place, suffix)
    there = _data_files(Storage(place))
    table.refresh()
    listed = {each.path for each in table.files()}
    paths = sorted(listed.union(there))
    parts = [(path, path in listed) for path in paths]
    counts = run_tasks(spark, partial(_count, place, plan.forgotten), parts)
    found = dict(zip(paths, counts, strict=True))
    return ForgottenRows(
        table=_TABLE_NAMES[suffix],
        rows_removed=sum(each.removed for each in rewritten),
        files_rewritten=len(rewritten),
        files_scanned=len(paths),
        rows_left=sum(found[path] or 0 for path in listed),
        unlisted_files=sum(bool(found[path]) for path in found.keys() - listed),
        unsearched_files=sum(count is None for count in counts),
    )


def _count(place: LakePlace, forgotten: Forgotten, part: tuple[str, bool]) -> int | None:
    path, is_listed = part
    try:
        return count_rows(place, forgotten, path)
    except pa.ArrowInvalid:
        if is_listed:
            raise
        # Of a writer that was killed: it may have any rows.
        return 1
    except FileNotFoundError:
        # Replaced meanwhile by a process that removes files: there is nothing to read any more.
        return 0


def _data_files(storage: Storage) -> list[str]:
    """Relative to the place of the table."""
    selector = fs.FileSelector(storage.root, recursive=True, allow_not_found=True)
    paths = (
        each.path.removeprefix(f"{storage.root}/")
        for each in storage.filesystem.get_file_info(selector)
    )
    return [each for each in paths if each.startswith("topic=") and each.endswith(_DATA_SUFFIX)]
