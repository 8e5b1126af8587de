"""The rows of a key leave all tables of a lake, and all files, by a real Spark."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs import compact as compact_job, forget as job
from roquet.pipeline.jobs.compact import CompactPlan, compact
from roquet.pipeline.jobs.forget import ForgetPlan, ForgetReport, check_forget, forget
from roquet.pipeline.jobs.latest import LatestRows
from roquet.pipeline.lake.forgetting import rewrite_without
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.opening import open_existing_lake, open_lake
from roquet.pipeline.lake.table import Rewrite, TableLake
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queries import run_tasks
from tests.support.gates import few
from tests.support.keyed_messages import add_keyed
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import NOON, compact_all, message_batch, staged_rows
from tests.support.table_judges import JUDGES
from tests.support.table_places import new_settings

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("spark")]

COLUMNS = JsonColumns("id bigint")


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> TableLake:
    """Rows of `ann` and `bob`, compacted and not, one in quarantine, and the newest of them."""
    opened = open_lake(tmp_path / "lake", new_settings(request.param))
    assert isinstance(opened, TableLake)
    add_keyed(opened, 0, 0, "ann", "bob x", decoder=COLUMNS)
    add_keyed(opened, 0, 2, "y ann", "bob", decoder=COLUMNS)
    compact_all(opened)
    add_keyed(opened, 1, 0, "ann", "ann z", "bob", "anna", decoder=COLUMNS, bad=1)
    latest = LatestRows(spark, opened, "keys")
    latest.update()
    return open_again(opened)


def open_again(lake: TableLake) -> TableLake:
    found = open_existing_lake(lake.place)
    assert isinstance(found, TableLake)
    return found


def keys_in_files(lake: TableLake) -> list[str]:
    """Of every Parquet file that is there."""
    assert isinstance(lake.place, Path)
    files = lake.place.parent.rglob("topic=*/**/*.parquet")
    return sorted(key for each in files for key in pq.read_table(each)["keys"].to_pylist())


def removed(report: ForgetReport) -> dict[str, int]:
    return {each.table: each.rows_removed for each in report.tables}


def test_no_file_has_the_rows_and_ingest_does_not_bring_them_back(
    spark: SparkSession, lake: TableLake
) -> None:
    assert isinstance(lake.place, Path)
    report = forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert report.is_complete
    assert removed(report) == {"messages": 3, "quarantine": 1, "latest": 2}
    assert [each.rows_left for each in report.tables] == [0, 0, 0]
    assert not any("ann" in key.split() for key in keys_in_files(lake))
    rows = JUDGES[lake.settings.format].rows(lake.place)
    assert sorted(rows["keys"].to_pylist()) == ["anna", "bob", "bob", "bob x"]
    assert not open_again(lake).missing([QueueRange(QUEUE, 0, 4)], {}).wanted
    again = forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert again.is_complete
    assert sum(removed(again).values()) == 0


@pytest.mark.full("what the test above does with keys, with a column")
def test_a_key_may_be_in_a_column_of_bodies(spark: SparkSession, lake: TableLake) -> None:
    report = forget(spark, ForgetPlan(lake=lake.place, key="3", column="id"))
    assert removed(report) == {"messages": 2, "quarantine": 0, "latest": 2}
    assert [each.unsearched_files for each in report.tables] == [0, 1, 0]
    assert report.is_complete


def test_what_others_commit_meanwhile_stays_and_is_searched(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = type(lake.table)
    rewrite = table.rewrite

    def overtaken(self: object, step: Rewrite) -> int:
        monkeypatch.setattr(table, "rewrite", rewrite)
        add_keyed(lake, 1, 4, "ann", "carl", decoder=COLUMNS)
        compact_all(open_again(lake))
        return rewrite(self, step)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "rewrite", overtaken)
    report = forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert report.is_complete
    assert removed(report)["messages"] == 4
    assert not any("ann" in key.split() for key in keys_in_files(lake))
    rows = JUDGES[lake.settings.format].rows(lake.place)
    assert "carl" in rows["keys"].to_pylist()


def test_a_compactor_continues_without_the_files_that_are_removed_meanwhile(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are planned, then rewritten, and removed at once."""

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(compact_job, "run_tasks", run_tasks)
        assert forget(spark, ForgetPlan(lake=lake.place, key="ann")).is_complete
        return run_tasks(*arguments)

    monkeypatch.setattr(compact_job, "run_tasks", overtaken)
    plan = CompactPlan(lake=lake.place, now=NOON + timedelta(days=9))
    report = compact(spark, plan)
    assert report.is_complete
    assert (report.files_before, report.files_after, report.lake_files) == (2, 1, 1)
    rows = JUDGES[lake.settings.format].rows(lake.place)
    assert sorted(rows["keys"].to_pylist()) == ["anna", "bob", "bob", "bob x"]


