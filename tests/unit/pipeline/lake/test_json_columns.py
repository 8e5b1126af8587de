"""Bodies become columns, or go into quarantine with the reason; none is lost."""

import os
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from tests.support.killed_step import Killed, killed_at
from tests.support.lake_rows import found_by_arrow, message_batch, staged_rows


def decoded(ddl: str, *bodies: bytes) -> tuple[list[dict[str, object]], list[str]]:
    """What the columns of good bodies hold, and the reasons of the others."""
    columns = JsonColumns(ddl)
    result = columns.decode(message_batch(0, range(len(bodies)), bodies=bodies))
    assert result.good.num_rows + result.bad.num_rows == len(bodies)
    values = result.good.select(columns.schema.names).to_pylist(maps_as_pydicts="strict")
    return values, result.bad.column("reason").to_pylist()


def test_every_type_comes_out_as_it_went_in() -> None:
    values, reasons = decoded(
        "i int, l bigint, d double, s string, b binary, o boolean, day date, at timestamp,"
        " price decimal(5,2), a array<int>, m map<string,string>, n struct<`x y`:int>",
        b'{"i": 1, "l": 9007199254740993, "d": 2, "s": "\\u00e9", "b": "AQI=", "o": true,'
        b' "day": "2026-11-16", "at": "2026-11-16T12:00:00", "price": "1.25", "a": [1, null],'
        b' "m": {"k": "v"}, "n": {"x y": 5, "unknown": 6}, "ignored": 7}',
        b"{}",
    )
    assert not reasons
    assert values[0] == {
        "i": 1,
        "l": 9007199254740993,
        "d": 2.0,
        "s": "é",
        "b": b"\x01\x02",
        "o": True,
        "day": date(2026, 11, 16),
        "at": datetime(2026, 11, 16, 12, tzinfo=UTC),
        "price": Decimal("1.25"),
        "a": [1, None],
        "m": {"k": "v"},
        "n": {"x y": 5},
    }
    assert set(values[1].values()) == {None}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"i": 1', "truncated"),
        (b"", "truncated"),
        (b"[1]", "Expected `object`"),
        (b'{"i": "1"}', r"Expected `int \| null`, got `str` - at `\$.i`"),
        (b'{"i": 2147483648}', "<= 2147483647"),
        (b'{"s": "\xff"}', "utf-8|UTF-8"),
        (b'{"s": "\\ud800 and more"}', "surrogate"),
        (b'{"at": "yesterday"}', "RFC3339"),
        (b'{"price": "1234.5"}', "recision"),
        (b'{"price": "NaN"}', "NaN|decimal"),
        (b'{"price": "0.001"}', "scal|Scal"),
        pytest.param(b'{"other": ' + b"[" * 100_000, "nested too deep", id="deep"),
    ],
)
def test_a_body_that_does_not_fit_is_set_apart_with_its_reason(body: bytes, reason: str) -> None:
    values, reasons = decoded(
        "i int, s string, at timestamp, price decimal(5,2)", b'{"i": 1}', body, b'{"i": 2}'
    )
    assert [value["i"] for value in values] == [1, 2]
    [printed] = reasons
    assert re.search(reason, printed), printed


@pytest.mark.parametrize("name", ["Topic", "body", "hour", "reason"])
def test_names_that_messages_have_themselves_are_refused(name: str) -> None:
    with pytest.raises(BadSchema, match="already"):
        JsonColumns(f"{name} string")


@pytest.mark.slow
def test_bad_bodies_go_beside_the_lake_whole_and_are_there_once_after_any_kill(
    tmp_path: Path,
) -> None:
    columns = JsonColumns("i int")
    rows = message_batch(0, range(3), bodies=[b'{"i": 1}', b"{oops", b'{"i": 3}'])
    for step in range(1, 100):
        path = tmp_path / str(step) / "lake"
        lake = Lake.open(path, LakeSettings(file_rows_max=100))
        staged = staged_rows(lake, rows, columns)
        try:
            with killed_at(step):
                lake.publish(staged, columns.ddl)
        except Killed:
            os.close(lake._lock)
        else:
            lake.close()
            break
        with Lake.open_existing(path) as again:
            if not again.state.entry_number:
                again.publish(staged_rows(again, rows, columns), columns.ddl)
            assert again.state.body_schema == columns.ddl
            assert (again.state.row_count, again.state.quarantined_count) == (2, 1)
        assert found_by_arrow(path) == {(0, 0): 1, (0, 2): 1}
        [quarantined] = path.with_name("lake-quarantine").glob("topic=orders/**/*.parquet")
        [row] = pq.read_table(quarantined, partitioning=None).to_pylist()
        assert (row["queueOffset"], row["body"]) == (1, b"{oops")
        assert row["reason"]
    assert step > 3
