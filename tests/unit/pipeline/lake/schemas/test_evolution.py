"""The columns of a lake become what its format allows, and nothing else."""

import pyarrow as pa
import pytest

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl, write_ddl
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.schemas.evolution import (
    RULES,
    check_evolution,
    evolved,
    unfit_field,
)


@pytest.mark.parametrize(
    ("before", "found", "after"),
    [
        ("a int", "b string", dict.fromkeys(LakeFormat, "a int, b string")),
        ("a int", "A string", dict.fromkeys(LakeFormat, "a int")),
        (
            "a int, f float, d decimal(5,2), l bigint",
            "a bigint, f double, d decimal(9,2), l int",
            {
                LakeFormat.DELTA: "a int, f float, d decimal(5,2), l bigint",
                LakeFormat.ICEBERG: "a bigint, f double, d decimal(9,2), l bigint",
            },
        ),
        ("d decimal(5,2)", "d decimal(9,3)", {LakeFormat.ICEBERG: "d decimal(5,2)"}),
        ("a int", "a string", {LakeFormat.ICEBERG: "a int"}),
        (
            "s struct<x:int>",
            "s struct<y:string,x:bigint>",
            {
                LakeFormat.PARQUET: "s struct<x:int>",
                LakeFormat.DELTA: "s struct<x:int,y:string>",
                LakeFormat.ICEBERG: "s struct<x:bigint,y:string>",
            },
        ),
    ],
)
def test_columns_evolve_by_the_rules_of_the_format(
    before: str, found: str, after: dict[LakeFormat, str]
) -> None:
    for lake_format, expected in after.items():
        made = evolved(read_ddl(before), read_ddl(found), RULES[lake_format])
        assert write_ddl(made) == write_ddl(read_ddl(expected)), lake_format


def test_columns_that_are_asked_for_may_be_more_or_wider_and_nothing_else() -> None:
    delta, iceberg = RULES[LakeFormat.DELTA], RULES[LakeFormat.ICEBERG]
    check_evolution(pa.schema([]), read_ddl("a int"), delta)
    check_evolution(read_ddl("a int"), read_ddl("b string, a int"), delta)
    check_evolution(read_ddl("a int"), read_ddl("a bigint"), iceberg)
    with pytest.raises(BadSchema, match="'a'"):
        check_evolution(read_ddl("a int"), read_ddl("b string"), iceberg)
    with pytest.raises(BadSchema, match=r"is int, not bigint.*iceberg"):
        check_evolution(read_ddl("a int"), read_ddl("a bigint"), delta)
    with pytest.raises(BadSchema, match="is bigint, not int"):
        check_evolution(read_ddl("a bigint"), read_ddl("a int"), iceberg)


@pytest.mark.parametrize(
    ("column", "found", "is_fit"),
    [
        ("int", "bigint", True),
        ("int", "double", False),
        ("double", "float", True),
        ("float", "double", False),
        ("decimal(5,2)", "decimal(9,4)", True),
        ("array<int>", "array<bigint>", True),
        ("array<int>", "int", False),
        ("map<string,int>", "map<string,string>", False),
        ("struct<x:int>", "struct<x:string>", False),
        ("struct<x:int>", "struct<y:string>", True),
        ("string", "binary", False),
    ],
)
def test_values_of_another_type_are_tried_if_they_may_fit(
    column: str, found: str, *, is_fit: bool
) -> None:
    unfit = unfit_field(read_ddl(f"c {column}"), read_ddl(f"c {found}, other int"))
    assert (unfit is None) == is_fit
