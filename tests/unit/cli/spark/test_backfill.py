"""`roquet spark backfill` as a person sees it, as far as it comes without Spark."""

import json
from pathlib import Path

import pytest

from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.command_line import Finished, roquet
from tests.support.drafts import draft
from tests.support.lake_rows import found_by_arrow
from tests.support.stores import opened
from tests.support.tasks_here import run_tasks_here


def backfill(directory: Path, *more: str) -> Finished:
    places = (directory / "store", "--lake", directory / "lake")
    return roquet("spark", "backfill", *places, "--topic", "TopicA", *more)


def failed(finished: Finished) -> str:
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    return finished.stderr


def test_a_directory_that_is_no_store_is_told_before_spark_starts(tmp_path: Path) -> None:
    assert "store" in failed(backfill(tmp_path, "--broker-name", "a"))
    assert not (tmp_path / "lake").exists()


def test_a_topic_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.append(draft(b"x", topic="TopicB"))
    assert "there are: TopicB" in failed(backfill(tmp_path, "--broker-name", "a"))


def test_the_name_of_the_broker_is_asked_for_where_nobody_knows_it(tmp_path: Path) -> None:
    with opened(tmp_path / "store") as store:
        store.append(draft(b"x", topic="TopicA"))
    assert "give --broker-name" in failed(backfill(tmp_path))
    assert not (tmp_path / "lake").exists()


def test_columns_that_cannot_be_are_told_before_spark_starts(tmp_path: Path) -> None:
    assert "no type 'text'" in failed(backfill(tmp_path, "--json-schema", "name text"))


def test_a_lake_with_a_choice_of_messages_is_refused(tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", LakeSettings(tag_expression="paid")).close()
    assert "has a choice of messages" in failed(backfill(tmp_path))


def test_what_was_added_is_summed_up_and_nothing_is_added_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tasks_here(monkeypatch, "backfill")
    with opened(tmp_path / "store") as store:
        for number in range(9):
            store.append(draft(b"%d" % number, topic="TopicA", queue_id=number % 3))
    first = backfill(tmp_path, "--broker-name", "a", "--json")
    assert first.exit_code == 0, first.stderr
    summary = json.loads(first.stdout)
    assert (summary["messages"], summary["missing"], summary["is_complete"]) == (9, 0, True)
    assert "9 of 9 messages" in first.stderr
    # The lake knows the broker by now.
    second = backfill(tmp_path, "--json")
    assert json.loads(second.stdout)["messages"] == 0
    assert len(found_by_arrow(tmp_path / "lake")) == 9
