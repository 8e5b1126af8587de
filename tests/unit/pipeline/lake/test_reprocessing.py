"""Rows of the quarantine become messages: each once, whatever is killed meanwhile."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pyarrow.dataset as ds
import pytest

from roquet.avro import AvroCodec
from roquet.pipeline.errors import PlanOutdated, SchemaChanged
from roquet.pipeline.lake import lake as lake_module
from roquet.pipeline.lake.entries import Reprocessed
from roquet.pipeline.lake.files import moving_path, rewritten_table_path, step_of
from roquet.pipeline.lake.lake import Lake, LakeRole
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import OpenLake, open_existing_lake, open_lake
from roquet.pipeline.lake.reprocessing import (
    Reread,
    Rereading,
    finish_steps,
    move_rows,
    reread,
)
from roquet.pipeline.lake.schemas.avro_bodies import fingerprint_of
from roquet.pipeline.lake.schemas.body_schema import (
    AvroSchema,
    BodySchema,
    Framing,
    read_body_schema,
)
from roquet.pipeline.lake.schemas.evolution import RULES, evolved
from roquet.pipeline.lake.schemas.written_bodies import decoder_of, reader_of
from roquet.pipeline.lake.table import Rewrite, TableLake
from roquet.pipeline.lake.table_offsets import ReprocessedRange, reprocessed_ranges
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import Found, compact_all, message_batch, staged_rows
from tests.support.table_judges import JUDGES, found_in
from tests.support.table_places import new_settings

FIRST = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
SECOND = FIRST.replace('"type": "long"', '"type": "long"}, {"name": "price", "type": "int"')
GARBAGE = b"garbage"
# One entry of the log of a Parquet lake moves the rows.
TABLES = pytest.mark.parametrize("lake", ["delta", "iceberg"], indirect=True)
COUNT = 9


def schema_of(*schemas: str) -> BodySchema:
    """Of bodies that name their schema."""
    found = BodySchema("", Framing.AVRO)
    for each in schemas:
        writer = AvroSchema(each)
        found = found.with_writers({fingerprint_of(each): writer})
        columns = evolved(found.arrow, reader_of(writer).columns, RULES[LakeFormat.PARQUET])
        found = found.with_columns(columns)
    return found


NARROW, WIDE = schema_of(FIRST).text, schema_of(FIRST, SECOND).text


def body(number: int) -> bytes:
    """By offset: of the first schema, of the second, and of none."""
    if number % 3 == 2:
        return GARBAGE
    schema, value = (FIRST, {"id": number}), (SECOND, {"id": number, "price": 7})
    chosen, fields = value if number % 3 else schema
    return AvroCodec(dict, json.loads(chosen)).encode(fields)


def add(lake: OpenLake, queue_id: int, schema: str = NARROW, start: int = 0) -> None:
    offsets = range(start, start + COUNT)
    rows = message_batch(queue_id, offsets, bodies=[body(each) for each in offsets])
    lake.publish(staged_rows(lake, rows, decoder_of(read_body_schema(schema))), schema)


def held(*kinds: int, queues: int = 2) -> Found:
    """The messages of those kinds, each once."""
    numbers = [each for each in range(COUNT) if each % 3 in kinds]
    return Counter((queue_id, each) for queue_id in range(queues) for each in numbers)


@pytest.fixture(params=["parquet", "delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> OpenLake:
    settings = (
        LakeSettings(file_rows_max=100)
        if request.param == "parquet"
        else new_settings(request.param)
    )
    with open_lake(tmp_path / "lake", settings) as opened:
        add(opened, 0)
        add(opened, 1)
    return open_existing_lake(tmp_path / "lake", LakeRole.REPROCESSOR)


def again(lake: OpenLake) -> OpenLake:
    """By a new process, after another one was killed."""
    if isinstance(lake, Lake):
        lake.close()
    return open_existing_lake(lake.place, LakeRole.REPROCESSOR)


def read_again(lake: OpenLake, schema: str = WIDE) -> list[Reread]:
    step = uuid4().hex if isinstance(lake, TableLake) else None
    work = Rereading(lake.staging, schema, step)
    found = [reread(work, file.path) for file in lake.quarantined_files()]
    return [each for each in found if each is not None]


def moved_in(found: list[Reread]) -> list[Reprocessed]:
    return [each.moved for each in found if each.moved is not None]


def move(lake: OpenLake, found: list[Reread], schema: str = WIDE, seen: str = NARROW) -> None:
    if isinstance(lake, TableLake):
        move_rows(lake, moved_in(found), schema, seen)
    else:
        assert isinstance(lake, Lake)
        lake.reprocess(moved_in(found), schema, seen)


def reprocess(lake: OpenLake) -> None:
    """As a whole job does it."""
    if isinstance(lake, TableLake):
        finish_steps(lake)
    found = read_again(lake)
    if moved_in(found):
        move(lake, found)


def messages(lake: OpenLake) -> Found:
    assert isinstance(lake.place, Path)
    return _found(lake, lake.place, JUDGES.get(lake.settings.format, None), "rows")


def quarantined(lake: OpenLake) -> Found:
    assert isinstance(lake.place, Path)
    place = lake.place.with_name("lake-quarantine")
    return _found(lake, place, JUDGES.get(lake.settings.format, None), "quarantined_rows")


def _found(lake: OpenLake, plain: Path, judge: object, rows: str) -> Found:
    if judge is not None:
        return found_in(getattr(judge, rows)(lake.place))
    return found_in(ds.dataset(plain, format="parquet", partitioning="hive").to_table())


def test_rows_that_the_schema_reads_now_are_messages_and_the_others_stay(lake: OpenLake) -> None:
    assert (messages(lake), quarantined(lake)) == (held(0), held(1, 2))
    found = read_again(lake)
    assert [(each.rows, moved.good.rows) for each in found for moved in moved_in([each])] == [
        (6, 3),
        (6, 3),
    ]
    move(lake, found)
    assert (messages(lake), quarantined(lake)) == (held(0, 1), held(2))
    totals = again(lake).totals()
    assert (totals.messages, totals.quarantined) == (12, 6)
    assert not again(lake).missing([QueueRange(QUEUE, 0, COUNT)], {}).wanted


def test_columns_that_are_new_come_with_the_rows(lake: OpenLake) -> None:
    reprocess(lake)
    assert again(lake).state.body_schema == WIDE
    assert isinstance(lake.place, Path)
    if lake.settings.format is LakeFormat.PARQUET:
        files = ds.dataset(lake.place, schema=None, format="parquet").files
        rows = [row for each in files for row in ds.dataset(each).to_table().to_pylist()]
    else:
        rows = JUDGES[lake.settings.format].rows(lake.place).to_pylist()
    prices = {(row["queueId"], row["queueOffset"]): row.get("price") for row in rows}
    expected = {place: 7 if place[1] % 3 else None for place in held(0, 1)}
    assert prices == expected


def test_rows_that_it_does_not_read_leave_no_files_behind(lake: OpenLake) -> None:
    assert isinstance(lake.place, Path)
    reprocess(lake)
    before = sorted(lake.place.parent.rglob("*.*"))
    found = read_again(lake)
    assert not moved_in(found)
    assert sum(each.rows for each in found) == 6
    assert sorted(lake.place.parent.rglob("*.*")) == before


@TABLES
@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_job_that_is_killed_at_a_commit_is_repeated(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch, step: int, is_before: bool
) -> None:
    """Those of a table: the rows are set apart, columns (refused), columns, the rows leave."""
    assert isinstance(lake, TableLake)
    table = type(lake.table)
    rewrite = table.rewrite
    done = 0

    def killed(self: object, wanted: Rewrite) -> int:
        nonlocal done
        done += 1
        if done == step and is_before:
            raise KeyboardInterrupt
        try:
            return rewrite(self, wanted)  # type: ignore[arg-type]
        finally:
            if done == step:
                raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(table, "rewrite", killed)
        with pytest.raises(KeyboardInterrupt):
            reprocess(lake)
    missing = held(0, 1, 2) - messages(lake) - quarantined(lake)
    assert not missing
    reprocess(again(lake))
    assert (messages(lake), quarantined(lake)) == (held(0, 1), held(2))


@pytest.mark.parametrize("step", ["_move", "_replace", "exchange_directories"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_parquet_lake_completes_what_a_killed_job_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=100)) as writer:
        add(writer, 0)
        add(writer, 1)
    killed = Lake.open_existing(tmp_path / "lake", LakeRole.REPROCESSOR)
    found = read_again(killed)
    act: Callable[..., None] = getattr(lake_module, step)
    done = 0

    def at(*arguments: object) -> None:
        nonlocal done
        done += 1
        if done == number:
            raise KeyboardInterrupt
        act(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(lake_module, step, at)
        # Both files are of one directory.
        expected = 1 if step != "_move" else 3
        if number <= expected:
            with pytest.raises(KeyboardInterrupt):
                move(killed, found)
        else:
            move(killed, found)
    # Its process ended: locks are gone, and nothing was tidied up.
    os.close(killed._lock)
    with Lake.open_existing(tmp_path / "lake") as opened:
        assert (messages(opened), quarantined(opened)) == (held(0, 1), held(2))
        assert opened.totals().quarantined == 6


@TABLES
def test_a_step_that_another_job_abandoned_adds_nothing(
    lake: OpenLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(lake, TableLake)
    found = read_again(lake)
    other = again(lake)
    table = type(lake.table)
    rewrite = table.rewrite

    def set_apart_and_overtaken(self: object, wanted: Rewrite) -> int:
        monkeypatch.setattr(table, "rewrite", rewrite)
        number = rewrite(self, wanted)  # type: ignore[arg-type]
        reprocess(other)
        return number

    monkeypatch.setattr(table, "rewrite", set_apart_and_overtaken)
    with pytest.raises(PlanOutdated):
        move(lake, found)
    assert (messages(lake), quarantined(lake)) == (held(0, 1), held(2))


def test_a_writer_that_commits_meanwhile_loses_nothing(lake: OpenLake) -> None:
    found = read_again(lake)
    with open_existing_lake(lake.place) as writer:
        add(writer, 2)
        if isinstance(lake, TableLake):
            compact_all(writer)
        move(lake, found)
        add(writer, 2, WIDE, start=COUNT)
    late = {kind: [each for each in range(2 * COUNT) if each % 3 == kind] for kind in range(3)}
    read = [*late[0], *(each for each in late[1] if each >= COUNT)]
    assert messages(lake) - held(0, 1) == Counter((2, each) for each in read)
    assert quarantined(lake)[2, 1] == 1


def test_a_schema_that_another_job_has_changed_is_not_overwritten(lake: OpenLake) -> None:
    found = read_again(lake)
    with open_existing_lake(lake.place) as writer:
        other = schema_of(FIRST.replace("id", "other")).with_columns(schema_of(FIRST).arrow)
        pieces = staged_rows(writer, message_batch(2, range(2)))
        writer.publish(pieces, other.text, NARROW)
    with pytest.raises(SchemaChanged):
        move(lake, found)
    assert quarantined(lake) == held(1, 2)
    assert again(lake).state.body_schema == other.text


def test_a_file_of_a_step_that_is_written_again_is_of_the_step_still() -> None:
    """`forget` does that, and the rows of a completed step must not stay."""
    path = moving_path("topic=orders/dt=2026-11-16/hour=12", uuid4().hex)
    again = rewritten_table_path(path)
    assert again != path
    assert step_of(again) == step_of(path) is not None
    assert step_of(path.replace("moving-", "moving-0-")) is None


def test_a_step_is_known_by_the_name_of_its_rows() -> None:
    found = ReprocessedRange("orders", uuid4().hex, 3, 10, 20)
    assert reprocessed_ranges({found.name: found.end, "orders@broker-a@0": 7}) == {found}
