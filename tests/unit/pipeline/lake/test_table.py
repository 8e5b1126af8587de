"""Lakes that are tables of any format, in a directory and in S3: each message once."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

import msgspec
import pytest
from deltalake.table import TableAlterer
from pyiceberg.table import Transaction

from roquet.pipeline.errors import BadLake, BadSchema, PlanOutdated, SchemaChanged
from roquet.pipeline.lake import table as table_module
from roquet.pipeline.lake.compaction import planned_compactions, write_compaction
from roquet.pipeline.lake.delta_table import DeltaLakeTable
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.files import HIDDEN_PARTITIONING
from roquet.pipeline.lake.iceberg_table import IcebergLakeTable
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import (
    OpenLake,
    bodies_again,
    bodies_of,
    body_schema_of,
    format_of,
    open_existing_lake,
    open_lake,
    settings_of,
    state_of_lake,
)
from roquet.pipeline.lake.places import LakePlace, LakeStoreError, S3Location, Storage
from roquet.pipeline.lake.schemas.body_schema import BodySchema
from roquet.pipeline.lake.schemas.choosing import BodyOptions, LakeBodies
from roquet.pipeline.lake.table import CommitRefused, TableLake
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import QUEUE
from tests.support.lake_rows import (
    NOON,
    Found,
    compact_all,
    message_batch,
    publish_small_files,
    staged_rows,
)
from tests.support.raising import raises
from tests.support.s3_store import S3Store
from tests.support.table_judges import JUDGES, TableJudge, found_in
from tests.support.versitygw import versitygw_store

AnyTable = DeltaLakeTable | IcebergLakeTable


class Kind(NamedTuple):
    """A format, who judges it, and the class whose commits a test makes fail."""

    settings: LakeSettings
    judge: TableJudge
    table: type[AnyTable]

    def found(self, lake: LakePlace) -> Found:
        return found_in(self.judge.rows(lake))


DELTA = LakeSettings(file_rows_max=100, format=LakeFormat.DELTA)
ICEBERG = LakeSettings(
    file_rows_max=100, format=LakeFormat.ICEBERG, partitioning=HIDDEN_PARTITIONING
)
KINDS = [
    pytest.param(Kind(DELTA, JUDGES["delta"], DeltaLakeTable), id="delta"),
    pytest.param(Kind(ICEBERG, JUDGES["iceberg"], IcebergLakeTable), id="iceberg"),
]


@pytest.fixture(scope="module")
def store() -> Iterator[S3Store]:
    with S3Store() as started:
        yield started


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(
    params=["directory", pytest.param("s3", marks=pytest.mark.full("the same in an object store"))]
)
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> LakePlace:
    if request.param == "directory":
        return tmp_path / "lake"
    store: S3Store = request.getfixturevalue("store")
    store.use(monkeypatch)
    return store.location(uuid4().hex)


def catalog_for(kind: Kind, place: LakePlace, directory: Path) -> str | None:
    """In an object store, Iceberg needs one elsewhere."""
    if kind.settings.format is not LakeFormat.ICEBERG or isinstance(place, Path):
        return None
    return f"sqlite={directory / 'catalog.sqlite'}"


def open_in_store(kind: Kind, place: S3Location, directory: Path) -> OpenLake:
    return open_lake(place, kind.settings, catalog=catalog_for(kind, place, directory))


@pytest.fixture
def lake(kind: Kind, place: LakePlace, tmp_path: Path) -> OpenLake:
    return open_lake(place, kind.settings, catalog=catalog_for(kind, place, tmp_path))


def test_of_creators_at_once_one_wins_and_all_have_a_lake(
    kind: Kind, place: LakePlace, tmp_path: Path
) -> None:
    catalog = catalog_for(kind, place, tmp_path)
    with ThreadPoolExecutor(4) as pool:
        opening = [
            pool.submit(
                open_lake,
                place,
                msgspec.structs.replace(kind.settings, id=str(number)),
                catalog=catalog,
            )
            for number in range(4)
        ]
        lakes = [each.result() for each in opening]
    assert len({lake.settings.id for lake in lakes}) == 1


def test_what_was_committed_meanwhile_is_not_committed_again(lake: OpenLake, kind: Kind) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(3)))
    others = staged_rows(other, message_batch(0, range(3)))
    assert other.publish(others) is not None
    assert lake.publish(pieces) is None
    more = [*pieces, *staged_rows(lake, message_batch(0, range(3, 6)))]
    entry = lake.publish(more)
    assert entry is not None
    assert [each.start for each in entry.added] == [3]
    assert kind.found(lake.place) == Counter((0, offset) for offset in range(6))


def test_a_plan_of_which_another_writer_added_a_part_is_thrown_away(lake: OpenLake) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(6)))
    other.publish(staged_rows(other, message_batch(0, range(3))))
    with pytest.raises(PlanOutdated):
        lake.publish(pieces)
    missing = lake.missing([QueueRange(QUEUE, 0, 6)], {})
    assert [each.range[1:] for each in missing.wanted] == [(3, 6)]


def test_a_commit_between_reading_and_committing_is_noticed(
    lake: OpenLake, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = open_existing_lake(lake.place)
    pieces = staged_rows(lake, message_batch(0, range(3)))
    commit = kind.table.commit
    refusals: list[CommitRefused] = []

    def overtaken(table: AnyTable, *arguments: object) -> int:
        monkeypatch.setattr(kind.table, "commit", commit)
        other.publish(staged_rows(other, message_batch(0, range(3))))
        try:
            return table.commit(*arguments)  # type: ignore[arg-type]
        except CommitRefused as error:
            refusals.append(error)
            raise

    monkeypatch.setattr(kind.table, "commit", overtaken)
    assert lake.publish(pieces) is None
    assert len(refusals) == 1
    assert kind.found(lake.place) == Counter((0, offset) for offset in range(3))


def test_a_writer_whose_commits_are_always_refused_ends(
    lake: OpenLake, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_arguments: object) -> int:
        raise CommitRefused("again")

    monkeypatch.setattr(kind.table, "commit", refused)
    monkeypatch.setattr(table_module, "_RETRY_S", 0)
    with pytest.raises(BadLake, match="at once"):
        lake.publish(staged_rows(lake, message_batch(0, range(3))))


def test_writers_and_a_compactor_work_at_once(lake: OpenLake, kind: Kind) -> None:
    """Both writers want the same messages of one queue, and each its own of another."""

    def write(own_queue: int) -> None:
        writer = open_existing_lake(lake.place)
        for start in range(0, 24, 4):
            offsets = range(start, start + 4)
            shared = staged_rows(writer, message_batch(0, offsets))
            own = staged_rows(writer, message_batch(own_queue, offsets))
            writer.publish([*shared, *own])

    def compact() -> None:
        for _ in range(4):
            compactor = open_existing_lake(lake.place)
            assert isinstance(compactor, TableLake)
            compact_all(compactor)
            compactor.expire(timedelta(0))
            compactor.remove_orphans(timedelta(hours=1))

    with ThreadPoolExecutor(3) as pool:
        for each in (pool.submit(write, 1), pool.submit(write, 2), pool.submit(compact)):
            each.result()
    compact_all(lake)
    assert kind.found(lake.place) == Counter(
        (queue, offset) for queue in range(3) for offset in range(24)
    )
    assert lake.totals().files == 1


def test_files_that_another_compacted_are_not_compacted_again(lake: OpenLake, kind: Kind) -> None:
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    [planned] = planned_compactions(lake.files(), NOON + timedelta(days=1), 1 << 30)
    made = [write_compaction(lake.staging, planned, (1, number)) for number in range(2)]
    assert lake.compact(made[:1]).compacted
    assert not lake.compact(made[1:]).compacted
    assert kind.found(lake.place) == sent


def test_a_compaction_between_reading_and_compacting_is_noticed(
    lake: OpenLake, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    [planned] = planned_compactions(lake.files(), NOON + timedelta(days=1), 1 << 30)
    made = [write_compaction(lake.staging, planned, (1, number)) for number in range(2)]
    other = open_existing_lake(lake.place)
    replace = kind.table.replace

    def overtaken(table: AnyTable, *arguments: object) -> int:
        monkeypatch.setattr(kind.table, "replace", replace)
        assert other.compact(made[:1]).compacted
        return table.replace(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kind.table, "replace", overtaken)
    assert not lake.compact(made[1:]).compacted
    assert kind.found(lake.place) == sent


def test_columns_of_bodies_are_added_to_the_table(lake: OpenLake, kind: Kind) -> None:
    lake.publish(staged_rows(lake, message_batch(0, [0])))
    columns = JsonColumns("price int, who struct<name:string>")
    body = b'{"price": 5, "who": {"name": "x"}}'
    later = message_batch(0, [1], bodies=[body])
    lake.publish(staged_rows(lake, later, columns), columns.ddl)
    table = kind.judge.rows(lake.place).sort_by("queueOffset")
    assert table["price"].to_pylist() == [None, 5]
    assert table["who"].to_pylist() == [None, {"name": "x"}]
    kept = body_schema_of(lake.place, lake.settings.format, BodyOptions())
    assert kept == BodySchema(columns.ddl)


def test_jobs_of_two_schemas_evolve_the_table_and_overwrite_nothing(
    lake: OpenLake, kind: Kind
) -> None:
    """Both started when the table had no columns."""
    first = bodies_of(lake, BodyOptions(json_schema="id bigint"))
    second = bodies_of(lake, BodyOptions(json_schema="id bigint, what string"))
    other = open_existing_lake(lake.place)
    add_decoded(other, second, 0)
    with pytest.raises(SchemaChanged):
        add_decoded(lake, first, 1)
    assert state_of_lake(lake.place).body_schema == second.text
    # As it was given, it cannot be followed; without options, the job goes on as the lake has it.
    again = partial(bodies_again, lake.place, kind.settings.format)
    with pytest.raises(BadSchema, match=r"'what'.*columns can be added, not removed"):
        again(BodyOptions(json_schema="id bigint"))
    with pytest.raises(BadLake, match="by json, and this one by registry"):
        again(BodyOptions(registry="http://127.0.0.1:1"))
    first.adopt(again(BodyOptions()))
    add_decoded(lake, first, 1)
    first.adopt(again(BodyOptions(json_schema="id bigint, what string, price int")))
    add_decoded(lake, first, 2)
    with pytest.raises(SchemaChanged):
        add_decoded(other, second, 3)
    second.adopt(again(BodyOptions()))
    add_decoded(other, second, 3)
    rows = kind.judge.rows(lake.place).sort_by("queueOffset")
    assert rows["id"].to_pylist() == [0, 1, 2, 3]
    assert {"what", "price"} <= set(rows.schema.names)


def add_decoded(lake: OpenLake, bodies: LakeBodies, offset: int) -> None:
    assert bodies.text is not None
    rows = message_batch(0, [offset], bodies=[b'{"id": %d}' % offset])
    pieces = staged_rows(lake, rows, JsonColumns(bodies.text))
    lake.publish(pieces, bodies.text, bodies.seen)
    bodies.note_stored()


def test_a_writer_that_is_killed_while_it_adds_columns_is_repeated(
    lake: OpenLake, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = bodies_of(lake, BodyOptions(json_schema="id bigint"))
    owner, name = (
        (TableAlterer, "set_table_properties")
        if kind.table is DeltaLakeTable
        else (Transaction, "commit_transaction")
    )
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killed)
        with pytest.raises(KeyboardInterrupt):
            add_decoded(lake, bodies, 0)
    add_decoded(open_existing_lake(lake.place), bodies, 0)
    assert kind.judge.rows(lake.place)["id"].to_pylist() == [0]


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_what_cannot_be_decoded_is_set_apart_once_though_a_driver_is_killed(
    lake: OpenLake, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = JsonColumns("price int")
    rows = message_batch(0, range(4), bodies=[b"{}", b"no", b"{}", b"no"])
    commit = kind.table.commit

    def killed(table: AnyTable, *arguments: object) -> int:
        commit(table, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kind.table, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            lake.publish(staged_rows(lake, rows.slice(0, 3), columns), columns.ddl)
    assert not kind.found(lake.place)
    again = open_existing_lake(lake.place)
    missing = again.missing([QueueRange(QUEUE, 0, 4)], {})
    assert [each.range[1:] for each in missing.wanted] == [(0, 3), (3, 4)]
    with pytest.raises(PlanOutdated):
        again.publish(staged_rows(again, rows, columns), columns.ddl)
    for _, start, end in (each.range for each in missing.wanted):
        part = staged_rows(again, rows.slice(start, end - start), columns)
        again.publish(part, columns.ddl)
    assert kind.found(lake.place) == Counter([(0, 0), (0, 2)])
    assert found_in(kind.judge.quarantined_rows(lake.place)) == Counter([(0, 1), (0, 3)])
    assert again.totals() == (2, 1, 2)


def test_a_topic_created_again_is_another_generation(lake: OpenLake) -> None:
    first, later = QueueIncarnation(0, 1000), QueueIncarnation(0, 2000)
    [made] = staged_rows(lake, message_batch(0, range(3)))
    lake.publish([msgspec.structs.replace(made, incarnation=first)])
    again = open_existing_lake(lake.place)
    assert not again.missing([QueueRange(QUEUE, 0, 3)], {QUEUE: first}).wanted
    missing = again.missing([QueueRange(QUEUE, 0, 3)], {QUEUE: later})
    assert missing.recreated == [QUEUE]
    assert [each.generation for each in missing.wanted] == [1]


def test_a_file_that_is_not_there_is_not_committed(lake: OpenLake, kind: Kind) -> None:
    pieces = staged_rows(lake, message_batch(0, range(3)))
    storage = Storage(lake.place)
    storage.filesystem.delete_file(storage.path(pieces[0].path))
    with pytest.raises(BadLake, match="missing or incomplete"):
        lake.publish(pieces)
    assert not kind.found(lake.place)


def test_a_lake_stays_what_it_is(lake: OpenLake, kind: Kind) -> None:
    assert format_of(lake.place, None) is kind.settings.format
    found = settings_of(lake.place)
    assert found == lake.settings
    assert open_lake(lake.place, LakeSettings(format=kind.settings.format)).settings == found


def test_files_that_were_compacted_or_left_behind_are_removed(kind: Kind, lake: OpenLake) -> None:
    assert isinstance(lake, TableLake)
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    compact_all(lake)
    staged_rows(lake, message_batch(0, range(50, 60)))
    assert lake.remove_orphans(timedelta(hours=1)) == 0
    assert lake.expire(timedelta(0)) == 4
    assert lake.remove_orphans(timedelta(0)) == 1
    assert kind.found(lake.place) == sent
    assert open_existing_lake(lake.place).state.covered(QUEUE) == [(0, 4)]


def test_files_that_another_writer_committed_meanwhile_are_no_orphans(
    lake: OpenLake, kind: Kind
) -> None:
    assert isinstance(lake, TableLake)
    lake.files()
    other = open_existing_lake(lake.place)
    other.publish(staged_rows(other, message_batch(0, range(3))))
    assert lake.remove_orphans(timedelta(0)) == 0
    assert kind.found(lake.place) == Counter((0, offset) for offset in range(3))


# What is wrong in S3.


def test_a_lake_in_s3_is_filled_and_compacted(
    kind: Kind, store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    lake = open_in_store(kind, store.location(uuid4().hex), tmp_path)
    sent = publish_small_files(lake, hours=1, files=2, rows=2)
    compact_all(lake)
    assert kind.found(lake.place) == sent
    assert open_existing_lake(lake.place).state.covered(QUEUE) == [(0, 4)]


def test_a_missing_bucket_is_reported(
    kind: Kind, store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.use(monkeypatch)
    with raises(LakeStoreError, code="NoSuchBucket"):
        open_in_store(kind, S3Location("missing", "lake"), tmp_path)


@pytest.mark.full("waits between attempts")
def test_a_busy_store_is_asked_again(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with S3Store("--busy", "5") as busy:
        busy.use(monkeypatch)
        lake = open_in_store(kind, busy.location("lake"), tmp_path)
        sent = publish_small_files(lake, hours=1, files=2, rows=2)
        assert kind.found(lake.place) == sent


@pytest.mark.full("compiles a Go program, once")
def test_wrong_keys_are_refused(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with versitygw_store(tmp_path) as store:
        store.use(monkeypatch)
        place = store.location("lake")
        lake = open_in_store(kind, place, tmp_path)
        sent = publish_small_files(lake, hours=1, files=1, rows=2)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with raises(LakeStoreError, code="AccessDenied"):
            open_existing_lake(place)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "unknown")
        with pytest.raises(LakeStoreError):
            open_existing_lake(place)
        store.use(monkeypatch)
        assert kind.found(place) == sent
