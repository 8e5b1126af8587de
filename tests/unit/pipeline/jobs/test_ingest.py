"""What is refused before Spark is started."""

from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs.ingest import IngestPlan, bind_checkpoint, check_plan
from roquet.pipeline.lake.lake import Lake
from roquet.protocol.record_columns import PropertiesForm


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
