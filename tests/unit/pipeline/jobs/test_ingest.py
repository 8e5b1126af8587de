"""What is refused before Spark is started."""

import json
from pathlib import Path

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs.ingest import IngestPlan, bind_checkpoint, check_plan, reported_lag
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.queue_offsets import StreamOffset
from roquet.protocol.record_columns import PropertiesForm

FIRST, SECOND = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def plan(lake: Path, **more: str) -> IngestPlan:
    source = {"nameServer": "localhost:9876", "topic": "orders", **more}
    return IngestPlan(source=source, lake=lake, checkpoint=lake.with_name("checkpoint"))


def test_a_new_lake_has_properties_as_a_map(tmp_path: Path) -> None:
    assert check_plan(plan(tmp_path / "lake")).properties is PropertiesForm.MAP


def test_a_lake_that_is_there_keeps_its_form_if_none_is_named(tmp_path: Path) -> None:
    made = check_plan(plan(tmp_path / "lake", properties="string"))
    Lake.open(tmp_path / "lake", made).close()
    assert check_plan(plan(tmp_path / "lake")).properties is PropertiesForm.STRING


@pytest.mark.parametrize("more", [{"properties": "none"}, {"tagExpression": "paid"}])
def test_another_form_or_choice_of_messages_is_refused(
    tmp_path: Path, more: dict[str, str]
) -> None:
    Lake.open(tmp_path / "lake", check_plan(plan(tmp_path / "lake"))).close()
    with pytest.raises(BadLake, match="use the same, or another lake"):
        check_plan(plan(tmp_path / "lake", **more))


def test_a_bad_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="startingOffsets"):
        check_plan(plan(tmp_path / "lake", startingOffsets="soon"))


def test_a_checkpoint_serves_the_lake_it_was_made_for_again_and_again(tmp_path: Path) -> None:
    for _ in range(2):
        bind_checkpoint(tmp_path / "checkpoint", tmp_path, "first")


def test_a_checkpoint_of_another_lake_is_refused(tmp_path: Path) -> None:
    bind_checkpoint(tmp_path, tmp_path, "first")
    with pytest.raises(BadLake, match="does not belong"):
        bind_checkpoint(tmp_path, tmp_path, "second")


def test_a_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(BadLake, match="does not belong"):
        bind_checkpoint(tmp_path, tmp_path, "first")


def offset_text(offset: StreamOffset | None) -> str | None:
    return None if offset is None else json.dumps(offset.to_json())


def lag(end: StreamOffset | None, latest: StreamOffset | None) -> int | None:
    return reported_lag(
        {"sources": [{"endOffset": offset_text(end), "latestOffset": offset_text(latest)}]}
    )


def test_lag_is_what_is_there_and_was_not_read() -> None:
    latest = StreamOffset({FIRST: 10, SECOND: 5})
    assert lag(StreamOffset({FIRST: 7, SECOND: 5}), latest) == 3
    assert lag(latest, latest) == 0


def test_a_queue_that_went_back_does_not_hide_others() -> None:
    assert lag(StreamOffset({FIRST: 9, SECOND: 1}), StreamOffset({FIRST: 2, SECOND: 5})) == 4


def test_what_is_not_reported_is_unknown() -> None:
    assert lag(StreamOffset({FIRST: 7}), None) is None
    assert lag(None, StreamOffset({FIRST: 7})) is None
    assert reported_lag({"sources": []}) is None
    end = offset_text(StreamOffset({FIRST: 7}))
    assert reported_lag({"sources": [{"endOffset": end, "latestOffset": "null"}]}) is None
