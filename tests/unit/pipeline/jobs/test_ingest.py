"""What is refused before Spark is started."""

from pathlib import Path

import pytest

from roquet.pipeline.errors import BadLake, BadOption
from roquet.pipeline.jobs.ingest import IngestPlan, check_plan
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
    with pytest.raises(BadLake, match="was made with"):
        check_plan(plan(tmp_path / "lake", **more))


def test_a_bad_option_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="startingOffsets"):
        check_plan(plan(tmp_path / "lake", startingOffsets="soon"))
