"""Schemas of a registry: asked for once, by the driver; nothing is skipped when it fails."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from roquet.pipeline.errors import BadOption, RegistryFailed, SchemaChanged, SchemaUnknown
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.opening import OpenLake, bodies_again, body_schema_of, open_lake
from roquet.pipeline.lake.schemas.body_schema import UnusableSchema, read_body_schema
from roquet.pipeline.lake.schemas.choosing import AS_BEFORE, BodyOptions, LakeBodies, chosen_schema
from roquet.pipeline.lake.schemas.evolution import RULES
from roquet.pipeline.lake.schemas.protobuf_bodies import compiled
from roquet.pipeline.lake.schemas.registry import USER_VARIABLE, SchemaRegistry
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from tests.support.lake_rows import message_batch, staged_rows
from tests.support.schema_registry import (
    FIRST_ORDER,
    IDS,
    MONEY_PROTO,
    ORDER_PROTO,
    SECOND_ORDER,
    TEXT_ORDER,
    apicurio,
    avro_body,
    framed,
    recorded_from,
    recorded_registry,
)
from tests.support.table_judges import JUDGES
from tests.unit.pipeline.lake.schemas.test_protobuf_bodies import message
from tests.unit.pipeline.lake.test_table import DELTA, ICEBERG

SETTINGS = {"delta": DELTA, "iceberg": ICEBERG}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with recorded_registry() as found:
        yield found


def new_bodies(url: str, kind: str) -> LakeBodies:
    rules = RULES[LakeFormat(kind)]
    return LakeBodies(chosen_schema(None, BodyOptions(registry=url), rules), rules)


def publish(lake: OpenLake, bodies: LakeBodies, rows: pa.RecordBatch) -> list[tuple[str, ...]]:
    """As a job does; the schemas that it had to ask for, each time."""
    asked: list[tuple[str, ...]] = []
    while True:
        assert bodies.text is not None
        pieces = staged_rows(lake, rows, decoder_of(read_body_schema(bodies.text)))
        try:
            bodies.check_known(pieces)
        except SchemaUnknown as error:
            asked.append(error.keys)
            bodies.learn(error.keys)
        else:
            lake.publish(pieces, bodies.text, bodies.seen)
            bodies.note_stored()
            return asked


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_gets_the_columns_of_each_schema_that_messages_name(
    tmp_path: Path, url: str, kind: str
) -> None:
    lake = open_lake(tmp_path / "lake", SETTINGS[kind])
    bodies = new_bodies(url, kind)
    first = avro_body(FIRST_ORDER, "first", number=1, what="a")
    assert publish(lake, bodies, message_batch(0, [0], bodies=[first])) == [("2",)]
    assert publish(lake, bodies, message_batch(0, [1], bodies=[first])) == []
    second = avro_body(SECOND_ORDER, "second", number=2, price=5)
    large = avro_body(SECOND_ORDER, "second", number=2**40, price=5)
    text = avro_body(TEXT_ORDER, "text", number="x")
    rows = message_batch(0, range(2, 6), bodies=[second, text, large, b"\0\0\0\0\x63x"])
    assert publish(lake, bodies, rows) == [("3", "4", "99")]
    found = JUDGES[kind].rows(lake.place).sort_by("queueOffset").to_pylist()
    expected = [(0, 1, "a", None), (1, 1, "a", None), (2, 2, None, 5), (4, 2**40, None, 5)]
    is_wide = kind == "iceberg"
    assert [
        (row["queueOffset"], row["number"], row["what"], row["price"]) for row in found
    ] == expected[: 4 if is_wide else 3]
    apart = JUDGES[kind].quarantined_rows(lake.place).to_pylist()
    reasons = {row["queueOffset"]: row["reason"] for row in apart}
    assert reasons.keys() == ({3, 5} if is_wide else {3, 4, 5})
    assert "'number' is string in schema 4" in reasons[3]
    assert "no schema 99" in reasons[5]
    # Restarted, it knows what it was told, and asks again for what was not there.
    kept = body_schema_of(lake.place, lake.settings.format, AS_BEFORE)
    assert kept is not None
    assert (kept.registry, set(kept.writers)) == (url, {"2", "3", "4"})


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_job_keeps_what_it_learned_when_another_one_stored_a_schema_first(
    tmp_path: Path, url: str, kind: str
) -> None:
    """It used to ask again, and to plan a third time."""
    lake = open_lake(tmp_path / "lake", SETTINGS[kind])
    first, second = new_bodies(url, kind), new_bodies(url, kind)
    second.learn(["3"])
    publish(lake, first, message_batch(0, [0], bodies=[avro_body(FIRST_ORDER, "first", number=1)]))
    rows = message_batch(0, [1], bodies=[avro_body(SECOND_ORDER, "second", number=2, price=5)])
    with pytest.raises(SchemaChanged):
        publish(lake, second, rows)
    second.adopt(bodies_again(lake.place, lake.settings.format, BodyOptions(registry=url)))
    assert publish(lake, second, rows) == []
    found = JUDGES[kind].rows(lake.place).sort_by("queueOffset").to_pylist()
    assert [(row["number"], row["price"]) for row in found] == [(1, None), (2, 5)]
    kept = body_schema_of(lake.place, lake.settings.format, AS_BEFORE)
    assert kept is not None
    assert set(kept.writers) == {"2", "3"}


def test_messages_of_protobuf_are_read_by_their_indexes(url: str) -> None:
    descriptors = compiled({"money.proto": MONEY_PROTO, "order.proto": ORDER_PROTO}, "order.proto")
    bodies = new_bodies(url, "delta")
    order = message(descriptors, "shop.Order", {"number": 7, "total": {"cents": 5}})
    line = message(descriptors, "shop.Order.Line", {"what": "x"})
    other = message(descriptors, "shop.Other", {"name": "o"})
    rows = message_batch(
        0,
        range(5),
        bodies=[
            framed("proto", other, b"\0"),
            framed("proto", order, b"\x02\x02"),
            framed("proto", line, b"\x04\x02\x00"),
            framed("proto", order, b"\x02\x08"),
            framed("proto", b"", b"\xff\xff\xff\xff\xff\xff"),
        ],
    )
    for _ in range(3):
        assert bodies.text is not None
        schema = read_body_schema(bodies.text)
        decoded = decoder_of(schema).decode(rows)
        bodies.learn(decoded.unknown)
    assert not decoded.unknown
    names = ("name", "number", "total", "what")
    assert [tuple(row[name] for name in names) for row in decoded.good.to_pylist()] == [
        ("o", None, None, None),
        (None, 7, {"cents": 5}, None),
        (None, None, None, "x"),
    ]
    assert "indexes [4]" in decoded.bad.column("reason")[0].as_py()


def test_schemas_that_refer_to_others_are_read_with_them(url: str) -> None:
    found = SchemaRegistry(url).writer(str(IDS["referring"]))
    assert not isinstance(found, UnusableSchema)
    bodies = new_bodies(url, "delta")
    bodies.learn([str(IDS["referring"])])
    assert bodies.text is not None
    assert read_body_schema(bodies.text).columns == "`number` int, `total` struct<`cents`:bigint>"


def test_bodies_without_the_head_are_set_apart(url: str) -> None:
    bodies = new_bodies(url, "delta")
    assert bodies.text is not None
    decoder = decoder_of(read_body_schema(bodies.text))
    decoded = decoder.decode(message_batch(0, range(3), bodies=[b"", b"\0\0", b"{}xxxx"]))
    assert (decoded.bad.num_rows, decoded.unknown) == (3, frozenset())


def test_a_registry_that_fails_ends_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, "user:password")
    with pytest.raises(RegistryFailed) as caught:
        SchemaRegistry("http://127.0.0.1:1").writer("1")
    assert caught.value.url == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "given", ["localhost:8081", "ftp://host", "http://user:password@host", "http://"]
)
def test_urls_that_cannot_be_kept_are_refused(given: str) -> None:
    with pytest.raises(BadOption):
        chosen_schema(None, BodyOptions(registry=given), RULES[LakeFormat.DELTA])


@pytest.mark.java
@pytest.mark.full("starts Apicurio, half a minute; its recorded replies are in `make test`")
def test_the_recorded_replies_are_those_of_apicurio() -> None:
    with recorded_registry() as recorded, apicurio() as real:
        found = json.loads(json.dumps(recorded_from(real)))
        assert found.pop("/schemas/ids/99")[0] == 404
        expected = json.loads(json.dumps(recorded_from(recorded)))
        assert expected.pop("/schemas/ids/99")[0] == 404
        assert found == expected