def test_a_file_that_a_table_lists_and_that_is_gone_is_reported(
    spark: SparkSession, lake: TableLake
) -> None:
    assert isinstance(lake.place, Path)
    (lake.place / lake.files()[0].path).unlink()
    with pytest.raises(BadLake, match="is missing: the lake lists it"):
        compact(spark, CompactPlan(lake=lake.place, now=NOON + timedelta(days=9)))


def test_files_are_searched_once_though_others_commit_all_the_time(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would never be faster than a job that commits each second."""
    searched: list[str] = []

    def busy(session: SparkSession, work: Any, paths: Sequence[Any]) -> Any:
        found = run_tasks(session, work, paths)
        if work.func is rewrite_without and len(searched) < 9:
            searched.extend(paths)
            add_keyed(lake, 5, len(searched), "ann", decoder=COLUMNS)
        return found

    monkeypatch.setattr(job, "run_tasks", busy)
    report = forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert report.is_complete
    assert len(searched) == len(set(searched)) == 9


@pytest.mark.parametrize("step", few([2, 1, 3, 4], 1, "the same at other steps"))
def test_a_job_that_was_killed_is_repeated(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """After each commit, and before files are removed."""
    table = type(lake.table)
    rewrite = table.rewrite
    done = 0

    def killed(self: object, *arguments: Rewrite) -> int:
        nonlocal done
        number = rewrite(self, *arguments)  # type: ignore[arg-type]
        done += 1
        if done == step:
            raise KeyboardInterrupt
        return number

    def killed_before_expiry(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table, "rewrite", killed)
        if step > 3:
            patched.setattr(TableLake, "expire", killed_before_expiry)
        with pytest.raises(KeyboardInterrupt):
            forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert forget(spark, ForgetPlan(lake=lake.place, key="ann")).is_complete
    assert not any("ann" in key.split() for key in keys_in_files(lake))


def test_newest_rows_made_of_what_was_there_before_are_made_again(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step read the rows, then they were forgotten, then it commits."""
    add_keyed(lake, 2, 0, "ann", "carl", decoder=COLUMNS)
    latest = LatestRows(spark, lake, "keys")
    table = type(lake.table)
    rewrite = table.rewrite

    def overtaken(self: object, step: Rewrite) -> int:
        monkeypatch.setattr(table, "rewrite", rewrite)
        assert forget(spark, ForgetPlan(lake=lake.place, key="ann")).tables[0].rows_removed == 4
        return rewrite(self, step)  # type: ignore[arg-type]

    monkeypatch.setattr(table, "rewrite", overtaken)
    latest.update()
    assert forget(spark, ForgetPlan(lake=lake.place, key="ann")).tables[2].rows_removed == 0
    assert open_again(lake).latest is not None


def test_files_of_a_running_job_are_named_and_old_ones_removed(
    spark: SparkSession, lake: TableLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_keyed(lake, 2, 0, "ann", decoder=COLUMNS, publish=False)
    report = forget(spark, ForgetPlan(lake=lake.place, key="ann"))
    assert not report.is_complete
    assert [each.unlisted_files for each in report.tables] == [1, 0, 0]
    monkeypatch.setattr(job, "_AGE_MIN", timedelta(0))
    plan = ForgetPlan(lake=lake.place, key="ann", orphans=timedelta(0))
    check_forget(plan)
    assert forget(spark, plan).is_complete
    assert not any("ann" in key.split() for key in keys_in_files(lake))


def test_what_cannot_be_forgotten_is_refused_before_spark_starts(
    lake: TableLake, tmp_path: Path
) -> None:
    for key, column in ((" ", "keys"), ("ann", "missing")):
        with pytest.raises(BadOption):
            check_forget(ForgetPlan(lake=lake.place, key=key, column=column))
    with pytest.raises(BadOption, match="running jobs"):
        check_forget(ForgetPlan(lake=lake.place, key="ann", orphans=timedelta(0)))
    plain = open_lake(tmp_path / "plain", LakeSettings())
    plain.publish(staged_rows(plain, message_batch(0, range(2))))
    assert isinstance(plain.place, Path)
    with pytest.raises(BadOption, match="plain Parquet"):
        check_forget(ForgetPlan(lake=plain.place, key="ann"))
